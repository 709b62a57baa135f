// Browsers. Hidden pages wake once a minute, so leases are long; six connections per origin are all there are, so polls are few.

import { type Clock, countingInSleep, type Timers } from "./clock.js";
import type { Platform } from "./platform.js";

const COARSE_MS = 20;

/** `performance.now` counts in sleep in some browsers only; the wall clock does in all. A step forward loses a lease early, no more. */
export function leaseClock(now: () => number = () => performance.now(), wall: () => number = () => Date.now()): Clock {
  return countingInSleep(now, wall, COARSE_MS);
}

export function webPlatform(): Platform {
  return {
    clock: leaseClock(),
    random: (bytes) => globalThis.crypto.getRandomValues(bytes as Uint8Array<ArrayBuffer>),
    defaultTtlMs: 300_000,
    pollsAtOnce: 3,
    asksForHeaders: true,
    defaultUrl: () => (globalThis.location?.origin?.startsWith("http") ? globalThis.location.origin : undefined),
    defaultToken: () => undefined,
    defaultName: () => `browser@${globalThis.location?.hostname || "page"}`,
    connection: () => ({ init: {}, close: () => {} }),
    watch,
  };
}

function watch(timers: Timers, leave: () => void): () => void {
  const look = (): void => timers.look();
  const wired: [EventTarget | undefined, string, () => void][] = [
    [globalThis.document, "visibilitychange", look],
    [globalThis.document, "resume", look],
    [globalThis.window, "pageshow", look],
    [globalThis.window, "pagehide", leave],
  ];
  for (const [target, event, heard] of wired) target?.addEventListener(event, heard);
  return () => {
    for (const [target, event, heard] of wired) target?.removeEventListener(event, heard);
  };
}
