// An etcd for the nodes of a cluster, on free ports with a directory of its own, and the two tools that starting one needs.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

const START_MS = 20_000;
const DEADLINE_MS = 10_000;

/** An etcd for the nodes of a cluster: one member, or several. */
export class Etcd {
  #members = [];
  store = null; // its address for `--store`

  static async start(t, number = 1, more = []) {
    const etcd = new Etcd();
    const url = (port) => `http://127.0.0.1:${port}`;
    for (let n = 0; n < number; n += 1) {
      etcd.#members.push({ name: `m${n}`, dir: await mkdtemp(path.join(tmpdir(), "leasehold-etcd-")), client: await freePort(), peer: await freePort(), child: null });
    }
    const all = etcd.#members.map(({ name, peer }) => `${name}=${url(peer)}`).join(",");
    t.after(async () => {
      for (const n of etcd.#members.keys()) await etcd.kill(n);
      for (const { dir } of etcd.#members) await rm(dir, { recursive: true, force: true });
    });
    for (const member of etcd.#members) {
      const [client, peer] = [url(member.client), url(member.peer)];
      member.args = ["--name", member.name, "--data-dir", member.dir, "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", all, "--log-level", "error", ...more];
    }
    await Promise.all([...etcd.#members.keys()].map((n) => etcd.run(n)));
    etcd.store = `etcd://${etcd.#members.map(({ client }) => `127.0.0.1:${client}`).join(",")}/test`;
    return etcd;
  }

  /** Starts a member, and waits until it serves. */
  async run(n) {
    const member = this.#members[n];
    member.child = spawn("etcd", member.args, { stdio: "ignore" });
    await eventually(async () => assert.ok((await fetch(`http://127.0.0.1:${member.client}/health`)).ok), START_MS);
  }

  async kill(n) {
    const { child } = this.#members[n];
    if (child === null) return;
    const gone = new Promise((resolve) => { child.once("exit", resolve); });
    child.kill("SIGKILL");
    await gone;
    this.#members[n].child = null;
  }

  /** What a member says of itself: its metrics without labels, by name. */
  async metrics(n) {
    const text = await (await fetch(`http://127.0.0.1:${this.#members[n].client}/metrics`)).text();
    return Object.fromEntries(text.split("\n").filter((line) => /^[a-z_]+ /.test(line)).map((line) => {
      const [name, value] = line.split(" ");
      return [name, Number(value)];
    }));
  }

  /** The member that leads. */
  async leader() {
    for (const n of this.#members.keys()) {
      if ((await this.metrics(n)).etcd_server_is_leader === 1) return n;
    }
    throw new Error("no member leads");
  }

  /** All members keep their connections and answer nothing, until they are woken. */
  stop() {
    for (const { child } of this.#members) child?.kill("SIGSTOP");
  }

  wake() {
    for (const { child } of this.#members) child?.kill("SIGCONT");
  }
}

export function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Waits until `check` does not throw, and gives what it gave. */
export async function eventually(check, deadline_ms = DEADLINE_MS) {
  const end = Date.now() + deadline_ms;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => { setTimeout(resolve, 20); });
    }
  }
}
