// How the three dialects say the same things: ask, renew, give back, withdraw. Each of them is one object here; waiting, renewing and
// losing are written once, elsewhere.

import type { Answer } from "./answer.js";
import type { Kind } from "./errors.js";
import type { Call } from "./transport.js";

/** A slot that the operator has given a name, and data that travel with its lease. */
export interface NamedSlot {
  readonly name: string;
  /** Any JSON; null when there are none. */
  readonly data: unknown;
}

/** A grant as an answer tells it. */
export interface Grant {
  /** Of a pool the lease's id, of a claim the claim's; of a lock the client that holds it. */
  readonly id: string;
  readonly token: number;
  readonly slot: number | undefined;
  /** Where slots have names. */
  readonly named: NamedSlot | undefined;
  readonly lengthMs: number;
  /** How long the service let the request wait, by its own clock, if it says so. */
  readonly waitedMs: number | undefined;
}

/** The service's account of the waiters. */
export interface Queue {
  readonly queuePosition?: number | undefined;
  readonly holders?: readonly unknown[] | number | undefined;
  readonly waiting?: number | undefined;
  readonly eta?: number | undefined;
}

/** One acquisition in one dialect, under a name of its own. */
export interface Asked {
  readonly kind: Kind;
  /** For people: of a pool its label, never its id. */
  readonly resource: string;
  readonly ask: Call;
  /** The grant in a 200 or 201; undefined when the answer has none of ours. */
  granted(answer: Answer): Grant | undefined;
  renew(grant: Grant): Call;
  release(grant: Grant): Call;
  /** True if a 200 to `release` says that it had ended before. */
  endedBefore(answer: Answer): boolean;
  /** Ends whatever this acquisition has, waiting or held; undefined where the service has no such call. */
  withdraw: Call | undefined;
  /** Why the service ended the lease, from its answer to a renewal. */
  endedBy(answer: Answer): string;
  /** How many wait, and who holds it; a claim's is told by its id, once it has one. */
  readonly look: Call | undefined;
  queue(answer: Answer): Queue;
}

/**
 * So long the service keeps the place of a pool or a lock when none of its calls is there: longer than a restart and the pause before the
 * next call, and no longer than a dead waiter may hold up those behind it.
 */
export const KEEP_MS = 15_000;

export interface Wanted {
  readonly ttlMs: number;
  /** How long one call waits; 0 does not wait. */
  readonly waitMs: number;
}

export function askPool(id: string, label: string, key: string, { ttlMs, waitMs }: Wanted): Asked {
  const at = `/l/${id}`;
  const ttl = ttlMs / 1000;
  const granted = ({ status, body }: Answer): Grant | undefined => {
    const { lease, token, position, expires_in, waited_s } = body;
    if (status !== 200 || !isText(lease) || !isToken(token) || !isSpan(expires_in)) return undefined;
    return { id: lease, token, slot: isSpan(position) ? position : undefined, named: namedIn(body), lengthMs: expires_in * 1000, waitedMs: spanMs(waited_s) };
  };
  return {
    kind: "pool",
    resource: label,
    ask: { method: "POST", path: `${at}/borrow`, key, body: JSON.stringify({ ttl, wait: waitMs / 1000, ...(waitMs > 0 ? { keep: KEEP_MS / 1000 } : {}) }) },
    granted,
    renew: (grant) => ({ method: "POST", path: `${at}/renew`, body: JSON.stringify({ lease: grant.id, ttl }) }),
    release: (grant) => ({ method: "POST", path: `${at}/return`, body: JSON.stringify({ lease: grant.id }) }),
    endedBefore: ({ body }) => body["returned"] === false,
    withdraw: { method: "DELETE", path: `${at}/borrow`, key },
    endedBy: ({ status, body }) => textOr(body["ended"], status === 404 ? "deleted" : "expired"),
    // With the key the answer has the place of this acquisition.
    look: { method: "GET", path: at, key },
    queue: ({ body }) => ({ ...waitingIn(body), holders: isText(body["holder"]) ? [body["holder"]] : isSpan(body["in_use"]) ? body["in_use"] : undefined }),
  };
}

/** A claim waits by itself: `ask` does not, and `poll` waits for the turn of the claim that `ask` made. */
export interface AskedClaim extends Asked {
  poll(id: string): Call;
  withdrawn(id: string): Call;
  /** Lists the claims that may be this one, where the answer with its id was lost; `isThis` tells it from the others. */
  readonly lists: readonly Call[];
  isThis(claim: unknown): string | undefined;
  lookAt(id: string): Call;
}

