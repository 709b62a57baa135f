// The cluster as a live picture, through a failover: three real nodes on a real etcd, one of them killed, the store stopped. And
// where there is no cluster, or it is not for the user to see, nothing of it shows.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { accessibility, BINARY, Cleanup, Etcd, eventually, fitsWidth, isLive, openPage, Server, startBrowser, startNode } from "./support.mjs";

const PARTITIONS = 8;
const FAILOVER_MS = 30_000;

/** The card of a node. */
const card = (page, address) => page.locator("#cluster .node").filter({ has: page.locator(".name-of", { hasText: address }) });

const isWell = (page) => page.locator("#cluster .title-line .state", { hasText: "All well" });

/** What the picture says: address, state and partitions of each node. */
const shown = (page) => page.evaluate(() => Object.fromEntries([...document.querySelectorAll("#cluster .node")].map((node) => [
  node.querySelector(".name-of").textContent,
  { state: node.dataset.state, partitions: [...node.querySelectorAll(".tile")].map((tile) => Number(tile.textContent)) },
])));

const isWhole = (nodes, number) => {
  const alive = Object.values(nodes).filter(({ state }) => state === "alive");
  assert.equal(alive.length, number, JSON.stringify(nodes));
  assert.ok(alive.every(({ partitions }) => partitions.length > 0), JSON.stringify(nodes));
  assert.deepEqual(alive.flatMap(({ partitions }) => partitions).sort((a, b) => a - b), [...Array(PARTITIONS).keys()]);
};

