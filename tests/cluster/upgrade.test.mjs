// This version and an earlier one in one cluster, under load: rolled forward, back, and forward again. A client that tries again
// at another node has every call done, and no lease that was acknowledged is lost. `scripts/upgrade.sh` builds both.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Etcd } from "../browser/etcd.mjs";
import { Client, Node, settled } from "./node.mjs";

const { LEASEHOLD_EARLIER_BINARY: EARLIER, LEASEHOLD_BINARY: LATER } = process.env;
const NODES = 3;
const WORKERS = 6;
const KEPT = 40;
const CALL_MS = 20_000; // in which a call that is tried again is answered
const SETTLE_MS = 60_000;

describe("upgrades of a cluster", () => {
  let etcd;
  const nodes = [];
  const undo = [];
  let client;
  let isOver = false;

  before(async () => {
    assert.ok(EARLIER && LATER, "scripts/upgrade.sh says where both versions are");
    etcd = await Etcd.start({ after: (act) => undo.unshift(act) });
    undo.unshift(() => Promise.all(nodes.map((node) => node.kill())));
    for (let n = 0; n < NODES; n += 1) nodes.push(await Node.make(etcd.store));
    client = new Client(nodes, CALL_MS);
  });
  after(async () => {
    isOver = true;
    for (const act of undo) await act();
  });

  /** A lock is taken, seen at any node, and given back; a slot of a pool likewise, under a key. */
  async function work(number) {
    const job = `/lock?job=work-${number}&client=c${number}`;
    const pool = `00000000-0000-4000-8000-00000000000${number}`;
    await client.call("PUT", `/l/${pool}`, { count: 2 }).then(({ status }) => assert.ok(status < 300, `${status}`));
    for (let round = 0; !isOver; round += 1) {
      const taken = await client.call("POST", `${job}&ttl=60s`);
      assert.equal(taken.status, 200, JSON.stringify(taken));
      const seen = await client.call("GET", `/lock?job=work-${number}`);
      assert.deepEqual([seen.body.holder, seen.body.token], [`c${number}`, taken.body.token], "what was acknowledged is there");
      const released = await client.call("DELETE", job);
      // One that was repeated found nothing left to release.
      assert.ok([200, 403].includes(released.status), JSON.stringify(released));
      const lent = await client.call("POST", `/l/${pool}/borrow`, { ttl: 60, wait: 5 }, { "idempotency-key": `k${number}-${round}` });
      assert.equal(lent.status, 200, JSON.stringify(lent));
      const returned = await client.call("POST", `/l/${pool}/return`, { lease: lent.body.lease });
      assert.ok(returned.status < 300, JSON.stringify(returned));
    }
  }

  async function roll(binary, between = async () => {}) {
    for (const node of nodes) {
      if (node.isUp) await node.stop();
      assert.equal(await node.start(binary), null, node.said);
      await settled(nodes, SETTLE_MS);
      await between();
    }
  }

  test("forward, back and forward again under load", async () => {
    await Promise.all(nodes.map((node) => node.start(EARLIER)));
    await settled(nodes, SETTLE_MS);
    const kept = [];
    for (let n = 0; n < KEPT; n += 1) kept.push((await client.call("POST", `/lock?job=kept-${n}&client=holder-${n}&ttl=30m`)).body.token);
    const areKept = async () => {
      for (const [n, token] of kept.entries()) {
        const { body } = await client.call("GET", `/lock?job=kept-${n}`);
        assert.deepEqual([body.holder, body.token, body.is_expired], [`holder-${n}`, token, false], `kept-${n}`);
      }
    };
    const workers = [...Array(WORKERS).keys()].map((number) => work(number));
    const broken = Promise.race(workers); // they only end before the end by failing
    const began = Date.now();
    await Promise.race([broken, (async () => {
      await roll(LATER, areKept);
      await roll(EARLIER, areKept);
      await roll(LATER, areKept);
    })()]);
    isOver = true;
    await Promise.all(workers);
    await areKept();
    console.log(`upgrades: three nodes rolled forward, back and forward again in ${Math.round((Date.now() - began) / 1000)} s, ${client.calls} calls, none failed, the longest took ${Math.round(client.longest_ms)} ms, ${KEPT} leases kept their tokens`);
  });
});
