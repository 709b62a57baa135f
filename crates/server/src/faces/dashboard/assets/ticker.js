// The page's one clock for counting up and down. It stands still while the page is stale: a server that is away charges its
// downtime to no lease, so a countdown that went on would be wrong.

const TICK_MS = 250;
const listeners = new Set();
let frozenAt_ms = null;

/** Milliseconds on a clock that only runs while what is shown is live. For differences only. */
export const tick_ms = () => frozenAt_ms ?? performance.now();

export function freeze() {
  frozenAt_ms ??= performance.now();
}

export function thaw() {
  frozenAt_ms = null;
}

export function onTick(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

setInterval(() => {
  if (!document.hidden) for (const listener of listeners) listener();
}, TICK_MS);
