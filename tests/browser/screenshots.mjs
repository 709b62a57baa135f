// Takes the pictures of the documentation: a lived-in server, looked at after a few minutes. `node screenshots.mjs [seconds]`.

import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Demo } from "./demo.mjs";
import { Cleanup, isLive, openPage, row, Server, startBrowser } from "./support.mjs";

const OUT = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const LIVED_S = Number(process.argv[2] ?? 150);

const t = new Cleanup();
const demo = { stop() {} };
try {
  await mkdir(OUT, { recursive: true });
  const browser = await startBrowser(t);
  const server = await Server.start(t, "--memory", "--grace", "15m");
  const empty = await Server.start(t, "--memory");
  const lived = new Demo(server.url);
  demo.stop = () => lived.stop();
  await lived.start();
  await new Promise((resolve) => { setTimeout(resolve, LIVED_S * 1000); });

  const overview = await openPage(t, browser, server, { viewport: { width: 1280, height: 800 }, colorScheme: "light" });
  await settled(overview);
  await overview.screenshot({ path: `${OUT}overview.png` });

  const detail = await openPage(t, browser, server, { viewport: { width: 1360, height: 860 }, colorScheme: "dark" });
  await settled(detail);
  await row(detail, "ci-runner-large").getByRole("link").click();
  await detail.locator(".lanes .hold").first().waitFor();
  await settled(detail);
  await detail.screenshot({ path: `${OUT}detail.png` });

  const phone = await openPage(t, browser, server, { viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: "light" });
  await settled(phone);
  await phone.screenshot({ path: `${OUT}phone.png` });

  const nothing = await openPage(t, browser, empty, { viewport: { width: 1280, height: 760 }, colorScheme: "light" });
  await nothing.locator(".empty").waitFor();
  await isLive(nothing);
  await nothing.screenshot({ path: `${OUT}empty.png` });
} finally {
  demo.stop();
  await t.run();
}

// Live, with its charts drawn, and a moment for what flashes to fade.
async function settled(page) {
  await isLive(page);
  await page.waitForTimeout(2500);
}
