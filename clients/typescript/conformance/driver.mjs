// The TypeScript client's driver for the conformance runner: does what ../../conformance/PROTOCOL.md says, and nothing by itself.

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { inspect } from "node:util";
import { Client, LeaseLost } from "../dist/index.js";
import { leaseClock } from "../dist/node.js";

const clients = new Map();
const leases = new Map();
const clock = leaseClock();
let jumpedMs = 0;

/** Seconds, without the jumps. */
const at = () => clock() / 1000;
const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const tell = (event, more = {}, when = at()) => write({ event, ...more, at: when });
const trace = (...what) => process.stderr.write(`${what.map((each) => (typeof each === "string" ? each : inspect(each, { depth: 8, showHidden: true }))).join(" ")}\n`);

/** The name of an error in the protocol, where it differs from its class. */
const NAMES = { LeaseLost: "Lost", ServiceUnavailable: "Unavailable", TlsError: "Tls", ProtocolError: "Protocol" };
const nameOf = (thrown) => NAMES[thrown?.name] ?? thrown?.name ?? String(thrown);

/** On the clock of `at`. */
const deadlineOf = (lease) => (lease.deadline - jumpedMs) / 1000;

async function misbehave(how) {
  if (how === "raise") throw new Error("the user's callback");
  const found = /^block:(\d+(?:\.\d+)?)$/.exec(how ?? "");
  // A callback that blocks the only thread blocks everything; one that never comes back from an await does not.
  if (found) await new Promise((resolve) => { setTimeout(resolve, Number(found[1]) * 1000); });
}

const commands = {
  time: () => ({}),

  open({ client, urls, token_file: file, name, round }) {
    const made = new Client({
      url: urls,
      ...(file ? { token: () => readFile(file, "utf8") } : {}),
      ...(name === undefined ? {} : { name }),
      ...(round === undefined ? {} : { round }),
      log: (event) => trace("log", event),
      clock: () => clock() + jumpedMs,
    });
    clients.set(client, made);
    trace("client", made);
    return {};
  },

  acquire({ client, lease: called, kind, name, ttl, timeout, on_lost: onLost, on_at_risk: onAtRisk }) {
    const control = new AbortController();
    const entry = { control, lease: undefined };
    leases.set(called, entry);
    let placesLost = 0;
    const options = {
      ttl,
      wait: timeout ?? undefined,
      signal: control.signal,
      onProgress: ({ elapsed, placeLost, queuePosition, holders, waiting, eta }) => {
        const when = at();
        for (; placesLost < placeLost; placesLost += 1) tell("place_lost", { lease: called }, when);
        tell("progress", { lease: called, elapsed, queue_position: queuePosition, holders, waiting, eta }, when);
      },
      onAtRisk: async (lease, { cause }) => {
        const when = at();
        tell("at_risk", { lease: called, deadline: deadlineOf(lease), cause }, when);
        await misbehave(onAtRisk);
      },
      onLost: async (loss, lease) => {
        const when = at();
        tell("lost", { lease: called, cause: loss.cause, token: loss.token, deadline: deadlineOf(lease), message: lease.signal.reason.message }, when);
        await misbehave(onLost);
      },
    };
    const made = clients.get(client);
    const wanted = kind === "lock" ? made.lock(name) : kind === "claim" ? made.claim(name) : made.pool(name);
    trace("wanted", wanted);
    wanted.acquire(options).then((lease) => {
      entry.lease = lease;
      tell("granted", { lease: called, token: lease.token, slot: lease.slot ?? null, deadline: deadlineOf(lease), ttl: lease.ttl });
      trace("lease", lease);
    }).catch((thrown) => {
      if (control.signal.aborted && thrown === control.signal.reason) tell("cancelled", { lease: called });
      else {
        tell("failed", { lease: called, error: nameOf(thrown), message: thrown?.message ?? "" });
        trace("failed", thrown);
      }
    });
    return {};
  },

  check({ lease: called }) {
    const { lease } = entryOf(called);
    lease.check();
    return { held: lease.held, token: lease.token, slot: lease.slot ?? null, deadline: deadlineOf(lease) };
  },

  release({ lease: called }) {
    const { lease } = entryOf(called);
    const began = at();
    lease.release().then((result) => tell("released", { lease: called, result, began }), (thrown) => trace("release threw", thrown));
    return {};
  },

  cancel({ lease: called }) {
    leases.get(called)?.control.abort();
    return {};
  },

  drop({ lease: called }) {
    leases.delete(called);
    return {};
  },

  block({ seconds }) {
    const until = at() + seconds;
    while (at() < until);
    return {};
  },

  clock({ jump }) {
    jumpedMs += jump * 1000;
    return {};
  },

  close({ client }) {
    clients.get(client).close().then(() => tell("closed", { client }));
    return {};
  },
};

function entryOf(called) {
  const entry = leases.get(called);
  if (!entry?.lease) throw Object.assign(new Error(`no lease ${called}`), { name: "NoSuchLease" });
  return entry;
}

async function quit(id) {
  if (id !== undefined) write({ reply: id, ok: true, at: at() });
  await Promise.all([...clients.values()].map((client) => client.close()));
  process.exit(0);
}

// Node loads its fetch when it is first used; rows that measure time should not.
await fetch("data:,");
tell("hello", { client: "typescript", mode: "async", pid: process.pid, supports: ["block", "clock", "callbacks"] });
const lines = createInterface({ input: process.stdin, terminal: false });
lines.on("line", (line) => {
  const { op, id, ...more } = JSON.parse(line);
  if (op === "quit") {
    void quit(id);
    return;
  }
  try {
    if (!commands[op]) throw Object.assign(new Error(`no command ${op}`), { name: "Unsupported" });
    const answer = commands[op](more);
    write({ reply: id, ok: true, ...answer, at: at() });
  } catch (thrown) {
    const loss = thrown instanceof LeaseLost ? { error: "LeaseLost", cause: thrown.loss.cause } : { error: thrown.name };
    write({ reply: id, ok: false, ...loss, message: thrown.message, at: at() });
  }
});
lines.on("close", () => void quit());
