// The tarball as people get it: packed, installed in a fresh directory, used from plain JavaScript and from typed code, by Node and Deno.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { PACKAGE, Server } from "./support.js";

const run = promisify(execFile);
const USE = `
import { Client, Conflict } from "leasehold";
const client = new Client();
const answer = await client.lock("packed", { wait: "5s", ttl: "10s" }).run(async (lease) => {
  lease.check();
  if (!(await client.lock("packed").tryAcquire() === undefined)) throw new Conflict("two holders", undefined);
  return \`held \${lease.held} \${lease.token > 0}\`;
});
await client.close();
console.log(answer);
`;

describe("the package", () => {
  let server: Server;
  let dir: string;
  const undo: (() => unknown)[] = [];
  before(async () => {
    server = await Server.start({ after: (each) => undo.push(each) }, "--memory");
    dir = await mkdtemp(path.join(tmpdir(), "leasehold-pack-"));
    undo.push(() => rm(dir, { recursive: true }));
    await run("npm", ["pack", "--pack-destination", dir], { cwd: PACKAGE });
    const tarball = (await readdir(dir)).find((name) => name.endsWith(".tgz"));
    await writeFile(path.join(dir, "package.json"), '{"type":"module","private":true}');
    await run("npm", ["install", "--no-audit", "--no-fund", "--offline", `./${tarball}`], { cwd: dir });
  });
  after(async () => {
    for (const each of undo.reverse()) await each();
  });

  test("has code, types and licences, and nothing else", async () => {
    const files = await readdir(path.join(dir, "node_modules/leasehold"), { recursive: true });
    assert.ok(files.includes("dist/index.js") && files.includes("dist/index.d.ts") && files.includes("dist/browser.js") && files.includes("LICENSE-MIT") && files.includes("README.md"));
    assert.deepEqual(files.filter((name) => !/^(dist|dist\/[a-z]+(\.d)?\.(js|ts)|LICENSE-[A-Z]+|README\.md|package\.json)$/.test(String(name))), []);
    const described = JSON.parse(await readFile(path.join(dir, "node_modules/leasehold/package.json"), "utf8")) as object;
    assert.ok(!("dependencies" in described));
    const browser = await readFile(path.join(dir, "node_modules/leasehold/dist/browser.js"), "utf8");
    assert.ok(!/node:|\.\/node\.js/.test(browser), "the page's entry needs nothing of Node");
  });

  test("works in Node", async () => {
    await writeFile(path.join(dir, "use.mjs"), USE);
    const { stdout } = await run(process.execPath, ["use.mjs"], { cwd: dir, env: { ...process.env, LEASEHOLD_URL: server.url } });
    assert.equal(stdout, "held true true\n");
  });

  test("works in Deno, also when it is allowed nothing but the network", async () => {
    const deno = path.join(PACKAGE, "node_modules/.bin/deno");
    await writeFile(path.join(dir, "use.mjs"), USE);
    const env = { ...process.env, LEASEHOLD_URL: server.url, DENO_DIR: path.join(dir, "deno"), DENO_NO_UPDATE_CHECK: "1" };
    const { stdout } = await run(deno, ["run", "--no-prompt", "--node-modules-dir=manual", "--allow-net", "--allow-env", "--allow-sys", "use.mjs"], { cwd: dir, env });
    assert.equal(stdout, "held true true\n");
    await writeFile(path.join(dir, "bare.mjs"), USE.replace("new Client()", `new Client({ url: ${JSON.stringify(server.url)} })`));
    const bare = await run(deno, ["run", "--no-prompt", "--node-modules-dir=manual", "--allow-net", "bare.mjs"], { cwd: dir, env });
    assert.equal(bare.stdout, "held true true\n");
  });

  test("has types that a strict compiler takes", async () => {
    await writeFile(path.join(dir, "use.mts"), `${USE}
import type { Lease, Loss } from "leasehold";
export async function typed(id: string, signal: AbortSignal): Promise<number> {
  await using lease: Lease = await client.pool(id).borrow({ ttl: "60s", wait: "30s", signal });
  const lost: Promise<Loss> = lease.lost;
  void lost;
  // @ts-expect-error a ttl is a number or a text
  await client.lock("x").acquire({ ttl: true });
  return lease.slot ?? -1;
}
`);
    await writeFile(path.join(dir, "tsconfig.json"), JSON.stringify({
      compilerOptions: { strict: true, noEmit: true, module: "NodeNext", target: "ES2022", lib: ["ES2022", "ESNext.Disposable", "DOM"], types: [], skipLibCheck: false },
      files: ["use.mts"],
    }));
    await run(path.join(PACKAGE, "node_modules/.bin/tsc"), ["-p", dir], { cwd: dir });
  });
});