export function askClaim(resource: string, name: string, key: string, acquisition: string, { ttlMs, waitMs }: Wanted): AskedClaim {
  const ttl = ttlMs / 1000;
  const at = (id: string): string => `/v1/claims/${encodeURIComponent(id)}/`;
  const granted = ({ status, body }: Answer): Grant | undefined => {
    const { id, token, expires_in, waited_s } = body;
    const length = isSpan(expires_in) ? expires_in : body["ttl"];
    if ((status !== 200 && status !== 201) || body["status"] !== "active" || !isText(id) || !isToken(token) || !isSpan(length)) return undefined;
    return { id, token, slot: numberIn(body), named: namedIn(body), lengthMs: length * 1000, waitedMs: spanMs(waited_s) };
  };
  return {
    kind: "claim",
    resource,
    ask: { method: "POST", path: "/v1/claims/", key, body: JSON.stringify({ resource, timeout: ttl, metadata: { client: name, acquisition } }) },
    granted,
    renew: (grant) => ({ method: "PATCH", path: at(grant.id), body: JSON.stringify({ ttl }) }),
    release: (grant) => ({ method: "PATCH", path: at(grant.id), body: JSON.stringify({ status: "released" }) }),
    endedBefore: () => false,
    withdraw: undefined,
    endedBy: ({ body }) => textOr(body["ended"], textOr(body["status"], "expired")),
    look: undefined,
    queue: ({ body }) => ({ ...waitingIn(body), holders: Array.isArray(body["holders"]) ? (body["holders"] as unknown[]) : undefined }),
    poll: (id) => ({ method: "PATCH", path: `${at(id)}?wait=${waitMs / 1000}`, body: JSON.stringify({ status: "active", ttl }) }),
    withdrawn: (id) => ({ method: "PATCH", path: at(id), body: JSON.stringify({ status: "withdrawn" }) }),
    lookAt: (id) => ({ method: "GET", path: at(id) }),
    lists: ["active", "waiting"].map((status) => ({ method: "GET", path: `/v1/claims/?limit=1000&status=${status}&resource=${encodeURIComponent(resource)}` })),
    isThis: (claim) => {
      const { id, metadata } = claim as { id?: unknown; metadata?: { acquisition?: unknown } };
      return isText(id) && metadata?.acquisition === acquisition ? id : undefined;
    },
  };
}

/** Of a lock the client's name is the name of the acquisition: the same call finds its own lock and renews it. */
export function askLock(job: string, client: string, key: string, { ttlMs, waitMs }: Wanted): Asked {
  const who = `client=${encodeURIComponent(client)}&job=${encodeURIComponent(job)}`;
  const ttl = `ttl=${Math.round(ttlMs)}ms`;
  const granted = ({ status, body }: Answer): Grant | undefined => {
    const { holder, token, expires_in, waited_s } = body;
    if (status !== 200 || holder !== client || !isToken(token)) return undefined;
    // Without `expires_in` the answer has wall-clock times alone: the ttl asked for counts, up to the usual maximum.
    const lengthMs = isSpan(expires_in) ? expires_in * 1000 : Math.min(ttlMs, 86_400_000);
    return { id: client, token, slot: undefined, named: undefined, lengthMs, waitedMs: spanMs(waited_s) };
  };
  return {
    kind: "lock",
    resource: job,
    ask: { method: "POST", key, path: `/lock?${who}&${ttl}${waitMs > 0 ? `&wait=${Math.round(waitMs)}ms&keep=${KEEP_MS}ms` : ""}` },
    granted,
    renew: (grant) => ({ method: "POST", path: `/lock?${who}&${ttl}&token=${grant.token}` }),
    release: (grant) => ({ method: "DELETE", path: `/lock?${who}&token=${grant.token}` }),
    endedBefore: () => false,
    withdraw: { method: "DELETE", path: `/lock?${who}`, key },
    endedBy: ({ body }) => textOr(body["ended"], "expired"),
    look: { method: "GET", path: `/lock?${who}` },
    queue: ({ body }) => ({ ...waitingIn(body), holders: isText(body["holder"]) ? [body["holder"]] : undefined }),
  };
}

function waitingIn(body: Answer["body"]): Queue {
  const { queue_position, waiting, eta_s } = body;
  return {
    queuePosition: isSpan(queue_position) ? queue_position : undefined,
    waiting: isSpan(waiting) ? waiting : undefined,
    eta: isSpan(eta_s) ? eta_s : undefined,
  };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isToken(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isSpan(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

function spanMs(value: unknown): number | undefined {
  return isSpan(value) ? value * 1000 : undefined;
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === "string" && /^[a-z_]{1,40}$/.test(value) ? value : otherwise;
}

function slotIn(body: Answer["body"]): { number?: unknown; name?: unknown; data?: unknown } {
  const slot: unknown = body["slot"];
  return typeof slot === "object" && slot !== null ? slot : {};
}

function numberIn(body: Answer["body"]): number | undefined {
  const { number } = slotIn(body);
  return isSpan(number) ? number : undefined;
}

function namedIn(body: Answer["body"]): NamedSlot | undefined {
  const { name, data } = slotIn(body);
  return isText(name) ? { name, data: data ?? null } : undefined;
}
