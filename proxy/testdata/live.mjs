// Checks the live page as a reader meets it, while traffic runs:
// node live.mjs URL TOKEN-URL TOKEN SHOTS
// URL is the admin port behind a path prefix, TOKEN-URL one that asks for TOKEN.
// SHOTS is a folder for pictures, "" for none. Prints what failed and exits 1.
import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// The report's pages are checked with the same pinned tools.
const require = createRequire(new URL("../../report/browser/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [url, tokenURL, token, shots] = process.argv.slice(2);
let failed = 0, passed = 0;
function check(ok, what, detail = "") {
  if (ok) { passed++; return; }
  failed++;
  console.log("FAIL " + what + (detail === "" ? "" : ": " + detail));
}

const home = mkdtempSync(join(tmpdir(), "streamgauge-chromium-"));
const context = await chromium.launchPersistentContext(home, {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

async function open(address, { width = 1280, height = 900, scheme = "light" } = {}) {
  const page = await context.newPage(), seen = { strangers: [], errors: [] };
  const ours = new URL(address);
  await page.route("**", (route) => {
    const asked = new URL(route.request().url());
    if (asked.protocol === "data:" || asked.origin === ours.origin && asked.pathname.startsWith(ours.pathname)) return route.continue();
    seen.strangers.push(asked.href);
    return route.abort();
  });
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") seen.errors.push(m.text()); });
  page.on("pageerror", (e) => seen.errors.push(String(e)));
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(address, { waitUntil: "load" });
  return { page, seen };
}

async function accessible(page, name) {
  // By the debugger, which the page's policy does not bind.
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { preload: false, resultTypes: ["violations"] }));
  const bad = found.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  check(bad.length === 0, name + ": axe", bad.map((v) => v.impact + " " + v.id + " at " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " (" + n.failureSummary.split("\n").slice(1).join(" ") + ")").join(", ")).join("; "));
}

const filled = (page) => page.waitForFunction(() => document.querySelectorAll("#matrix tbody td[class]").length > 1 && document.querySelectorAll(".chart svg").length === 3, null, { timeout: 60000 });

async function checkNumbers(page, name) {
  await filled(page).catch(async (e) => {
    console.log(name + ": the page never filled; it shows:\n" + await page.evaluate(() => document.body.innerText));
    const live = await fetch(new URL("live", url.replace(/\/?$/, "/")), { signal: AbortSignal.timeout(5000) });
    console.log("the proxy tells:\n" + new TextDecoder().decode((await live.body.getReader().read()).value));
    throw e;
  });
  const ink = await page.$$eval(".chart svg path:not(.rule)", (ps) => ps.map((p) => ({ id: p.closest(".chart").id, cls: p.getAttribute("class"), length: p.getTotalLength(), stroke: getComputedStyle(p).stroke, fill: getComputedStyle(p).fill })));
  for (const id of ["c-rate", "c-ttft", "c-tbt"]) {
    const l = ink.find((p) => p.id === id && p.cls === "l1");
    check(l && l.length > 0 && l.stroke !== "none", name + ": ink of " + id, JSON.stringify(l));
    const words = await page.getAttribute("#" + id, "aria-label");
    check(words.length > 20, name + ": words of " + id, words);
  }
  const rate = () => page.textContent("#t-rate"), age = () => page.textContent("#streams tbody tr:first-child td:nth-child(5)");
  check(parseFloat((await rate()).replace(",", "")) > 0, name + ": tokens a second", await rate());
  const before = await age();
  await page.waitForFunction((b) => document.querySelector("#streams tbody tr:first-child td:nth-child(5)").textContent !== b, before, { timeout: 10000 });
}

async function checkSwitch(page, name) {
  const caption = () => page.textContent("#matrix caption"), cells = () => page.$$eval("#matrix tbody td", (ts) => ts.map((t) => t.textContent).join("|"));
  const total = await cells();
  await page.click(".switch label:nth-of-type(3)");
  check((await caption()).startsWith("Time to first token"), name + ": switch by mouse", await caption());
  check(await cells() !== total, name + ": the switch changes the numbers");
  await page.focus(".switch input:checked");
  await page.keyboard.press("ArrowRight");
  check((await caption()).startsWith("Time between tokens"), name + ": switch by keyboard", await caption());
  await page.click(".switch label:nth-of-type(1)");
}

async function checkPause(page, name) {
  await page.focus("#pause");
  await page.keyboard.press("Enter");
  check(await page.getAttribute("#pause", "aria-pressed") === "true" && (await page.textContent("#status")) === "paused", name + ": pause by keyboard");
  const numbers = () => page.textContent("#numbers");
  const before = await numbers();
  await page.waitForResponse(() => true, { timeout: 2500 }).catch(() => {});
  check(await numbers() === before, name + ": nothing moves while paused");
  await page.keyboard.press("Enter");
  check((await page.textContent("#status")) === "live", name + ": goes on");
}

try {
  {
    const { page, seen } = await open(url);
    await checkNumbers(page, "live");
    await checkSwitch(page, "live");
    await checkPause(page, "live");
    await accessible(page, "live");
    if (shots) await page.screenshot({ path: join(shots, "live.png"), fullPage: true });
    await page.click("text=All cells");
    await page.waitForSelector("table.list");
    check((await page.textContent("h1")) === "Passive matrix", "matrix: opens from the live page");
    await accessible(page, "matrix");
    if (shots) await page.screenshot({ path: join(shots, "matrix.png"), fullPage: true });
    await page.click("text=live page");
    await page.waitForSelector("#numbers:not([hidden])");
    check(seen.strangers.length === 0, "live: asks only below its own path", seen.strangers.join(" "));
    check(seen.errors.length === 0, "live: console", seen.errors.join(" | "));
    await page.close();
  }
  {
    // What came first is not what most of the traffic is.
    const page = await context.newPage();
    const matrix = await (await fetch(new URL("matrix", url))).json();
    const few = (model) => matrix.cells.map((c) => ({ ...c, model, output_tokens: Math.min(c.output_tokens, 1) }));
    const told = (...cells) => "event: matrix\ndata: " + JSON.stringify({ ...matrix, cells: cells.flat() }) + "\n\n";
    const bodies = [told(few("first")) + told(few("first"), matrix.cells), told(few("first"), matrix.cells, few("last"))];
    // The stream ends, so the page asks again.
    await page.route("**/live", (route) => route.fulfill({ contentType: "text/event-stream", body: bodies.length > 1 ? bodies.shift() : bodies[0] }));
    const shown = async (groups) => {
      await page.waitForFunction((n) => document.querySelectorAll("#pick option").length === n, groups);
      return page.inputValue("#pick");
    };
    check(!(await page.goto(url).then(() => shown(2))).startsWith("first"), "groups: the one with the most tokens is shown");
    await page.selectOption("#pick", { index: 0 });
    check((await shown(3)).startsWith("first"), "groups: a reader's choice stays");
    await page.close();
  }
  for (const [name, how] of [["dark", { scheme: "dark" }], ["phone", { width: 390, height: 844 }]]) {
    // Without the last slash, as behind some prefixes.
    const { page, seen } = await open(url.replace(/\/$/, ""), how);
    await checkNumbers(page, name);
    await accessible(page, name);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(wide <= 0, name + ": nothing hangs out", wide + " px");
    check(seen.strangers.length === 0 && seen.errors.length === 0, name + ": quiet", [...seen.strangers, ...seen.errors].join(" | "));
    if (shots) await page.screenshot({ path: join(shots, "live-" + name + ".png"), fullPage: true });
    await page.close();
  }
  {
    const { page, seen } = await open(tokenURL);
    await page.waitForSelector("#signin:not([hidden])");
    await accessible(page, "token");
    if (shots) await page.screenshot({ path: join(shots, "live-token.png") });
    check(await page.isHidden("#numbers"), "token: no number without it");
    await page.keyboard.type("wrong");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.getElementById("token-said").textContent !== "");
    await page.keyboard.type(token);
    await page.keyboard.press("Enter");
    await page.waitForSelector("#numbers:not([hidden])");
    await page.reload();
    await page.waitForSelector("#numbers:not([hidden])");
    check(!page.url().includes(token) && (await context.cookies()).length === 0, "token: in no address and no cookie");
    // Chromium reports each 401 on the console; there is nothing else.
    check(seen.strangers.length === 0 && seen.errors.every((e) => e.includes("401")), "token: quiet", [...seen.strangers, ...seen.errors].join(" | "));
    await page.close();
  }
} finally {
  await context.close();
  rmSync(home, { recursive: true, force: true });
}
console.log(passed + " checks passed, " + failed + " failed");
process.exitCode = failed ? 1 : 0;
