// A node of a cluster as a process, at addresses that stay the same whichever version of the binary runs there.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { eventually, freePort } from "../browser/etcd.mjs";

const START_MS = 60_000;

export class Node {
  #child = null;
  #store;
  said = "";

  static async make(store) {
    const node = new Node();
    node.#store = store;
    [node.listen, node.peer] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    return node;
  }

  /** Starts this version, and waits until it takes calls: null. Of a process that ends before that, its code. */
  async start(binary) {
    this.said = "";
    const child = spawn(binary, ["serve", "--listen", this.listen, "--store", this.#store, "--peer-listen", this.peer], { stdio: ["ignore", "ignore", "pipe"] });
    this.#child = child;
    child.stderr.on("data", (piece) => { this.said = (this.said + piece).slice(-20_000); });
    let isOver = false;
    const ended = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => {
        isOver = true;
        resolve({ code });
      });
    });
    const ready = eventually(async () => {
      if (!isOver) assert.equal((await fetch(`http://${this.listen}/readyz`)).status, 200);
    }, START_MS).then(() => null, (error) => { throw new Error(`${error}: ${this.said}`); });
    const first = await Promise.race([ended, ready]);
    if (first === null && !isOver) return null;
    this.#child = null;
    return ended;
  }

  /** Ends it in an orderly way. */
  async stop() {
    const child = this.#child;
    this.#child = null;
    const ended = new Promise((resolve) => { child.once("exit", resolve); });
    child.kill("SIGTERM");
    assert.equal(await ended, 0, this.said);
  }

  async kill() {
    const child = this.#child;
    if (child === null) return;
    this.#child = null;
    const ended = new Promise((resolve) => { child.once("exit", resolve); });
    child.kill("SIGKILL");
    await ended;
  }

  signal(name) {
    this.#child.kill(name);
  }

  get pid() {
    return this.#child.pid;
  }

  get isUp() {
    return this.#child !== null;
  }

  async cluster() {
    return (await fetch(`http://${this.listen}/v1/cluster`)).json();
  }
}

/** Every node is alive for every other, and each partition is served. */
export const settled = (nodes, within_ms) => eventually(async () => {
  const statuses = await Promise.all(nodes.map((node) => node.cluster()));
  for (const status of statuses) assert.equal(status.nodes.filter(({ state, linked }) => state === "alive" && linked).length, nodes.length);
  const served = statuses.flatMap(({ partitions }) => partitions.filter(({ here }) => here).map(({ partition }) => partition));
  assert.deepEqual(served.sort((a, b) => a - b), statuses[0].partitions.map(({ partition }) => partition));
}, within_ms);

/** They are settled, and each node serves its share: the first to start serves all of it for a moment. */
export const balanced = async (nodes, within_ms) => {
  await settled(nodes, within_ms);
  await eventually(async () => {
    for (const node of nodes) {
      const { partitions } = await node.cluster();
      assert.ok(partitions.filter(({ here }) => here).length >= Math.floor(partitions.length / nodes.length), `${node.listen} has less than its share`);
    }
  }, within_ms);
};

/** A client that tries again at another node, where a call failed or was not served. */
export class Client {
  #nodes;
  #patience_ms;
  calls = 0;
  longest_ms = 0;
  refusals = new Map();

  constructor(nodes, patience_ms) {
    this.#nodes = nodes;
    this.#patience_ms = patience_ms;
  }

  async call(method, target, body, headers = {}) {
    const began = performance.now();
    let trouble = null;
    for (let attempt = Math.floor(Math.random() * this.#nodes.length); performance.now() - began < this.#patience_ms; attempt += 1) {
      const node = this.#nodes[attempt % this.#nodes.length];
      try {
        const response = await fetch(`http://${node.listen}${target}`, { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(this.#patience_ms) });
        const text = await response.text();
        if (response.status !== 502 && response.status !== 503) {
          this.calls += 1;
          this.longest_ms = Math.max(this.longest_ms, performance.now() - began);
          return { status: response.status, body: text === "" ? null : JSON.parse(text) };
        }
        this.#note(response.status);
        trouble = `${response.status} ${text}`;
      } catch (error) {
        this.#note("no connection");
        trouble = String(error.cause ?? error);
      }
      await new Promise((resolve) => { setTimeout(resolve, 20); });
    }
    throw new Error(`${method} ${target} was not answered in ${this.#patience_ms} ms: ${trouble}`);
  }

  #note(what) {
    this.refusals.set(what, (this.refusals.get(what) ?? 0) + 1);
  }
}
