// The examples of docs/clients.md and of the README compile, strictly, and run as they stand.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { PACKAGE, ROOT, Server } from "./support.js";

const run = promisify(execFile);
/** The context that the examples of the README assume. */
const GIVEN = `
import { randomUUID } from "node:crypto";
const files = ["one", "two"];
const upload = async (file: string, { token, signal }: { token: number; signal: AbortSignal }): Promise<void> => { signal.throwIfAborted(); console.log(file, token); };
const id = randomUUID();
const { signal } = new AbortController();
await fetch(\`\${process.env["LEASEHOLD_URL"]}/l/\${id}\`, { method: "PUT", body: '{"count":2}' });
`;

describe("documentation", () => {
  for (const [page, given] of [[path.join(ROOT, "docs/clients.md"), ""], [path.join(PACKAGE, "README.md"), GIVEN]] as const) {
    test(path.basename(page), async (t) => {
      const server = await Server.start(t, "--memory");
      const examples = [...(await readFile(page, "utf8")).matchAll(/^```ts\n(.*?)^```/gms)].map(([, text]) => text);
      assert.ok(examples.length > 0);
      // Inside the package, so that its own name leads to it.
      const dir = path.join(PACKAGE, "build/docs", path.basename(page, ".md"));
      await mkdir(dir, { recursive: true });
      await writeFile(path.join(dir, "page.mts"), given + examples.join("\n"));
      await writeFile(path.join(dir, "tsconfig.json"), JSON.stringify({ extends: path.join(PACKAGE, "tsconfig.json"), compilerOptions: { rootDir: dir, outDir: dir, declaration: false }, include: [], files: ["page.mts"] }));
      await run(path.join(PACKAGE, "node_modules/.bin/tsc"), ["-p", dir]).catch((thrown: { stdout: string }) => assert.fail(thrown.stdout));
      const { stdout } = await run(process.execPath, [path.join(dir, "page.mjs")], { env: { ...process.env, LEASEHOLD_URL: server.url } });
      assert.ok(stdout.length > 0);
      const { body } = await server.call("GET", "/v1/observe/resources");
      assert.ok((body["resources"] as { holder: unknown; state: string }[]).every(({ state }) => state !== "held"), "nothing is left held");
    });
  }
});
