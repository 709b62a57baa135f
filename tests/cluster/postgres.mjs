// A PostgreSQL for the nodes of a cluster, on a free port with a directory of its own.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually, freePort } from "../browser/etcd.mjs";

const PROGRAMS = process.env.POSTGRES_PROGRAMS ?? "/usr/lib/postgresql/15/bin";
const START_MS = 20_000;
// It refuses to run as root.
const OTHER = process.getuid() === 0 ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : [];

const words = (program, args) => [...OTHER, path.join(PROGRAMS, program), ...args];

export class Postgres {
  #child = null;
  #dir;
  #port;
  store = null; // its address for `--store`

  static async start(t) {
    const postgres = new Postgres();
    postgres.#dir = mkdtempSync(path.join(tmpdir(), "leasehold-postgres-"));
    postgres.#port = await freePort();
    if (OTHER.length > 0) assert.equal(spawnSync("chown", ["postgres", postgres.#dir]).status, 0);
    chmodSync(postgres.#dir, 0o700);
    const [initdb, ...rest] = words("initdb", ["-D", `${postgres.#dir}/data`, "--auth=trust", "--username=postgres", "--no-instructions"]);
    const made = spawnSync(initdb, rest, { cwd: "/" });
    assert.equal(made.status, 0, String(made.stderr));
    t.after(async () => {
      await postgres.kill();
      rmSync(postgres.#dir, { recursive: true, force: true });
    });
    await postgres.run();
    postgres.store = `postgres://postgres@127.0.0.1:${postgres.#port}/postgres`;
    return postgres;
  }

  /** Starts the server, and waits until it takes connections. */
  async run() {
    const [program, ...args] = words("postgres", ["-D", `${this.#dir}/data`, "-p", String(this.#port), "-c", "listen_addresses=127.0.0.1", "-c", `unix_socket_directories=${this.#dir}`]);
    this.#child = spawn(program, args, { stdio: "ignore", cwd: "/" });
    const isReady = () => spawnSync(path.join(PROGRAMS, "pg_isready"), ["-h", "127.0.0.1", "-p", String(this.#port)]).status === 0;
    await eventually(async () => assert.ok(isReady()), START_MS);
  }

  async kill() {
    if (this.#child === null) return;
    const gone = new Promise((resolve) => { this.#child.once("exit", resolve); });
    this.#child.kill("SIGQUIT");
    await gone;
    this.#child = null;
  }
}
