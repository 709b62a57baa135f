// The tools of every recipe's test: the pages cut into their files, the real binary, commands run as the page's reader would run them.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const TARGET = process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target");
export const BINARY = process.env.LEASEHOLD_BINARY ?? path.join(TARGET, "debug/leasehold");
/** Made by scripts/recipes.sh, with the client of this repository in its path. */
export const PYTHON = {
  program: process.env.RECIPES_PYTHON ?? path.join(TARGET, "recipes-venv/bin/python"),
  env: { PYTHONPATH: path.join(ROOT, "clients/python/src") },
};
const START_MS = 20_000;

export const PAGES = ["docs/recipes.md", "docs/first-lock.md", "docs/terraform.md", "docs/fleetlock.md"];

/** The walk-throughs, each a story from nothing to its end. */
export const STORIES = ["docs/two-laptops.md", "docs/ci.md", "docs/platform.md"];

/** How to guard a resource, with guards in two languages. */
export const GUARDING = ["docs/guarding.md"];

/** The blocks of the pages that have a name, by it. */
export const recipes = await cut(PAGES);
export const stories = await cut(STORIES);
export const guarding = await cut(GUARDING);

async function cut(pages) {
  const blocks = new Map();
  for (const page of pages) {
    const whole = await readFile(path.join(ROOT, page), "utf8");
    for (const [, name, text] of whole.matchAll(/^```[a-z]+ (\S+)\n(.*?)^```$/gms)) {
      if (blocks.has(name)) throw new Error(`two blocks are called ${name}, the second one is in ${page}`);
      blocks.set(name, text);
    }
  }
  return blocks;
}

/** Which of them a test has run. */
export const used = new Set();

export function recipe(name) {
  const text = recipes.get(name) ?? stories.get(name) ?? guarding.get(name);
  if (text === undefined) throw new Error(`no block is called ${name}`);
  used.add(name);
  return text;
}

/** A directory with these blocks as files, and with stand-ins for what is the reader's own. */
export async function workplace(t, names, more = {}) {
  const dir = await mkdtemp(path.join(tmpdir(), "leasehold-recipe-"));
  t.after(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }));
  const files = { ...Object.fromEntries(names.map((name) => [name, recipe(name)])), ...more };
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(dir, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
    await chmod(file, 0o755);
  }
  return dir;
}

export class Server {
  url = "";
  #child;

  static start(t, ...args) {
    return Server.of(t, spawn(BINARY, ["serve", "--memory", "--listen", "127.0.0.1:0", ...args], { stdio: ["ignore", "ignore", "pipe"] }));
  }

  /** The server that this process is or becomes, once it listens. */
  static async of(t, child) {
    const server = new Server();
    server.#child = child;
    t.after(() => server.stop());
    let said = "";
    server.url = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the server did not start: ${said}`)), START_MS);
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
      child.stderr.on("data", (piece) => {
        said += piece;
        const found = /listening on (http:\/\/[^\s,]+)/.exec(said.replaceAll(/\x1b\[[0-9;]*m/g, ""));
        if (!found) return;
        clearTimeout(late);
        resolve(found[1]);
      });
    });
    return server;
  }

  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => { this.#child.once("exit", resolve); });
    this.#child.kill("SIGKILL");
    await gone;
  }

  async call(method, where, body) {
    const response = await fetch(this.url + where, { method, ...(body ? { body: JSON.stringify(body) } : {}) });
    return JSON.parse((await response.text()) || "{}");
  }

  async pool(count) {
    const id = randomUUID();
    await this.call("PUT", `/l/${id}`, { count });
    return id;
  }
}

/** Starts a command; `over` resolves to its exit code and what it wrote. */
export function start(dir, env, command, ...args) {
  const child = spawn(command, args, { cwd: dir, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const told = { out: "", err: "", child };
  child.stdout.on("data", (piece) => { told.out += piece; });
  child.stderr.on("data", (piece) => { told.err += piece; });
  told.over = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code: code ?? signal, out: told.out, err: told.err }));
  });
  return told;
}

export function run(dir, env, command, ...args) {
  return start(dir, env, command, ...args).over;
}

export async function eventually(check, withinMs = 10_000) {
  const until = performance.now() + withinMs;
  for (;;) {
    try {
      return await check();
    } catch (thrown) {
      if (performance.now() > until) throw thrown;
    }
    await new Promise((resolve) => { setTimeout(resolve, 30); });
  }
}

/** A stand-in that notes when it began and ended, for so many seconds, with what it was given. */
export const noting = (seconds) => `#!/bin/sh
echo "begin $(date +%s%N) $$ \${CUDA_VISIBLE_DEVICES-} $*" >>"$NOTES"
sleep ${seconds}
echo "end $(date +%s%N) $$" >>"$NOTES"
`;

/** How many of the noted ran at once, at most, and all that began. */
export async function noted(file) {
  const lines = (await readFile(file, "utf8").catch(() => "")).trim().split("\n").filter(Boolean).map((line) => line.split(" "));
  lines.sort((a, b) => (BigInt(a[1]) < BigInt(b[1]) ? -1 : 1));
  let now = 0;
  let most = 0;
  for (const [what] of lines) {
    now += what === "begin" ? 1 : -1;
    most = Math.max(most, now);
  }
  return { most, began: lines.filter(([what]) => what === "begin").map(([, , , device, ...rest]) => ({ device, args: rest.join(" ") })) };
}
