// The client: its settings, what can be asked for, and what of it is held right now.
import { Acquisition } from "./acquire.js";
import { askClaim, askLock, askPool } from "./asked.js";
import { Timers } from "./clock.js";
import { milliseconds } from "./duration.js";
import { Conflict } from "./errors.js";
import { Holding } from "./holding.js";
import { asyncDispose, Lease } from "./lease.js";
import { Patience } from "./patience.js";
import { randomName, Transport } from "./transport.js";
const DEFAULT_URL = "http://127.0.0.1:8080";
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const LONGEST_NAME = 100;
const CLOSE_MS = 2000;
const SETTLE_MS = 5000;
const FOREVER = Number.MAX_SAFE_INTEGER;
/** @internal */
export class Core {
    platform;
    transport;
    timers;
    roundMs;
    #holdings = new Set();
    #acquisitions = new Set();
    #work = new Set();
    #unwatch;
    #options;
    #name;
    #closed;
    constructor(platform, options) {
        this.platform = platform;
        this.#options = options;
        this.#name = options.name;
        this.roundMs = milliseconds("round", options.round ?? 50, 5000, 290_000);
        this.timers = new Timers(options.clock ?? platform.clock);
        const { token } = options;
        const readToken = typeof token === "string" ? () => token : token ?? platform.defaultToken();
        const plainFetch = (input, init) => globalThis.fetch(input, init);
        this.transport = new Transport(readUrls(options.url ?? platform.defaultUrl() ?? DEFAULT_URL), this.timers, platform, options.fetch ?? plainFetch, readToken);
        this.#unwatch = platform.watch(this.timers, () => {
            for (const holding of this.#holdings)
                holding.leave();
        });
    }
    log(event) {
        try {
            this.#options.log?.(event);
        }
        catch {
            // A log that breaks breaks nothing else.
        }
    }
    track(work) {
        const kept = work.catch(() => { }).finally(() => this.#work.delete(kept));
        this.#work.add(kept);
    }
    /** Where lock clients are bound to who signed on, it has to be that name. */
    async name() {
        if (this.#name === undefined && this.transport.signsOn) {
            const heard = await this.transport.send({ method: "GET", path: "/v1/whoami" }, { timeoutMs: 5000, hold: "process" });
            if (heard.is === "answer" && typeof heard.body["name"] === "string")
                this.#name = heard.body["name"];
        }
        return (this.#name ?? this.platform.defaultName()).slice(0, LONGEST_NAME);
    }
    async acquire(wanted, options) {
        if (this.#closed)
            throw new Error("the client is closed");
        options.signal?.throwIfAborted();
        const waitMs = options.wait === undefined ? undefined : milliseconds("wait", options.wait, 0, FOREVER);
        const holdMs = options.maxHold === undefined ? Number.POSITIVE_INFINITY : milliseconds("maxHold", options.maxHold, 1000, FOREVER);
        const acquisition = new Acquisition(this, { ...wanted, waitMs, signal: options.signal, onProgress: options.onProgress });
        this.#acquisitions.add(acquisition);
        try {
            const { asked, grant, points } = await acquisition.run();
            const { onAtRisk, onLost } = options;
            const holding = new Holding(this, asked, grant, points, points.sentAt + holdMs, {
                ...(onAtRisk ? { onAtRisk: (remaining, cause) => onAtRisk(lease, { remaining, cause }) } : {}),
                ...(onLost ? { onLost: ({ loss }) => onLost(loss, lease) } : {}),
            }, (each) => this.#holdings.delete(each));
            const lease = new Lease(holding, options.raiseOnLoss ?? true);
            this.#holdings.add(holding);
            return lease;
        }
        finally {
            this.#acquisitions.delete(acquisition);
        }
    }
    /** One call whose answer is wanted as it is; a refusal throws. */
    async plain(call) {
        const heard = await this.transport.send(call, { timeoutMs: 15_000, hold: "process" });
        if (heard.is === "answer" && heard.status >= 200 && heard.status < 300)
            return heard;
        const patience = new Patience(() => 1, true);
        patience.after(heard);
        throw patience.unavailable();
    }
    ttlMs(options) {
        return milliseconds("ttl", options.ttl ?? this.platform.defaultTtlMs / 1000, 1000, FOREVER);
    }
    close() {
        this.#closed ??= this.#close();
        return this.#closed;
    }
    async #close() {
        for (const acquisition of this.#acquisitions)
            acquisition.cancel(new DOMException("the client was closed", "AbortError"));
        const released = Promise.all([...this.#holdings].map((holding) => holding.release(CLOSE_MS)));
        await this.#within(CLOSE_MS, released);
        // What was cancelled just now begins to settle in the next turns.
        await this.timers.sleep(0, "process");
        await this.#within(SETTLE_MS, this.#settled());
        this.#unwatch();
        this.transport.close();
    }
    /** Waits for the work, but not for ever; the timer does not outlive it. */
    async #within(ms, work) {
        const ends = new AbortController();
        await Promise.race([work.finally(() => ends.abort()), this.timers.sleep(ms, "process", ends.signal)]);
    }
    async #settled() {
        while (this.#work.size > 0)
            await Promise.all([...this.#work]);
    }
}
/** Something that can be held: a lock, a claim on a resource, a slot of a pool. */
export class Lendable {
    kind;
    resource;
    #defaults;
    constructor(kind, resource, defaults) {
        this.kind = kind;
        this.resource = resource;
        this.#defaults = defaults;
    }
    /** Waits for it, for ever unless `wait` says otherwise. */
    async acquire(options = {}) {
        return this.begin({ ...this.#defaults, ...options });
    }
    /** Asks once; undefined when another holds it. */
    async tryAcquire(options = {}) {
        try {
            return await this.acquire({ ...options, wait: 0 });
        }
        catch (thrown) {
            if (thrown instanceof Conflict)
                return undefined;
            throw thrown;
        }
    }
    /** Holds it while the body runs. `lease.signal` aborts when it is lost. */
    async run(body, options = {}) {
        const lease = await this.acquire(options);
        return lease.during(body);
    }
}
/** A lock that sticks with its holder. */
export class Lock extends Lendable {
    #core;
    /** @internal */
    constructor(core, name, defaults) {
        super("lock", name, defaults);
        this.#core = core;
    }
    async begin(options) {
        const core = this.#core;
        const ttlMs = core.ttlMs(options);
        options.signal?.throwIfAborted();
        const who = await core.name();
        const { kind, resource } = this;
        const ask = (waitMs) => {
            const name = randomName(core.platform);
            return askLock(resource, `${who}/${name}`, name, { ttlMs, waitMs });
        };
        return core.acquire({ kind, resource, ask }, options);
    }
}
/** A named resource with a queue. The place in it survives reconnects and restarts. */
export class Claim extends Lendable {
    #core;
    /** @internal */
    constructor(core, resource, defaults) {
        super("claim", resource, defaults);
        this.#core = core;
    }
    async begin(options) {
        const core = this.#core;
        const ttlMs = core.ttlMs(options);
        options.signal?.throwIfAborted();
        const who = await core.name();
        const { kind, resource } = this;
        return core.acquire({ kind, resource, ask: (waitMs) => askClaim(resource, who, randomName(core.platform), randomName(core.platform), { ttlMs, waitMs }) }, options);
    }
}
/** A pool of numbered slots. Its id is the credential: it is in no text that leaves the client. */
export class Pool extends Lendable {
    #core;
    #id;
    /** @internal */
    constructor(core, id, defaults) {
        super("pool", defaults.label ?? "pool", defaults);
        if (typeof id !== "string" || !UUID.test(id))
            throw new RangeError("the id of a pool has to be a UUID with hyphens");
        this.#core = core;
        this.#id = id.toLowerCase();
    }
    /** The same as `acquire`, in the pool's own word. */
    borrow(options = {}) {
        return this.acquire(options);
    }
    /** Makes the pool, or changes how many slots it has. Sent once, never again. */
    async set(count) {
        return state(await this.#core.plain({ method: "PUT", path: `/l/${this.#id}`, body: JSON.stringify({ count }), once: true }));
    }
    async show() {
        return state(await this.#core.plain({ method: "GET", path: `/l/${this.#id}` }));
    }
    /** Ends all its leases. Sent once, never again. False when there was none. */
    async delete() {
        return (await this.#core.plain({ method: "DELETE", path: `/l/${this.#id}`, once: true })).body["deleted"] === true;
    }
    async begin(options) {
        const core = this.#core;
        const ttlMs = core.ttlMs(options);
        const { kind, resource } = this;
        return core.acquire({ kind, resource, ask: (waitMs) => askPool(this.#id, resource, randomName(core.platform), { ttlMs, waitMs }) }, options);
    }
}
/** A client of one service. `index.ts` and `browser.ts` say on which host. */
export class BaseClient {
    #core;
    /** @internal */
    constructor(platform, options) {
        this.#core = new Core(platform, options);
    }
    lock(name, options = {}) {
        return new Lock(this.#core, name, options);
    }
    claim(resource, options = {}) {
        return new Claim(this.#core, resource, options);
    }
    /** `label` names the pool in errors and logs, as its id does not. */
    pool(id, options = {}) {
        return new Pool(this.#core, id, options);
    }
    /** Cancels what waits and gives back what is held, within a few seconds. */
    close() {
        return this.#core.close();
    }
    [asyncDispose]() {
        return this.close();
    }
}
function state({ body }) {
    const number = (name) => (typeof body[name] === "number" ? body[name] : 0);
    return { count: number("count"), inUse: number("in_use"), available: number("available"), waiting: typeof body["waiting"] === "number" ? body["waiting"] : undefined };
}
function readUrls(given) {
    const urls = (typeof given === "string" ? given.split(",") : [...given]).map((each) => each.trim()).filter((each) => each !== "");
    if (urls.length === 0)
        throw new RangeError("url is empty, it has to be an address such as http://127.0.0.1:8080, or several with commas");
    return [...new Set(urls.map(readUrl))];
}
function readUrl(text) {
    let url;
    try {
        url = new URL(text);
    }
    catch {
        throw new RangeError("url has an address that is none, it has to be like http://127.0.0.1:8080");
    }
    const plain = (url.protocol === "http:" || url.protocol === "https:") && !url.username && !url.password && !url.search && !url.hash;
    if (!plain)
        throw new RangeError(`url has an address at ${url.host || "no host"} that is not http:// or https:// with a host, a port and a path alone; credentials go into token`);
    return url.origin + url.pathname.replace(/\/+$/, "");
}
