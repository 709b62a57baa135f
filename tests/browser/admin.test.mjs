// The dashboard at an address of its own (`--admin-listen`): everything on it works there, and what it tells people to type goes to
// the address that callers use.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { Cleanup, isLive, openPage, row, Server, startBrowser } from "./support.mjs";

describe("a dashboard at an address of its own", () => {
  let browser;
  let server;
  let dashboard;

  const t = new Cleanup();
  after(() => t.run());
  before(async () => {
    browser = await startBrowser(t);
    server = await Server.start(t, "--memory", "--admin-listen", "127.0.0.1:0");
    dashboard = { url: server.adminUrl };
    assert.notEqual(dashboard.url, server.url);
  });

  test("teaches lines that work, at the callers' address", async (t) => {
    const page = await openPage(t, browser, dashboard);
    await isLive(page);
    await page.locator(".empty code", { hasText: server.url }).first().waitFor();
    const lines = await page.locator(".empty code").allTextContents();
    assert.equal(lines.length, 3);
    for (const line of lines) await promisify(execFile)("sh", ["-c", `${line} -sS --fail-with-body`]);
    await row(page, "gpu-7").waitFor();
    await row(page, "default").getByText("laptop1").waitFor();
  });

  test("releases, takes out and revokes", async (t) => {
    for (const owner of ["anna", "bob", "carol"]) await server.claim("press", owner);
    await server.lock("night", "cron");
    const page = await openPage(t, browser, dashboard, { expected: [/status of 404/] });
    await row(page, "press").getByText("anna").waitFor();
    await row(page, "press").getByRole("link").click();
    const confirm = async (name) => {
      await page.getByRole("button", { name }).click();
      await page.locator("#act-confirm").click();
      await page.locator("#act-dialog").waitFor({ state: "hidden" });
    };
    await confirm("Take out carol");
    await confirm("Release for anna");
    await page.locator(".holders").getByText("bob", { exact: true }).waitFor();
    await confirm("Revoke bob’s hold");
    await page.getByText("None. The next to ask gets it.").waitFor();
    await page.getByText("anna gave it back after", { exact: false }).waitFor();
    const claims = await server.call("GET", "/v1/claims/?resource=press");
    assert.deepEqual(claims.map(({ status }) => status), ["released", "revoked", "withdrawn"]);

    await page.goto(`${dashboard.url}/#/r/lock%3Anight`);
    await confirm("Release for cron");
    assert.equal((await server.call("GET", "/lock?job=night")).holder, "");
  });

  test("takes a caller that waits for a lock out, and no other", async (t) => {
    await server.lock("dawn", "cron");
    const wait = (client) => fetch(`${server.url}/lock?${new URLSearchParams({ job: "dawn", client, ttl: "60s", wait: "60" })}`, { method: "POST" });
    const page = await openPage(t, browser, dashboard);
    await page.goto(`${dashboard.url}/#/r/lock%3Adawn`);
    const answers = [];
    for (const client of ["first", "second"]) {
      answers.push(wait(client));
      await page.getByRole("button", { name: `Take out ${client}` }).waitFor();
    }
    await page.getByRole("button", { name: "Take out first" }).click();
    await page.locator("#act-confirm").click();
    await page.locator("#act-dialog").waitFor({ state: "hidden" });
    const refused = await answers[0];
    assert.equal(refused.status, 409, await refused.text());
    await page.getByRole("button", { name: "Take out first" }).waitFor({ state: "detached" });
    await server.call("DELETE", "/lock?job=dawn&client=cron");
    const granted = await answers[1];
    assert.equal(granted.status, 200, await granted.text());
  });
});
