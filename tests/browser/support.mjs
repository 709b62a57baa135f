// The tools of every browser test: the real binary on a free port with a directory of its own, Debian's Chromium, and pages that
// fail the test when they log an error or call any other server than their own.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { freePort } from "./etcd.mjs";

export { Etcd, eventually } from "./etcd.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const BINARY = process.env.LEASEHOLD_BINARY ?? path.join(ROOT, "target/debug/leasehold");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const AXE = readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const START_MS = 20_000;
const DEADLINE_MS = 10_000;

/** The clean-up when a suite is over, last thing first. Tests have `t.after` for the same. */
export class Cleanup {
  #undo = [];

  after(undo) {
    this.#undo.unshift(undo);
  }

  /** All of it, also when some of it fails: a server that stays behind would keep the run from ending. */
  async run() {
    const failed = [];
    for (const undo of this.#undo) await Promise.resolve().then(undo).catch((error) => failed.push(error));
    if (failed.length > 0) throw failed[0];
  }
}

/** A server of our own; it ends with the test that started it. */
export class Server {
  #args;
  #child = null;
  #dir;
  url = null;
  adminUrl = null; // where operators have an address of their own

  static async start(t, ...args) {
    const server = new Server();
    server.#dir = await mkdtemp(path.join(tmpdir(), "leasehold-browser-"));
    server.#args = args;
    t.after(() => server.#end());
    await server.#spawn("127.0.0.1:0");
    return server;
  }

  /** Stops it the hard way, as a power cut would. */
  async kill() {
    const gone = new Promise((resolve) => { this.#child.once("exit", resolve); });
    this.#child.kill("SIGKILL");
    await gone;
    this.#child = null;
  }

  /** Starts it again at the same address, with the same data. */
  restart() {
    return this.#spawn(new URL(this.url).host);
  }

  /** Has it read its settings again, and waits until it has. */
  async reload() {
    const said = new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("it was not reloaded")), START_MS);
      this.#child.stderr.on("data", (piece) => {
        if (!String(piece).includes("were reloaded")) return;
        clearTimeout(late);
        resolve();
      });
    });
    this.#child.kill("SIGHUP");
    await said;
  }

  async #spawn(listen) {
    const keepsNothing = this.#args.includes("--memory") || this.#args.includes("--store"); // on a disk of its own
    const data = keepsNothing ? [] : ["--data", path.join(this.#dir, "data")];
    const address = this.#args.includes("--listen") ? [] : ["--listen", listen];
    this.#child = spawn(BINARY, ["serve", ...address, ...data, ...this.#args], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    this.url = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the server did not start: ${said}`)), START_MS);
      this.#child.once("error", reject);
      this.#child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
      this.#child.stderr.on("data", (piece) => {
        said += piece;
        const plain = said.replaceAll(/\x1b\[[0-9;]*m/g, "");
        const found = /listening on (http:\/\/[^\s,]+)/.exec(plain);
        if (!found) return;
        clearTimeout(late);
        this.adminUrl = /admin actions are served on (http:\/\/\S+)/.exec(plain)?.[1] ?? null;
        said = "";
        resolve(found[1]);
      });
    });
  }

  async #end() {
    if (this.#child) await this.kill();
    await rm(this.#dir, { recursive: true, force: true });
  }

  /** One call of the API; the answer's body, after its status was checked. */
  async call(method, target, body, status = null) {
    const response = await fetch(this.url + target, { method, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    assert.ok(status === null ? response.ok : response.status === status, `${method} ${target} answered ${response.status}: ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  lock(job, client, ttl = "60s", more = "") {
    return this.call("POST", `/lock?job=${encodeURIComponent(job)}&client=${encodeURIComponent(client)}&ttl=${ttl}${more}`);
  }

  claim(resource, owner, timeout = 120) {
    return this.call("POST", "/v1/claims/", { resource, timeout, metadata: { owner } });
  }

  finish(id, status) {
    return this.call("PATCH", `/v1/claims/${id}/`, { status });
  }
}

/** A node of a cluster, and the address that other nodes reach it at. */
export async function startNode(t, etcd, ...more) {
  const address = `127.0.0.1:${await freePort()}`;
  const server = await Server.start(t, "--store", etcd.store, "--peer-listen", address, ...more);
  return { server, address };
}

export async function startBrowser(t) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  t.after(() => browser.close());
  return browser;
}

/**
 * A page at `server`. What it must never do is checked when the test ends: log an error (but for those in `expected`), or ask
 * another host.
 */
export async function openPage(t, browser, server, { hash = "", expected = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  // For work on the page: its files from the source tree instead of the binary, so that a change needs no build.
  if (process.env.LEASEHOLD_ASSETS) await context.route(({ pathname }) => pathname === "/" || pathname.startsWith("/assets/"), fromSource);
  context.setDefaultTimeout(DEADLINE_MS);
  const page = await context.newPage();
  const errors = [];
  page.requests = [];
  page.on("console", (message) => { if (message.type() === "error" && !expected.some((each) => each.test(message.text()))) errors.push(message.text()); });
  page.on("pageerror", (error) => errors.push(String(error)));
  context.on("request", (request) => page.requests.push(request.url()));
  t.after(async () => {
    await context.close();
    assert.deepEqual(errors, [], "the console stays clean");
    assert.deepEqual(page.requests.filter((url) => new URL(url).origin !== new URL(server.url).origin), [], "no other server is called");
  });
  await page.goto(`${server.url}/${hash}`);
  return page;
}

async function fromSource(route) {
  const name = new URL(route.request().url()).pathname.replace(/^\/(assets\/)?/, "") || "index.html";
  const response = await route.fetch({ url: new URL("/", route.request().url()).href }); // for its headers: the policy is in force
  if (!response.ok()) return route.continue(); // a user who is not let in gets another page
  const contentType = { html: "text/html", css: "text/css", js: "text/javascript", svg: "image/svg+xml" }[name.split(".").pop()];
  await route.fulfill({ response, contentType, body: await readFile(path.join(ROOT, "crates/server/src/faces/dashboard/assets", name)) });
}

export const isLive = (page) => page.locator("#live[data-state=live]").waitFor();

/** The row of the overview with this name. */
export const row = (page, name) => page.locator(".rows .row").filter({ has: page.getByRole("link", { name, exact: true }) });

/** Serious and critical findings of axe, each with where it is. */
export async function accessibility(page, what) {
  await page.evaluate(await AXE);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
  });
  assert.deepEqual(found, [], `axe finds nothing serious: ${what}`);
}

/** No part of the page is wider than the window. */
export async function fitsWidth(page) {
  const wide = await page.evaluate(() => {
    const out = [...document.querySelectorAll(".overview, .detail, .top, .banner, body")].filter((each) => each.scrollWidth > each.clientWidth + 1);
    return out.map((each) => `${each.className || each.tagName}: ${each.scrollWidth} > ${each.clientWidth}`);
  });
  assert.deepEqual(wide, [], "nothing scrolls sideways");
}
