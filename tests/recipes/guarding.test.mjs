// docs/guarding.md: its guards, against the real binary. A proof is let in; a flipped bit, another audience or resource, one that is over,
// and one with a lower token than was seen are refused, by PyJWT and by jose. Keys are rotated, and go with backups.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { BINARY, guarding, PYTHON, ROOT, run, Server, used, workplace } from "./support.mjs";

const AUD = "db.example.org";
let checks = 0;

const decode = (part) => JSON.parse(Buffer.from(part, "base64url"));
const claims = (proof) => decode(proof.split(".")[1]);
const header = (proof) => decode(proof.split(".")[0]);

/** The proof with one bit of one of its three parts flipped. */
function flipped(proof, nth) {
  const parts = proof.split(".");
  const bytes = Buffer.from(parts[nth], "base64url");
  bytes[Math.floor(bytes.length / 2)] ^= 4;
  parts[nth] = bytes.toString("base64url");
  return parts.join(".");
}

/** The guards of the page: each says `null` when it lets in, else why not. */
async function guards(t, url) {
  const dir = await workplace(t, ["guard.py", "guard.mjs"]);
  await mkdir(path.join(dir, "node_modules"));
  await symlink(path.join(ROOT, "tests/recipes/node_modules/jose"), path.join(dir, "node_modules/jose"));
  const env = { ...PYTHON.env, LEASEHOLD_URL: url };
  process.env.LEASEHOLD_URL = url;
  const { check } = await import(pathToFileURL(path.join(dir, "guard.mjs")));
  return {
    async python(proof) {
      checks += 1;
      const { code, out, err } = await run(dir, env, PYTHON.program, "guard.py", proof);
      if (code === 0) assert.match(out, /^let in: /);
      else assert.match(err, /^refused: /);
      return code === 0 ? null : err;
    },
    async jose(proof, resource = "lock:deploy") {
      checks += 1;
      return check(proof, resource).then(() => null, (thrown) => thrown.message);
    },
  };
}

async function proof(server, client = "anna", aud = AUD) {
  return (await server.call("GET", `/lock/proof?job=deploy&client=${client}&aud=${aud}`)).proof;
}

test("a guard lets the holder in, and no proof that was changed, is for another, is over or is of an earlier holder", async (t) => {
  const server = await Server.start(t, "--grace", "1ms");
  const { python, jose } = await guards(t, server.url);
  const { token } = await server.call("POST", "/lock?job=deploy&client=anna&ttl=1m");
  const dir = await workplace(t, ["prove.sh"]);
  const good = (await run(dir, { LEASEHOLD_URL: server.url }, "sh", "prove.sh", "anna")).out.trim();
  const said = claims(good);
  assert.deepEqual({ ...said, iss: "", iat: 0, exp: 0 }, { iss: "", sub: "anna", aud: AUD, res: "lock:deploy", slot: 0, tok: token, iat: 0, exp: 0 });
  assert.equal(header(good).typ, "lease+jwt");
  assert.ok(said.exp <= Date.now() / 1000 + 60 && said.exp > said.iat);
  assert.match(said.iss, /^urn:leasehold:[0-9a-f]{32}$/);
  for (const guard of [python, jose]) {
    assert.equal(await guard(good), null);
    assert.equal(await guard(good), null, "shown again, as a holder does");
    for (const part of [0, 1, 2]) assert.ok(await guard(flipped(good, part)), `a flipped bit in part ${part}`);
    assert.match(await guard(await proof(server, "anna", "other.example.org")), /aud/i);
  }
  assert.match(await jose(good, "lock:other"), /a proof of lock:deploy/);

  // A lease of a second: its proof is over with it.
  await server.call("POST", "/lock?job=deploy&client=anna&ttl=2s");
  const short = await proof(server);
  assert.ok(claims(short).exp <= Date.now() / 1000 + 2);
  await new Promise((resolve) => { setTimeout(resolve, claims(short).exp * 1000 - Date.now() + 50); });
  for (const guard of [python, jose]) assert.match(await guard(short), /exp/i);

  // A successor comes, and after it the earlier holder's proof is of no use, though it is not over.
  await server.call("POST", "/lock?job=deploy&client=anna&ttl=1m");
  const late = await proof(server);
  await server.call("DELETE", "/lock?job=deploy&client=anna");
  const next = await server.call("POST", "/lock?job=deploy&client=bert&ttl=1m");
  for (const guard of [python, jose]) assert.equal(await guard(late), null, "what a proof cannot know");
  const later = await proof(server, "bert");
  assert.equal(claims(later).tok, next.token);
  for (const guard of [python, jose]) {
    assert.equal(await guard(later), null);
    assert.match(await guard(late), /later holder/);
  }
});

