// Takes the pictures of the documentation: a lived-in server, looked at after a few minutes. `node screenshots.mjs [seconds]`.

import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Demo } from "./demo.mjs";
import { BINARY, Cleanup, Etcd, isLive, openPage, row, Server, startBrowser, startNode } from "./support.mjs";

const OUT = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const LIVED_S = Number(process.argv[2] ?? 150);

const t = new Cleanup();
const demos = [];
try {
  await mkdir(OUT, { recursive: true });
  const browser = await startBrowser(t);
  const server = await Server.start(t, "--memory", "--grace", "15m");
  const empty = await Server.start(t, "--memory");
  const lived = new Demo(server.url);
  demos.push(lived);
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

  const etcd = await Etcd.start(t);
  const nodes = [];
  for (let n = 0; n < 3; n += 1) nodes.push(await startNode(t, etcd));
  const shared = new Demo(nodes[0].server.url);
  demos.push(shared);
  await shared.start();
  const cluster = await openPage(t, browser, nodes[0].server, { hash: "#/cluster", viewport: { width: 1360, height: 760 }, colorScheme: "light" });
  await cluster.waitForTimeout(15_000); // partitions go where they belong
  await nodes[2].server.kill();
  await cluster.locator(".node[data-state=dead]").waitFor();
  await settled(cluster);
  await cluster.screenshot({ path: `${OUT}cluster.png` });

  const dir = await mkdtemp(path.join(tmpdir(), "leasehold-pictures-"));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const { stdout, stderr } = spawnSync(BINARY, ["token", "new", "--name", "mallory", "--role", "interns"], { encoding: "utf8" });
  await writeFile(path.join(dir, "leasehold.toml"), `${stderr}\n[[policy]]\ngroups = ["interns"]\nactions = ["inspect"]\n`);
  const guarded = await Server.start(t, "--memory", "--config", path.join(dir, "leasehold.toml"));
  const door = await openPage(t, browser, guarded, { viewport: { width: 760, height: 520 }, colorScheme: "light", expected: [/40[13]/] });
  await door.locator("#token-form").waitFor();
  await door.screenshot({ path: `${OUT}sign-on.png` });
  await door.locator("#token").fill(stdout.trim());
  await door.getByRole("button", { name: "Sign on" }).click();
  await door.locator("#you").waitFor();
  await door.screenshot({ path: `${OUT}denied.png` });
} finally {
  for (const demo of demos) demo.stop();
  await t.run();
}

// Live, with its charts drawn, and a moment for what flashes to fade.
async function settled(page) {
  await isLive(page);
  await page.waitForTimeout(2500);
}
