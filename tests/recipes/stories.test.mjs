// The walk-throughs for new users, each replayed in a fresh directory as it stands on its page. The last test fails when a block is run by none.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { BINARY, eventually, noted, noting, recipe, run, Server, start, STORIES, stories, used, workplace } from "./support.mjs";

const PATH = `${path.dirname(BINARY)}:${process.env.PATH}`;

/** The server of a page, in this directory, at a free port of this machine. */
function serve(t, dir, block) {
  const env = { ...process.env, PATH, LEASEHOLD_MEMORY: "true" };
  // The page's address is for other machines.
  const command = recipe(block).trim().replace("--listen :8080", "--listen 127.0.0.1:0");
  if (!command.includes("--listen")) env.LEASEHOLD_LISTEN = "127.0.0.1:0";
  return Server.of(t, spawn("sh", ["-c", `exec ${command}`], { cwd: dir, env, stdio: ["ignore", "ignore", "pipe"] }));
}

describe("stories", () => {
  test("two laptops: taken, refused, waited for, handed over, and a cron job that runs once", async (t) => {
    const names = ["laptops/take.sh", "laptops/wait.sh", "laptops/give-back.sh", "laptops/who.sh", "laptops/nightly.sh", "laptops/nightly-run.sh"];
    const dir = await workplace(t, names, { "sync-photos": noting(1.5) });
    const server = await serve(t, dir, "laptops/serve.sh");
    const notes = path.join(dir, "notes");
    const env = { PATH, LEASEHOLD_URL: server.url, NOTES: notes };
    const told = async (script, who) => JSON.parse((await run(dir, env, "sh", "-e", `laptops/${script}.sh`, who)).out);
    assert.equal((await told("take", "anna")).message, "acquired");
    assert.equal((await told("take", "anna")).message, "renewed");
    const refused = await told("take", "bert");
    assert.deepEqual([refused.code, refused.holder], ["locked", "anna"]);
    assert.equal((await told("who", "")).holder, "anna");
    const waiting = start(dir, env, "sh", "-e", "laptops/wait.sh", "bert");
    await eventually(async () => assert.equal((await server.call("GET", "/lock?job=slides&client=bert")).queue_position, 1));
    assert.equal((await told("give-back", "anna")).success, true);
    assert.equal(JSON.parse((await waiting.over).out).message, "acquired");

    // Three runs of one machine, so with one name.
    const runs = await Promise.all([1, 2, 3].map(() => run(dir, env, "laptops/nightly.sh", "./sync-photos")));
    assert.deepEqual(runs.map(({ code }) => code), [0, 0, 0], runs.map(({ err }) => err).join());
    assert.equal((await noted(notes)).began.length, 1);
    assert.equal(runs.filter(({ err }) => /lock held by another client/.test(err)).length, 2, runs.map(({ err }) => err).join());
    assert.equal((await server.call("GET", "/lock?job=nightly")).holder, "", "it was given back");
    const failing = await run(dir, env, "laptops/nightly.sh", "sh", "-c", "exit 7");
    assert.equal(failing.code, 7, "its code is the command's");
    assert.equal((await run(dir, env, "sh", "laptops/nightly-run.sh")).code, 0);
    assert.equal((await noted(notes)).began.length, 2);
  });

  test("CI: two at a time, in order, and one can see which", async (t) => {
    const names = ["cap/capacity.sh", "cap/deploy.sh", "cap/deploy-run.sh", "cap/blockers.sh", "cap/revoke.sh"];
    const dir = await workplace(t, names, { deploy: noting(1) });
    const server = await Server.start(t);
    const notes = path.join(dir, "notes");
    const env = { PATH, LEASEHOLD_URL: server.url, NOTES: notes, CI_JOB_URL: "https://ci.example.org/17" };
    assert.equal((await run(dir, env, "sh", "-e", "cap/capacity.sh")).code, 0);
    const jobs = [17, 18, 19, 20].map((number) => start(dir, env, "cap/deploy.sh", `build ${number}`, "./deploy"));
    await eventually(async () => assert.match((await run(dir, env, "sh", "-e", "cap/blockers.sh")).out, /^build \d+ for \d+ s\nbuild \d+ for \d+ s\n$/));
    const ended = await Promise.all(jobs.map(({ over }) => over));
    assert.deepEqual(ended.map(({ code }) => code), [0, 0, 0, 0], ended.map(({ err }) => err).join());
    const { most, began } = await noted(notes);
    assert.deepEqual([most, began.length], [2, 4]);
    assert.equal((await run(dir, env, "sh", "cap/deploy-run.sh")).code, 0);

    // Two hang; an operator ends one of them, and the next one has its turn.
    const hung = [1, 2].map((number) => start(dir, env, "cap/deploy.sh", `hung ${number}`, "sleep", "30"));
    await eventually(async () => assert.equal((await server.call("GET", "/v1/resources/deploy/")).in_use, 2));
    const next = start(dir, env, "cap/deploy.sh", "next", "true");
    await eventually(async () => assert.equal((await server.call("GET", "/v1/resources/deploy/")).waiting, 1));
    const [{ url }] = await server.call("GET", "/v1/claims/?resource=deploy&status=active");
    assert.equal((await run(dir, env, "sh", "cap/revoke.sh", url)).code, 0);
    assert.equal((await next.over).code, 0);
    for (const { child, over } of hung) {
      spawn("pkill", ["-P", String(child.pid)]).once("exit", () => child.kill());
      await over;
    }
  });

  test("a platform: tokens, a policy that explains itself, refusals that say what is missing", async (t) => {
    const names = ["team/tokens.sh", "team/explain.sh", "team/claim.sh", "team/scrape.sh"];
    const dir = await workplace(t, names);
    const made = await run(dir, { PATH }, "sh", "-e", "team/tokens.sh");
    assert.equal(made.code, 0, made.err);
    const config = await readFile(path.join(dir, "leasehold.toml"), "utf8");
    const token = (await readFile(path.join(dir, "ci.token"), "utf8")).trim();
    assert.match(token, /^lh_[0-9a-f]{64}$/);
    assert.ok(!config.includes(token), "the configuration has digests alone");
    const explained = await run(dir, { PATH }, "sh", "-e", "team/explain.sh");
    assert.equal(explained.code, 0, explained.out + explained.err);
    assert.match(explained.out, /builders/);

    const server = await serve(t, dir, "team/serve.sh");
    const env = { PATH, LEASEHOLD_URL: server.url };
    const claimed = JSON.parse((await run(dir, env, "sh", "team/claim.sh", "build/site")).out);
    assert.equal(claimed.status, "active");
    const refused = JSON.parse((await run(dir, env, "sh", "team/claim.sh", "billing")).out);
    assert.match(refused.error, /^ci needs the action 'acquire' on /);
    assert.match((await run(dir, env, "sh", "-e", "team/scrape.sh")).out, /leasehold_holders\{kind="claim"\} 1/);

    // A browser gets pages, programs get JSON.
    const page = await fetch(server.url, { headers: { accept: "text/html" } });
    assert.equal(page.status, 401);
    assert.match(await page.text(), /id="token-form"/);
    const program = await fetch(server.url);
    assert.equal(program.status, 401);
    assert.equal((await program.json()).code, "unauthenticated");
  });

  test("every block of the walk-throughs was run", () => {
    assert.deepEqual([...stories.keys()].filter((name) => !used.has(name)), []);
    console.log(`recipes: ${stories.size} blocks of ${STORIES.join(", ")} replayed in fresh directories`);
  });
});