test("claims and leases are proved without a secret, and the fence knows what a proof cannot", async (t) => {
  const server = await Server.start(t);
  const pool = await server.pool(3);
  await server.call("POST", `/l/${pool}/borrow`, { ttl: 60 });
  const { lease, token } = await server.call("POST", `/l/${pool}/borrow`, { ttl: 60 });
  const claim = await server.call("POST", "/v1/claims/", { resource: "db", timeout: 3600 });
  const dir = await workplace(t, ["prove-others.sh", "fence.sh"]);
  const env = { LEASEHOLD_URL: server.url, CLAIM: claim.id, POOL: pool, LEASE: lease };
  const [ofClaim, ofLease] = (await run(dir, env, "sh", "-e", "prove-others.sh")).out.trim().split("\n");
  const { iat, exp, ...said } = claims(ofClaim);
  assert.deepEqual(said, { iss: said.iss, sub: `claim:${claim.id}`, aud: AUD, res: "claim:db", slot: 0, tok: claim.token });
  assert.ok(exp - iat <= 300 && exp - iat >= 299, "five minutes at the most");
  const { key } = await server.call("POST", "/v1/observe/pool", { id: pool });
  assert.deepEqual([claims(ofLease).res, claims(ofLease).slot, claims(ofLease).tok], [key, 1, token]);
  const whole = JSON.stringify([header(ofLease), claims(ofLease)]);
  for (const secret of [pool, lease]) assert.ok(!whole.includes(secret) && !whole.includes(secret.replaceAll("-", "")));
  assert.match(claims(ofLease).sub, /^lease:[0-9a-f]{32}$/);

  const held = await server.call("POST", "/lock?job=deploy&client=anna&ttl=1m");
  const fence = async () => (await run(dir, env, "sh", "fence.sh", String(held.token))).code;
  assert.equal(await fence(), 0);
  await server.call("DELETE", "/lock?job=deploy&client=anna");
  assert.equal(await fence(), 1);
});

/** A server on a data directory. */
function on(t, data) {
  return Server.of(t, spawn(BINARY, ["serve", "--data", data, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] }));
}

test("a rotation leaves old proofs good, and the key goes with restarts, backups and restores", async (t) => {
  const dir = await workplace(t, ["rotate.sh"]);
  const data = path.join(dir, "data");
  let server = await on(t, data);
  const { python, jose } = await guards(t, server.url);
  const keys = async () => (await server.call("GET", "/.well-known/leasehold/jwks.json")).keys.map(({ kid }) => kid);
  await server.call("POST", "/lock?job=deploy&client=anna&ttl=5m");
  const before = await proof(server);
  assert.deepEqual(await keys(), [header(before).kid]);
  const env = { LEASEHOLD_URL: server.url, PATH: `${path.dirname(BINARY)}:${process.env.PATH}` };
  const { code, out, err } = await run(dir, env, "sh", "rotate.sh");
  assert.equal(code, 0, err);
  const after = await proof(server);
  assert.ok(out.includes(header(after).kid));
  assert.notEqual(header(after).kid, header(before).kid);
  assert.deepEqual(await keys(), [header(after).kid, header(before).kid]);
  for (const guard of [python, jose]) {
    assert.equal(await guard(before), null);
    assert.equal(await guard(after), null);
  }
  const backup = path.join(dir, "copy.db");
  const tool = (...args) => run(dir, {}, BINARY, ...args);
  assert.equal((await tool("backup", "--data", data, "--to", backup)).code, 0);
  const known = await keys();
  await server.stop();
  server = await on(t, data);
  assert.deepEqual(await keys(), known, "the same after a restart");
  const restored = path.join(dir, "restored");
  const { code: outcome, err: why } = await tool("restore", "--from", backup, "--data", restored);
  assert.equal(outcome, 0, why);
  server = await on(t, restored);
  assert.deepEqual(await keys(), known, "the same in a copy");
  const again = await proof(server);
  assert.equal(header(again).kid, header(after).kid);
});

test("every block of the page was run", () => {
  assert.deepEqual([...guarding.keys()].filter((name) => !used.has(name)), []);
  console.log(`guarding: ${guarding.size} blocks run as they stand, ${checks} proofs shown to guards with PyJWT and jose`);
});
