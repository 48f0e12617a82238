// Takes the pictures of the README: node shots.mjs REPORT.html FOLDER
import { join } from "node:path";
import { launch, open } from "./browser.mjs";

const [report, folder] = process.argv.slice(2);
const { context, close } = await launch();
try {
  let { page } = await open(context, report, { width: 1100, height: 760 });
  await page.screenshot({ path: join(folder, "report.png") });
  await page.close();
  ({ page } = await open(context, report, { width: 1100, height: 760, scheme: "dark" }));
  // A cell with a salvaged loop: the most that the page has to tell.
  const i = await page.$eval("script.data", (s) => {
    const cells = JSON.parse(s.textContent).cells, looped = (c) => c.st && c.st.lanes && c.st.lanes.some((l) => l[6] !== -1e9);
    return Math.max(cells.findIndex((c) => c.s === "valid" && looped(c)), 0);
  });
  await page.click("button.cell[data-i='" + i + "']");
  await (await page.$(".detail")).screenshot({ path: join(folder, "cell-dark.png") });
  await page.close();
} finally {
  await close();
}
