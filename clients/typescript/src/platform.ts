// The differences between Node, Deno and browsers.

import type { Clock, Timers } from "./clock.js";

export interface Platform {
  /** The lease clock. */
  readonly clock: Clock;
  /** Fills the array with random bytes fit for names that cannot be guessed. */
  random(bytes: Uint8Array): Uint8Array;
  /** `LEASEHOLD_URL` or where the page came from; undefined where neither is. */
  defaultUrl(): string | undefined;
  /** How to read the sign-on token that the environment names, if it names one. */
  defaultToken(): (() => string | Promise<string>) | undefined;
  /** `user@host`, for people who look at who holds a lock. */
  defaultName(): string;
  readonly defaultTtlMs: number;
  /** Polls in flight at one address; more would starve renewals where connections are few. */
  readonly pollsAtOnce: number;
  /** True if a header of our own needs the permission of a service on another origin. */
  readonly asksForHeaders: boolean;
  /** Further arguments of `fetch`: connections of their own for polls, where the host has them. */
  connection(use: "poll" | "call"): { readonly init: object; close(): void };
  /** Looks at the clock when the page or machine comes back; `leave` is called when the page goes. The answer undoes it. */
  watch(timers: Timers, leave: () => void): () => void;
}
