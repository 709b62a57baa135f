// A browser at a server with API tokens: a page to sign on with one, a session that ends with its token, and a page for a person
// who lacks a right. Programs get JSON as ever.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { accessibility, BINARY, fitsWidth, isLive, openPage, Server, startBrowser } from "./support.mjs";

function makeToken(name, role) {
  const { stdout, stderr } = spawnSync(BINARY, ["token", "new", "--name", name, "--role", role], { encoding: "utf8" });
  return { token: stdout.trim(), lines: stderr };
}

const olga = makeToken("olga", "operators");
const mallory = makeToken("mal<b>lory", "interns");
const POLICY = '[[policy]]\ngroups = ["operators"]\nactions = ["*"]\n[[policy]]\ngroups = ["interns"]\nactions = ["inspect"]\n';
const REFUSED = [/40[13]/, /Failed to load/];

async function start(t, ...args) {
  const dir = await mkdtemp(path.join(tmpdir(), "leasehold-sign-on-"));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const config = path.join(dir, "leasehold.toml");
  await writeFile(config, olga.lines + mallory.lines + POLICY);
  const server = await Server.start(t, "--memory", "--config", config, ...args);
  return { server, config };
}

async function signOn(page, { token }) {
  await page.locator("#token").fill(token);
  await page.getByRole("button", { name: "Sign on" }).click();
}

test("a person signs on with a token, acts, and logs out everywhere", async (t) => {
  const { server } = await start(t);
  const browser = await startBrowser(t);
  // Where they wanted to go is where they come to.
  const page = await openPage(t, browser, server, { hash: "#/r/lock%3Adeploy", expected: REFUSED });
  await page.getByRole("heading", { name: "Sign on" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), "token");
  await accessibility(page, "signing on");
  await signOn(page, { token: "lh_wrong" });
  await page.getByText("The API token is unknown or was revoked.").waitFor();
  await signOn(page, { token: "a JWT, say" });
  await page.getByText("Only an API token begins a session: it begins with lh_.").waitFor();
  await signOn(page, olga);
  await isLive(page);
  assert.equal(await page.textContent("#who-name"), "olga");
  assert.match(page.url(), /#\/r\/lock%3Adeploy$/);
  assert.ok(!page.requests.some((url) => url.includes("lh_")), "the token is in no address");
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)), "{}{}", "no script keeps it");
  const cookies = await page.context().cookies();
  const session = cookies.find(({ name }) => name === "leasehold-session");
  assert.ok(session.httpOnly && session.sameSite === "Lax" && !session.value.includes(olga.token), JSON.stringify(cookies));

  // A page of ours may change things with it, any other client that has the cookie may not.
  const put = await page.evaluate(async () => (await fetch("/v1/resources/x", { method: "PUT", body: '{"capacity": 2}' })).status);
  assert.equal(put, 200);
  const ask = (headers) => fetch(`${server.url}/v1/resources/x`, { method: "PUT", body: '{"capacity": 3}', headers: { cookie: `leasehold-session=${session.value}`, ...headers } });
  assert.deepEqual([(await ask({})).status, (await ask({ origin: "http://evil.example" })).status, (await ask({ origin: server.url })).status], [403, 403, 200]);

  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("heading", { name: "Sign on" }).waitFor();
  const copied = await fetch(`${server.url}/v1/observe/resources`, { headers: { cookie: `leasehold-session=${session.value}` } });
  assert.equal(copied.status, 401, "a copy of the cookie is of no use after the logout");
});

test("no other site signs a browser on, and too many wrong tokens have to wait", async (t) => {
  const { server } = await start(t);
  const log = (headers, token) => fetch(`${server.url}/login`, { method: "POST", body: JSON.stringify({ token }), headers });
  for (const headers of [{}, { origin: "http://evil.example" }, { "sec-fetch-site": "cross-site", origin: server.url }, { "sec-fetch-site": "same-site" }]) {
    assert.equal((await log(headers, olga.token)).status, 403, JSON.stringify(headers));
  }
  const ours = { origin: server.url };
  assert.equal((await log(ours, olga.token)).status, 200);
  const statuses = [];
  for (let n = 0; n < 12; n += 1) statuses.push((await log(ours, "lh_wrong")).status);
  assert.deepEqual([statuses[0], statuses.at(-1)], [401, 429]);
  assert.equal((await log(ours, olga.token)).status, 200, "the right one is taken all the same");
});

test("a person without the right is told who they are, which groups arrived and what is missing", async (t) => {
  const { server, config } = await start(t);
  const browser = await startBrowser(t);
  const page = await openPage(t, browser, server, { expected: REFUSED, viewport: { width: 390, height: 780 } });
  await signOn(page, mallory);
  await page.getByRole("heading", { name: "You may not see this" }).waitFor();
  const facts = await page.evaluate(() => Object.fromEntries(["name", "source", "groups", "actions", "missing"].map((id) => [id, document.getElementById(id).textContent])));
  assert.deepEqual(facts, { name: "mal<b>lory", source: "a login with this browser", groups: "interns", actions: "inspect", missing: "observe" });
  assert.equal(await page.textContent("#reason"), "You need the action 'observe' on the service.");
  await accessibility(page, "no access");
  await fitsWidth(page);
  // An operator gives it to them: trying again is enough.
  await writeFile(config, (olga.lines + mallory.lines + POLICY).replace('"inspect"', '"observe"'));
  await server.reload();
  await page.getByRole("button", { name: "Try again" }).click();
  await isLive(page);
  // And takes the token away: the page says so, and asks for another.
  await writeFile(config, olga.lines + POLICY);
  await server.reload();
  await page.getByText(/Sign in needed to see this/).waitFor();
  await page.getByRole("link", { name: "Sign in" }).click();
  await page.locator("#token-form").waitFor();
});

test("programs get JSON, and browsers pages with the same status", async (t) => {
  const { server } = await start(t);
  const get = async (where, headers) => {
    const response = await fetch(server.url + where, { headers, redirect: "manual" });
    return [response.status, response.headers.get("content-type").split(";")[0], response.headers.get("www-authenticate") !== null];
  };
  const browser = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
  assert.deepEqual(await get("/", {}), [401, "application/json", true]);
  assert.deepEqual(await get("/", browser), [401, "text/html", true]);
  assert.deepEqual(await get("/v1/claims/", browser), [401, "text/html", true]);
  assert.deepEqual(await get("/v1/claims/", { ...browser, authorization: `Bearer ${olga.token}` }), [200, "application/json", false]);
  assert.deepEqual(await get("/metrics", { ...browser, authorization: `Bearer ${mallory.token}` }), [403, "text/html", true]);
  assert.deepEqual(await get("/nowhere", browser), [404, "application/json", false]);
  const page = await (await fetch(`${server.url}/metrics`, { headers: { ...browser, authorization: `Bearer ${mallory.token}` } })).text();
  assert.ok(page.includes("mal&lt;b&gt;lory needs") && !page.includes("mal<b>lory"), "a name is no markup");
});
