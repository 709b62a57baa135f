// Capacity and notes of claimed resources, edited on the page; a pool under its label; and a team that sees its own.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { accessibility, BINARY, Cleanup, eventually, isLive, openPage, row, Server, startBrowser } from "./support.mjs";

const POOL = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01";

describe("what people set on resources", () => {
  let browser;

  // Of the suite, so that a server outlives the pages that look at it.
  const suite = new Cleanup();
  after(() => suite.run());
  before(async () => {
    browser = await startBrowser(suite);
  });

  test("capacity and note of a claimed resource are edited, and the search finds the note", async (t) => {
    const server = await Server.start(suite, "--memory");
    await server.claim("gpu-7", "ann");
    const page = await openPage(t, browser, server);
    await isLive(page);
    await row(page, "gpu-7").getByRole("link").click();
    await page.getByRole("button", { name: "Capacity…" }).click();
    await page.getByRole("dialog").getByRole("spinbutton").fill("3");
    await page.getByRole("dialog").getByRole("button", { name: "Set" }).click();
    await page.locator(".summary", { hasText: "1 of 3 slots in use" }).waitFor();
    await page.getByRole("button", { name: "Note…" }).click();
    await page.getByRole("dialog").getByRole("textbox").fill("Ask Olga before you stop it ‮ <b>");
    await accessibility(page, "the dialog of a note");
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    // Markup is text, and what turns text around is shown by its code.
    await page.locator(".detail-head .note", { hasText: /^Ask Olga before you stop it .*202E.* <b>$/ }).waitFor();
    const seen = await server.call("GET", "/v1/resources/gpu-7/");
    assert.equal(seen.capacity, 3, "a note leaves the capacity");
    assert.equal(seen.label, "Ask Olga before you stop it ‮ <b>");
    const { matched } = await server.call("GET", "/v1/observe/resources?q=olga");
    assert.equal(matched, 1);
    await page.getByRole("button", { name: "Note…" }).click();
    await page.getByRole("dialog").getByRole("textbox").fill("");
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await page.locator(".detail-head .note").waitFor({ state: "hidden" });
    assert.equal((await server.call("GET", "/v1/resources/gpu-7/")).label, undefined);
  });

  test("a lock and a claimed resource are paused and resumed, with the reason in sight", async (t) => {
    const server = await Server.start(suite, "--memory");
    await server.claim("gpu-7", "ann");
    await server.call("POST", "/lock?job=deploy&client=ann&ttl=5m");
    const page = await openPage(t, browser, server);
    await isLive(page);
    for (const [name, path_] of [["gpu-7", "/v1/observe/resources/claim:gpu-7"], ["deploy", "/v1/observe/resources/lock:deploy"]]) {
      await row(page, name).getByRole("link").click();
      await page.getByRole("button", { name: "Pause…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("textbox").fill("upkeep ‮ <b>");
      await dialog.getByRole("spinbutton").fill("10");
      await accessibility(page, "the dialog of a pause");
      await dialog.getByRole("button", { name: "Pause" }).click();
      await page.locator(".detail-head .pause", { hasText: /^Paused since .*, for .* more: upkeep .*202E.* <b>$/ }).waitFor();
      if (process.env.LEASEHOLD_PICTURES) await page.screenshot({ path: path.join(process.env.LEASEHOLD_PICTURES, `paused-${name}.png`) });
      assert.equal((await server.call("GET", path_)).paused.reason, "upkeep ‮ <b>");
      await page.getByRole("button", { name: "Resume…" }).click();
      await dialog.getByRole("button", { name: "Resume" }).click();
      await page.locator(".detail-head .pause").waitFor({ state: "hidden" });
      assert.equal((await server.call("GET", path_)).paused, undefined);
      await page.getByRole("button", { name: "Close the details" }).click();
    }
  });

  test("a pool is called by its label and shows its holders' names, never its id", async (t) => {
    const server = await Server.start(suite, "--memory");
    await server.call("PUT", POOL, { count: 2, label: "Licence seats" });
    await server.call("POST", `${POOL}/borrow`, { ttl: 60, holder: "build 17", metadata: { url: "https://ci.example/17" } });
    await server.call("POST", `${POOL}/borrow`, { ttl: 60, holder: "build 18" });
    void server.call("POST", `${POOL}/borrow`, { ttl: 60, wait: 60, holder: "build 19" }).catch(() => {});
    const page = await openPage(t, browser, server);
    await isLive(page);
    await row(page, "Licence seats").getByRole("link").click();
    for (const name of ["build 17", "build 18", "build 19"]) await page.locator(".detail").getByText(name).first().waitFor();
    // On the bars of the timeline as well.
    await page.locator(".p-timeline svg text", { hasText: "build 17" }).first().waitFor();
    await page.locator(".detail details summary", { hasText: "ci.example" }).first().click();
    await page.locator(".detail a[href='https://ci.example/17']").first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Note…" }).isVisible(), false, "its label is set by those who know its id");
    assert.ok(!(await page.content()).includes("9f1c2e7a"), "the id is a credential");
    await accessibility(page, "the detail of a named pool");
    if (process.env.LEASEHOLD_PICTURES) await page.screenshot({ path: path.join(process.env.LEASEHOLD_PICTURES, "pool.png") });
  });

  test("a team sees its own resources, and no curves of the whole service", async (t) => {
    const dir = await mkdtemp(path.join(tmpdir(), "leasehold-team-"));
    t.after(() => rm(dir, { recursive: true, force: true }));
    const member = (name, role) => {
      const { stdout, stderr } = spawnSync(BINARY, ["token", "new", "--name", name, "--role", role], { encoding: "utf8" });
      return { token: stdout.trim(), snippet: stderr };
    };
    const [root, wendy] = [member("root", "operators"), member("wendy", "web")];
    const policies = `
[[policy]]
groups = ["operators"]
actions = ["*"]

[[policy]]
groups = ["web"]
actions = ["observe"]
kinds = ["claim", "lock"]
resources = ["web/*"]
`;
    await writeFile(path.join(dir, "leasehold.toml"), `${root.snippet}\n${wendy.snippet}\n${policies}`);
    const server = await Server.start(suite, "--memory", "--config", path.join(dir, "leasehold.toml"));
    const claim = (resource) => fetch(`${server.url}/v1/claims/`, {
      method: "POST", body: JSON.stringify({ resource, timeout: 60 }), headers: { authorization: `Bearer ${root.token}` },
    });
    for (const resource of ["web/a", "db/a"]) assert.equal((await claim(resource)).status, 201);
    const page = await openPage(t, browser, server, { expected: [/40[13]/] });
    await page.locator("#token").fill(wendy.token);
    await page.getByRole("button", { name: "Sign on" }).click();
    await isLive(page);
    await row(page, "web/a").waitFor();
    assert.equal(await page.locator(".rows .row").count(), 1);
    for (const resource of ["db/b", "web/b"]) assert.equal((await claim(resource)).status, 201);
    await row(page, "web/b").waitFor();
    assert.equal(await page.locator(".rows .row").count(), 2, "nothing of others comes with the stream either");
    await eventually(async () => assert.equal(await page.locator("#charts").isVisible(), false));
    await row(page, "web/a").getByRole("link").click();
    await page.locator(".detail-head h2", { hasText: "web/a" }).waitFor();
  });
});
