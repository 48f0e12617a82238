// Checks pages as a reader meets them: node check.mjs KIND=FILE…
// KIND is run (everything in it), published (medians only), many (streams
// aggregated) or comparison. Prints what failed and exits 1.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { launch, open } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let failed = 0, passed = 0;
function check(ok, what, detail = "") {
  if (ok) { passed++; return; }
  failed++;
  console.log("FAIL " + what + (detail === "" ? "" : ": " + detail));
}

// Ink: pixels of a canvas that are not background, and their colours.
async function ink(page) {
  return page.$$eval("figure", (figures) => figures.filter((f) => f.offsetParent !== null && !f.querySelector(".empty")).map((f) => {
    const c = f.querySelector("canvas"), out = { chart: f.dataset.chart, pixels: 0, colors: 0, words: (f.querySelector("[role=img]") || { ariaLabel: "" }).ariaLabel };
    if (!c) return out;
    const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, colors = new Set();
    for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 128) { out.pixels++; colors.add((d[i] >> 4 << 8) | (d[i + 1] >> 4 << 4) | d[i + 2] >> 4); }
    out.colors = colors.size;
    return out;
  }));
}

async function accessible(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { preload: false, resultTypes: ["violations"] }));
  const bad = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  check(bad.length === 0, name + ": axe", bad.map((v) => v.impact + " " + v.id + " at " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " (" + n.failureSummary.split("\n").slice(1).join(" ") + ")").join(", ")).join("; "));
}

const heading = (page) => page.textContent(".detail h2");

async function checkCharts(page, name, want) {
  const charts = await ink(page);
  check(charts.length === want, name + ": charts", charts.length + " of " + want);
  for (const c of charts) {
    check(c.pixels > 400 && c.colors >= 2, name + ": ink of " + c.chart, JSON.stringify(c));
    check(c.words.length > 20, name + ": words of " + c.chart, c.words);
  }
}

async function checkSwitch(page, name) {
  const cells = () => page.$$eval("button.cell .n", (ns) => ns.map((n) => n.textContent));
  const before = await cells(), texts = await page.$eval("script.data", (s) => JSON.parse(s.textContent).cells.map((c) => c.x));
  for (const [k, want] of [[2, "TTFT"], [1, "Per request"], [3, "Time between tokens"], [0, "Total"]]) {
    await page.click(".switch label:nth-of-type(" + (k + 1) + ")");
    const now = await cells();
    check((await page.textContent(".metric-name")).startsWith(want), name + ": switch to " + want);
    check(now.every((t, i) => texts[i][k] === "-" || t.replace("?", "") === texts[i][k]), name + ": numbers of " + want, now.join(" "));
  }
  check(JSON.stringify(await cells()) === JSON.stringify(before), name + ": switching back gives the page as it was written");
  await page.focus(".switch input:checked");
  await page.keyboard.press("ArrowRight");
  check((await page.textContent(".metric-name")).startsWith("Per request"), name + ": switch by keyboard");
  await page.keyboard.press("ArrowLeft");
}

async function checkCell(page, name) {
  const buttons = await page.$$("button.cell"), last = buttons[buttons.length - 1];
  const before = await heading(page);
  await last.click();
  const byMouse = await heading(page);
  check(byMouse !== before && byMouse.startsWith("Cell"), name + ": a cell opens by mouse", byMouse);
  check(await last.getAttribute("aria-pressed") === "true", name + ": the open cell is marked");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  const byKey = await heading(page);
  check(byKey !== byMouse && byKey.startsWith("Cell"), name + ": a cell opens by keyboard", byKey);
  check((await page.textContent(".detail [role=status]")).startsWith(byKey), name + ": a screen reader is told");
  check(await page.$$eval("button.cell", (bs) => bs.filter((b) => b.tabIndex === 0).length) === 1, name + ": the matrix is one tab stop");
}

