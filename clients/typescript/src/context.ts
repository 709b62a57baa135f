// The state that the parts of one client share.

import type { Timers } from "./clock.js";
import type { Kind } from "./errors.js";
import type { Platform } from "./platform.js";
import type { Transport } from "./transport.js";

/** One line of the client's own log. It never has an id of a pool or lease, or a credential. */
export interface LogEvent {
  readonly event:
    | "granted" | "waiting" | "place_lost" | "attempt_failed" | "renewed" | "at_risk" | "safe" | "lost" | "released" | "cancelled" | "callback_failed";
  readonly kind: Kind;
  readonly resource: string;
  readonly token?: number | undefined;
  /** `Leasehold-Position` of the answer that it is about. */
  readonly position?: string | undefined;
  readonly requestId?: string | undefined;
  readonly url?: string | undefined;
  readonly message?: string | undefined;
}

export interface Context {
  readonly transport: Transport;
  readonly timers: Timers;
  readonly platform: Platform;
  readonly roundMs: number;
  log(event: LogEvent): void;
  /** Work that goes on after its caller has returned; `close` waits for it. */
  track(work: Promise<unknown>): void;
}

/** Calls what the user gave. It can delay and break nothing: it runs in a turn of its own, and what it throws is logged. */
export function callUser(context: Context, about: { kind: Kind; resource: string }, call: (() => unknown) | undefined): void {
  if (!call) return;
  queueMicrotask(() => {
    Promise.resolve()
      .then(call)
      .catch((thrown: unknown) => {
        const message = `a callback threw ${thrown instanceof Error ? thrown.name : typeof thrown}`;
        context.log({ event: "callback_failed", kind: about.kind, resource: about.resource, message });
      });
  });
}
