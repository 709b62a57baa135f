// The figures of the failure table in docs/cluster.md: three nodes on three members of etcd, or with STORE=postgres on one PostgreSQL,
// eight callers that renew a lock each and try again at another node, and one fault after the other. `node failures.mjs [rounds]
// [part of its name]` prints, for each fault, how long the longest call took from its first attempt to its answer, and which refusals
// its client heard on the way.

import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Etcd } from "../browser/etcd.mjs";
import { Client, Node, settled } from "./node.mjs";
import { Postgres } from "./postgres.mjs";

const ROUNDS = Number(process.argv[2] ?? 5);
const BINARY = process.env.LEASEHOLD_BINARY ?? path.join(fileURLToPath(new URL("../..", import.meta.url)), "target/debug/leasehold");
const ONLY = process.argv[3] ?? "";
const CALLERS = 8;
const SETTLE_MS = 90_000;
const later = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

const undo = [];
const after = { after: (act) => undo.unshift(act) };
const isPostgres = process.env.STORE === "postgres";
const store = isPostgres ? await Postgres.start(after) : await Etcd.start(after, 3);
const nodes = [];
undo.unshift(() => Promise.all(nodes.map((node) => node.kill())));
const drain = (node, word) => spawnSync(BINARY, ["cluster", word, node.peer, "--store", store.store]);

/** Each strikes a node or the store, and undoes it. */
const FAULTS = [
  ["nothing", async () => later(2000)],
  ["a node is killed", async (node) => { await node.kill(); await later(5000); await node.start(BINARY); }],
  ["a node stands still for 6 s", async (node) => { node.signal("SIGSTOP"); await later(6000); node.signal("SIGCONT"); }, "elsewhere"],
  ["a node is ended (SIGTERM) and started", async (node) => { await node.stop(); await node.start(BINARY); }],
  ["a node is drained and undrained", async (node) => { drain(node, "drain"); await later(2000); drain(node, "undrain"); await later(2000); }],
  ...(isPostgres ? [
    ["PostgreSQL is killed", async () => { await store.kill(); await later(1000); await store.run(); }],
  ] : [
    ["a member of etcd that follows is killed", async () => { const n = ((await store.leader()) + 1) % 3; await store.kill(n); await later(3000); await store.run(n); }],
    ["the leader of etcd is killed", async () => { const n = await store.leader(); await store.kill(n); await later(5000); await store.run(n); }],
    ["etcd stands still for 8 s", async () => { store.stop(); await later(8000); store.wake(); }],
  ]),
];

try {
  for (let n = 0; n < 3; n += 1) nodes.push(await Node.make(store.store));
  await Promise.all(nodes.map((node) => node.start(BINARY)));
  await settled(nodes, SETTLE_MS);
  const tokens = new Map();
  for (const [what, strike, where] of FAULTS.filter(([name]) => name.includes(ONLY))) {
    const longest_ms = [];
    const refusals = new Map();
    for (let round = 0; round < (what === "nothing" ? 1 : ROUNDS); round += 1) {
      const struck = nodes[round % nodes.length];
      // A caller at a node that stands still waits as long as it cares to.
      const client = new Client(where === "elsewhere" ? nodes.filter((node) => node !== struck) : nodes, 60_000);
      let isOver = false;
      const caller = async (number) => {
        while (!isOver) {
          const { status, body } = await client.call("POST", `/lock?job=probe-${number}&client=c${number}&ttl=10m`);
          if (status !== 200 || (tokens.get(number) ?? body.token) !== body.token) throw new Error(`a lease was lost: ${status} ${JSON.stringify(body)}`);
          tokens.set(number, body.token);
          await later(5);
        }
      };
      const callers = [...Array(CALLERS).keys()].map((number) => caller(number));
      await later(500);
      await strike(struck);
      await settled(nodes, SETTLE_MS);
      isOver = true;
      await Promise.all(callers);
      longest_ms.push(Math.round(client.longest_ms));
      for (const [refusal, times] of client.refusals) refusals.set(refusal, (refusals.get(refusal) ?? 0) + times);
    }
    longest_ms.sort((a, b) => a - b);
    const heard = [...refusals].map(([refusal, times]) => `${times} × ${refusal}`).join(", ") || "no refusal";
    console.log(`${what}: longest call ${longest_ms.join(", ")} ms; ${heard}`);
  }
} finally {
  for (const act of undo) await act();
}
