// The URL has the page's whole state. A link that begins with "?" changes the state: this script follows
// the link without reloading the page, cancels the requests for panels that are in progress, and requests
// all panels at once. The script also lets the reader select a range in a chart with the pointer.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const parsed = (text) => new DOMParser().parseFromString(text, "text/html");
  let flight = new AbortController(), timer = 0;

  // outdate marks panels whose content does not answer the request in the URL. A response removes the mark.
  const outdate = (panels) => panels.forEach((panel) => {
    panel.removeAttribute("aria-busy");
    panel.dataset.outdated = "true";
  });

  const say = (text) => { $("#status").textContent = text; };
  const stored = (value) => {
    try {
      if (value) localStorage.setItem("theme", value);
      return localStorage.getItem("theme");
    } catch { return null; } // the browser does not allow storage
  };
  if (stored()) document.documentElement.dataset.theme = stored();

  // keepFocus calls change, which replaces elements in a part of the page. If the replaced element had the focus, then
  // the nearest new element with the same label gets the focus, or, without such an element, the heading of the part.
  const label = (e) => e.name || e.getAttribute("aria-label") || e.textContent;
  function keepFocus(part, change) {
    const lost = document.activeElement, stops = () => all("a, button, input, select, summary, [tabindex='0']", $(part)), at = stops().indexOf(lost);
    change();
    if (at < 0) return;
    const far = (e) => Math.abs(stops().indexOf(e) - at);
    const alike = stops().filter((e) => e.tagName === lost.tagName && label(e) === label(lost)).sort((a, b) => far(a) - far(b));
    const heading = $("h1, h2", $(part));
    if (!alike.length) heading.tabIndex = -1;
    (alike[0] || heading).focus();
  }

  // used reports whether a reader is using a panel, so that a timer must not replace the panel.
  const used = (panel) => panel.contains(document.activeElement) || panel.contains(brush?.plot ?? null) || $(".opened, .picker[open]", panel);

  // load requests every panel. A panel keeps its content until the response arrives. The timer loads quietly: panels in
  // use stay unchanged, and screen readers are not notified.
  async function load(quiet) {
    clearTimeout(timer);
    flight.abort();
    flight = new AbortController();
    const { signal } = flight, request = $("#controls").dataset.request, begin = performance.now();
    const panels = all("[data-panel]");
    if (!quiet) say("Loading …");
    await Promise.all(panels.map((panel) => show(panel, request, signal, quiet)));
    if (signal.aborted) return;
    if (!quiet) say(`${panels.length} panels in ${Math.round(performance.now() - begin)} ms`);
    document.body.dataset.loaded = location.search;
    again();
  }

  async function show(panel, request, signal, quiet) {
    if (quiet && used(panel)) return;
    panel.setAttribute("aria-busy", "true");
    const width = Math.max(280, Math.min(1600, Math.round(panel.clientWidth - 30)));
    const url = `api/v1/panels/${panel.dataset.panel}${request}${request.length > 1 ? "&" : ""}format=html&width=${width}`;
    try {
      const answer = await fetch(url, { signal });
      const text = await answer.text();
      const open = all("details", panel).map((d) => d.open);
      if (!quiet || !used(panel)) keepFocus("#" + panel.id, () => {
        if (answer.ok) panel.replaceChildren(...parsed(text).body.childNodes);
        else {
          all(".both, .parts, .tools, .picker, .warning", panel).forEach((e) => e.remove());
          panel.append(...parsed(text).body.childNodes);
        }
        all("details", panel).forEach((d, i) => { d.open = open[i] || false; });
        delete panel.dataset.outdated;
      });
    } catch (error) {
      if (signal.aborted) return;
      outdate([panel]);
      all(".warning", panel).forEach((e) => e.remove());
      panel.append(Object.assign(document.createElement("p"), { className: "warning", textContent: `The server does not answer: ${error.message}` }));
    }
    panel.removeAttribute("aria-busy");
  }

  // go changes to another URL of the same page, and loads first the controls and then the panels.
  async function go(url, push = true) {
    clearTimeout(timer); // its load would cancel the requests below
    flight.abort();
    flight = new AbortController();
    const { signal } = flight;
    if (push) history.pushState(null, "", url);
    try {
      const answer = await fetch(location.href, { signal }), page = parsed(await answer.text());
      if (!$("#controls", page)) return location.reload();
      document.title = page.title;
      keepFocus("#controls", () => $("#controls").replaceWith($("#controls", page)));
      $("#tip").hidden = true;
      if ($("#controls .warning")) {
        flight.abort();
        return outdate(all("[data-panel]"));
      }
      await load();
    } catch (error) {
      if (signal.aborted) return;
      outdate(all("[data-panel]"));
      say(`The server does not answer: ${error.message}`);
      again();
    }
  }

  // again starts a timer that reloads the panels after the chosen number of seconds, while the page is visible.
  function again() {
    clearTimeout(timer);
    const seconds = Number(new URLSearchParams(location.search).get("refresh"));
    if (seconds >= 5) timer = setTimeout(() => (document.hidden ? again() : load(true)), 1000 * seconds);
  }

  // filled returns the parameters of a form that are not empty. A date input has no UTC offset; therefore an instant
  // that the reader has not changed keeps its text in the URL.
  function filled(form) {
    const values = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) values.append(name, value);
    for (const { name, value, defaultValue, dataset } of all("[data-exact]", form)) {
      if (Date.parse(value + "Z") === Date.parse(defaultValue + "Z")) values.set(name, dataset.exact);
    }
    return values;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a"), plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    const button = event.target.closest("button");
    if (button?.matches("[data-theme]")) {
      const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      stored(root.dataset.theme);
    } else if (button?.dataset.delete) {
      change("DELETE", button.dataset.delete);
    } else if (link && plain) {
      const href = link.getAttribute("href");
      if (link.hasAttribute("data-expand")) {
        event.preventDefault();
        expand(link);
      } else if (href?.startsWith("?") && $("#controls")) {
        event.preventDefault();
        if (!dragged) go(href);
      }
    }
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    event.preventDefault();
    if (form.matches("[data-save]")) return change("PUT", new FormData(form).get("name"));
    const values = filled(form);
    if (form.matches("[data-columns]")) {
      values.delete("column");
      values.set("columns", new FormData(form).getAll("column").join(","));
    }
    go("?" + values);
  });

  document.addEventListener("change", (event) => {
    const input = event.target, form = input.form;
    if (!form?.matches("[data-filters]")) return;
    if (input.name === "last") form.elements.from.value = form.elements.until.value = "";
    if (input.name === "from" || input.name === "until") return void (form.elements.last.value = "");
    form.requestSubmit();
  });

  addEventListener("popstate", () => go(location.href, false));

  // change saves or deletes a view.
  async function change(method, name) {
    const page = ["compare", "health"].find((name) => location.pathname.endsWith("/" + name)) ?? "";
    const answer = await fetch("api/v1/views/" + encodeURIComponent(name), {
      method, headers: { "Content-Type": "application/json" }, body: method === "PUT" ? JSON.stringify({ url: page + (location.search || "?") }) : undefined,
    });
    if (!answer.ok) return say((await answer.json()).error);
    const fresh = parsed(await (await fetch(location.href)).text());
    keepFocus("#controls", () => $("#views ul").replaceWith($("#views ul", fresh)));
    say(method === "PUT" ? `Saved as ${name}.` : `${name} is deleted.`);
  }

  // expand opens or closes the details of a job below its row.
  async function expand(link) {
    const row = link.closest("tr"), next = row.nextElementSibling;
    if (next?.matches(".opened")) {
      next.remove();
      link.setAttribute("aria-expanded", "false");
      return;
    }
    const query = new URLSearchParams($("#controls").dataset.request);
    query.set("part", "1");
    const answer = await fetch(`${link.getAttribute("href").split("?")[0]}?${query}`);
    const cell = Object.assign(document.createElement("td"), { colSpan: row.cells.length }), opened = Object.assign(document.createElement("tr"), { className: "opened" });
    cell.append(...parsed(await answer.text()).body.childNodes);
    opened.append(cell);
    row.after(opened);
    link.setAttribute("aria-expanded", "true");
  }

  // A range is selected by dragging in a chart that has an axis.
  let brush = null, dragged = false;
  const share = (event, plot) => {
    const box = plot.getBoundingClientRect(), { left, right } = plot.dataset;
    return Math.min(1, Math.max(0, ((event.clientX - box.left) / box.width - left) / (right - left)));
  };
  document.addEventListener("pointerdown", (event) => {
    dragged = false;
    const plot = event.target.closest?.(".plot[data-field]");
    if (plot && event.button === 0) brush = { plot, from: share(event, plot), x: event.clientX };
  });
  // Links in charts do not take the focus: keyboard users have the same links in the tables.
  document.addEventListener("mousedown", (event) => { if (event.target.closest?.(".plot")) event.preventDefault(); });
  document.addEventListener("dragstart", (event) => { if (event.target.closest?.(".plot")) event.preventDefault(); });
  document.addEventListener("pointermove", (event) => {
    tip(event);
    if (!brush || (!brush.box && Math.abs(event.clientX - brush.x) < 5)) return;
    brush.box ||= brush.plot.appendChild(Object.assign(document.createElement("div"), { className: "brush" }));
    brush.to = share(event, brush.plot);
    const { left, right } = brush.plot.dataset, low = Math.min(brush.from, brush.to), high = Math.max(brush.from, brush.to);
    Object.assign(brush.box.style, { left: `${100 * (+left + low * (right - left))}%`, width: `${100 * (high - low) * (right - left)}%`, top: "0", bottom: "0" });
  });
  document.addEventListener("pointerup", () => {
    const done = brush;
    brush = null;
    if (!done?.box) return;
    done.box.remove();
    dragged = true; // the click event that follows must not open a link
    setTimeout(() => { dragged = false; });
    const { field, logarithmic, low, high } = done.plot.dataset;
    const at = (part) => (logarithmic === "true" ? low * (high / low) ** part : +low + part * (high - low));
    select(field, at(Math.min(done.from, done.to)), at(Math.max(done.from, done.to)), Math.max(done.from, done.to) >= 0.999);
  });
  document.addEventListener("pointercancel", () => { brush?.box?.remove(); brush = null; });

  // select filters by a range of a field. A range of end_time sets the parameters from and until.
  function select(field, low, high, open) {
    const values = new URLSearchParams(location.search);
    values.delete("page");
    if (field === "end_time") {
      values.delete("last");
      const stamp = (seconds) => new Date(1000 * Math.round(seconds)).toISOString().slice(0, 19) + "Z";
      values.set("from", stamp(low));
      values.set("until", stamp(Math.max(high, low + 1)));
      const kept = new URLSearchParams($(".moves a").search); // how two clusters are aligned
      ["align", "shift"].forEach((name) => { if (kept.has(name)) values.set(name, kept.get(name)); });
    } else {
      const round = field === "limit_used" ? (v) => Math.round(v) : (v) => (v < 1 ? 0 : Math.round(v));
      const kept = values.getAll("f").filter((f) => !f.startsWith(field + ">=") && !f.startsWith(field + "<"));
      values.delete("f");
      kept.forEach((f) => values.append("f", f));
      if (round(low) > 0) values.append("f", `${field}>=${round(low)}`);
      if (!open) values.append("f", `${field}<${Math.max(round(high), round(low) + 1)}`);
    }
    go("?" + values);
  }

  // tip shows the description of the element under the pointer.
  function tip(event) {
    const box = $("#tip"), spot = event.target.closest?.("[data-tip]");
    if (!box) return;
    box.hidden = !spot;
    if (!spot) return;
    box.textContent = spot.dataset.tip;
    box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)) + "px";
    box.style.top = Math.max(4, event.clientY - box.offsetHeight - 12) + "px";
  }

  let width = innerWidth;
  addEventListener("resize", () => {
    if (Math.abs(innerWidth - width) < 40 || !$("#controls")) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(load, 300, true);
  });

  if ($("#panels") && !$("#panels[data-static]") && !$("#controls .warning")) load();
})();
