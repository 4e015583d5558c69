// Charts of nodes over time. Each figure of class "gantt" has its data as JSON in a
// script element. A canvas replaces its picture. The drawing sums how much of each pixel
// jobs cover: where thousands of nodes share a row of pixels, the row shows a shade
// instead of the job drawn last.
"use strict";
(() => {
  const LANES = 64; // of each node's row, as in the package lanes
  const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];
  const COLOURS = ["--blue", "--vermilion", "--green", "--pink", "--orange", "--sky-blue", "--ink", "--grey"]; // of the page, in the order of Colours in package figure
  const BANDS = { reservation: "reserved", down: "down", drain: "draining or drained" };

  // unpack reads what pack in gantt_payload.go writes.
  function unpack(text, jobs) {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    let at = 0;
    const next = () => {
      let value = 0, scale = 1, b;
      do {
        b = bytes[at++];
        value += (b & 127) * scale;
        scale *= 128;
      } while (b > 127);
      return value;
    };
    const start = new Float64Array(jobs), end = new Float64Array(jobs);
    const offset = new Uint32Array(jobs + 1), first = [], last = [], low = [], high = [];
    for (let j = 0; j < jobs; j++) {
      start[j] = next();
      end[j] = start[j] + next();
      let node = 0;
      for (let n = next(); n > 0; n--) {
        node += next();
        first.push(node);
        const count = next(), shared = count % 2;
        node += (count - shared) / 2;
        last.push(node);
        low.push(shared ? next() / LANES : 0);
        high.push(shared ? low[low.length - 1] + next() / LANES : 1);
      }
      offset[j + 1] = first.length;
    }
    return { start, end, offset, first: Uint32Array.from(first), last: Uint32Array.from(last), low: Float64Array.from(low), high: Float64Array.from(high) };
  }

  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const two = (n) => String(Math.floor(n)).padStart(2, "0");

  function duration(s) {
    const days = Math.floor(s / 86400);
    return (days ? days + "-" : "") + two((s / 3600) % 24) + ":" + two((s / 60) % 60) + ":" + two(s % 60);
  }

  function element(name, props = {}, ...children) {
    const e = Object.assign(document.createElement(name), props);
    e.append(...children);
    return e;
  }

  // hatch fills a rectangle with the pattern of a band. Each line of ink lies beside one of
  // the page's colour, so that it is seen on every colour.
  function hatch(context, kind, page, ink, ratio, x, y, w, h) {
    const apart = 8 * ratio;
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    context.fillStyle = ink;
    context.lineWidth = ratio;
    context.globalAlpha = kind === "down" ? 0.22 : 0.1;
    context.fillRect(x, y, w, h);
    for (const [colour, aside] of [[page, -ratio], [ink, 0]]) {
      context.globalAlpha = 0.7;
      context.strokeStyle = colour;
      context.beginPath();
      for (let c = Math.floor((x - y - h) / apart) * apart + aside; kind !== "reservation" && c <= x + w - y; c += apart) {
        context.moveTo(y + c, y);
        context.lineTo(y + h + c, y + h);
      }
      for (let c = Math.floor((x + y) / apart) * apart + aside; kind !== "drain" && c <= x + w + y + h; c += apart) {
        context.moveTo(c - y, y);
        context.lineTo(c - y - h, y + h);
      }
      context.stroke();
    }
    context.strokeRect(x, y, w, h);
    context.restore();
  }

  class Chart {
    constructor(figure, data) {
      this.data = data;
      this.seg = unpack(data.segments, data.jobs.length);
      this.by = "partition" in data.by ? "partition" : Object.keys(data.by)[0];
      this.selected = -1;
      this.found = null; // which jobs a search has found, as a Uint8Array
      this.frame = 0;
      this.build(figure);
      this.reset();
      this.draw();
    }

    build(figure) {
      const id = figure.id;
      const button = (text, label, act) => {
        const b = element("button", { type: "button", textContent: text, title: label, onclick: () => { act(); this.say(this.describe()); this.later(); } });
        b.setAttribute("aria-label", label);
        return b;
      };
      this.select = element("select", { id: id + "-by", onchange: () => { this.by = this.select.value; this.later(); } },
        ...Object.keys(this.data.by).sort((a, b) => (a === this.by ? -1 : b === this.by ? 1 : a < b ? -1 : 1))
          .map((name) => element("option", { value: name, textContent: name })));
      this.search = element("input", { id: id + "-job", type: "search", size: 16, onchange: () => this.find(this.search.value.trim()) });
      this.canvas = element("canvas", { tabIndex: 0 });
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-roledescription", "chart");
      this.canvas.setAttribute("aria-labelledby", id + "-title");
      this.canvas.setAttribute("aria-describedby", id + "-help");
      this.legend = element("ul", { className: "legend" });
      this.details = element("div", { className: "details" });
      this.details.setAttribute("role", "status");
      const help = element("p", { id: id + "-help", className: "help" },
        "Click or tap a job for its details, and drag to move. The wheel with Ctrl zooms in time; after a click into the chart, Ctrl is not needed. The wheel with " +
        "Shift zooms in nodes. Keys: arrows move, + and − zoom in time, Page Up and Page Down in nodes, 0 shows everything, n and p go to the next and the previous job " +
        "(of the jobs found), Escape closes the details.");
      figure.querySelector(".chart").replaceChildren(
        element("div", { className: "controls" },
          element("span", { className: "moves" },
            button("+", "zoom in", () => this.zoom(0.5, 0.5)), button("−", "zoom out", () => this.zoom(2, 2)),
            button("←", "earlier", () => this.pan(-0.4, 0)), button("→", "later", () => this.pan(0.4, 0)),
            button("↑", "nodes above", () => this.pan(0, -0.4)), button("↓", "nodes below", () => this.pan(0, 0.4)),
            button("Everything", "show everything", () => this.reset())),
          element("label", { htmlFor: id + "-by", textContent: "colour by" }), this.select,
          element("label", { htmlFor: id + "-job", textContent: "find job or user" }), this.search),
        this.legend, this.canvas, this.details, help);
      this.canvas.addEventListener("keydown", (e) => this.key(e));
      this.canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
      this.canvas.addEventListener("pointerdown", (e) => this.down(e));
      this.canvas.addEventListener("pointermove", (e) => this.move(e));
      this.canvas.addEventListener("pointerup", (e) => this.up(e));
      this.canvas.addEventListener("pointercancel", () => { this.drag = null; });
      this.canvas.addEventListener("pointerleave", () => { this.entered = false; });
      new ResizeObserver(() => this.later()).observe(this.canvas);
    }

    reset() {
      this.view = { t0: 0, t1: this.data.span, n0: 0, n1: this.data.nodes.length };
    }

    // zoom changes the view around a point, given in fractions of the view.
    zoom(time, nodes, x = 0.5, y = 0.5) {
      const v = this.view, dt = v.t1 - v.t0, dn = v.n1 - v.n0;
      const nt = Math.min(this.data.span, Math.max(10, dt * time)), nn = Math.min(this.data.nodes.length, Math.max(1, dn * nodes));
      v.t0 += (dt - nt) * x;
      v.n0 += (dn - nn) * y;
      v.t1 = v.t0 + nt;
      v.n1 = v.n0 + nn;
      this.pan(0, 0);
    }

    // pan moves the view by fractions of it. The view stays within the data.
    pan(x, y) {
      const v = this.view, dt = v.t1 - v.t0, dn = v.n1 - v.n0;
      v.t0 = Math.min(this.data.span - dt, Math.max(0, v.t0 + x * dt));
      v.n0 = Math.min(this.data.nodes.length - dn, Math.max(0, v.n0 + y * dn));
      v.t1 = v.t0 + dt;
      v.n1 = v.n0 + dn;
    }

    key(e) {
      const acts = {
        ArrowLeft: () => this.pan(-0.2, 0), ArrowRight: () => this.pan(0.2, 0),
        ArrowUp: () => this.pan(0, -0.2), ArrowDown: () => this.pan(0, 0.2),
        "+": () => this.zoom(0.5, 1), "=": () => this.zoom(0.5, 1), "-": () => this.zoom(2, 1),
        PageDown: () => this.zoom(1, 2), PageUp: () => this.zoom(1, 0.5),
        0: () => this.reset(), Home: () => this.reset(),
      };
      const picks = { n: () => this.step(1), p: () => this.step(-1), Escape: () => this.close() };
      const act = acts[e.key] || picks[e.key];
      if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      act();
      if (acts[e.key]) this.say(this.describe());
      this.later();
    }

    // wheel zooms if the reader wants it: with Ctrl or Meta, or after a click into the chart.
    // Otherwise the page scrolls, and it does so again once everything is shown.
    wheel(e) {
      const factor = Math.exp((e.deltaY || e.deltaX) * 0.002), before = JSON.stringify(this.view);
      if (!e.ctrlKey && !e.metaKey && !this.entered) return;
      const [x, y] = this.parts(e);
      if (e.shiftKey) this.zoom(1, factor, x, y);
      else this.zoom(factor, 1, x, y);
      if (e.ctrlKey || e.metaKey || JSON.stringify(this.view) !== before) e.preventDefault();
      this.later();
    }

    // parts returns the position of a pointer in fractions of the view.
    parts(e) {
      const box = this.canvas.getBoundingClientRect();
      return [(e.clientX - box.left - this.left) / (box.width - this.left), (e.clientY - box.top) / (box.height - this.bottom)];
    }

    down(e) {
      this.entered = e.pointerType === "mouse";
      this.drag = { at: this.parts(e), x: e.clientX, y: e.clientY, moved: false };
      this.canvas.setPointerCapture(e.pointerId);
    }

    move(e) {
      const [x, y] = this.parts(e), drag = this.drag;
      if (!drag) {
        this.canvas.title = this.tell(this.at(x, y)) || "";
        return;
      }
      drag.moved ||= Math.hypot(e.clientX - drag.x, e.clientY - drag.y) > 4;
      if (!drag.moved) return;
      this.pan(drag.at[0] - x, e.pointerType === "touch" ? 0 : drag.at[1] - y); // a finger scrolls the page up and down
      drag.at = [x, y];
      this.later();
    }

    up() {
      const drag = this.drag;
      this.drag = null;
      if (!drag || drag.moved) return;
      const what = this.at(...drag.at);
      if (what.job >= 0) this.choose(what.job);
      else {
        this.close();
        if (what.band) this.say(this.tell(what));
      }
    }

    // at returns the job at a position of the view, or the nearest one within a few pixels,
    // and the band there.
    at(x, y) {
      if (x < 0 || x > 1 || y < 0 || y > 1) return { job: -1 };
      const v = this.view, d = this.data, s = this.seg, box = this.canvas.getBoundingClientRect();
      const t = v.t0 + x * (v.t1 - v.t0), node = v.n0 + y * (v.n1 - v.n0), row = Math.floor(node);
      const perSecond = (box.width - this.left) / (v.t1 - v.t0), perNode = (box.height - this.bottom) / (v.n1 - v.n0), reach = 4;
      const away = (a, from, to) => Math.max(0, from - a, a - to);
      let job = -1, least = reach;
      for (let j = 0; j < s.start.length && least > 0; j++) {
        const dt = away(t, s.start[j], s.end[j]) * perSecond;
        if (dt >= least) continue;
        for (let k = s.offset[j]; k < s.offset[j + 1]; k++) {
          const n = Math.min(s.last[k] - 1, Math.max(s.first[k], row));
          const far = s.high[k] - s.low[k] < 1 && n === row
            ? away(node - n, s.low[k], s.high[k]) // the row's nearest job
            : away(node, s.first[k], s.last[k]) * perNode;
          if (Math.max(dt, far) < least) [job, least] = [j, Math.max(dt, far)];
        }
      }
      const band = (d.bands || []).find((b) => t >= b.start && t < b.end && b.ranges.some(([first, last]) => row >= first && row < last));
      return { job, band };
    }

    choose(job) {
      this.selected = job;
      this.showDetails();
      this.later();
    }

    close() {
      this.selected = -1;
      this.say("");
      this.later();
    }

    // step selects the next or the previous job in the order of submission, of those that a
    // search has found, and shows it.
    step(by) {
      const n = this.data.jobs.length;
      let job = this.selected < 0 && by < 0 ? 0 : this.selected;
      for (let i = 0; i < n; i++) {
        job = (job + by + n) % n;
        if (!this.found || this.found[job]) break;
      }
      this.choose(job);
      this.show(job);
    }

    // find highlights the job with an ID and all tasks of an array, or the jobs of a user or
    // of an account.
    find(name) {
      const d = this.data, n = d.jobs.length;
      this.found = null;
      this.selected = -1;
      this.later();
      if (!name) return this.say("");
      const of = (by) => {
        const value = by in d.by ? d.by[by].names.indexOf(name) : -1;
        return (j) => d.by[by]?.of[j] === value;
      };
      for (const [what, matches] of [["", (j) => d.jobs[j] === name || d.jobs[j].startsWith(name + "_")], [" of user " + name, of("user")], [" of account " + name, of("account")]]) {
        const found = Uint8Array.from({ length: n }, (_, j) => matches(j));
        const first = found.indexOf(1), count = found.reduce((sum, one) => sum + one, 0);
        if (count === 0) continue;
        this.found = found;
        if (!what && count === 1) {
          this.show(first);
          return this.choose(first);
        }
        return this.say(`${count} ${count === 1 ? "job" : "jobs"}${what || " of array " + name}. n and p go from one to the next.`);
      }
      this.say(`There is no job, user or account ${name} that had nodes.`);
    }

    // show brings a job into the view.
    show(job) {
      const s = this.seg, v = this.view, k = s.offset[job], l = s.offset[job + 1];
      if (k === l) return;
      const margin = Math.max(60, s.end[job] - s.start[job]), nodes = s.last[l - 1] - s.first[k];
      Object.assign(v, {
        t0: Math.max(0, s.start[job] - margin), t1: Math.min(this.data.span, s.end[job] + margin),
        n0: Math.max(0, s.first[k] - Math.max(4, nodes / 4)), n1: Math.min(this.data.nodes.length, s.last[l - 1] + Math.max(4, nodes / 4)),
      });
    }

    // say replaces the text below the chart. Screen readers read it.
    say(text) { this.details.replaceChildren(...(text ? [element("p", { textContent: text })] : [])); }

    // showDetails pins what there is to know about the selected job.
    showDetails() {
      const j = this.selected, d = this.data, s = this.seg, ranges = [], list = element("dl");
      let nodes = 0;
      for (let k = s.offset[j]; k < s.offset[j + 1]; k++) {
        nodes += s.last[k] - s.first[k];
        if (ranges.length < 20) ranges.push(d.nodes[s.first[k]] + (s.last[k] - s.first[k] > 1 ? " to " + d.nodes[s.last[k] - 1] : ""));
      }
      const values = [["name", d.names.names[d.names.of[j]]]];
      for (const by of ["user", "account", "partition", "QOS", "reservation", "state"]) values.push([by, d.by[by]?.names[d.by[by].of[j]]]);
      values.push(["submitted", this.when(d.submit[j])], ["started", this.when(s.start[j])], ["ended", this.when(s.end[j])],
        ["wait time", duration(Math.max(0, s.start[j] - d.submit[j]))], ["run time", duration(s.end[j] - s.start[j])],
        ["processors", d.processors[j] || ""], ["nodes", `${nodes}: ${ranges.join(", ")}${s.offset[j + 1] - s.offset[j] > 20 ? ", …" : ""}`]);
      for (const [name, value] of values) if (value) list.append(element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value })));
      this.details.replaceChildren(element("p", {}, element("strong", { textContent: "Job " + d.jobs[j] })), list,
        element("p", { className: "moves" },
          element("button", { type: "button", textContent: "Previous job", onclick: () => this.step(-1) }),
          element("button", { type: "button", textContent: "Next job", onclick: () => this.step(1) }),
          element("button", { type: "button", textContent: "Close", onclick: () => { this.close(); this.canvas.focus(); } })));
    }

    // tell describes what is at a position, in a line.
    tell({ job, band }) {
      const d = this.data, s = this.seg, lines = [];
      if (job >= 0) {
        const by = ["user", "partition", "state"].map((b) => d.by[b]?.names[d.by[b].of[job]]).filter(Boolean).join(", ");
        lines.push(`Job ${d.jobs[job]}: ${by}; ran ${duration(s.end[job] - s.start[job])}`);
      }
      if (band) lines.push(`${band.text}. From ${this.when(band.start)} until ${this.when(band.end)}.`);
      return lines.join("\n");
    }

    describe() {
      const v = this.view, d = this.data, s = this.seg;
      let jobs = 0;
      const top = Math.floor(v.n0), end = Math.ceil(v.n1);
      for (let j = 0; j < s.start.length; j++) {
        let shown = false;
        for (let k = s.offset[j]; k < s.offset[j + 1] && !shown; k++) shown = s.first[k] < end && s.last[k] > top;
        if (shown && s.start[j] < v.t1 && s.end[j] > v.t0) jobs++;
      }
      return `${this.when(v.t0)} to ${this.when(v.t1)}, nodes ${d.nodes[top]} to ${d.nodes[end - 1]}: ` +
        `${jobs} ${jobs === 1 ? "job runs" : "jobs run"} on these nodes in this time.`;
    }

    // offset is how many seconds the report's time zone is ahead of UTC.
    offset(t) { return (this.data.offsets || []).findLast((o, i) => i === 0 || o.from <= t)?.seconds || 0; }

    // date has the calendar of the report's time zone in its UTC fields.
    date(t) { return new Date((this.data.epoch + t + this.offset(t)) * 1000); }

    // when writes a date with its difference from UTC.
    when(t) {
      const offset = this.offset(t), away = Math.abs(offset) / 60, date = this.date(t);
      return DAYS[date.getUTCDay()] + " " + date.toISOString().slice(0, 19).replace("T", " ") +
        (offset ? (offset < 0 ? " -" : " +") + two(away / 60) + ":" + two(away % 60) : " UTC");
    }

    later() {
      if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
    }

    // theme reads the page's colours. Paper is white.
    theme() {
      const style = getComputedStyle(document.documentElement);
      const of = (name, otherwise) => (!printing && /^#[0-9a-f]{6}$/i.exec(style.getPropertyValue(name).trim())?.[0]) || otherwise;
      this.page = of("--page", "#ffffff");
      this.ink = of("--ink", "#16191d");
      this.colours = this.data.colours.map((c, i) => of(COLOURS[i], c));
    }

    draw() {
      const box = this.canvas.getBoundingClientRect(), ratio = Math.min(2, window.devicePixelRatio || 1);
      this.left = box.width < 600 ? 62 : 96; // for the axes, in CSS pixels
      this.bottom = 36;
      if (box.width < this.left + 50) return;
      this.theme();
      const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
      if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
      const context = this.canvas.getContext("2d", { willReadFrequently: true }); // the processor paints it
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.fillStyle = this.page;
      context.fillRect(0, 0, width, height);
      const left = Math.round(this.left * ratio), w = width - left, h = height - Math.round(this.bottom * ratio);
      context.putImageData(this.paint(w, h), left, 0);
      context.save();
      context.beginPath();
      context.rect(left, 0, w, h);
      context.clip();
      this.hatchBands(context, left, w, h, ratio);
      this.outline(context, left, w, h, ratio);
      context.restore();
      this.axes(context, left, w, h, ratio);
      this.list();
    }

    // paint sums the cover of each pixel, by the colours of the jobs' categories. Jobs that a
    // search has not found are faint.
    paint(w, h) {
      const s = this.seg, v = this.view, of = this.data.by[this.by].of, page = rgb(this.page);
      const colours = this.colours.map(rgb), faint = colours.map((c) => c.map((value, i) => 0.15 * value + 0.85 * page[i]));
      const sum = new Float32Array(w * h * 4), x = w / (v.t1 - v.t0), y = h / (v.n1 - v.n0);
      for (let j = 0; j < s.start.length; j++) {
        const x0 = Math.max(0, (s.start[j] - v.t0) * x), end = (s.end[j] - v.t0) * x;
        if (Math.min(w, end) <= x0) continue;
        const [c0, c1, c2] = (this.found && !this.found[j] ? faint : colours)[Math.min(of[j], colours.length - 1)];
        for (let k = s.offset[j]; k < s.offset[j + 1]; k++) {
          const part = s.high[k] - s.low[k], gap = part * y > 4 ? 1 : 0; // a line between jobs that are tall enough
          const x1 = Math.min(w, gap && end - x0 > 3 ? end - 1 : end);
          if (!gap && part === 1) {
            cover(x0, x1, Math.max(0, (s.first[k] - v.n0) * y), Math.min(h, (s.last[k] - v.n0) * y));
            continue;
          }
          for (let n = Math.max(s.first[k], Math.floor(v.n0)), stop = Math.min(s.last[k], v.n1); n < stop; n++) {
            const top = (n + s.low[k] - v.n0) * y, bottom = (n + s.high[k] - v.n0) * y;
            cover(x0, x1, Math.max(0, gap ? Math.round(top) : top), Math.min(h, gap ? Math.round(bottom) - gap : bottom));
          }
        }
        function cover(x0, x1, y0, y1) {
          for (let row = Math.floor(y0); row < y1; row++) {
            const tall = Math.min(y1, row + 1) - Math.max(y0, row);
            let at = (row * w + Math.floor(x0)) * 4;
            for (let column = Math.floor(x0); column < x1; column++, at += 4) {
              const area = tall * (Math.min(x1, column + 1) - Math.max(x0, column));
              sum[at] += area * c0;
              sum[at + 1] += area * c1;
              sum[at + 2] += area * c2;
              sum[at + 3] += area;
            }
          }
        }
      }
      const image = new ImageData(w, h), out = image.data, [p0, p1, p2] = page;
      for (let i = 0; i < out.length; i += 4) {
        const held = sum[i + 3], empty = Math.max(0, 1 - held), scale = 1 / Math.max(1, held);
        out[i] = empty * p0 + sum[i] * scale;
        out[i + 1] = empty * p1 + sum[i + 1] * scale;
        out[i + 2] = empty * p2 + sum[i + 2] * scale;
        out[i + 3] = 255;
      }
      return image;
    }

    // hatchBands draws reservations and outages over the jobs. None is thinner than two pixels.
    hatchBands(context, left, w, h, ratio) {
      const v = this.view, x = w / (v.t1 - v.t0), y = h / (v.n1 - v.n0);
      for (const b of this.data.bands || []) {
        const x0 = Math.max(-ratio, (b.start - v.t0) * x), x1 = Math.min(w + ratio, (b.end - v.t0) * x);
        if (x1 < 0 || x0 > w) continue;
        for (const [first, last] of b.ranges) {
          const y0 = Math.max(-ratio, (first - v.n0) * y), y1 = Math.min(h + ratio, (last - v.n0) * y);
          if (y1 < 0 || y0 > h) continue;
          hatch(context, b.kind, this.page, this.ink, ratio, left + x0, y0, Math.max(2 * ratio, x1 - x0), Math.max(2 * ratio, y1 - y0));
        }
      }
    }

    // outline marks the selected job.
    outline(context, left, w, h, ratio) {
      const j = this.selected, s = this.seg, v = this.view;
      if (j < 0) return;
      const x = w / (v.t1 - v.t0), y = h / (v.n1 - v.n0);
      const mark = (from, to) => [[4, this.page], [2, this.ink]].forEach(([wide, colour]) => {
        context.lineWidth = wide * ratio;
        context.strokeStyle = colour;
        context.strokeRect(left + (s.start[j] - v.t0) * x, (from - v.n0) * y, Math.max(3 * ratio, (s.end[j] - s.start[j]) * x), Math.max(3 * ratio, (to - from) * y));
      });
      for (let k = s.offset[j]; k < s.offset[j + 1]; k++) {
        if (s.high[k] - s.low[k] === 1 || y < 4) mark(s.first[k], s.last[k]);
        else for (let n = s.first[k]; n < s.last[k]; n++) mark(n + s.low[k], n + s.high[k]);
      }
    }

    axes(context, left, w, h, ratio) {
      const v = this.view, d = this.data, span = v.t1 - v.t0;
      context.fillStyle = context.strokeStyle = this.ink;
      context.lineWidth = ratio;
      context.strokeRect(left, 0, w, h);
      context.font = 12 * ratio + "px system-ui, sans-serif";
      context.textBaseline = "top";
      const step = STEPS.find((s) => span / s <= w / (100 * ratio)) || 7776000, epoch = d.epoch + this.offset(v.t0);
      context.textAlign = "left";
      context.fillText(d.zone.slice(0, 7), 4 * ratio, h + 5 * ratio);
      context.textAlign = "center";
      let day = "";
      for (let t = Math.ceil((epoch + v.t0) / step) * step - epoch; t <= v.t1; t += step) {
        const x = left + ((t - v.t0) / span) * w, date = this.date(t), iso = date.toISOString();
        const today = `${DAYS[date.getUTCDay()]} ${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`, year = iso.slice(0, 4);
        const upper = step >= 86400 ? today : step < 60 ? iso.slice(11, 19) : iso.slice(11, 16);
        const lower = step >= 86400 ? year : today + (day.slice(0, 4) === year ? "" : " " + year);
        context.fillRect(x, h, ratio, 4 * ratio);
        const inside = (text) => Math.min(left + w - context.measureText(text).width / 2, x);
        context.fillText(upper, inside(upper), h + 5 * ratio);
        if (day !== (step >= 86400 ? year : year + today)) context.fillText(lower, inside(lower), h + 20 * ratio);
        day = step >= 86400 ? year : year + today;
      }
      context.textAlign = "right";
      context.textBaseline = "middle";
      const every = Math.max(1, Math.ceil((v.n1 - v.n0) * 22 * ratio / h)), room = this.left < 90 ? 8 : 13; // nodes from label to label
      for (let node = Math.ceil(v.n0 / every) * every; node < Math.min(v.n1, d.nodes.length); node += every) {
        const y = ((node + 0.5 - v.n0) / (v.n1 - v.n0)) * h, name = d.nodes[node];
        context.fillText(name.length > room ? "…" + name.slice(1 - room) : name, left - 6 * ratio, Math.min(h - 6 * ratio, Math.max(6 * ratio, y)));
      }
    }

    // list shows the categories with their colours, and the patterns of the bands.
    list() {
      if (this.listed === this.by + this.page) return;
      this.listed = this.by + this.page;
      const names = this.data.by[this.by].names, last = this.colours.length - 1;
      const entries = names.slice(0, last).map((name, i) => [name || "–", this.colours[i]]);
      if (names.length > last) entries.push([names.length > last + 1 ? `${names.length - last} others` : names[last] || "–", this.colours[last]]);
      const item = (box, name) => element("li", {}, box, name);
      const patterns = Object.keys(BANDS).filter((kind) => (this.data.bands || []).some((b) => b.kind === kind && b.ranges.length));
      this.legend.replaceChildren(...entries.map(([name, colour]) => {
        const box = element("i");
        box.style.background = colour;
        return item(box, name);
      }), ...patterns.map((kind) => {
        const box = element("canvas", { width: 56, height: 28 });
        hatch(box.getContext("2d"), kind, this.page, this.ink, 2, 1, 1, 54, 26);
        return item(box, BANDS[kind]);
      }));
    }
  }

  let printing = false;
  const charts = [];
  const drawAll = () => charts.forEach((c) => c.draw());
  for (const figure of document.querySelectorAll("figure.gantt")) {
    const source = figure.querySelector('script[type="application/json"]');
    if (!source) continue;
    figure.chart = new Chart(figure, JSON.parse(source.textContent));
    charts.push(figure.chart);
  }
  window.addEventListener("beforeprint", () => { printing = true; drawAll(); });
  window.addEventListener("afterprint", () => { printing = false; drawAll(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
