// The processor time of a call, as docs/cluster.md has it: 64 callers that renew a lock each, at an embedded service, at the node that
// owns the locks, and at one that forwards the calls. `node cpu.mjs [seconds]`, with STORE=postgres on PostgreSQL. The time is that of
// all nodes together, without what they take when no call comes, and without the store's.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Etcd, eventually, freePort } from "../browser/etcd.mjs";
import { Node, balanced } from "./node.mjs";
import { Postgres } from "./postgres.mjs";

const SECONDS = Number(process.argv[2] ?? 5);
const BINARY = process.env.LEASEHOLD_BINARY ?? path.join(fileURLToPath(new URL("../..", import.meta.url)), "target/debug/leasehold");
const CALLERS = 64;
const TICKS = 100; // of the kernel, a second
const later = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const agent = new Agent({ keepAlive: true, maxSockets: CALLERS });

const cpu_us = (pids) => pids.reduce((sum, pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return sum + (Number(fields[11]) + Number(fields[12])) * 1e6 / TICKS;
}, 0);

const renew = (listen, job) => new Promise((resolve, reject) => {
  const [host, port] = listen.split(":");
  const sent = request({ agent, host, port, method: "POST", path: `/lock?job=${job}&client=c&ttl=10m` }, (response) => {
    response.resume().once("end", () => {
      if (response.statusCode === 200) resolve(response.headers["leasehold-partition"]);
      else reject(new Error(`${job}: ${response.statusCode}`));
    });
  });
  sent.once("error", reject).end();
});

/** Calls for some seconds, and prints the time that one of them took of the processors. */
async function measure(what, pids, listen, jobs) {
  for (const job of jobs) await renew(listen, job);
  let before = cpu_us(pids);
  await later(3000);
  const idle_us = (cpu_us(pids) - before) / 3;
  let calls = 0;
  before = cpu_us(pids);
  const until = performance.now() + SECONDS * 1000;
  await Promise.all(jobs.map(async (job) => {
    for (; performance.now() < until; calls += 1) await renew(listen, job);
  }));
  const took_us = (cpu_us(pids) - before - idle_us * SECONDS) / calls;
  console.log(`${what}: ${took_us.toFixed(1)} µs a call, ${Math.round(calls / SECONDS)} calls a second, idle ${(idle_us / 1e4).toFixed(1)} % of a processor`);
}

const undo = [];
const after = { after: (act) => undo.unshift(act) };
try {
  const dir = mkdtempSync(path.join(tmpdir(), "leasehold-cpu-"));
  undo.unshift(() => rmSync(dir, { recursive: true, force: true }));
  const listen = `127.0.0.1:${await freePort()}`;
  const child = spawn(BINARY, ["serve", "--listen", listen, "--data", dir], { stdio: "ignore" });
  undo.unshift(() => child.kill("SIGKILL"));
  await eventually(async () => assert.equal((await fetch(`http://${listen}/readyz`)).status, 200), 20_000);
  await measure("embedded", [child.pid], listen, [...Array(CALLERS).keys()].map((n) => `job-${n}`));

  const store = process.env.STORE === "postgres" ? await Postgres.start(after) : await Etcd.start(after, 3);
  const nodes = [];
  undo.unshift(() => Promise.all(nodes.map((node) => node.kill())));
  for (let n = 0; n < 3; n += 1) nodes.push(await Node.make(store.store));
  await Promise.all(nodes.map((node) => node.start(BINARY)));
  await balanced(nodes, 90_000);
  const here = new Set((await nodes[0].cluster()).partitions.filter((partition) => partition.here).map(({ partition }) => String(partition)));
  const jobs = [];
  for (let n = 0; jobs.length < CALLERS; n += 1) {
    assert.ok(n < CALLERS * 100, `node 0 owns next to none of ${n} locks`);
    if (here.has(await renew(nodes[0].listen, `job-${n}`))) jobs.push(`job-${n}`);
  }
  const pids = nodes.map((node) => node.pid);
  await measure("owner", pids, nodes[0].listen, jobs);
  await measure("forwarded", pids, nodes[1].listen, jobs);
} finally {
  for (const act of undo) await act();
}
