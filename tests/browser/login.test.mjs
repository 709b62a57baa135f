// The dashboard's own login, with a real OpenID provider (tests/oidc): who is sent there, who comes back, and what a page of
// another user can do with the cookie.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Server, eventually, startBrowser } from "./support.mjs";

const OIDC = fileURLToPath(new URL("../oidc", import.meta.url));

/** A port that was free a moment ago. */
async function freePort() {
  const server = http.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => { server.once("listening", resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return port;
}

async function startProvider(t, redirect) {
  const child = spawn("node", ["provider.mjs"], { cwd: OIDC, env: { ...process.env, REDIRECT_URIS: redirect }, stdio: ["ignore", "pipe", "ignore"] });
  t.after(() => child.kill());
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the provider ended with ${code}; scripts/oidc.sh installs what it needs`)));
    child.stdout.on("data", (piece) => {
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(String(piece));
      if (found) resolve(found[0]);
    });
  });
}

/** A server whose dashboard has a login, and where only operators may look. */
async function start(t) {
  const port = await freePort();
  const issuer = await startProvider(t, `http://127.0.0.1:${port}/callback`);
  const dir = await mkdtemp(path.join(tmpdir(), "leasehold-login-"));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const config = path.join(dir, "leasehold.toml");
  await writeFile(config, `
[auth.oidc]
issuer = "${issuer}"
audience = "leasehold"
client_id = "dashboard"
client_secret = "secret of the dashboard"

[[policy]]
groups = ["operators"]
actions = ["*"]
`);
  return Server.start(t, "--memory", "--config", config, "--listen", `127.0.0.1:${port}`);
}

/** Fills in the provider's forms. */
async function logIn(page, name) {
  await page.fill("input[name=login]", name);
  await page.fill("input[name=password]", "whatever");
  await page.click("button[type=submit]");
  await page.waitForSelector("text=Continue");
  await page.click("button[type=submit]");
}

test("an operator logs in, acts, and logs out; a stranger gets nowhere", async (t) => {
  const server = await start(t);
  const browser = await startBrowser(t);
  const context = await browser.newContext();
  const page = await context.newPage();
  // An anonymous user is sent to the provider, and back to the dashboard afterwards.
  await page.goto(`${server.url}/`);
  assert.notEqual(new URL(page.url()).origin, server.url, "sent to log in");
  await logIn(page, "olga");
  await page.waitForURL(`${server.url}/`);
  assert.match(await page.title(), /leasehold/i);
  const whoami = await page.evaluate(async () => (await fetch("/v1/whoami")).json());
  assert.deepEqual([whoami.name, whoami.source, whoami.groups, whoami.login], ["olga", "session", ["operators"], true]);

  const cookies = await context.cookies(server.url);
  const session = cookies.find((cookie) => cookie.name === "leasehold-session");
  assert.ok(session.httpOnly && session.sameSite === "Lax");
  assert.ok(!cookies.some((cookie) => cookie.name === "leasehold-login"), "the flow's cookie is gone");
  assert.equal(await page.evaluate(() => document.cookie), "", "no script sees it");

  // A page of ours may change things with it.
  const put = await page.evaluate(async () => (await fetch("/v1/resources/x", { method: "PUT", body: '{"capacity": 2}' })).status);
  assert.equal(put, 200);
  // Whatever else has the cookie may not.
  const ask = (headers) => fetch(`${server.url}/v1/resources/x`, { method: "PUT", body: '{"capacity": 3}', headers: { cookie: `leasehold-session=${session.value}`, ...headers } });
  assert.equal((await ask({})).status, 403);
  assert.equal((await ask({ origin: "http://evil.example" })).status, 403);
  assert.equal((await ask({ origin: server.url })).status, 200);
  // A session that was tampered with has no name.
  const changed = session.value.slice(0, 50) + (session.value[50] === "A" ? "B" : "A") + session.value.slice(51);
  assert.equal((await fetch(`${server.url}/v1/claims/`, { headers: { cookie: `leasehold-session=${changed}` } })).status, 401);

  const out = await page.evaluate(async () => (await fetch("/logout", { method: "POST" })).json());
  assert.deepEqual(out, { signed_out: true });
  await eventually(async () => assert.ok(!(await context.cookies(server.url)).some((cookie) => cookie.name.startsWith("leasehold"))));

  // A user whom no policy knows is logged in, and then told what is missing.
  const other = await (await browser.newContext()).newPage();
  await other.goto(`${server.url}/`);
  await logIn(other, "mallory");
  await other.waitForURL(`${server.url}/`);
  await other.getByText("You need the action 'observe' on the service.").waitFor();
  assert.deepEqual(await other.evaluate(() => ["name", "groups", "missing"].map((id) => document.getElementById(id).textContent)), ["mallory", "none", "observe"]);
});

test("a callback that belongs to no login of this browser is refused", async (t) => {
  const server = await start(t);
  const answer = await fetch(`${server.url}/callback?state=x&code=y`);
  assert.equal(answer.status, 400);
  assert.match((await answer.json()).error, /was not begun in this browser/);
  // No user is sent to another site afterwards.
  const login = await fetch(`${server.url}/login?return=//evil.example`, { redirect: "manual" });
  assert.equal(login.status, 303);
  assert.match(login.headers.get("location"), /code_challenge_method=S256/);
});
