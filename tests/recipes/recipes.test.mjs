// Every block with a name of docs/recipes.md and docs/first-lock.md, run as it stands there. The last test fails when one is run by none.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { parse } from "yaml";
import { Postgres } from "./postgres.mjs";
import { BINARY, eventually, noted, noting, PAGES, PYTHON, recipe, recipes, ROOT, run, Server, start, TARGET, used, workplace } from "./support.mjs";

describe("recipes", () => {
  let server;
  let env;
  const undo = [];
  before(async () => {
    server = await Server.start({ after: (each) => undo.push(each) });
    env = { LEASEHOLD_URL: server.url, PATH: `${path.dirname(BINARY)}:${process.env.PATH}` };
  });
  after(async () => {
    for (const each of undo) await each();
  });

  test("the address and a pool", async (t) => {
    const dir = await workplace(t, ["env.sh", "make-pool.sh"]);
    const told = await run(dir, {}, "sh", "-c", ". ./env.sh; echo $LEASEHOLD_URL");
    assert.match(told.out, /^http:\/\/127\.0\.0\.1:8080\n$/);
    const made = await run(dir, env, "sh", "-e", "make-pool.sh");
    assert.equal(made.code, 0, made.err);
    const id = /^POOL=([0-9a-f-]{36})$/m.exec(made.out)[1];
    assert.equal((await server.call("GET", `/l/${id}`)).count, 2);
  });

  test("terraform: a freeze is a claim that an apply runs into", async (t) => {
    const own = await Server.start(t);
    const dir = await workplace(t, ["freeze.sh"]);
    const frozen = await run(dir, { ...env, LEASEHOLD_URL: own.url }, "sh", "-e", "freeze.sh");
    assert.equal(frozen.code, 0, frozen.err);
    const lock = await fetch(`${own.url}/tf/prod`, { method: "LOCK", body: JSON.stringify({ ID: "a1" }) });
    assert.equal(lock.status, 423);
    assert.equal((await lock.json()).ID, JSON.parse(frozen.out).id);
  });

  test("fleetlock: a group of three, and a machine that reboots", async (t) => {
    const own = await Server.start(t);
    const dir = await workplace(t, ["group.sh", "reboot.sh"]);
    const there = { ...env, LEASEHOLD_URL: own.url };
    const made = await run(dir, there, "sh", "-e", "group.sh");
    assert.equal(made.code, 0, made.err);
    assert.equal(JSON.parse(made.out).capacity, 3);
    const asked = await run(dir, there, "sh", "-e", "reboot.sh");
    assert.equal(asked.out, '{"held":true,"token":1}\n200\n{"held":false}\n200\n', asked.err);
  });

  test("cron: one of several machines does it, and says when it cannot know", async (t) => {
    const dir = await workplace(t, ["nightly.sh"], { backup: noting(0.2) });
    const notes = path.join(dir, "notes");
    const machines = await Promise.all([1, 2, 3, 4].map(() => run(dir, { ...env, NOTES: notes }, "./nightly.sh", "./backup")));
    assert.deepEqual(machines.map(({ code }) => code), [0, 0, 0, 0]);
    const late = await run(dir, { ...env, NOTES: notes }, "./nightly.sh", "./backup");
    assert.equal(late.code, 0);
    assert.equal((await noted(notes)).began.length, 1);
    const down = await run(dir, { LEASEHOLD_URL: "http://127.0.0.1:9", NOTES: notes }, "./nightly.sh", "./backup");
    assert.equal(down.code, 1);
  });

  test("cron, with run: machines that ask while one is at it do nothing", async (t) => {
    const own = await Server.start(t);
    const dir = await workplace(t, ["nightly-run.sh"], { backup: noting(2) });
    const notes = path.join(dir, "notes");
    const machine = { ...env, LEASEHOLD_URL: own.url, NOTES: notes };
    const first = start(dir, machine, "sh", "nightly-run.sh");
    await eventually(async () => assert.equal((await noted(notes)).began.length, 1));
    const late = await Promise.all([1, 2].map(() => run(dir, machine, "sh", "nightly-run.sh")));
    assert.deepEqual(late.map(({ code }) => code), [0, 0], late.map(({ err }) => err).join());
    assert.equal((await first.over).code, 0);
    assert.equal((await noted(notes)).began.length, 1);
  });

  test("run: the command has a slot and a token, and the slot comes back", async (t) => {
    const dir = await workplace(t, ["hold-run.sh"]);
    const pool = await server.pool(1);
    const told = await run(dir, { ...env, POOL: pool }, "sh", "hold-run.sh");
    assert.equal(told.code, 0, told.err);
    assert.match(told.out, /^slot 0, token \d+\n$/);
    assert.equal((await server.call("GET", `/l/${pool}`)).in_use, 0);
  });

  test("hold.sh: the command has a slot of its own, its code is passed on, and the slot comes back", async (t) => {
    const dir = await workplace(t, ["hold.sh"]);
    const pool = await server.pool(1);
    const held = { ...env, POOL: pool, TTL: "3" };
    const told = await run(dir, held, "./hold.sh", "sh", "-c", "echo slot $LEASEHOLD_SLOT token $LEASEHOLD_FENCING_TOKEN; exit 7");
    assert.equal(told.code, 7, told.err);
    assert.match(told.out, /^slot 0 token \d+\n$/);
    assert.equal((await server.call("GET", `/l/${pool}`)).in_use, 0);

    const long = start(dir, held, "./hold.sh", "sh", "-c", "trap 'exit 9' TERM; echo on; sleep 30 & wait");
    await eventually(() => assert.match(long.out, /on/));
    await new Promise((resolve) => { setTimeout(resolve, 5000); });
    assert.equal((await server.call("GET", `/l/${pool}`)).in_use, 1, "it is renewed past its ttl");
    long.child.kill("SIGTERM");
    await long.over;
    await eventually(async () => assert.equal((await server.call("GET", `/l/${pool}`)).in_use, 0));

    const unknown = await run(dir, { ...held, POOL: "00000000-0000-4000-8000-000000000000" }, "./hold.sh", "true");
    assert.equal(unknown.code, 125);
    assert.match(unknown.err, /no such pool/);
  });

  test("hold.sh: the command is ended when the slot cannot be kept", async (t) => {
    const own = await Server.start(t);
    const pool = await own.pool(1);
    const dir = await workplace(t, ["hold.sh"]);
    const told = start(dir, { LEASEHOLD_URL: own.url, POOL: pool, TTL: "3" }, "./hold.sh", "sh", "-c", "trap '' TERM; echo on; while :; do sleep 1; done");
    await eventually(() => assert.match(told.out, /on/));
    await own.stop();
    const { code, err } = await told.over;
    assert.equal(code, 122, err);
    assert.match(err, /cannot be kept/);
  });

  test("CI: as many jobs as there are slots, on GitHub, GitLab and Jenkins at once", async (t) => {
    const files = ["ci/slot.sh", ".github/workflows/deploy.yml", ".gitlab-ci.yml", "Jenkinsfile", "ci/deploy-run.sh"];
    const pool = await server.pool(2);
    const { steps, env: wanted } = parse(recipe(files[1])).jobs.deploy;
    assert.deepEqual(Object.keys(wanted), ["LEASEHOLD_URL", "POOL"]);
    const github = steps.filter((step) => step.run).map((step) => ({ run: step.run, always: step.if === "always()" }));
    const gitlab = parse(recipe(files[2])).deploy;
    const jenkins = [...recipe(files[3]).matchAll(/sh '([^']+)'/g)].map(([, command]) => command);
    const pipelines = [
      github,
      [...gitlab.script.map((command) => ({ run: command })), ...gitlab.after_script.map((command) => ({ run: command, always: true }))],
      jenkins.map((command, at) => ({ run: command, always: at === jenkins.length - 1 })),
    ];
    assert.ok(pipelines.every((pipeline) => pipeline.length === 3));
    pipelines.push([{ run: "sh ci/deploy-run.sh" }]);
    const notes = path.join(await workplace(t, []), "notes");
    await Promise.all([...pipelines, ...pipelines].map(async (pipeline, number) => {
      const dir = await workplace(t, files, { "deploy.sh": number === 5 ? "#!/bin/sh\nexit 1\n" : noting(0.5) });
      let failed = false;
      for (const step of pipeline) {
        if (failed && !step.always) continue;
        const told = await run(dir, { ...env, POOL: pool, NOTES: notes }, "bash", "-e", "-c", step.run);
        failed ||= told.code !== 0;
        assert.ok(told.code === 0 || step.run === "./deploy.sh", told.err);
      }
      assert.equal(failed, number === 5);
    }));
    const { most, began } = await noted(notes);
    assert.equal(began.length, 7);
    assert.ok(most <= 2, `${most} jobs at once`);
    assert.equal((await server.call("GET", `/l/${pool}`)).in_use, 0);
  });

  test("licence seats: never more than the licence has", async (t) => {
    const dir = await workplace(t, ["hold.sh", "seats.sh", "seats-run.sh"], { simulate: noting(0.5) });
    const pool = await server.pool(0);
    const notes = path.join(dir, "notes");
    const all = await Promise.all([1, 2, 3, 4, 5].map((n) => run(dir, { ...env, POOL: pool, NOTES: notes }, "sh", "-e", n % 2 ? "seats.sh" : "seats-run.sh")));
    assert.deepEqual(all.map(({ code }) => code), [0, 0, 0, 0, 0], all.map(({ err }) => err).join());
    const { most, began } = await noted(notes);
    assert.ok(most <= 3 && began.length === 5 && began.every(({ args }) => args === "model-7"), JSON.stringify({ most, began }));
  });

  test("GPU slots: each job sees one device, and no two the same", async (t) => {
    const dir = await workplace(t, ["hold.sh", "train.sh", "train-run.sh"], { train: noting(3) });
    const pool = await server.pool(2);
    const notes = path.join(dir, "notes");
    const all = await Promise.all(["train.sh", "train-run.sh"].map((script) => run(dir, { ...env, POOL: pool, NOTES: notes }, "sh", script)));
    assert.deepEqual(all.map(({ code }) => code), [0, 0], all.map(({ err }) => err).join());
    const { began } = await noted(notes);
    assert.deepEqual(began.map(({ device }) => device).sort(), ["0", "1"]);
    assert.ok(began.every(({ args }) => args === "--epochs 3"));
  });

  test("benches: a lease carries the name and the data of its slot, and one in repair is not lent", async (t) => {
    const dir = await workplace(t, ["benches.sh"]);
    const pool = crypto.randomUUID();
    const lent = [];
    for (let n = 0; n < 2; n += 1) {
      const { code, out, err } = await run(dir, { ...env, POOL: pool }, "sh", "-e", "benches.sh");
      assert.equal(code, 0, err);
      lent.push(JSON.parse(out));
    }
    assert.deepEqual(lent.map(({ slot }) => [slot.number, slot.name, slot.data.host]), [[0, "bench-1", "10.0.0.11"], [1, "bench-2", "10.0.0.12"]]);
    const repair = JSON.stringify({ out_of_service: true, reason: "new cable" });
    assert.equal((await fetch(`${server.url}/l/${pool}/slots/0`, { method: "PUT", body: repair })).status, 200);
    await fetch(`${server.url}/l/${pool}/return`, { method: "POST", body: JSON.stringify({ lease: lent[0].lease }) });
    const third = await fetch(`${server.url}/l/${pool}/borrow`, { method: "POST", body: '{"ttl": 60}' });
    assert.equal(third.status, 409, await third.text());
  });

  test("a pause for maintenance: nothing is granted until it is over", async (t) => {
    const dir = await workplace(t, ["upkeep.sh"]);
    const [pause, resume] = (await readFile(path.join(dir, "upkeep.sh"), "utf8")).trim().split("\n");
    const paused = await run(dir, env, "sh", "-e", "-c", pause);
    assert.equal(paused.code, 0, paused.err);
    assert.equal(JSON.parse(paused.out).paused.reason, "vacuum of the database");
    const claim = () => fetch(`${server.url}/v1/claims/`, { method: "POST", body: '{"resource": "db", "timeout": 60}' });
    const waiting = await claim();
    assert.equal(waiting.status, 202);
    const { url, paused: why } = await waiting.json();
    assert.equal(why.reason, "vacuum of the database");
    const resumed = await run(dir, env, "sh", "-e", "-c", resume);
    assert.deepEqual(JSON.parse(resumed.out), { resumed: true });
    assert.equal((await (await fetch(url)).json()).status, "active");
  });

  test("pytest-xdist: no two workers have the same account at a time", async (t) => {
    const dir = await workplace(t, ["conftest.py"], {
      "test_some.py": `
import os, time
import pytest

@pytest.mark.parametrize("n", range(8))
def test_some(n, account):
    with open(os.environ["NOTES"], "a", buffering=1) as notes:
        notes.write(f"begin {time.monotonic_ns()} {account}\\n")
        time.sleep(0.1)
        notes.write(f"end {time.monotonic_ns()} {account}\\n")
`,
    });
    const notes = path.join(dir, "notes");
    const told = await run(dir, { ...env, ...PYTHON.env, POOL: await server.pool(2), NOTES: notes }, PYTHON.program, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2");
    assert.equal(told.code, 0, told.out + told.err);
    assert.equal(await accountsNoted(notes), 16);
  });

  test("Celery: one rebuild of an index at a time, on however many workers", async (t) => {
    const dir = await workplace(t, ["tasks.py"], {
      "work.py": `
import os, time

def note(what, token):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{what} {time.time_ns()} {token}\\n")

def parts_of(index):
    yield lambda token: note("begin", token)
    yield lambda token: time.sleep(0.3)
    yield lambda token: note("end", token)
`,
      "play.py": `
import os, time
from celery.contrib.testing.worker import start_worker
from tasks import app, rebuild

with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False):
    for _ in range(4):
        rebuild.delay("customers")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if os.path.exists(os.environ["NOTES"]) and open(os.environ["NOTES"]).read().count("end") == 4:
            break
        time.sleep(0.05)
`,
    });
    const notes = path.join(dir, "notes");
    const told = await run(dir, { ...env, ...PYTHON.env, BROKER: "memory://", NOTES: notes }, PYTHON.program, "play.py");
    assert.equal(told.code, 0, told.out + told.err);
    const { most, began } = await noted(notes);
    assert.deepEqual([most, began.length], [1, 4], told.err);
  });

  test("Playwright: no two workers have the same account at a time", async (t) => {
    const dir = await workplace(t, ["accounts.mjs"], {
      "package.json": '{"type":"module","private":true}',
      "playwright.config.mjs": 'export default { workers: 3, fullyParallel: true, reporter: "line", testDir: "." };',
      "some.spec.mjs": `
        import { appendFileSync } from "node:fs";
        import { test } from "./accounts.mjs";
        const note = (what, account) => appendFileSync(process.env.NOTES, \`\${what} \${process.hrtime.bigint()} \${account}\\n\`);
        for (let n = 0; n < 6; n += 1) test(\`test \${n}\`, async ({ account }) => {
          note("begin", account);
          await new Promise((resolve) => { setTimeout(resolve, 100); });
          note("end", account);
        });`,
    });
    const notes = path.join(dir, "notes");
    await run(dir, {}, "sh", "-ec", `mkdir node_modules; ln -s ${ROOT}/clients/typescript node_modules/leasehold; ln -s ${ROOT}/tests/recipes/node_modules/@playwright ${ROOT}/tests/recipes/node_modules/playwright ${ROOT}/tests/recipes/node_modules/playwright-core node_modules/`);
    const told = await run(dir, { ...env, POOL: await server.pool(2), NOTES: notes }, process.execPath, "node_modules/@playwright/test/cli.js", "test");
    assert.equal(told.code, 0, told.out + told.err);
    assert.equal(await accountsNoted(notes), 12);
  });

  test("PostgreSQL refuses the token of a late migration", async (t) => {
    const postgres = await Postgres.start(t);
    const dir = await workplace(t, ["fence.sql", "migrate.sh", "migrate-run.sh"], {
      "one.sql": "create table users (name text);",
      "two.sql": "alter table users add column email text; select pg_sleep(0.3);",
      "three.sql": "alter table users add column phone text;",
      "bad.sql": "insert into users values ('half'); insert into nowhere values (1);",
    });
    const with_pg = { ...env, ...postgres.env };
    const psql = (text) => run(dir, with_pg, "psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", text);
    assert.equal((await run(dir, with_pg, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "fence.sql")).code, 0);
    const first = await run(dir, with_pg, "./migrate.sh", "one.sql");
    assert.equal(first.code, 0, first.err);
    const old = (await psql("select token from fence where resource = 'migrate'")).out.trim();
    assert.match(old, /^\d+$/);
    const both = await Promise.all([run(dir, with_pg, "./migrate.sh", "two.sql"), run(dir, with_pg, "sh", "migrate-run.sh", "bad.sql")]);
    assert.equal(both[0].code, 0, both[0].err);
    assert.notEqual(both[1].code, 0);
    assert.equal((await psql("select count(*) from users")).out, "0\n", "a failed migration leaves nothing");
    assert.equal((await server.call("GET", "/lock?job=migrate")).holder, "");
    const third = await run(dir, with_pg, "sh", "migrate-run.sh", "three.sql");
    assert.equal(third.code, 0, third.err);
    // The runner of the first token wakes up.
    const late = await psql(`begin; select check_fence('migrate', ${old}); drop table users; commit`);
    assert.notEqual(late.code, 0);
    assert.match(late.err, new RegExp(`token ${old} of migrate is old`));
    assert.equal((await psql("select count(*) from users")).code, 0, "the table is still there");
    // The newest may still, and one above it.
    const newest = Number((await psql("select token from fence")).out);
    assert.ok(newest > Number(old));
    assert.equal((await psql(`select check_fence('migrate', ${newest})`)).code, 0);
    assert.equal((await psql(`select check_fence('migrate', ${newest + 1})`)).code, 0);
    assert.notEqual((await psql(`select check_fence('migrate', ${newest})`)).code, 0);
  });

  test("two laptops: one works in the folder, the other is told who and until when", async (t) => {
    const dir = await workplace(t, ["work.sh"]);
    const one = start(dir, env, "./work.sh", "laptop1", "sh", "-c", "echo working; sleep 2; exit 3");
    await eventually(() => assert.match(one.out, /working/));
    const two = await run(dir, env, "./work.sh", "laptop2", "echo", "working");
    assert.equal(two.code, 75);
    assert.match(two.err, /^lock held by another client: laptop1 until \d{4}-/);
    assert.equal(two.out, "");
    assert.equal((await one.over).code, 3);
    assert.equal((await run(dir, env, "./work.sh", "laptop2", "true")).code, 0);
    assert.equal((await run(dir, { LEASEHOLD_URL: "http://127.0.0.1:9" }, "./work.sh", "laptop2", "true")).code, 1);
  });

  test("leader election: a leader that is killed is followed by one in a later term", async (t) => {
    const own = await Server.start(t, "--grace", "1ms");
    const dir = await workplace(t, ["leader.mjs"], { "package.json": '{"type":"module"}' });
    await run(dir, {}, "sh", "-ec", `mkdir node_modules; ln -s ${ROOT}/clients/typescript node_modules/leasehold`);
    const said = [];
    const members = ["anna", "bert", "cleo"].map((name) => {
      const member = start(dir, { LEASEHOLD_URL: own.url }, process.execPath, "leader.mjs", name);
      t.after(() => member.child.kill("SIGKILL"));
      member.child.stdout.on("data", (piece) => {
        for (const [, who, term] of String(piece).matchAll(/^(\w+) leads in term (\d+)$/gm)) said.push({ who, term: Number(term) });
      });
      return { name, ...member };
    });
    await eventually(() => assert.ok(said.length >= 3));
    const first = said.at(-1);
    members.find(({ name }) => name === first.who).child.kill("SIGKILL");
    const second = await eventually(() => {
      const last = said.at(-1);
      assert.notEqual(last.who, first.who);
      return last;
    }, 15_000);
    assert.ok(second.term > first.term);
    const terms = new Map();
    for (const { who, term } of said) assert.equal(terms.get(term) ?? who, terms.set(term, terms.get(term) ?? who).get(term), "one leader a term");
    assert.deepEqual(said.map(({ term }) => term), said.map(({ term }) => term).sort((a, b) => a - b), "terms only rise");
  });

  test("leader election: a follower is told of every leader, and asks no more often than there is news", async (t) => {
    const own = await Server.start(t, "--grace", "1ms");
    const dir = await workplace(t, ["follow.mjs"]);
    const follower = start(dir, { LEASEHOLD_URL: own.url }, process.execPath, "follow.mjs");
    t.after(() => follower.child.kill("SIGKILL"));
    const hears = (...lines) => eventually(() => assert.deepEqual(follower.out.trim().split("\n"), lines));
    const lookouts = (count) => eventually(async () => assert.match(await (await fetch(`${own.url}/metrics`)).text(), new RegExp(`^leasehold_lookouts ${count}$`, "m")));
    await lookouts(1);
    const first = await own.call("POST", "/lock?job=leader&client=anna&ttl=1m");
    await hears(`anna leads in term ${first.token}`);
    await own.call("DELETE", "/lock?job=leader&client=anna");
    await hears(`anna leads in term ${first.token}`, "no leader");
    const second = await own.call("POST", "/lock?job=leader&client=bert&ttl=1m");
    await hears(`anna leads in term ${first.token}`, "no leader", `bert leads in term ${second.token}`);
    await lookouts(1);
    const asked = /^leasehold_requests_total\{[^}]*dialect="lock"[^}]*\} (\d+)$/gm;
    const calls = [...(await (await fetch(`${own.url}/metrics`)).text()).matchAll(asked)].reduce((sum, [, count]) => sum + Number(count), 0);
    assert.ok(calls <= 3 + 4, `three calls of ours and an answer for each piece of news, not ${calls}`);
  });

  test("Slurm: an array of tasks shares a smaller limit", async (t) => {
    const dir = await workplace(t, ["hold.sh", "job.sbatch", "job-run.sbatch"], { "fetch-genome": noting(0.4) });
    const pool = await server.pool(2);
    const notes = path.join(dir, "notes");
    const all = await Promise.all([1, 2, 3, 4].map((task) => run(dir, { ...env, POOL: pool, NOTES: notes, SLURM_ARRAY_TASK_ID: String(task) }, "bash", task % 2 ? "job.sbatch" : "job-run.sbatch")));
    assert.deepEqual(all.map(({ code }) => code), [0, 0, 0, 0], all.map(({ err }) => err).join());
    const { most, began } = await noted(notes);
    assert.ok(most <= 2);
    assert.deepEqual(began.map(({ args }) => args).sort(), ["1", "2", "3", "4"]);
  });

  test("the first lock: each client holds the same one, from the packages that people install", async (t) => {
    const names = ["curl.sh", "run.sh", "install-python.sh", "first.py", "python.sh", "install-typescript.sh", "first.mjs", "typescript.sh"];
    const dir = await workplace(t, names);
    await symlink(ROOT, path.join(dir, "leasehold"));
    // The page's server has a free port here.
    const here = { PATH: env.PATH, LEASEHOLD_LISTEN: "127.0.0.1:0" };
    const own = await Server.of(t, spawn("sh", ["-c", `exec ${recipe("serve.sh")}`], { cwd: dir, env: { ...process.env, ...here }, stdio: ["ignore", "ignore", "pipe"] }));
    here.LEASEHOLD_URL = own.url;
    const told = async (script) => {
      const { code, out, err } = await run(dir, here, "sh", "-e", script);
      assert.equal(code, 0, `${script}: ${out}${err}`);
      assert.equal((await own.call("GET", "/lock?job=first")).holder, "", `${script} gave it back`);
      return out;
    };
    const answers = (await told("curl.sh")).trim().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(answers.map(({ message }) => message), ["acquired", "lock held by another client", "lock released"]);
    assert.equal(answers[1].holder, "anna");
    const tokens = [answers[0].token];
    const held = (out, by) => {
      const found = new RegExp(`^held by ${by}, token (\\d+)$`, "m").exec(out);
      assert.ok(found, out);
      tokens.push(Number(found[1]));
    };
    held(await told("run.sh"), "run");
    await told("install-python.sh");
    held(await told("python.sh"), "Python");
    await told("install-typescript.sh");
    held(await told("typescript.sh"), "TypeScript");
    // The page's program is an example of the client, which scripts/recipes.sh has built.
    assert.equal(recipe("src/main.rs"), await readFile(path.join(ROOT, "crates/client/examples/first.rs"), "utf8"));
    const rust = await run(dir, here, path.join(TARGET, "debug/examples/first"));
    assert.equal(rust.code, 0, rust.err);
    held(rust.out, "Rust");
    assert.ok(tokens.every((token, n) => n === 0 || token > tokens[n - 1]), `the tokens rise: ${tokens}`);
  });

  test("every block of the pages was run", () => {
    assert.deepEqual([...recipes.keys()].filter((name) => !used.has(name)), []);
    console.log(`recipes: ${recipes.size} blocks of ${PAGES.join(" and ")} run as they stand`);
  });
});

/** How many lines were noted, after looking that no account was used twice at a time. */
async function accountsNoted(file) {
  const lines = (await readFile(file, "utf8")).trim().split("\n").map((line) => line.split(" ")).sort((a, b) => (BigInt(a[1]) < BigInt(b[1]) ? -1 : 1));
  const busy = new Set();
  for (const [what, , account] of lines) {
    assert.match(account, /^(anna|bert)@example\.org$/);
    assert.equal(busy.has(account), what === "end", `${account} is used twice at a time`);
    if (what === "begin") busy.add(account);
    else busy.delete(account);
  }
  return lines.length;
}