async function checkSort(page, name) {
  const heads = await page.$$eval("table.all thead th", (ths) => ths.map((t) => t.textContent));
  for (const head of ["tok/s", "context", "status"]) {
    const k = heads.indexOf(head), column = () => page.$$eval("table.all tbody tr", (rows, k) => rows.map((r) => r.cells[k].dataset.v || r.cells[k].firstChild.textContent), k);
    for (const way of ["ascending", "descending"]) {
      await page.click("table.all thead th:nth-child(" + (k + 1) + ") button");
      const got = (await column()).filter((v) => v !== "-"), want = got.slice().sort((a, b) => (way === "ascending" ? 1 : -1) * (head === "status" ? a.localeCompare(b) : a - b));
      check(JSON.stringify(got) === JSON.stringify(want), name + ": sort by " + head + " " + way, got.join(" "));
      check(await page.getAttribute("table.all thead th:nth-child(" + (k + 1) + ")", "aria-sort") === way, name + ": aria-sort of " + head);
    }
    const all = await column(), undefinedFrom = all.indexOf("-");
    check(undefinedFrom < 0 || all.slice(undefinedFrom).every((v) => v === "-"), name + ": what is undefined sorts last");
  }
}

async function checkCopy(page, name) {
  await page.evaluate(() => { window.copied = ""; Object.defineProperty(navigator, "clipboard", { value: { writeText: (t) => { window.copied = t; return Promise.resolve(); } } }); });
  await page.click("button.copy");
  const csv = await page.evaluate(() => window.copied), rows = await page.$$eval("table.all tr", (rs) => rs.length);
  check(csv.trim().split("\n").length === rows, name + ": CSV has every row", csv.slice(0, 200));
  check(!/(^|,)-(,|$)/m.test(csv), name + ": CSV leaves the undefined empty");
}

// A cell whose streams looped shows them in the loop's colour, and says so.
async function checkLoop(page, name) {
  const i = await page.$eval("script.data", (s) => JSON.parse(s.textContent).cells.findIndex((c) => c.st && c.st.lanes && c.st.lanes.some((l) => l[6] !== -1e9)));
  check(i >= 0, name + ": a cell with a loop");
  if (i < 0) return;
  await page.click("button.cell[data-i='" + i + "']");
  const found = await page.$eval("[data-chart=streams] canvas", (c) => {
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--loop").trim(); probe.fillRect(0, 0, 1, 1);
    const want = probe.getImageData(0, 0, 1, 1).data, d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    let n = 0;
    for (let k = 0; k < d.length; k += 4) if (Math.abs(d[k] - want[0]) + Math.abs(d[k + 1] - want[1]) + Math.abs(d[k + 2] - want[2]) < 12) n++;
    return n;
  });
  check(found > 20, name + ": loop in its colour", found + " pixels");
  check((await page.textContent(".detail .remarks")).length > 0, name + ": a looped cell says why in text");
}

async function checkPage(context, kind, file) {
  const name = kind;
  for (const look of [{ scheme: "light" }, { scheme: "dark" }, { scheme: "light", width: 390, height: 800 }]) {
    const where = name + " " + look.scheme + (look.width ? " phone" : "");
    const { page, seen } = await open(context, file, look);
    if (kind !== "many" || look.scheme === "light" && !look.width) await accessible(page, where); // its 20,000 elements take long
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    check(wide <= 0, where + ": fits the width", wide + " px over");
    if (kind !== "comparison") {
      check(await page.evaluate(() => document.documentElement.dataset.ready) === "true", where + ": the script ran to its end");
      await checkCharts(page, where, kind === "published" ? 4 : 7);
    }
    if (kind !== "comparison" && !look.width && look.scheme === "light") {
      await checkSwitch(page, name); await checkCell(page, name); await checkSort(page, name); await checkCopy(page, name);
      if (kind === "run") await checkLoop(page, name);
      if (kind !== "many") await accessible(page, name + " after use");
    }
    check(seen.requests.length === 0, where + ": asks nobody", seen.requests.join(" "));
    check(seen.errors.length === 0, where + ": console", seen.errors.join(" | "));
    await page.close();
  }
}

// From the start of the navigation to the last line of the page's script, best
// of three: the machine may have other things to do.
async function checkSpeed(context, file) {
  let best = Infinity;
  for (let i = 0; i < 3; i++) {
    const { page } = await open(context, file);
    best = Math.min(best, await page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd));
    await page.close();
  }
  console.log("opens in " + Math.round(best) + " ms: " + file);
  check(best <= 1000, "opens in a second", best + " ms");
}

const { context, close } = await launch();
try {
  for (const arg of process.argv.slice(2)) {
    const [kind, file] = arg.split("=");
    await checkPage(context, kind, file);
    if (kind === "many") await checkSpeed(context, file);
  }
} finally {
  await close();
}
console.log(passed + " checks passed, " + failed + " failed");
process.exitCode = failed ? 1 : 0;
