// The client: its settings, what can be asked for, and what of it is held right now.

import type { Answer } from "./answer.js";
import { type Acquiring, Acquisition, type Progress } from "./acquire.js";
import { askClaim, type Asked, askLock, askPool } from "./asked.js";
import { type Clock, Timers } from "./clock.js";
import type { Context, LogEvent } from "./context.js";
import { type Duration, milliseconds } from "./duration.js";
import { Conflict, type Kind, type Loss } from "./errors.js";
import { Holding } from "./holding.js";
import { asyncDispose, Lease } from "./lease.js";
import { Patience } from "./patience.js";
import type { Platform } from "./platform.js";
import { giveBack } from "./release.js";
import { type Call, type Fetch, randomName, type ReadToken, Transport } from "./transport.js";

export interface ClientOptions {
  /** Where the service is; several addresses (a list, or a text with commas) are of one service. Default: `LEASEHOLD_URL`, in a page its origin. */
  readonly url?: string | readonly string[];
  /** The sign-on token, or how to read it; it is read again when the service does not accept it. Default: `LEASEHOLD_TOKEN_FILE`, `LEASEHOLD_TOKEN`. */
  readonly token?: string | ReadToken;
  /** In place of the host's `fetch`. */
  readonly fetch?: Fetch;
  /** The holder's name of a lock, for people: default `user@host`, or the name that the service knows a signed-on caller by. */
  readonly name?: string;
  /** How long one poll lasts while waiting: 5 s to 290 s, default 50 s. */
  readonly round?: Duration;
  /** Everything that happens, without ids and credentials. */
  readonly log?: (event: LogEvent) => void;
  /** The lease clock, in milliseconds. For tests: it has to count while the machine sleeps. */
  readonly clock?: Clock;
}

export interface HoldOptions {
  /** How long the lease lives without a renewal: at least 1 s, default 30 s, in browsers 300 s. */
  readonly ttl?: Duration;
  /** How long to wait for it, in all. Left out: for ever. 0: asks once. */
  readonly wait?: Duration | undefined;
  /** Cancels waiting. Once the lease is there it does nothing. */
  readonly signal?: AbortSignal | undefined;
  /** Renewals end after this long, so that a holder that hangs does not hold for ever. Default: never. */
  readonly maxHold?: Duration | undefined;
  /** True if the end of a scope throws `LeaseLost` when the lease was lost in it. Default: yes. */
  readonly raiseOnLoss?: boolean;
  readonly onProgress?: (progress: Progress) => unknown;
  /** It could not be renewed so far, and is lost in so many seconds unless that changes. */
  readonly onAtRisk?: (lease: Lease, risk: { readonly remaining: number; readonly cause: string }) => unknown;
  readonly onLost?: (loss: Loss, lease: Lease) => unknown;
}

const DEFAULT_URL = "http://127.0.0.1:8080";
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const LONGEST_NAME = 100;
const CLOSE_MS = 2000;
const SETTLE_MS = 5000;
const FOREVER = Number.MAX_SAFE_INTEGER;

/** @internal */
export class Core implements Context {
  readonly transport: Transport;
  readonly timers: Timers;
  readonly roundMs: number;
  readonly #holdings = new Set<Holding>();
  readonly #acquisitions = new Set<Acquisition>();
  readonly #work = new Set<Promise<unknown>>();
  readonly #unwatch: () => void;
  readonly #options: ClientOptions;
  #name: string | undefined;
  #closed: Promise<void> | undefined;

