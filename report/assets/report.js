// Draws the charts of the page and wires its controls. The tables stand in the
// HTML; without this script the page is complete but for the charts.
(function () {
  "use strict";

  const METRICS = [
    { name: "Total tok/s", unit: "tok/s", more: true },
    { name: "Per request tok/s (median)", unit: "tok/s", more: true },
    { name: "TTFT, ms (median of the start burst)", unit: "ms", more: false },
    { name: "Time between tokens, ms (median)", unit: "ms", more: false },
  ];
  const ABSENT = -1e9; // an instant that never was, as the data has it
  const DONE = 0, CUT = 1, LOOP = 2, FAILED = 3;

  // Five significant digits, like the tables.
  function number(v) {
    if (v === null || v === undefined) return "-";
    return v.toFixed(v >= 10000 ? 0 : v >= 100 ? 1 : 2);
  }
  function axisNumber(v) {
    if (v === null || v === undefined) return "";
    if (v >= 1e6) return +(v / 1e6).toPrecision(3) + "M";
    if (v >= 1e4) return +(v / 1e3).toPrecision(3) + "k";
    return String(+v.toPrecision(3));
  }
  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  function element(tag, text, parent) {
    const e = document.createElement(tag);
    e.textContent = text;
    if (parent) parent.appendChild(e);
    return e;
  }
  // Colours that stay apart for the common kinds of colour blindness; more lines
  // than these are one ramp, first to last, since nobody can tell 64 by colour.
  const PALETTE = ["#0e7c86", "#c4701a", "#5b5fc7", "#b2427f", "#4f8a2f", "#8a6d3b", "#2f7fd0", "#7a7f87"];
  function lineColor(i, of) {
    return of <= PALETTE.length ? PALETTE[i] : rampColor(i / (of - 1));
  }
  function rampColor(at) { return "hsl(" + Math.round(185 + 150 * at) + " 55% 48%)"; }

  // ---- charts ----

  function axes(x, y) {
    const base = { stroke: color("--soft"), font: "11px system-ui, sans-serif", grid: { stroke: color("--grid"), width: 1 }, ticks: { stroke: color("--grid"), width: 1, size: 4 } };
    return [Object.assign({}, base, { size: 34 }, x), Object.assign({}, base, { size: 50, values: (u, vs) => vs.map(axisNumber) }, y)];
  }
  function empty(box, text) {
    box.textContent = "";
    element("p", text, box).className = "empty";
    box.removeAttribute("role");
    box.removeAttribute("aria-label");
  }
  function plot(box, options, data, words) {
    box.textContent = "";
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", words);
    const size = { width: Math.max(box.clientWidth, 240), height: options.tall || 220 };
    return new uPlot(Object.assign({ cursor: { drag: { x: false, y: false } } }, size, options), data, box);
  }
  function line(label, stroke, more) {
    return Object.assign({ label: label, stroke: stroke, width: 2, spanGaps: false, points: { show: true, size: 6, fill: stroke }, value: (u, v) => number(v) }, more);
  }
  // A logarithmic axis of the plan's own steps.
  function stepScale(values) {
    const lo = values[0], hi = values[values.length - 1];
    return lo > 0 ? { time: false, distr: 3, log: 2, range: () => [lo / 1.25, hi * 1.25] } : { time: false, range: () => [lo, hi || 1] };
  }
  function stepAxis(values, text, title) {
    const place = values[0] > 0 ? Math.log : (v) => v, span = place(values[values.length - 1]) - place(values[0]) || 1;
    let last = -1;
    const shown = values.filter((v) => { // those whose labels have room
      const at = (place(v) - place(values[0])) / span;
      if (last >= 0 && at - last < 0.06) return false;
      last = at;
      return true;
    });
    return { label: title, labelSize: 18, labelFont: "11px system-ui, sans-serif", size: 30, splits: () => values, values: (u, vs) => vs.map((v) => shown.includes(v) ? text(v, values.indexOf(v)) : "") };
  }
  // From zero, or logarithmic where the values span more than a factor of 30.
  function valueScale(data) {
    let lo = Infinity, hi = 0;
    for (const s of data.slice(1)) for (const v of s) if (v !== null) { lo = Math.min(lo, v); hi = Math.max(hi, v); }
    if (lo > 0 && hi > 30 * lo) return { distr: 3, log: 10 };
    return { range: () => [0, hi * 1.1 || 1] };
  }

  function overConcurrency(run, box, series, title) {
    const levels = run.data.levels.slice().sort((a, b) => a - b);
    const data = [levels].concat(series.map((s) => levels.map((c) => s.at(c))));
    if (!data.slice(1).some((s) => s.some((v) => v !== null))) return empty(box, "No valid cell has this number.");
    plot(box, {
      scales: { x: stepScale(levels), y: valueScale(data) },
      axes: axes(stepAxis(levels, String, "streams at once"), {}),
      series: [{ label: "C" }].concat(series.map((s, i) => line(s.label, lineColor(i, series.length)))),
      legend: { show: series.length <= PALETTE.length },
    }, data, title + ". The numbers are in the table of all measurements.");
    if (series.length > PALETTE.length) {
      const key = element("p", series[0].label, box);
      key.className = "key";
      element("i", "", key).className = "ramp";
      key.lastChild.style.background = "linear-gradient(90deg, " + rampColor(0) + ", " + rampColor(0.5) + ", " + rampColor(1) + ")";
      element("span", series[series.length - 1].label, key);
    }
  }
  function valid(run, l, c, of) {
    const cell = run.data.cells.find((k) => k.l === l && k.c === c);
    if (!cell || cell.s !== "valid") return null;
    const v = of(cell);
    return v > 0 ? v : null;
  }
  function drawCurves(run) {
    const d = run.data;
    overConcurrency(run, run.chart("throughput"), d.contexts.map((k, l) => ({ label: k.t, at: (c) => valid(run, l, c, (x) => x.v[0]) })), "Total tokens per second over concurrency, a line for each context");
    const l = run.context, name = d.contexts[l].t;
    for (const key of ["ttft", "tbt"]) {
      const words = (key === "ttft" ? "Time to first token" : "Time between tokens") + " over concurrency at context " + name + ": percentiles 50, 90 and 99";
      overConcurrency(run, run.chart(key), ["p50", "p90", "p99"].map((p, i) => ({ label: p, at: (c) => valid(run, l, c, (x) => x[key][i]) })), words);
    }
    drawPrefill(run);
  }
  function drawPrefill(run) {
    const rows = run.data.prefill.filter((r) => r.r !== null).sort((a, b) => a.n - b.n), box = run.chart("prefill");
    if (!rows.length) return empty(box, "The file has no prefill rows with a rate.");
    const x = rows.map((r) => r.n), data = [x, rows.map((r) => r.r)];
    plot(box, {
      scales: { x: stepScale(x), y: valueScale(data) },
      axes: axes(stepAxis(x, (v, i) => rows[i].t, "context"), {}),
      series: [{ label: "context", value: (u, v, s, i) => i === null ? "-" : rows[i].t }, line("prompt tok/s", lineColor(0, 1))],
    }, data, "Prefill tokens per second over context: " + rows.map((r) => r.t + " " + number(r.r)).join(", "));
  }

  function drawRate(run, cell) {
    const box = run.chart("rate"), ps = cell.ps || [];
    if (!ps.length) return empty(box, "The file has no rate per second for this cell.");
    const x = ps.map((_, i) => i + 1), mean = ps.reduce((a, b) => a + b, 0) / ps.length, hi = Math.max(...ps);
    plot(box, {
      tall: 190,
      scales: { x: { time: false, range: () => [0.4, ps.length + 0.6] }, y: { range: () => [0, hi * 1.12 || 1] } },
      axes: axes({ label: "second of the window", labelSize: 18, labelFont: "11px system-ui, sans-serif", size: 30, incrs: [1, 2, 5, 10, 30, 60, 300, 600] }, {}),
      series: [{ label: "second" },
        { label: "tok/s", stroke: color("--dec"), fill: color("--dec"), paths: uPlot.paths.bars({ size: [0.8, 90] }), points: { show: false }, value: (u, v) => number(v) },
        { label: "mean", stroke: color("--ink"), dash: [4, 4], width: 1, points: { show: false }, value: (u, v) => number(v) }],
    }, [x, ps, x.map(() => mean)], "Tokens of each second: mean " + number(mean) + ", least " + number(Math.min(...ps)) + ", most " + number(hi));
  }
  function drawGaps(run, cell) {
    const box = run.chart("gaps"), g = cell.g;
    box.previousElementSibling.textContent = "Gaps between tokens";
    if (!g) return empty(box, "The file has no gap distribution for this cell.");
    const n = g.n.length, lo = g.e[0], hi = g.e[1];
    const edge = (i) => g.log ? lo * Math.pow(hi / lo, i / n) : lo + (hi - lo) * i / n;
    const all = g.n.reduce((a, b) => a + b, 0) + g.below + g.above, x = g.n.map((_, i) => i + 0.5), share = g.n.map((v) => 100 * v / all);
    const outside = (g.above ? number(100 * g.above / all) + " % above " + axisNumber(hi) + " ms, longest " + axisNumber(g.max) + " ms" : "longest " + axisNumber(g.max) + " ms");
    box.previousElementSibling.textContent = "Gaps between tokens, ms" + (g.log ? " (logarithmic)" : "") + "; " + outside;
    plot(box, {
      tall: 190,
      scales: { x: { time: false, range: () => [0, n] }, y: { range: (u, a, b) => [0, b * 1.1 || 1] } },
      axes: axes({ label: "gap, ms", labelSize: 18, labelFont: "11px system-ui, sans-serif", size: 30, values: (u, vs) => vs.map((v) => axisNumber(edge(v))) }, { values: (u, vs) => vs.map((v) => +v.toPrecision(3) + " %") }),
      series: [{ label: "ms", value: (u, v, s, i) => i === null ? "-" : axisNumber(edge(i)) + " to " + axisNumber(edge(i + 1)) },
        { label: "share", stroke: color("--dec"), fill: color("--dec"), paths: uPlot.paths.bars({ size: [0.92, 60] }), points: { show: false }, value: (u, v) => v === null ? "-" : number(v) + " %" }],
    }, [x, share], "Distribution of " + all + " gaps between tokens, most of them from " + axisNumber(lo) + " to " + axisNumber(hi) + " ms; " + outside);
  }

  // ---- streams of a cell ----

  function drawStreams(run, cell) {
    const box = run.chart("streams"), t = cell.st, key = box.nextElementSibling;
    key.hidden = !t || !t.lanes;
    if (!t) return empty(box, "The file has no streams for this cell.");
    if (!t.lanes) return drawManyStreams(box, t);
    const loops = t.lanes.filter((s) => s[6] !== ABSENT).length, failed = t.lanes.filter((s) => s[5] === FAILED).length;
    box.textContent = "";
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", t.n + " streams over " + ((t.to - t.from) / 1000).toFixed(1) + " seconds: " + loops + " repeated themselves, " + failed + " failed.");
    const lanes = 1 + Math.max(...t.lanes.map((s) => s[0]));
    const height = Math.max(4, Math.min(18, 300 / lanes)), pad = height > 6 ? 2 : 1, left = 46, bottom = 22, top = 12;
    const w = Math.max(box.clientWidth, 240), h = top + lanes * height + bottom, scale = window.devicePixelRatio || 1;
    const canvas = document.createElement("canvas"), g = canvas.getContext("2d");
    canvas.width = w * scale; canvas.height = h * scale;
    canvas.style.width = w + "px"; canvas.style.height = h + "px"; canvas.style.display = "block";
    box.appendChild(canvas);
    g.scale(scale, scale);
    const x = (ms) => left + (ms - t.from) / Math.max(t.to - t.from, 1) * (w - left - 6);
    timeAxis(g, t, x, h - bottom, color("--soft"));
    const fill = { wait: color("--wait"), dec: color("--dec"), loop: color("--loop"), mark: color("--bad"), failed: color("--ink") };
    for (const [slot, sent, first, last, end, how, onset] of t.lanes) {
      const y = top + slot * height, bar = (a, b, c) => { g.fillStyle = c; g.fillRect(x(a), y, Math.max(x(b) - x(a), 1), height - pad); };
      bar(sent, first === ABSENT ? end : first, fill.wait);
      if (first !== ABSENT) {
        const until = onset === ABSENT ? Math.max(last, end) : onset;
        bar(first, Math.max(until, first), fill.dec);
        if (onset !== ABSENT) bar(Math.max(onset, first), Math.max(last, end), fill.loop);
      }
      if (onset !== ABSENT) triangle(g, x(Math.max(onset, sent)), y, fill.mark);
      if (how === FAILED) cross(g, x(end), y + height / 2, fill.failed);
    }
    windowEdges(g, t, x, top, h - bottom);
    laneNames(g, lanes, height, top, color("--soft"));
  }
  function timeAxis(g, t, x, y, ink) {
    const span = (t.to - t.from) / 1000, step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800].find((s) => span / s <= 12) || 3600;
    g.fillStyle = ink; g.font = "11px system-ui, sans-serif"; g.textAlign = "center";
    for (let s = Math.ceil(t.from / 1000 / step) * step; s <= t.to / 1000; s += step) {
      g.fillRect(x(1000 * s), y, 1, 4);
      g.fillText(+s.toFixed(1) + " s", Math.min(x(1000 * s), x(t.to) - 12), y + 16);
    }
  }
  function windowEdges(g, t, x, top, bottom) {
    if (!t.win) return;
    g.strokeStyle = color("--ink"); g.setLineDash([4, 3]); g.lineWidth = 1;
    for (const at of [0, t.win]) { g.beginPath(); g.moveTo(Math.round(x(at)) + 0.5, top - 8); g.lineTo(Math.round(x(at)) + 0.5, bottom); g.stroke(); }
    g.setLineDash([]);
  }
  function laneNames(g, lanes, height, top, ink) {
    g.fillStyle = ink; g.font = "11px system-ui, sans-serif"; g.textAlign = "right";
    const every = Math.ceil(13 / height);
    for (let i = 0; i < lanes; i += every) g.fillText("slot " + i, 42, top + i * height + Math.max(height / 2, 4) + 3);
  }
  function triangle(g, x, y, c) { g.fillStyle = c; g.beginPath(); g.moveTo(x - 4, y - 4); g.lineTo(x + 4, y - 4); g.lineTo(x, y + 3); g.fill(); }
  function cross(g, x, y, c) { g.strokeStyle = c; g.lineWidth = 2; g.beginPath(); g.moveTo(x - 3, y - 3); g.lineTo(x + 3, y + 3); g.moveTo(x + 3, y - 3); g.lineTo(x - 3, y + 3); g.stroke(); }
  // Too many to show one by one: how many were doing what.
  function drawManyStreams(box, t) {
    const n = t.dec.length, at = (i) => (t.from + (i + 0.5) * (t.to - t.from) / n) / 1000, x = t.dec.map((_, i) => at(i));
    plot(box, {
      tall: 200,
      scales: { x: { time: false }, y: { range: (u, a, b) => [0, b * 1.1 || 1] } },
      axes: axes({ label: "seconds since the window opened", labelSize: 18, labelFont: "11px system-ui, sans-serif", size: 30 }, {}),
      series: [{ label: "s", value: (u, v) => v === null ? "-" : v.toFixed(1) },
        { label: "decoding", stroke: color("--dec"), width: 2, points: { show: false }, value: (u, v) => number(v) },
        { label: "waiting", stroke: color("--soft"), dash: [4, 3], width: 2, points: { show: false }, value: (u, v) => number(v) },
        { label: "loop onsets", stroke: color("--loop"), fill: color("--loop"), paths: uPlot.paths.bars({ size: [0.4, 8] }), points: { show: false }, value: (u, v) => String(v || 0) }],
    }, [x, t.dec, t.wait, t.loops.map((v) => v || null)], t.n + " streams: how many were decoding, waiting, and began to repeat themselves");
  }

  // ---- matrix and detail ----

  function paintMatrix(run) {
    const m = METRICS[run.metric], tone = m.more ? "var(--heat)" : "var(--slow)";
    const logs = run.data.cells.filter((c) => c.s === "valid" && c.v[run.metric] > 0).map((c) => Math.log(c.v[run.metric]));
    const lo = Math.min(...logs), hi = Math.max(...logs);
    for (const b of run.buttons) {
      const c = run.data.cells[b.dataset.i], v = c.v[run.metric], shown = v !== null && v !== undefined;
      const text = shown ? c.x[run.metric] + (c.s === "valid" ? "" : "?") : c.s === "valid" ? "-" : word(c.s);
      b.querySelector(".n").textContent = text;
      b.style.setProperty("--tone", tone);
      b.style.setProperty("--a", shown && c.s === "valid" && v > 0 ? (0.08 + 0.47 * (hi > lo ? (Math.log(v) - lo) / (hi - lo) : 0.5)).toFixed(3) : "0");
    }
    run.el.querySelector(".metric-name").textContent = m.name;
    const scale = run.el.querySelector(".scale");
    scale.style.setProperty("--tone", tone);
    scale.textContent = "";
    if (logs.length) {
      element("span", number(Math.exp(lo)), scale); element("i", "", scale); element("span", number(Math.exp(hi)) + " " + m.unit, scale);
    }
  }
  function word(s) { return s === "over_capacity" ? "over cap" : s === "interrupted" ? "interr." : s; }

  function select(run, i, announce) {
    const c = run.data.cells[i];
    if (!c) return;
    run.selected = i;
    for (const b of run.buttons) {
      const on = +b.dataset.i === i;
      b.setAttribute("aria-pressed", String(on));
      b.tabIndex = on ? 0 : -1;
    }
    const title = "Cell " + run.data.contexts[c.l].t + " × " + c.c + ": " + c.w;
    run.detail.querySelector("h2").textContent = title;
    if (announce) run.detail.querySelector("[role=status]").textContent = title + (c.v[0] !== null ? ", " + c.x[0] + " tokens per second" : "");
    const remarks = run.detail.querySelector(".remarks");
    remarks.textContent = "";
    for (const r of c.r || []) element("li", "[" + r.n + "] " + r.t, remarks);
    const facts = run.detail.querySelector(".facts");
    facts.textContent = "";
    for (const [name, value] of c.f) { const row = element("div", "", facts); element("dt", name, row); element("dd", value, row); }
    if (!c.f.length) { const row = element("div", "", facts); element("dt", "Numbers", row); element("dd", "none: " + c.w, row); }
    drawCell(run);
  }
  function drawCell(run) {
    const c = run.data.cells[run.selected];
    if (!c) return;
    if (run.bare) return;
    drawRate(run, c); drawGaps(run, c); drawStreams(run, c);
  }
  // Arrow keys walk the matrix; Tab enters and leaves it once.
  function moveInMatrix(run, e) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!step) return;
    const td = e.target.closest("td"), rows = [...td.closest("tbody").rows];
    let r = rows.indexOf(td.parentElement), k = td.cellIndex;
    for (;;) {
      r += step[0]; k += step[1];
      const next = rows[r] && rows[r].cells[k];
      if (!next || k < 1) return;
      const b = next.querySelector("button");
      if (b) { e.preventDefault(); for (const o of run.buttons) o.tabIndex = -1; b.tabIndex = 0; b.focus(); return; }
    }
  }

  // ---- list of all measurements ----

  function entry(td) {
    if (td.dataset.v !== undefined) return td.dataset.v;
    return td.firstChild ? td.firstChild.textContent : "";
  }
  function makeSortable(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((th, k) => {
      const b = document.createElement("button");
      b.type = "button"; b.textContent = th.textContent; b.title = th.title;
      th.textContent = ""; th.appendChild(b);
      b.addEventListener("click", () => {
        const up = th.getAttribute("aria-sort") !== "ascending", words = th.classList.contains("w");
        heads.forEach((o) => o.removeAttribute("aria-sort"));
        th.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows].map((tr) => ({ tr: tr, v: entry(tr.cells[k]) }));
        // What is undefined goes last, whichever way.
        rows.sort((a, z) => (a.v === "-") - (z.v === "-") || (up ? 1 : -1) * (words ? a.v.localeCompare(z.v) : a.v - z.v) || 0);
        for (const r of rows) body.appendChild(r.tr);
      });
    });
  }
  function csvOf(table) {
    const quote = (s) => /[",\n]/.test(s) ? '"' + s.replace(/"/g, '""') + '"' : s;
    return [...table.rows].map((tr) => [...tr.cells].map((c) => { const v = c.tagName === "TH" ? c.textContent : entry(c); return quote(v === "-" ? "" : v); }).join(",")).join("\n") + "\n";
  }
  function copyCSV(run, table) {
    const said = run.el.querySelector(".said"), text = csvOf(table), done = () => { said.textContent = "Copied " + table.tBodies[0].rows.length + " rows."; };
    const byHand = () => { // a page from a file may not use the clipboard everywhere
      const area = document.createElement("textarea");
      area.value = text; area.setAttribute("aria-label", "All measurements as CSV"); area.style.width = "100%"; area.rows = 8;
      table.parentElement.before(area); area.select();
      if (document.execCommand("copy")) { area.remove(); done(); } else said.textContent = "The text below is selected: copy it.";
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand); else byHand();
  }

  // ---- page ----

  function setUp(el) {
    const run = {
      el: el, data: JSON.parse(el.querySelector("script.data").textContent), metric: 0, context: 0, selected: -1,
      buttons: [...el.querySelectorAll("button.cell")], detail: el.querySelector(".detail"),
      chart: (name) => el.querySelector("[data-chart=" + name + "] .chart"),
    };
    const all = el.querySelector("table.all");
    if (all) { makeSortable(all); el.querySelector("button.copy").addEventListener("click", () => copyCSV(run, all)); }
    if (!run.buttons.length) return run;
    for (const input of el.querySelectorAll(".switch input")) input.addEventListener("change", () => { run.metric = +input.value; paintMatrix(run); });
    const grid = el.querySelector("table.grid");
    grid.addEventListener("click", (e) => { const b = e.target.closest("button.cell"); if (b) select(run, +b.dataset.i, true); });
    grid.addEventListener("keydown", (e) => moveInMatrix(run, e));
    el.querySelector("select.context").addEventListener("change", (e) => { run.context = +e.target.value; drawCurves(run); });
    if (run.data.first >= 0) { run.context = run.data.cells[run.data.first].l; el.querySelector("select.context").value = run.context; }
    run.bare = !run.data.cells.some((c) => c.ps || c.g || c.st);
    if (run.bare) {
      for (const f of run.detail.querySelectorAll("figure")) f.hidden = true;
      element("p", "This file holds one number a column: no rate per second, no gaps, no streams.", run.detail.querySelector(".charts")).className = "fine";
    }
    paintMatrix(run);
    select(run, run.data.first, false);
    drawCurves(run);
    return run;
  }

  document.documentElement.classList.add("scripted");
  const runs = [...document.querySelectorAll(".run")].map(setUp);
  function redraw() { for (const run of runs) if (run.buttons.length) { drawCell(run); drawCurves(run); } }

  let width = document.documentElement.clientWidth, waiting = 0;
  window.addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width) return;
    clearTimeout(waiting);
    waiting = setTimeout(() => { width = document.documentElement.clientWidth; redraw(); }, 120);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is white.
  window.addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; redraw(); });
  window.addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; redraw(); });
  document.documentElement.dataset.ready = "true";
})();
