// Charts of nodes over time. Each figure of class "gantt" has its data as JSON in a
// script element. A canvas replaces its picture. The drawing sums how much of each pixel
// jobs cover: where thousands of nodes share a row of pixels, the row shows a shade
// instead of the job drawn last.
"use strict";
(() => {
  const LEFT = 96, BOTTOM = 34; // for the axes, in CSS pixels

  // unpack reads what pack in gantt.go writes.
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
    const offset = new Uint32Array(jobs + 1), first = [], last = [];
    for (let j = 0; j < jobs; j++) {
      start[j] = next();
      end[j] = start[j] + next();
      let node = 0;
      for (let n = next(); n > 0; n--) {
        node += next();
        first.push(node);
        node += next();
        last.push(node);
      }
      offset[j + 1] = first.length;
    }
    return { start, end, offset, first: Uint32Array.from(first), last: Uint32Array.from(last) };
  }

  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  function duration(s) {
    const p = (n) => String(Math.floor(n)).padStart(2, "0");
    const days = Math.floor(s / 86400);
    return (days ? days + "-" : "") + p((s / 3600) % 24) + ":" + p((s / 60) % 60) + ":" + p(s % 60);
  }

  class Chart {
    constructor(figure, data) {
      this.data = data;
      this.seg = unpack(data.segments, data.jobs.length);
      this.colours = data.colours.map(rgb);
      this.by = "partition";
      this.selected = -1;
      this.frame = 0;
      this.build(figure);
      this.reset();
      this.draw();
    }

    build(figure) {
      const element = (name, props = {}, ...children) => {
        const e = Object.assign(document.createElement(name), props);
        e.append(...children);
        return e;
      };
      const id = figure.id;
      const button = (text, label, act) => {
        const b = element("button", { type: "button", textContent: text, onclick: () => { act(); this.later(); } });
        b.setAttribute("aria-label", label);
        return b;
      };
      this.select = element("select", { id: id + "-by", onchange: () => { this.by = this.select.value; this.later(); } },
        ...Object.keys(this.data.by).sort((a, b) => (a === "partition" ? -1 : b === "partition" ? 1 : a < b ? -1 : 1))
          .map((name) => element("option", { value: name, textContent: name })));
      this.search = element("input", { id: id + "-job", type: "search", size: 14, onchange: () => this.find(this.search.value.trim()) });
      this.canvas = element("canvas", { tabIndex: 0 });
      this.canvas.setAttribute("role", "application");
      this.canvas.setAttribute("aria-roledescription", "chart");
      this.canvas.setAttribute("aria-labelledby", id + "-title");
      this.canvas.setAttribute("aria-describedby", id + "-help");
      this.legend = element("ul", { className: "legend" });
      this.output = element("output");
      this.output.setAttribute("aria-live", "polite");
      const help = element("p", { id: id + "-help", className: "help" },
        "Arrow keys move, + and − zoom in time, Page Up and Page Down zoom in nodes, 0 shows everything, n and p go to the next " +
        "and the previous job. With the mouse: drag, and turn the wheel (with Shift over nodes).");
      const chart = figure.querySelector(".chart");
      chart.replaceChildren(
        element("div", { className: "controls" },
          button("+", "zoom in", () => this.zoom(0.5, 0.5)), button("−", "zoom out", () => this.zoom(2, 2)),
          button("Everything", "show everything", () => this.reset()),
          element("label", { htmlFor: id + "-by", textContent: "colour by" }), this.select,
          element("label", { htmlFor: id + "-job", textContent: "find job" }), this.search),
        this.legend, this.canvas, this.output, help);
      this.canvas.addEventListener("keydown", (e) => this.key(e));
      this.canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
      this.canvas.addEventListener("pointerdown", (e) => this.down(e));
      this.canvas.addEventListener("pointermove", (e) => this.move(e));
      this.canvas.addEventListener("pointerup", () => { this.drag = null; });
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
        n: () => this.step(1), p: () => this.step(-1),
      };
      const act = acts[e.key];
      if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      act();
      if (e.key !== "n" && e.key !== "p") this.say(this.describe());
      this.later();
    }

    wheel(e) {
      if (!e.ctrlKey && document.activeElement !== this.canvas) return; // let the page scroll
      e.preventDefault();
      const [x, y] = this.parts(e), factor = Math.exp((e.deltaY || e.deltaX) * 0.002);
      if (e.shiftKey) this.zoom(1, factor, x, y);
      else this.zoom(factor, 1, x, y);
      this.later();
    }

    // parts returns the position of a pointer in fractions of the view.
    parts(e) {
      const box = this.canvas.getBoundingClientRect();
      return [(e.clientX - box.left - LEFT) / (box.width - LEFT), (e.clientY - box.top) / (box.height - BOTTOM)];
    }

    down(e) {
      this.drag = this.parts(e);
      this.canvas.setPointerCapture(e.pointerId);
      const job = this.at(...this.drag);
      if (job >= 0) this.choose(job);
    }

    move(e) {
      const [x, y] = this.parts(e);
      if (this.drag) {
        this.pan(this.drag[0] - x, this.drag[1] - y);
        this.drag = [x, y];
        this.later();
        return;
      }
      const job = this.at(x, y);
      this.canvas.title = job < 0 ? "" : this.tell(job);
    }

    // at returns the job at a position of the view, or -1.
    at(x, y) {
      if (x < 0 || x > 1 || y < 0 || y > 1) return -1;
      const v = this.view, t = v.t0 + x * (v.t1 - v.t0), node = Math.floor(v.n0 + y * (v.n1 - v.n0)), s = this.seg;
      for (let j = 0; j < s.start.length; j++) {
        if (t < s.start[j] || t >= s.end[j]) continue;
        for (let k = s.offset[j]; k < s.offset[j + 1]; k++) if (node >= s.first[k] && node < s.last[k]) return j;
      }
      return -1;
    }

    choose(job) {
      this.selected = job;
      this.say(this.tell(job));
      this.later();
    }

    // step selects the next job in the order of submission and shows it.
    step(by) {
      const n = this.data.jobs.length;
      this.choose(((this.selected < 0 && by < 0 ? 0 : this.selected) + by + n) % n);
      this.show(this.selected);
    }

    find(name) {
      const job = this.data.jobs.indexOf(name);
      if (job < 0) return this.say(name ? "There is no job " + name + " that had nodes." : "");
      this.show(job);
      this.choose(job);
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

    say(text) { this.output.textContent = text; }

    // offset is how many seconds the report's time zone is ahead of UTC.
    offset(t) { return (this.data.offsets || []).findLast((o, i) => i === 0 || o.from <= t)?.seconds || 0; }

    // when writes a date in the report's time zone, as RFC 3339.
    when(t) {
      const offset = this.offset(t), zone = new Date(Math.abs(offset) * 1000).toISOString().slice(11, 16);
      return new Date((this.data.epoch + t + offset) * 1000).toISOString().slice(0, 19) + (offset ? (offset < 0 ? "-" : "+") + zone : "Z");
    }

    tell(job) {
      const d = this.data, s = this.seg;
      let nodes = 0;
      for (let k = s.offset[job]; k < s.offset[job + 1]; k++) nodes += s.last[k] - s.first[k];
      const by = ["partition", "user", "account", "state"].map((b) => b + " " + (d.by[b].names[d.by[b].of[job]] || "–")).join(", ");
      const first = s.offset[job] < s.offset[job + 1] ? d.nodes[s.first[s.offset[job]]] : "–";
      return `Job ${d.jobs[job]}: ${by}. Waited ${duration(s.start[job] - d.submit[job])}, started ${this.when(s.start[job])}, ` +
        `ran ${duration(s.end[job] - s.start[job])} on ${nodes} ${nodes === 1 ? "node" : "nodes"} from ${first}.`;
    }

    describe() {
      const v = this.view, d = this.data, s = this.seg;
      let jobs = 0;
      for (let j = 0; j < s.start.length; j++) if (s.start[j] < v.t1 && s.end[j] > v.t0) jobs++;
      return `${this.when(v.t0)} to ${this.when(v.t1)}, nodes ${d.nodes[Math.floor(v.n0)]} to ${d.nodes[Math.ceil(v.n1) - 1]}: ` +
        `${jobs} jobs run in this time.`;
    }

    later() {
      if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
    }

    draw() {
      const box = this.canvas.getBoundingClientRect(), ratio = Math.min(2, window.devicePixelRatio || 1);
      if (box.width < LEFT + 50) return;
      const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
      if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
      const context = this.canvas.getContext("2d");
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.fillStyle = "#fff";
      context.fillRect(0, 0, width, height);
      const left = Math.round(LEFT * ratio), w = width - left, h = height - Math.round(BOTTOM * ratio);
      context.putImageData(this.paint(w, h), left, 0);
      this.outline(context, left, w, h, ratio);
      this.axes(context, left, w, h, ratio);
      this.list();
    }

    // paint sums the cover of each pixel, by the colours of the jobs' categories.
    paint(w, h) {
      const s = this.seg, v = this.view, of = this.data.by[this.by].of, colours = this.colours;
      const sum = new Float32Array(w * h * 4), x = w / (v.t1 - v.t0), y = h / (v.n1 - v.n0);
      const gap = y > 6 ? 1 : 0; // a line between nodes once they are tall enough
      for (let j = 0; j < s.start.length; j++) {
        const x0 = Math.max(0, (s.start[j] - v.t0) * x), x1 = Math.min(w, (s.end[j] - v.t0) * x - (gap ? 0.5 : 0));
        if (x1 <= x0) continue;
        const c = colours[Math.min(of[j], colours.length - 1)], c0 = c[0], c1 = c[1], c2 = c[2];
        for (let k = s.offset[j]; k < s.offset[j + 1]; k++) {
          if (gap) {
            for (let n = Math.max(s.first[k], Math.floor(v.n0)), stop = Math.min(s.last[k], v.n1); n < stop; n++) {
              cover(Math.max(0, (n - v.n0) * y), Math.min(h, (n + 1 - v.n0) * y - gap));
            }
          } else {
            cover(Math.max(0, (s.first[k] - v.n0) * y), Math.min(h, (s.last[k] - v.n0) * y));
          }
        }
        function cover(y0, y1) {
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
      const image = new ImageData(w, h), out = image.data;
      for (let i = 0; i < out.length; i += 4) {
        const held = sum[i + 3], white = 255 * Math.max(0, 1 - held), scale = 1 / Math.max(1, held);
        out[i] = white + sum[i] * scale;
        out[i + 1] = white + sum[i + 1] * scale;
        out[i + 2] = white + sum[i + 2] * scale;
        out[i + 3] = 255;
      }
      return image;
    }

    // outline marks the selected job.
    outline(context, left, w, h, ratio) {
      const j = this.selected, s = this.seg, v = this.view;
      if (j < 0) return;
      const x = w / (v.t1 - v.t0), y = h / (v.n1 - v.n0);
      context.save();
      context.beginPath();
      context.rect(left, 0, w, h);
      context.clip();
      context.lineWidth = 2 * ratio;
      context.strokeStyle = "#000";
      for (let k = s.offset[j]; k < s.offset[j + 1]; k++) {
        context.strokeRect(left + (s.start[j] - v.t0) * x, (s.first[k] - v.n0) * y, Math.max(2, (s.end[j] - s.start[j]) * x), Math.max(2, (s.last[k] - s.first[k]) * y));
      }
      context.restore();
    }

    axes(context, left, w, h, ratio) {
      const v = this.view, d = this.data;
      context.fillStyle = context.strokeStyle = "#16191d";
      context.lineWidth = ratio;
      context.strokeRect(left, 0, w, h);
      context.font = 12 * ratio + "px system-ui, sans-serif";
      context.textBaseline = "top";
      const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];
      const step = steps.find((s) => (v.t1 - v.t0) / s <= w / (130 * ratio)) || 7776000;
      context.textAlign = "center";
      const epoch = d.epoch + this.offset(v.t0);
      for (let t = Math.ceil((epoch + v.t0) / step) * step - epoch; t <= v.t1; t += step) {
        const x = left + ((t - v.t0) / (v.t1 - v.t0)) * w, iso = this.when(t);
        context.fillRect(x, h, ratio, 4 * ratio);
        context.fillText(step < 60 ? iso.slice(11, 19) : iso.slice(11, 16), x, h + 5 * ratio);
        context.fillText(iso.slice(0, 10), x, h + 19 * ratio);
      }
      context.textAlign = "right";
      context.textBaseline = "middle";
      const every = Math.max(1, Math.ceil((v.n1 - v.n0) * 22 * ratio / h)); // nodes from label to label
      for (let node = Math.ceil(v.n0 / every) * every; node < Math.min(v.n1, d.nodes.length); node += every) {
        const y = ((node + 0.5 - v.n0) / (v.n1 - v.n0)) * h;
        context.fillText(d.nodes[node].slice(-14), left - 6 * ratio, Math.min(h - 6 * ratio, Math.max(6 * ratio, y)));
      }
    }

    // list shows the categories with their colours.
    list() {
      if (this.listed === this.by) return;
      this.listed = this.by;
      const names = this.data.by[this.by].names, last = this.data.colours.length - 1;
      const entries = names.slice(0, last).map((name, i) => [name || "–", this.data.colours[i]]);
      if (names.length > last) entries.push([names.length > last + 1 ? `${names.length - last} others` : names[last] || "–", this.data.colours[last]]);
      this.legend.replaceChildren(...entries.map(([name, colour]) => {
        const item = document.createElement("li"), box = document.createElement("i");
        box.style.background = colour;
        item.append(box, name);
        return item;
      }));
    }
  }

  for (const figure of document.querySelectorAll("figure.gantt")) {
    const source = figure.querySelector('script[type="application/json"]');
    if (source) figure.chart = new Chart(figure, JSON.parse(source.textContent));
  }
  window.addEventListener("beforeprint", () => document.querySelectorAll("figure.gantt").forEach((f) => f.chart && f.chart.draw()));
})();
