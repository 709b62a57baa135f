// How large etcd becomes under three nodes with load, as docs/etcd.md has it: callers take and give back locks, and now and then a line
// says what etcd holds. `node size.mjs [seconds]`. From half an hour on, etcd must not have grown after the first half of the time.

import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Etcd } from "../browser/etcd.mjs";
import { Node, balanced } from "./node.mjs";

const SECONDS = Number(process.argv[2] ?? 60);
const BINARY = process.env.LEASEHOLD_BINARY ?? path.join(fileURLToPath(new URL("../..", import.meta.url)), "target/debug/leasehold");
const SAMPLES = 12;
const CALLERS = 16;
const LOCKS = 10_000; // of a caller
const PAUSE_MS = 10; // of a caller, after each lock
const ENOUGH_S = 1800; // for what is kept to have come and gone often enough
const MIB = 1 << 20;
const later = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const agent = new Agent({ keepAlive: true, maxSockets: CALLERS });

const call = (method, listen, path) => new Promise((resolve, reject) => {
  const [host, port] = listen.split(":");
  const sent = request({ agent, host, port, method, path }, (response) => {
    response.resume().once("end", () => {
      if (response.statusCode === 200) resolve();
      else reject(new Error(`${method} ${path}: ${response.statusCode}`));
    });
  });
  sent.once("error", reject).end();
});

const undo = [];
try {
  const etcd = await Etcd.start({ after: (act) => undo.unshift(act) }, 3, ["--snapshot-count", "10000"]);
  const nodes = [];
  undo.unshift(() => Promise.all(nodes.map((node) => node.kill())));
  for (let n = 0; n < 3; n += 1) nodes.push(await Node.make(etcd.store));
  await Promise.all(nodes.map((node) => node.start(BINARY)));
  await balanced(nodes, 90_000);

  let [cycles, failures, isOver] = [0, 0, false];
  const callers = [...Array(CALLERS).keys()].map(async (caller) => {
    const { listen } = nodes[caller % nodes.length];
    for (let n = 0; !isOver; n = (n + 1) % LOCKS) {
      const lock = `/lock?job=job-${caller}-${n}&client=c${caller}`;
      try {
        await call("POST", listen, `${lock}&ttl=60s`);
        await call("DELETE", listen, lock);
        cycles += 1;
      } catch {
        failures += 1;
      }
      await later(PAUSE_MS);
    }
  });
  const files = [];
  const began = performance.now();
  for (let sample = 1; sample <= SAMPLES; sample += 1) {
    await later(began + SECONDS * 1000 * sample / SAMPLES - performance.now());
    const metrics = await Promise.all([0, 1, 2].map((n) => etcd.metrics(n)));
    const largest = (name) => Math.max(...metrics.map((metric) => metric[name]));
    files.push(largest("etcd_mvcc_db_total_size_in_bytes"));
    console.log(`after ${Math.round(SECONDS * sample / SAMPLES)} s: ${cycles} locks taken and given back, ${failures} failures; the largest member has a file of ${Math.round(files.at(-1) / MIB)} MiB, of which ${Math.round(largest("etcd_mvcc_db_total_size_in_use_in_bytes") / MIB)} MiB are in use, ${largest("etcd_debugging_mvcc_keys_total")} keys and ${Math.round(largest("process_resident_memory_bytes") / MIB)} MiB of memory`);
  }
  isOver = true;
  await Promise.all(callers);
  const half = Math.max(...files.slice(0, SAMPLES / 2));
  if (SECONDS >= ENOUGH_S) assert.ok(files.at(-1) <= half * 1.1, `the file has grown from ${half} to ${files.at(-1)} bytes since half of the time`);
  console.log(`size of etcd: ${Math.round(files.at(-1) / MIB)} MiB after ${SECONDS} s and ${cycles} locks, at most ${Math.round(half / MIB)} MiB in the first half of the time`);
} finally {
  for (const act of undo) await act();
}
