// A lived-in server: continuous integration, deploys, a GPU pool, people in queues. What the screenshots show, and a world to
// look at by hand: `node demo.mjs http://127.0.0.1:8080`.

const POOL = { gpu: "6b1d2f0e-93c4-4a57-8e21-0d7f5ac3b9e4", licence: "c02a7e15-4f68-4d39-b7a1-58e6f1029d3c", browsers: "e58f40b7-1d2a-4c96-9f03-7ab26c81d5f0" };
const RUNNERS = ["runner-ams-1", "runner-ams-2", "runner-fra-1", "runner-fra-2", "runner-lon-1"];
const SERVICES = ["billing", "checkout", "search", "identity", "catalogue", "mailer", "ledger", "gateway", "reports", "notifier"];

/** Fills a server and keeps it busy until `stop()`; `settled` is there when there is something to look at. */
export class Demo {
  #url;
  #random = seeded(7);
  #stopped = false;
  #timers = new Set();

  constructor(url) {
    this.#url = url;
  }

  stop() {
    this.#stopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }

  async #call(method, target, body) {
    if (this.#stopped) return null;
    try {
      const response = await fetch(this.#url + target, { method, body: body && JSON.stringify(body) });
      const text = await response.text();
      return response.ok && text !== "" ? JSON.parse(text) : null;
    } catch {
      return null; // the server may be gone before we are
    }
  }

  #later(seconds, act) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      if (!this.#stopped) void act();
    }, seconds * 1000);
    this.#timers.add(timer);
  }

  #between(low, high) {
    return low + this.#random() * (high - low);
  }

  #lock(job, client, ttl, wait = "") {
    return this.#call("POST", `/lock?${new URLSearchParams({ job, client, ttl, ...(wait && { wait }) })}`);
  }

  // A caller that claims, works for a while and gives back, again and again.
  async #worker(resource, owner, work_s, rest_s, more = {}) {
    const claim = await this.#call("POST", "/v1/claims/?wait=120", { resource, timeout: 90, metadata: { owner, ...more } });
    if (claim === null) return;
    this.#later(this.#between(...work_s), async () => {
      await this.#call("PATCH", `/v1/claims/${claim.id}/`, { status: "released" });
      this.#later(this.#between(...rest_s), () => this.#worker(resource, owner, work_s, rest_s, more));
    });
  }

  async #borrower(pool, hold_s, rest_s, ttl) {
    const lease = await this.#call("POST", `/l/${pool}/borrow`, { ttl, wait: 100 });
    if (lease === null) return;
    // One in ten dies instead of giving back; its slot comes back by itself.
    if (this.#random() > 0.1) this.#later(this.#between(...hold_s), () => this.#call("POST", `/l/${pool}/return`, { lease: lease.lease }));
    this.#later(this.#between(...hold_s) + this.#between(...rest_s), () => this.#borrower(pool, hold_s, rest_s, ttl));
  }

  async #deployer(job, client, hold_s, rest_s) {
    if (await this.#lock(job, client, "45s", "60s")) {
      const held = this.#between(...hold_s);
      this.#later(held / 2, () => this.#lock(job, client, "45s"));
      this.#later(held, () => this.#call("DELETE", `/lock?${new URLSearchParams({ job, client })}`));
      this.#later(held + this.#between(...rest_s), () => this.#deployer(job, client, hold_s, rest_s));
    } else {
      this.#later(this.#between(...rest_s), () => this.#deployer(job, client, hold_s, rest_s));
    }
  }

  async start() {
    await Promise.all([
      this.#call("PUT", `/l/${POOL.gpu}`, { count: 8 }),
      this.#call("PUT", `/l/${POOL.licence}`, { count: 3 }),
      this.#call("PUT", `/l/${POOL.browsers}`, { count: 40 }),
      this.#call("PUT", "/v1/resources/ci-runner-large", { capacity: 4 }),
      this.#call("PUT", "/v1/resources/staging-slot", { capacity: 2 }),
    ]);
    for (let n = 0; n < 9; n += 1) void this.#borrower(POOL.gpu, [12, 45], [4, 20], 60);
    for (let n = 0; n < 5; n += 1) void this.#borrower(POOL.licence, [10, 25], [3, 9], 45);
    for (let n = 0; n < 22; n += 1) void this.#borrower(POOL.browsers, [5, 15], [1, 6], 30);
    ["anna", "bilal", "chen", "dora", "emil", "freya", "goran"].forEach((owner, n) => this.#later(n * 1.3, () => this.#worker("ci-runner-large", owner, [14, 42], [3, 12], { branch: n % 2 ? "main" : `feature/${SERVICES[n]}`, build: 4180 + n })));
    ["anna", "chen", "emil"].forEach((owner, n) => this.#later(n * 2, () => this.#worker("staging-slot", owner, [15, 40], [2, 8], { service: SERVICES[n] })));
    ["migrate-ledger", "migrate-identity"].forEach((owner, n) => this.#later(n, () => this.#worker("database-migrations", owner, [15, 30], [5, 12])));
    RUNNERS.slice(0, 4).forEach((client, n) => this.#later(n * 2.5, () => this.#deployer("deploy-production", client, [12, 26], [6, 18])));
    RUNNERS.slice(2).forEach((client, n) => this.#later(n * 2, () => this.#deployer("deploy-staging", client, [5, 10], [5, 15])));
    for (const [n, service] of SERVICES.entries()) if (n % 3 !== 1) await this.#lock(`leader/${service}`, `${service}-${n % 3}`, `${18 + n}m`);
    await this.#lock("nightly-backup", "cron@db-1", "25m");
    await this.#lock("tax-report", "olga", "2s"); // in grace by the time the page looks
    await this.#lock("cache-warmup", "warmer-2", "9m");
  }
}

// Random numbers that are the same in every run.
function seeded(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

if (process.argv[1]?.endsWith("demo.mjs")) {
  const demo = new Demo(process.argv[2] ?? "http://127.0.0.1:8080");
  await demo.start();
  process.once("SIGINT", () => demo.stop());
}
