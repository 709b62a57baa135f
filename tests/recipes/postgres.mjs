// A PostgreSQL of our own, on a free port of loopback, gone with the test.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually, run } from "./support.mjs";

/** Where Debian keeps the programs that are not in the path. */
function programs() {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const found = versions.map((version) => path.join(root, version, "bin")).find((bin) => existsSync(path.join(bin, "initdb")));
  if (!found) throw new Error("PostgreSQL is missing: bench/need.sh installs it");
  return found;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return port;
}

export class Postgres {
  env;

  static async start(t) {
    const bin = programs();
    const dir = await mkdtemp(path.join(tmpdir(), "leasehold-postgres-"));
    // It refuses to run as root.
    const who = {};
    if (process.getuid() === 0) {
      who.uid = Number(execFileSync("id", ["-u", "postgres"], { encoding: "utf8" }));
      who.gid = Number(execFileSync("id", ["-g", "postgres"], { encoding: "utf8" }));
      await chown(dir, who.uid, who.gid);
    }
    const data = path.join(dir, "data");
    execFileSync(path.join(bin, "initdb"), ["-D", data, "-U", "recipe", "-A", "trust", "-N", "--no-instructions"], { ...who, cwd: dir, stdio: "ignore" });
    const port = await freePort();
    const child = spawn(path.join(bin, "postgres"), ["-D", data, "-p", String(port), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"], { ...who, cwd: dir, stdio: "ignore" });
    t.after(async () => {
      const gone = new Promise((resolve) => { child.once("exit", resolve); });
      child.kill("SIGQUIT");
      await gone;
      await rm(dir, { recursive: true, force: true });
    });
    const postgres = new Postgres();
    postgres.env = { PGHOST: "127.0.0.1", PGPORT: String(port), PGUSER: "recipe", PGDATABASE: "postgres" };
    await eventually(async () => {
      const { code } = await run(dir, postgres.env, "psql", "-X", "-c", "select 1");
      if (code !== 0) throw new Error("PostgreSQL did not start");
    }, 30_000);
    return postgres;
  }
}
