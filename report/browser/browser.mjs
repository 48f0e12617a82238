// Starts the system's Chromium so that it cannot reach anything: no background
// services, every request but that of the page itself refused and counted.
import { chromium } from "playwright-core";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export async function launch() {
  const home = mkdtempSync(join(tmpdir(), "streamgauge-chromium-"));
  const context = await chromium.launchPersistentContext(home, {
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    headless: true,
    offline: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  return { context, close: async () => { await context.close(); rmSync(home, { recursive: true, force: true }); } };
}

// open loads a page from its file and returns it with what it asked for and said.
export async function open(context, file, { width = 1280, height = 900, scheme = "light" } = {}) {
  const page = await context.newPage(), url = pathToFileURL(file).href;
  const seen = { requests: [], errors: [] };
  page.on("request", (r) => { if (r.url() !== url && !r.url().startsWith("data:")) seen.requests.push(r.url()); });
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") seen.errors.push(m.text()); });
  page.on("pageerror", (e) => seen.errors.push(String(e)));
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(url, { waitUntil: "load" });
  return { page, seen };
}