describe("the cluster as a picture", () => {
  let browser;
  let etcd;
  let nodes;

  const t = new Cleanup();
  after(() => t.run());
  before(async () => {
    browser = await startBrowser(t);
    etcd = await Etcd.start(t);
    nodes = [];
    for (let n = 0; n < 3; n += 1) nodes.push(await startNode(t, etcd));
  });

  test("a node that is killed is shown dead, and its partitions with new owners, without a reload", async (t) => {
    const [here, , victim] = nodes;
    const page = await openPage(t, browser, here.server);
    await isLive(page);
    await page.keyboard.press("c");
    await eventually(async () => isWhole(await shown(page), 3), FAILOVER_MS);
    assert.equal(await page.evaluate(() => document.activeElement.id), "cluster-title", "the keyboard leads there");
    assert.match(await card(page, here.address).textContent(), /this node/);
    await isWell(page).waitFor();
    await accessibility(page, "the cluster, light");
    for (let n = 0; n < 20; n += 1) await here.server.lock(`job-${n}`, "me");
    await page.evaluate(() => { globalThis.isSamePage = true; });

    const lost = (await shown(page))[victim.address].partitions;
    await victim.server.kill();
    await eventually(async () => assert.ok(["silent", "dead"].includes((await shown(page))[victim.address].state)), FAILOVER_MS);
    await eventually(async () => {
      const seen = await shown(page);
      assert.deepEqual(seen[victim.address], { state: "dead", partitions: [] });
      isWhole(seen, 2);
    }, FAILOVER_MS);
    for (const partition of lost) await page.locator(".moves li", { hasText: `Partition ${partition}: ${victim.address} →` }).filter({ hasText: "its owner died" }).first().waitFor();
    await page.locator("#cluster .title-line .state", { hasText: "Look here" }).waitFor();
    assert.ok(await page.evaluate(() => globalThis.isSamePage), "the page was not loaded again");
    await accessibility(page, "the cluster after a failover, light");

    await victim.server.restart();
    await eventually(async () => isWhole(await shown(page), 3), FAILOVER_MS);
    await page.locator(".moves li", { hasText: "let go" }).first().waitFor();
    await page.keyboard.press("Escape");
    await page.locator("#cluster").waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => document.activeElement.id), "cluster-link", "the focus is where it came from");
  });

  test("a store that does not answer is said at once, also beside the link", async (t) => {
    const page = await openPage(t, browser, nodes[0].server, { hash: "#/cluster" });
    await isWell(page).waitFor();
    etcd.stop();
    try {
      await page.locator(".troubles li", { hasText: "The store has not answered for" }).waitFor({ timeout: FAILOVER_MS });
      await page.locator(".troubles li", { hasText: "The store does not answer:" }).waitFor({ timeout: FAILOVER_MS });
      await page.locator("#cluster-link[data-level=bad]").waitFor();
    } finally {
      etcd.wake();
    }
    await isWell(page).waitFor({ timeout: FAILOVER_MS });
    await page.locator("#cluster-link[data-level=well]").waitFor();
  });

  test("it fits a phone, in the dark", async (t) => {
    const page = await openPage(t, browser, nodes[1].server, { hash: "#/cluster", viewport: { width: 390, height: 780 }, colorScheme: "dark" });
    await eventually(async () => isWhole(await shown(page), 3), FAILOVER_MS);
    await fitsWidth(page);
    await accessibility(page, "the cluster on a phone, dark");
    await page.getByRole("button", { name: "Close the cluster" }).click();
    await page.getByRole("link", { name: /^Cluster: 3 nodes/ }).waitFor();
    await fitsWidth(page);
  });

  test("addresses of nodes are text, and only the last life of each has a card", async (t) => {
    const page = await openPage(t, browser, nodes[0].server);
    const said = await page.evaluate(async () => {
      const { picture } = await import("/assets/cluster.js");
      const node = (node, address, state, more = {}) => ({ node, address, state, silent_s: 0, linked: true, unreachable: [], partitions: [], ...more });
      const { nodes, free, trouble } = picture({
        node: "a",
        beat_age_s: 0.5,
        nodes: [node("a", "<b>\u202e:1", "alive"), node("b", "z:1", "dead"), node("c", "z:1", "alive", { silent_s: 2, unreachable: ["a", "b"] }), node("d", "gone:1", "dead")],
        partitions: [{ partition: 0, owner: "a", behind_s: 0 }, { partition: 1, owner: "d", behind_s: 9 }, { partition: 2, owner: null, behind_s: null }],
        store: { error: null, low: true, went_back: 1 },
        moves: [{ why: "died", from: "d" }],
      });
      return { nodes: nodes.map(({ name, state }) => [name, state]), free: free.map(({ partition }) => partition), trouble: trouble.map(({ text }) => text) };
    });
    assert.deepEqual(said.nodes, [["<b>[U+202E]:1", "alive"], ["gone:1", "dead"], ["z:1", "silent"]]);
    assert.deepEqual(said.free, [1, 2], "a dead node owns nothing");
    assert.deepEqual(said.trouble, [
      "Partitions 1, 2 have no owner. Calls for them wait.",
      "z:1 has been silent for 2.0 s.",
      "gone:1 died. Other nodes take its partitions.",
      "The store has little room left. New claims are refused before it is full.",
      "The store went back once: writes that it had confirmed were gone. Tokens jumped.",
      "z:1 cannot reach <b>[U+202E]:1.",
      "This node is behind with partitions 1, 2.",
    ]);
  });

  test("a user who may not see the cluster has no link to it", async (hooks) => {
    const t = new Cleanup(); // the page first, then its server
    hooks.after(() => t.run());
    const dir = await mkdtemp(path.join(tmpdir(), "leasehold-browser-"));
    t.after(() => rm(dir, { recursive: true, force: true }));
    const { stdout, stderr } = spawnSync(BINARY, ["token", "new", "--name", "ina", "--role", "interns"], { encoding: "utf8" });
    const config = path.join(dir, "leasehold.toml");
    await writeFile(config, `${stderr}\n[[policy]]\ngroups = ["interns"]\nactions = ["observe"]\nresources = ["lock:ina-*"]\n`);
    const { server } = await startNode(t, etcd, "--config", config);
    const page = await openPage(t, browser, server, { expected: [/40[13]/], extraHTTPHeaders: { authorization: `Bearer ${stdout.trim()}` } });
    await isLive(page);
    await eventually(() => assert.ok(page.requests.some((url) => url.endsWith("/v1/cluster")), "it was asked for"));
    await page.locator("#cluster-link").waitFor({ state: "hidden" });
    await page.keyboard.press("c");
    assert.ok(await page.locator("#cluster").isHidden());
  });

  test("a service in one process has none, and is not asked for it", async (hooks) => {
    const t = new Cleanup();
    hooks.after(() => t.run());
    const server = await Server.start(t, "--memory");
    const page = await openPage(t, browser, server, { hash: "#/cluster" });
    await isLive(page);
    await page.locator("#service").waitFor();
    await page.getByText("This service runs in one process").waitFor();
    assert.ok(await page.locator("#cluster-link").isHidden());
    assert.ok(!page.requests.some((url) => url.includes("/v1/cluster")));
  });
});
