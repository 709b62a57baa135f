// Between the client and the service: lost answers, busy services, strangers that answer, several addresses, sign-on.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { DifferentServices, Forbidden, type LogEvent, ProtocolError, TlsError, Unauthenticated, ServiceUnavailable, WrongHost } from "leasehold";
import { connect, eventually, nowhere, pause, Relay, type Seen, Server } from "./support.js";

const isAsking = ({ method, path }: Seen): boolean => (method === "POST" && /^\/(lock|v1\/claims\/$|l\/.*\/borrow$)/.test(path));

describe("transport", () => {
  let server: Server;
  const undo: (() => unknown)[] = [];
  before(async () => {
    server = await Server.start({ after: (each) => undo.push(each) }, "--memory", "--grace", "1ms");
  });
  after(async () => {
    for (const each of undo) await each();
  });

  for (const kind of ["lock", "claim", "pool"] as const) {
    test(`a lost answer to asking for a ${kind} is found again under the same name`, async (t) => {
      const relay = await Relay.start(t, () => server.url);
      const { client } = connect(t, relay.url);
      const id = kind === "pool" ? await server.pool(2) : "";
      const wanted = kind === "pool" ? client.pool(id) : client[kind](`lost-${kind}`);
      let lose = 3;
      relay.decide = (seen) => (isAsking(seen) && lose-- > 0 ? "lose" : "pass");
      const lease = await wanted.acquire();
      const asked = relay.seen.filter(isAsking);
      assert.equal(asked.length, 4);
      assert.ok(asked.every((each) => each.path === asked[0]?.path && each.body === asked[0]?.body && each.key === asked[0]?.key));
      if (kind === "pool") assert.equal((await client.pool(id).show()).inUse, 1);
      lose = 2;
      relay.decide = () => (lose-- > 0 ? "lose" : "pass");
      assert.equal(await lease.release(), "released");
      if (kind === "pool") assert.equal((await client.pool(id).show()).inUse, 0);
    });

    test(`a ${kind} whose poll is cut is granted once`, async (t) => {
      const relay = await Relay.start(t, () => server.url);
      const { client } = connect(t, relay.url);
      const id = kind === "pool" ? await server.pool(1) : "";
      const wanted = kind === "pool" ? client.pool(id) : client[kind](`cut-${kind}`);
      const holder = await wanted.acquire();
      const waiting = wanted.acquire({ ttl: 5 });
      await pause(500);
      relay.cut();
      await pause(500);
      await holder.release();
      const lease = await waiting;
      assert.ok(lease.held && lease.remaining > 4);
      await lease.release();
    });
  }

  test("a busy service is asked again when it says, with the same key", async (t) => {
    const relay = await Relay.start(t, () => server.url);
    const { client } = connect(t, relay.url);
    let busy = 1;
    relay.decide = () => (busy-- > 0 ? { status: 503, headers: { "retry-after": "1", "leasehold-position": "1.1" }, body: '{"error":"busy"}' } : "pass");
    const began = performance.now();
    await client.claim("busy").acquire();
    const took = performance.now() - began;
    assert.ok(took > 1000 && took < 2500, `${took}`);
    const [first, second] = relay.seen.filter(isAsking);
    assert.equal(first?.key, second?.key);
  });

  test("strangers that answer change nothing", async (t) => {
    const relay = await Relay.start(t, () => server.url);
    const log: LogEvent[] = [];
    const { client } = connect(t, relay.url, { log: (event) => log.push(event) });
    const lease = await client.claim("portal").acquire({ ttl: 3 });
    const odd = [
      { status: 404, body: "<html>" }, { status: 200, body: "<html>log in</html>" }, { status: 409, body: '{"status":"revoked"}' },
      { status: 302, headers: { location: "http://127.0.0.1:9/" }, body: "" }, { status: 200, headers: { "leasehold-position": "1.9" }, body: '{"id":"another","status":"active","token":1,"ttl":99}' },
      { status: 200, headers: { "leasehold-position": "1.9" }, body: '{"id":' },
    ];
    let n = 0;
    relay.decide = () => odd[n++] ?? "pass";
    await eventually(() => assert.ok(n > odd.length && lease.held), 4000);
    await eventually(() => assert.ok(log.some(({ event }) => event === "renewed")));
    assert.ok(!log.some(({ event }) => event === "lost"));
  });

  test("a refusal fails with its name, the sentence of the service and the request's id", async (t) => {
    const relay = await Relay.start(t, () => server.url);
    const { client } = connect(t, relay.url);
    const refuse = (status: number): void => { relay.decide = () => ({ status, headers: { "leasehold-position": "1.1", "x-request-id": "r-7" }, body: '{"error":"no such luck"}' }); };
    for (const [status, sort] of [[400, ProtocolError], [422, ProtocolError], [401, Unauthenticated], [403, Forbidden]] as const) {
      refuse(status);
      await assert.rejects(client.claim("x").acquire(), (thrown: Error & { requestId?: string }) => thrown instanceof sort && thrown.requestId === "r-7" && /no such luck.*request r-7/.test(thrown.message));
    }
    refuse(421);
    await assert.rejects(client.claim("x").acquire(), WrongHost);
  });

  test("no server: asking once says so at once and names the address and the remedy", async (t) => {
    const url = await nowhere();
    const { client } = connect(t, url);
    const began = performance.now();
    await assert.rejects(client.lock("x").acquire({ wait: 0 }), (thrown: Error) => thrown instanceof ServiceUnavailable && thrown.message.startsWith(`${url} cannot be reached (ECONNREFUSED)`) && /leasehold serve/.test(thrown.message));
    assert.ok(performance.now() - began < 1000);
    await assert.rejects(client.lock("x").acquire({ wait: 0.3 }), ServiceUnavailable);
  });

  test("the second address serves where the first refuses, hangs or is the wrong one, renewals too", async (t) => {
    for (const how of ["refuses", "hangs", "421"]) {
      const bad = await Relay.start(t, () => server.url);
      bad.decide = () => (how === "hangs" ? "hang" : { status: 421, body: "" });
      const url = how === "refuses" ? await nowhere() : bad.url;
      const { client } = connect(t, [url, server.url]);
      const began = performance.now();
      const lease = await client.claim(`second-${how}`).acquire({ ttl: 3 });
      assert.ok(performance.now() - began < 3000, `${how}: ${performance.now() - began} ms`);
      await lease.release();
    }
    const dying = await Relay.start(t, () => server.url);
    const { client } = connect(t, `${dying.url}, ${server.url}`);
    const lease = await client.claim("second-renewal").acquire({ ttl: 2 });
    dying.decide = () => "hang";
    await pause(2500);
    assert.ok(lease.held);
  });

  test("two services are refused", async (t) => {
    const other = await Server.start(t, "--memory");
    if (!(await fetch(`${server.url}/healthz`)).headers.has("leasehold-service")) return t.skip("this server does not name itself yet");
    const { client } = connect(t, [server.url, other.url]);
    await assert.rejects(client.lock("x").acquire(), DifferentServices);
  });

  test("a wrong certificate fails as such and names the address", async (t) => {
    const dir = await mkdtemp(path.join(tmpdir(), "leasehold-ts-"));
    t.after(() => rm(dir, { recursive: true }));
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", `${dir}/key`, "-out", `${dir}/cert`, "-subj", "/CN=localhost", "-days", "1"], { stdio: "ignore" });
    const strange = createServer({ key: await readFile(`${dir}/key`), cert: await readFile(`${dir}/cert`) }, (_, outgoing) => outgoing.end());
    await new Promise<void>((resolve) => { strange.listen(0, "127.0.0.1", resolve); });
    t.after(() => { strange.closeAllConnections(); strange.close(); });
    const url = `https://127.0.0.1:${(strange.address() as AddressInfo).port}`;
    const { client } = connect(t, url);
    await assert.rejects(client.lock("x").acquire(), (thrown: Error) => thrown instanceof TlsError && thrown.message.includes(url));
  });

  test("an old epoch is not believed", async (t) => {
    const relay = await Relay.start(t, () => server.url);
    const { client } = connect(t, relay.url);
    const lease = await client.claim("epoch").acquire({ ttl: 2 });
    let old = 1;
    relay.decide = ({ method }) => (method === "PATCH" && old-- > 0 ? { status: 409, headers: { "leasehold-position": "0.5" }, body: '{"error":"ended","status":"expired"}' } : "pass");
    await pause(2500);
    assert.ok(lease.held && old < 0);
  });

  test("a sign-on token is read again when it is not accepted", async (t) => {
    const dir = await mkdtemp(path.join(tmpdir(), "leasehold-ts-"));
    t.after(() => rm(dir, { recursive: true }));
    const digest = (token: string): string => createHash("sha256").update(token).digest("hex");
    const tokens = ["lh_" + "a".repeat(64), "lh_" + "b".repeat(64)] as const;
    const config = path.join(dir, "config.toml");
    await writeFile(config, `[auth]\nbind_lock_client = true\n${tokens.slice(1).map((token) => `[[auth.token]]\nname = "ci"\ndigest = "sha256:${digest(token)}"\n`).join("")}[[policy]]\nsubjects = ["ci"]\nactions = ["*"]\n`);
    const signed = await Server.start(t, "--memory", "--config", config);
    const file = path.join(dir, "token");
    await writeFile(file, `${tokens[0]}\n`);
    const { client } = connect(t, signed.url, { token: () => readFile(file, "utf8") });
    await assert.rejects(client.claim("x").acquire(), Unauthenticated);
    await writeFile(file, `${tokens[1]}\n`);
    const lease = await client.lock("bound").acquire({ ttl: 1 });
    assert.match(lease.id, /^ci\/[0-9a-f]{32}$/, "the name that the service knows");
    await writeFile(file, "rotated away\n");
    await pause(1200);
    assert.ok(lease.held);
  });

  test("addresses that are none are refused without repeating credentials", async (t) => {
    for (const bad of ["", " , ", "127.0.0.1:8080", "ftp://x", "http://user:pass@x", "http://x/?a=1"]) {
      assert.throws(() => connect(t, bad), (thrown: Error) => thrown instanceof RangeError && /^url /.test(thrown.message) && !thrown.message.includes("pass@"), bad);
    }
  });
});
