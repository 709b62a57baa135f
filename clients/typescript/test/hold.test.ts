// Holding something of the real service: taking, renewing, losing, giving back.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { inspect } from "node:util";
import { Conflict, type Lease, LeaseLost, type LogEvent, NotFound, Timeout } from "leasehold";
import { connect, eventually, pause, Relay, Server } from "./support.js";

describe("holding", () => {
  let server: Server;
  const undo: (() => unknown)[] = [];
  before(async () => {
    server = await Server.start({ after: (each) => undo.push(each) }, "--memory", "--grace", "1ms");
  });
  after(async () => {
    for (const each of undo) await each();
  });

  test("the name and the data of a slot travel with its lease", async (t) => {
    const { client } = connect(t, server.url, { name: "anna" });
    const id = await server.pool(1);
    const slots = { slots: [{ name: "bench-3", data: { port: 9 } }] };
    assert.equal((await server.call("PUT", `/l/${id}`, slots)).status, 200);
    assert.equal((await server.call("PUT", "/v1/resources/benches", slots)).status, 200);
    for (const asked of [client.pool(id).borrow(), client.claim("benches").acquire()]) {
      const lease = await asked;
      assert.equal(lease.slot, 0);
      assert.deepEqual(lease.namedSlot, { name: "bench-3", data: { port: 9 } });
      await lease.release();
    }
    const plain = await client.lock("without-slots").acquire();
    assert.equal(plain.namedSlot, undefined);
    await plain.release();
  });

  test("a lock, a claim and a slot are taken, told and given back", async (t) => {
    const { client } = connect(t, server.url, { name: "anna" });
    const id = await server.pool(2);

    const lock = await client.lock("backup").acquire();
    assert.ok(lock.held && lock.token >= 1 && lock.slot === undefined && lock.remaining > 29 && lock.remaining <= 29.4);
    const { body } = await server.call("GET", "/lock?job=backup");
    assert.match(body["holder"] as string, /^anna\/[0-9a-f]{32}$/);
    assert.equal(await client.lock("backup").tryAcquire(), undefined);
    assert.equal(await lock.release(), "released");
    assert.equal(await lock.release(), "released");
    assert.equal(lock.held, false);
    assert.throws(() => lock.token, (thrown) => thrown instanceof LeaseLost && thrown.loss.cause === "released");
    assert.equal((await server.call("GET", "/lock?job=backup")).body["holder"], "");

    const claim = await client.claim("genome-42").acquire({ wait: 0 });
    assert.ok(claim.token >= 1);
    await assert.rejects(client.claim("genome-42").acquire({ wait: 0 }), Conflict);
    assert.equal(await claim.release(), "released");
    await eventually(async () => assert.equal((await server.call("GET", "/v1/resources/genome-42")).status, 404));

    const first = await client.pool(id).borrow();
    const second = await client.pool(id).borrow();
    assert.deepEqual([first.slot, second.slot].sort(), [0, 1]);
    await assert.rejects(client.pool(id).borrow({ wait: 0 }), Conflict);
    assert.deepEqual(await client.pool(id).show(), { count: 2, inUse: 2, available: 0, waiting: 0 });
    await Promise.all([first.release(), second.release()]);
    assert.equal((await client.pool(id).show()).inUse, 0);
    assert.equal(await client.pool(id).delete(), true);
    await assert.rejects(client.pool(id).borrow(), NotFound);
  });

  test("a scope gives back, whatever its end", async (t) => {
    const { client } = connect(t, server.url);
    const id = await server.pool(1);
    {
      await using lease = await client.pool(id).borrow({ ttl: "60s", wait: "30s" });
      assert.equal(lease.slot, 0);
      assert.equal((await client.pool(id).show()).inUse, 1);
    }
    assert.equal((await client.pool(id).show()).inUse, 0);
    assert.equal(await client.pool(id).run(async (lease) => lease.token * 0 + 7), 7);
    const mine = new Error("mine");
    await assert.rejects(client.pool(id).run(() => { throw mine; }), (thrown) => thrown === mine && mine.cause === undefined);
    assert.equal((await client.pool(id).show()).inUse, 0);
  });

  test("it is renewed for longer than its ttl, with one token", async (t) => {
    const log: LogEvent[] = [];
    const { client } = connect(t, server.url, { log: (event) => log.push(event) });
    const id = await server.pool(1);
    const leases = [await client.lock("long").acquire({ ttl: 1 }), await client.claim("long").acquire({ ttl: 1 }), await client.pool(id).borrow({ ttl: 1 })];
    const tokens = leases.map((lease) => lease.token);
    await pause(2500);
    assert.deepEqual(leases.map((lease) => lease.token), tokens);
    assert.ok(log.filter(({ event }) => event === "renewed").length >= 15);
    assert.ok(log.every(({ event, position }) => event !== "renewed" || /^\d+\.\d+$/.test(position ?? "")));
    await client.close();
    assert.ok(leases.every((lease) => !lease.held));
    assert.equal((await server.call("GET", `/l/${id}`)).body["in_use"], 0);
  });

  test("waiters are granted in the order of asking, over several rounds", async (t) => {
    const { client } = connect(t, server.url, { round: 5 });
    const id = await server.pool(1);
    await Promise.all([client.lock("queue"), client.claim("queue"), client.pool(id)].map(async (wanted) => {
      const holder = await wanted.acquire({ ttl: 2 });
      const order: number[] = [];
      const lost: number[] = [];
      const waiters: Promise<void>[] = [];
      for (const n of [1, 2, 3]) {
        waiters.push(wanted.acquire({ ttl: 2, onProgress: ({ placeLost }) => lost.push(placeLost) }).then(async (lease) => {
          order.push(n);
          assert.ok(lease.remaining > 1);
          await lease.release();
        }));
        await pause(200);
      }
      await pause(11_000);
      assert.deepEqual(order, []);
      await holder.release();
      await Promise.all(waiters);
      assert.deepEqual(order, [1, 2, 3]);
      assert.ok(lost.length >= 3 && lost.every((each) => each === 0), "no place was lost");
    }));
  });

  for (const kind of ["lock", "claim", "pool"] as const) {
    test(`cancelling leaves nothing of a ${kind} behind`, async (t) => {
      const { client } = connect(t, server.url);
      const id = kind === "pool" ? await server.pool(1) : "";
      const wanted = kind === "pool" ? client.pool(id) : client[kind](`cancel-${kind}`);
      const holder = await wanted.acquire({ ttl: 30 });
      const control = new AbortController();
      const waiter = wanted.acquire({ signal: control.signal });
      const failed = assert.rejects(waiter, (thrown) => thrown === control.signal.reason);
      await pause(200);
      control.abort();
      await failed;
      await assert.rejects(wanted.acquire({ wait: 0.3 }), Timeout);
      const other = connect(t, server.url).client;
      const late = kind === "pool" ? other.pool(id) : other[kind](`cancel-${kind}`);
      const next = late.acquire({ ttl: 30 });
      await pause(1500);
      await holder.release();
      const lease = await next;
      assert.ok(lease.held);
      await lease.release();
      await eventually(async () => assert.ok(await late.tryAcquire().then(async (free) => (await free?.release()) === "released")));
    });
  }

  test("a signal that is aborted already sends nothing", async (t) => {
    const relay = await Relay.start(t, () => server.url);
    const { client } = connect(t, relay.url);
    for (const wanted of [client.lock("x"), client.claim("x"), client.pool(await server.pool(1))]) {
      await assert.rejects(wanted.acquire({ signal: AbortSignal.abort() }), { name: "AbortError" });
    }
    assert.deepEqual(relay.seen, []);
  });

  test("an unanswered renewal puts it at risk, then it is lost before the service ends it", async (t) => {
    const relay = await Relay.start(t, () => server.url);
    const { client } = connect(t, relay.url);
    const id = await server.pool(1);
    const heard: string[] = [];
    const lease: Lease = await client.pool(id).borrow({
      ttl: 3,
      onAtRisk: (_, { remaining, cause }) => { heard.push(`risk ${remaining > 0.8 && remaining <= 1} ${/did not answer/.test(cause)}`); },
      onLost: ({ cause }) => { heard.push(cause); },
    });
    const began = performance.now();
    relay.decide = ({ path }) => (path.endsWith("/renew") ? "hang" : "pass");
    const loss = await lease.lost;
    const took = performance.now() - began;
    assert.ok(took < 2940 && took > 2700, `lost after ${took} ms`);
    assert.equal(loss.cause, "deadline");
    assert.ok(lease.signal.aborted && lease.signal.reason instanceof LeaseLost);
    assert.throws(() => lease.check(), LeaseLost);
    await eventually(() => assert.deepEqual(heard, ["risk true true", "deadline"]));
    assert.equal(await lease.release(), "released");
    assert.equal(relay.seen.filter(({ path }) => path.endsWith("/return")).length, 1);
  });

  test("a sleeping machine loses it before any timer, and sends no renewal", async (t) => {
    const relay = await Relay.start(t, () => server.url);
    const { client, clock } = connect(t, relay.url);
    const lease = await client.claim("laptop").acquire({ ttl: 30 });
    clock.jumpMs = 29_300;
    assert.ok(lease.held);
    clock.jumpMs = 29_500;
    assert.equal(lease.held, false);
    assert.throws(() => lease.check(), (thrown) => thrown instanceof LeaseLost && thrown.loss.cause === "deadline");
    await pause(1200);
    assert.deepEqual(relay.seen.filter(({ body }) => body.includes('"ttl"') && !body.includes("resource")), []);
  });

  test("an event loop that was blocked sees the loss in check()", async (t) => {
    const { client } = connect(t, server.url);
    const lease = await client.lock("blocked").acquire({ ttl: 1 });
    const until = performance.now() + 1000;
    while (performance.now() < until);
    assert.throws(() => lease.check(), LeaseLost);
  });

  test("a lease that the service ended is lost at the next renewal, with the reason", async (t) => {
    const { client } = connect(t, server.url);
    const id = await server.pool(1);
    const slot = await client.pool(id).borrow({ ttl: 1.5 });
    const claim = await client.claim("revoked").acquire({ ttl: 1.5 });
    await server.call("PATCH", `/v1/claims/${claim.id}/`, { status: "revoked" });
    await server.call("DELETE", `/l/${id}`);
    assert.equal((await claim.lost).cause, "revoked");
    assert.equal((await slot.lost).cause, "deleted");
    assert.equal(await claim.release(), "ended_before");
  });

  test("a loss is thrown at the end of a scope, and never replaces the body's error", async (t) => {
    const { client, clock } = connect(t, server.url);
    const jump = (): void => { clock.jumpMs += 31_000; };
    await assert.rejects(client.lock("scope").run(() => jump()), LeaseLost);
    assert.equal(await client.lock("scope").run(() => { jump(); return 1; }, { raiseOnLoss: false }), 1);
    const mine = new Error("mine");
    await assert.rejects(client.lock("scope").run(() => { jump(); throw mine; }), (thrown) => thrown === mine && mine.cause instanceof LeaseLost);
    await assert.rejects(async () => {
      await using lease = await client.lock("scope").acquire();
      assert.ok(lease.held);
      jump();
    }, LeaseLost);
    await assert.rejects(async () => {
      await using lease = await client.lock("scope").acquire();
      jump();
      lease.check();
    }, LeaseLost);
  });

  test("max_hold ends renewal", async (t) => {
    const { client } = connect(t, server.url);
    const lease = await client.lock("hung").acquire({ ttl: 1, maxHold: 1.5 });
    const began = performance.now();
    assert.equal((await lease.lost).cause, "max_hold");
    const took = performance.now() - began;
    assert.ok(took > 1400 && took < 2700, `${took}`);
  });

  test("no id and no credential is in anything that is shown", async (t) => {
    const lines: string[] = [];
    const relay = await Relay.start(t, () => server.url);
    const { client } = connect(t, relay.url, { token: "lh_topsecret", log: (event) => lines.push(inspect(event)) });
    const id = await server.pool(1);
    const pool = client.pool(id);
    const lease = await pool.borrow({ ttl: 1 });
    const secrets = [id, lease.id, "topsecret"];
    lines.push(inspect(client, { depth: 10, showHidden: true }), inspect(pool, { depth: 10, showHidden: true }), inspect(lease, { depth: 10, showHidden: true }), JSON.stringify([client, pool, lease]));
    const keep = (thrown: unknown): boolean => {
      lines.push(inspect(thrown, { depth: 10, showHidden: true }), (thrown as Error).stack ?? "");
      return true;
    };
    await assert.rejects(pool.borrow({ wait: 0 }), keep);
    relay.decide = () => ({ status: 500, headers: { "leasehold-position": "1.1" }, body: JSON.stringify({ error: `${id} ${lease.id} Bearer lh_topsecret` }) });
    await assert.rejects(pool.borrow({ wait: 0.2 }), keep);
    await lease.lost;
    try {
      lease.check();
    } catch (thrown) {
      keep(thrown);
    }
    assert.throws(() => client.pool(`${id}0`), keep);
    assert.ok(lines.length > 8);
    for (const secret of secrets) assert.ok(!lines.join("\n").includes(secret), `shown: ${lines.find((line) => line.includes(secret))}`);
  });
});
