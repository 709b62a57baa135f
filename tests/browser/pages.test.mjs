// Web pages of other sites, in the user's own browser: they change nothing and read nothing, also under a name that was made to
// point at this machine, unless their origin is allowed.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { Cleanup, Server } from "./support.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--host-resolver-rules=MAP rebound.example 127.0.0.1"];

/** Another site on this machine: any page of it is empty. */
async function startSite(t) {
  const site = createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>other</title>"));
  await new Promise((resolve) => { site.listen(0, "127.0.0.1", resolve); });
  t.after(() => new Promise((resolve) => { site.close(resolve); site.closeAllConnections(); }));
  return `http://127.0.0.1:${site.address().port}`;
}

describe("pages of other sites", () => {
  let context;
  let origin;
  let closed;
  let open;

  const t = new Cleanup();
  after(() => t.run());
  before(async () => {
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    t.after(() => browser.close());
    context = await browser.newContext();
    origin = await startSite(t);
    closed = await Server.start(t, "--memory");
    open = await Server.start(t, "--memory", "--allow-origin", origin);
  });

  /** The answer to a script on a page of `at` that calls `url`. */
  async function fetched(at, url, options) {
    const page = await context.newPage();
    try {
      await page.goto(at);
      return await page.evaluate(async ([url, options]) => {
        try {
          const response = await fetch(url, options);
          return {
            type: response.type,
            status: response.status,
            body: await response.text(),
            headers: Object.fromEntries(response.headers),
          };
        } catch (error) {
          return { failed: String(error) };
        }
      }, [url, options]);
    } finally {
      await page.close();
    }
  }

  test("a change that a page sends blindly does not happen", async () => {
    const held = await closed.call("POST", "/v1/claims/", { resource: "held", timeout: 600 });
    const revoke = JSON.stringify({ key: "claim:held", token: held.token });
    for (const [method, target, body] of [
      ["POST", "/lock?client=evil&ttl=24h", undefined],
      ["POST", "/v1/claims/", JSON.stringify({ resource: "taken", timeout: 86_400 })],
      ["POST", "/v1/admin/revoke", revoke],
    ]) {
      await fetched(origin, closed.url + target, { method, body, mode: "no-cors" });
    }
    assert.equal((await closed.call("GET", "/lock")).holder, "");
    const claims = await closed.call("GET", "/v1/claims/");
    assert.deepEqual(claims.map(({ resource, status }) => [resource, status]), [["held", "active"]]);
  });

  // A form may be sent by any page, with the user's cookies, and no preflight asks first. It goes into a frame: closing a page that
  // is about to be replaced by the answer hangs in some builds of Chromium.
  for (const enctype of ["application/x-www-form-urlencoded", "text/plain"]) {
    test(`a form that a page sends as ${enctype} changes nothing`, { timeout: 60_000 }, async () => {
      const page = await context.newPage();
      try {
        await page.goto(origin, { timeout: 20_000 });
        const answered = page.waitForResponse((response) => response.url().startsWith(closed.url), { timeout: 20_000 });
        await page.evaluate(([url, enctype]) => {
          const frame = document.createElement("iframe");
          frame.name = "answer";
          const form = document.createElement("form");
          Object.assign(form, { method: "POST", action: `${url}/lock?client=form&ttl=24h`, target: "answer", enctype });
          const field = document.createElement("input");
          Object.assign(field, { name: "client", value: "form" });
          form.append(field);
          document.body.append(frame, form);
          form.submit();
        }, [closed.url, enctype]);
        const response = await answered;
        assert.deepEqual([response.request().method(), response.status()], ["POST", 403]);
      } finally {
        await page.close();
      }
      assert.equal((await closed.call("GET", "/lock")).holder, "");
    });
  }

  test("a page reads nothing", async () => {
    assert.match((await fetched(origin, `${closed.url}/v1/claims/`, {})).failed, /Failed to fetch/);
    const page = await context.newPage();
    await page.goto(origin);
    const outcome = await page.evaluate((url) => new Promise((resolve) => {
      const script = document.createElement("script");
      Object.assign(script, { src: `${url}/v1/claims/`, onload: () => resolve("loaded"), onerror: () => resolve("refused") });
      document.head.append(script);
    }), closed.url);
    assert.equal(outcome, "refused", "nothing of ours is part of another site's page");
    await page.close();
  });

  test("a name that was made to point here reads nothing", async () => {
    const { port } = new URL(closed.url);
    const page = await context.newPage();
    const response = await page.goto(`http://rebound.example:${port}/v1/claims/`);
    assert.equal(response.status(), 421);
    const told = await page.evaluate(async () => {
      const response = await fetch("/lock?client=rebound&ttl=24h", { method: "POST" });
      return [response.status, (await response.json()).code];
    });
    assert.deepEqual(told, [421, "wrong_host"]);
    await page.close();
    assert.equal((await closed.call("GET", "/lock")).holder, "");
  });

  test("our own pages go on calling", async () => {
    const taken = await fetched(`${closed.url}/docs`, `${closed.url}/lock?job=own&client=own&ttl=1m`, { method: "POST" });
    assert.equal(taken.status, 200);
  });

  test("an allowed origin calls and sees what it needs", async () => {
    const taken = await fetched(origin, `${open.url}/v1/claims/`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": "k1", prefer: "wait=1" },
      body: JSON.stringify({ resource: "r", timeout: 60 }),
    });
    assert.equal(taken.status, 201, JSON.stringify(taken));
    for (const name of ["leasehold-position", "leasehold-service", "location", "x-request-id"]) assert.ok(taken.headers[name], name);
    const { id } = JSON.parse(taken.body);
    const released = await fetched(origin, `${open.url}/v1/claims/${id}/`, { method: "PATCH", body: JSON.stringify({ status: "released" }) });
    assert.equal(released.status, 204);
    await open.lock("deploy", "holder");
    const refused = await fetched(origin, `${open.url}/lock?job=deploy&client=other`, { method: "POST" });
    assert.equal(refused.status, 409);
    assert.ok(refused.headers["retry-after"]);
    const elsewhere = await startSite(t);
    assert.match((await fetched(elsewhere, `${open.url}/v1/claims/`, {})).failed, /Failed to fetch/);
  });
});
