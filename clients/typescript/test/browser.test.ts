// The page's build in a real browser: Chromium takes, renews and loses leases of the real service behind one origin, and a page that goes
// gives back what it held.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { type Browser, chromium, type Page } from "playwright-core";
import { eventually, PACKAGE, Relay, Server } from "./support.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

describe("in a browser", () => {
  let server: Server;
  let relay: Relay;
  let browser: Browser;
  const undo: (() => unknown)[] = [];
  const suite = { after: (each: () => unknown) => void undo.unshift(each) };
  before(async () => {
    server = await Server.start(suite, "--memory", "--grace", "1ms");
    relay = await Relay.start(suite, () => server.url);
    relay.files = async (where) => {
      if (where === "/page") return { type: "text/html", body: "<!doctype html><title>page</title>" };
      if (/^\/dist\/[a-z]+\.js$/.test(where)) return { type: "text/javascript", body: await readFile(path.join(PACKAGE, where), "utf8") };
      return undefined;
    };
    browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    suite.after(() => browser.close());
  });
  after(async () => {
    for (const each of undo) await each();
  });

  async function open(): Promise<Page> {
    const page = await browser.newPage();
    await page.goto(`${relay.url}/page`);
    await page.evaluate(`import("/dist/browser.js").then((module) => { globalThis.leasehold = module; globalThis.client = new module.Client(); })`);
    return page;
  }

  test("a lease is taken, renewed and given back", async () => {
    const page = await open();
    const id = await server.pool(1);
    const said = await page.evaluate(`(async () => {
      const defaults = await client.lock("page").run((lease) => lease.ttl);
      const lease = await client.pool(${JSON.stringify(id)}).borrow({ ttl: 1.5 });
      const token = lease.token;
      await new Promise((resolve) => setTimeout(resolve, 3000));
      const same = lease.token === token;
      const refused = await client.pool(${JSON.stringify(id)}).tryAcquire();
      return [defaults, same, lease.slot, refused === undefined, await lease.release()];
    })()`);
    assert.deepEqual(said, [300, true, 0, true, "released"]);
    await page.close();
  });

  test("renewals get through beside as many waiters as there are connections", async () => {
    const page = await open();
    const ids = await Promise.all(Array.from({ length: 8 }, () => server.pool(0)));
    const held = await page.evaluate(`(async () => {
      const lease = await client.claim("kept").acquire({ ttl: 2 });
      const control = new AbortController();
      const waiters = ${JSON.stringify(ids)}.map((id) => client.pool(id).borrow({ signal: control.signal }).catch(() => "cancelled"));
      await new Promise((resolve) => setTimeout(resolve, 5000));
      const held = lease.held;
      control.abort();
      return [held, new Set(await Promise.all(waiters)).size, await lease.release()];
    })()`);
    assert.deepEqual(held, [true, 1, "released"]);
    await page.close();
  });

  test("a page that goes gives back what it held", async () => {
    const page = await open();
    await page.evaluate(`client.lock("gone").acquire().then((lease) => { globalThis.lease = lease; })`);
    assert.notEqual((await server.call("GET", "/lock?job=gone")).body["holder"], "");
    await page.goto("about:blank");
    await eventually(async () => assert.equal((await server.call("GET", "/lock?job=gone")).body["holder"], ""));
    await page.close();
  });

  test("a wall clock that is set forward loses a lease early, one set back changes nothing", async () => {
    const page = await open();
    const said = await page.evaluate(`(async () => {
      const real = Date.now.bind(Date);
      const lease = await client.lock("clock").acquire();
      Date.now = () => real() - 3600_000;
      const back = lease.held;
      Date.now = () => real() + 3600_000;
      return [back, lease.held, (await lease.lost).cause];
    })()`);
    assert.deepEqual(said, [true, false, "deadline"]);
    await page.close();
  });
});