  constructor(readonly platform: Platform, options: ClientOptions) {
    this.#options = options;
    this.#name = options.name;
    this.roundMs = milliseconds("round", options.round ?? 50, 5000, 290_000);
    this.timers = new Timers(options.clock ?? platform.clock);
    const { token } = options;
    const readToken = typeof token === "string" ? () => token : token ?? platform.defaultToken();
    const plainFetch: Fetch = (input, init) => globalThis.fetch(input, init);
    this.transport = new Transport(readUrls(options.url ?? platform.defaultUrl() ?? DEFAULT_URL), this.timers, platform, options.fetch ?? plainFetch, readToken);
    this.#unwatch = platform.watch(this.timers, () => {
      for (const holding of this.#holdings) holding.leave();
    });
  }

  log(event: LogEvent): void {
    try {
      this.#options.log?.(event);
    } catch {
      // A log that breaks breaks nothing else.
    }
  }

  track(work: Promise<unknown>): void {
    const kept = work.catch(() => {}).finally(() => this.#work.delete(kept));
    this.#work.add(kept);
  }

  /** Where lock clients are bound to who signed on, it has to be that name. */
  async name(): Promise<string> {
    if (this.#name === undefined && this.transport.signsOn) {
      const heard = await this.transport.send({ method: "GET", path: "/v1/whoami" }, { timeoutMs: 5000, hold: "process" });
      if (heard.is === "answer" && typeof heard.body["name"] === "string") this.#name = heard.body["name"];
    }
    return (this.#name ?? this.platform.defaultName()).slice(0, LONGEST_NAME);
  }

  async acquire(wanted: Omit<Acquiring, "signal" | "waitMs" | "onProgress">, options: HoldOptions): Promise<Lease> {
    if (this.#closed) throw new Error("the client is closed");
    options.signal?.throwIfAborted();
    const waitMs = options.wait === undefined ? undefined : milliseconds("wait", options.wait, 0, FOREVER);
    const holdMs = options.maxHold === undefined ? Number.POSITIVE_INFINITY : milliseconds("maxHold", options.maxHold, 1000, FOREVER);
    const acquisition = new Acquisition(this, { ...wanted, waitMs, signal: options.signal, onProgress: options.onProgress });
    this.#acquisitions.add(acquisition);
    try {
      const { asked, grant, points } = await acquisition.run();
      if (this.#closed) {
        this.track(giveBack(this, asked, grant));
        throw new Error("the client is closed");
      }
      const { onAtRisk, onLost } = options;
      const holding = new Holding(this, asked, grant, points, points.sentAt + holdMs, {
        ...(onAtRisk ? { onAtRisk: (remaining, cause) => onAtRisk(lease, { remaining, cause }) } : {}),
        ...(onLost ? { onLost: ({ loss }) => onLost(loss, lease) } : {}),
      }, (each) => this.#holdings.delete(each));
      const lease = new Lease(holding, options.raiseOnLoss ?? true);
      this.#holdings.add(holding);
      return lease;
    } finally {
      this.#acquisitions.delete(acquisition);
    }
  }

  /** One call whose answer is wanted as it is; a refusal throws. */
  async plain(call: Call): Promise<Answer> {
    const heard = await this.transport.send(call, { timeoutMs: 15_000, hold: "process" });
    if (heard.is === "answer" && heard.status >= 200 && heard.status < 300) return heard;
    const patience = new Patience(() => 1, true);
    patience.after(heard);
    throw patience.unavailable();
  }

  ttlMs(options: HoldOptions): number {
    return milliseconds("ttl", options.ttl ?? this.platform.defaultTtlMs / 1000, 1000, FOREVER);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    for (const acquisition of this.#acquisitions) acquisition.cancel(new DOMException("the client was closed", "AbortError"));
    const released = Promise.all([...this.#holdings].map((holding) => holding.release(CLOSE_MS)));
    await this.#within(CLOSE_MS, released);
    // A call that was cancelled just now begins to settle in the next turns.
    await this.timers.sleep(0, "process");
    await this.#within(SETTLE_MS, this.#settled());
    this.#unwatch();
    this.transport.close();
  }

  /** Waits for the work, but not for ever; the timer does not outlive it. */
  async #within(ms: number, work: Promise<unknown>): Promise<void> {
    const ends = new AbortController();
    await Promise.race([work.finally(() => ends.abort()), this.timers.sleep(ms, "process", ends.signal)]);
  }

  async #settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.all([...this.#work]);
  }
}

/** Something that can be held: a lock, a claim on a resource, a slot of a pool. */
export abstract class Lendable {
  readonly #defaults: HoldOptions;

  constructor(protected readonly kind: Kind, protected readonly resource: string, defaults: HoldOptions) {
    this.#defaults = defaults;
  }

  protected abstract begin(options: HoldOptions): Promise<Lease>;

  /** Waits for it, for ever unless `wait` says otherwise. */
  async acquire(options: HoldOptions = {}): Promise<Lease> {
    return this.begin({ ...this.#defaults, ...options });
  }

  /** Asks once; undefined when another holds it. */
  async tryAcquire(options: HoldOptions = {}): Promise<Lease | undefined> {
    try {
      return await this.acquire({ ...options, wait: 0 });
    } catch (thrown) {
      if (thrown instanceof Conflict) return undefined;
      throw thrown;
    }
  }

  /** Holds it while the body runs. `lease.signal` aborts when it is lost. */
  async run<T>(body: (lease: Lease) => T | Promise<T>, options: HoldOptions = {}): Promise<T> {
    const lease = await this.acquire(options);
    return lease.during(body);
  }
}

/** A lock that sticks with its holder. */
export class Lock extends Lendable {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core, name: string, defaults: HoldOptions) {
    super("lock", name, defaults);
    this.#core = core;
  }

  protected override async begin(options: HoldOptions): Promise<Lease> {
    const core = this.#core;
    const ttlMs = core.ttlMs(options);
    options.signal?.throwIfAborted();
    const who = await core.name();
    const { kind, resource } = this;
    const ask = (waitMs: number): Asked => {
      const name = randomName(core.platform);
      return askLock(resource, `${who}/${name}`, name, { ttlMs, waitMs });
    };
    return core.acquire({ kind, resource, ask }, options);
  }
}

/** A named resource with a queue. The place in it survives reconnects and restarts. */
export class Claim extends Lendable {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core, resource: string, defaults: HoldOptions) {
    super("claim", resource, defaults);
    this.#core = core;
  }

  protected override async begin(options: HoldOptions): Promise<Lease> {
    const core = this.#core;
    const ttlMs = core.ttlMs(options);
    options.signal?.throwIfAborted();
    const who = await core.name();
    const { kind, resource } = this;
    return core.acquire({ kind, resource, ask: (waitMs) => askClaim(resource, who, randomName(core.platform), randomName(core.platform), { ttlMs, waitMs }) }, options);
  }
}

export interface PoolState {
  readonly count: number;
  readonly inUse: number;
  readonly available: number;
  readonly waiting: number | undefined;
}

/** A pool of numbered slots. Its id is the credential: it is in no text that leaves the client. */
export class Pool extends Lendable {
  readonly #core: Core;
  readonly #id: string;

  /** @internal */
  constructor(core: Core, id: string, defaults: HoldOptions & { readonly label?: string }) {
    super("pool", defaults.label ?? "pool", defaults);
    if (typeof id !== "string" || !UUID.test(id)) throw new RangeError("the id of a pool has to be a UUID with hyphens");
    this.#core = core;
    this.#id = id.toLowerCase();
  }

  /** The same as `acquire`, in the pool's own word. */
  borrow(options: HoldOptions = {}): Promise<Lease> {
    return this.acquire(options);
  }

  /** Makes the pool, or changes how many slots it has. Sent once, never again. */
  async set(count: number): Promise<PoolState> {
    return state(await this.#core.plain({ method: "PUT", path: `/l/${this.#id}`, body: JSON.stringify({ count }), once: true }));
  }

  async show(): Promise<PoolState> {
    return state(await this.#core.plain({ method: "GET", path: `/l/${this.#id}` }));
  }

  /** Ends all its leases. Sent once, never again. False when there was none. */
  async delete(): Promise<boolean> {
    return (await this.#core.plain({ method: "DELETE", path: `/l/${this.#id}`, once: true })).body["deleted"] === true;
  }

  protected override async begin(options: HoldOptions): Promise<Lease> {
    const core = this.#core;
    const ttlMs = core.ttlMs(options);
    const { kind, resource } = this;
    return core.acquire({ kind, resource, ask: (waitMs) => askPool(this.#id, resource, randomName(core.platform), { ttlMs, waitMs }) }, options);
  }
}

/** A client of one service. `index.ts` and `browser.ts` say on which host. */
export class BaseClient {
  readonly #core: Core;

  /** @internal */
  constructor(platform: Platform, options: ClientOptions) {
    this.#core = new Core(platform, options);
  }

  lock(name: string, options: HoldOptions = {}): Lock {
    return new Lock(this.#core, name, options);
  }

  claim(resource: string, options: HoldOptions = {}): Claim {
    return new Claim(this.#core, resource, options);
  }

  /** `label` names the pool in errors and logs, as its id does not. */
  pool(id: string, options: HoldOptions & { readonly label?: string } = {}): Pool {
    return new Pool(this.#core, id, options);
  }

  /** Cancels what waits and gives back what is held, within a few seconds. */
  close(): Promise<void> {
    return this.#core.close();
  }

  [asyncDispose](): Promise<void> {
    return this.close();
  }
}

function state({ body }: Answer): PoolState {
  const number = (name: string): number => (typeof body[name] === "number" ? (body[name] as number) : 0);
  return { count: number("count"), inUse: number("in_use"), available: number("available"), waiting: typeof body["waiting"] === "number" ? body["waiting"] : undefined };
}

function readUrls(given: string | readonly string[]): string[] {
  const urls = (typeof given === "string" ? given.split(",") : [...given]).map((each) => each.trim()).filter((each) => each !== "");
  if (urls.length === 0) throw new RangeError("url is empty, it has to be an address such as http://127.0.0.1:8080, or several with commas");
  return [...new Set(urls.map(readUrl))];
}

function readUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new RangeError("url has an address that is none, it has to be like http://127.0.0.1:8080");
  }
  const plain = (url.protocol === "http:" || url.protocol === "https:") && !url.username && !url.password && !url.search && !url.hash;
  if (!plain) throw new RangeError(`url has an address at ${url.host || "no host"} that is not http:// or https:// with a host, a port and a path alone; credentials go into token`);
  return url.origin + url.pathname.replace(/\/+$/, "");
}
