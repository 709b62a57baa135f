// The lease clock and its timers. The clock counts while the machine sleeps; the timers of the host do not, so none of them sleeps
// longer than a second before it looks at the clock again.

/** Milliseconds since some moment, never running backwards, counting while the machine sleeps. */
export type Clock = () => number;

const LONGEST_SLEEP_MS = 1000;

/**
 * A clock that counts in sleep, from one that may not (`steady`) and one that does but is coarse or may be set (`awake`), both in
 * milliseconds. `awake` running ahead of `steady` by more than `coarseMs` is time slept, and counts; running behind it means that it
 * was set back, and changes nothing. A plain maximum of the two would stand still after `awake` was set forward and back again.
 */
export function countingInSleep(steady: () => number, awake: () => number, coarseMs: number): Clock {
  const began = steady();
  let ahead = awake() - began;
  let slept = 0;
  return () => {
    // The process may be stopped between two readings: `awake` is ahead only if it is so of a later reading of `steady`, and behind only
    // if it is so of an earlier one.
    const before = steady();
    const read = awake();
    const now = steady();
    const forward = read - now - ahead;
    const back = read - before - ahead;
    if (forward > coarseMs) {
      ahead += forward;
      slept += forward;
    } else if (back < -coarseMs) {
      ahead += back;
    }
    return now - began + slept;
  };
}

/** Says whether a timer keeps the process alive: one of an acquisition does, one of a held lease does not. */
export type Hold = "process" | "nothing";

interface Entry {
  readonly at: number;
  readonly fire: () => void;
  readonly hold: Hold;
  handle: ReturnType<typeof setTimeout> | undefined;
}

export class Timers {
  readonly #entries = new Set<Entry>();

  constructor(readonly now: Clock) {}

  /** Calls `fire` once the lease clock has reached `at`; the answer cancels that. */
  at(at: number, hold: Hold, fire: () => void): () => void {
    const entry: Entry = { at, fire, hold, handle: undefined };
    this.#entries.add(entry);
    this.#arm(entry);
    return () => this.#drop(entry);
  }

  /** Resolves after `ms`; `stop` ends it early. */
  sleep(ms: number, hold: Hold, stop?: AbortSignal): Promise<void> {
    if (stop?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        cancel();
        stop?.removeEventListener("abort", done);
        resolve();
      };
      const cancel = this.at(this.now() + ms, hold, done);
      stop?.addEventListener("abort", done, { once: true });
    });
  }

  /** Looks at the clock now: the page was hidden, or the machine woke up. */
  look(): void {
    for (const entry of [...this.#entries]) this.#arm(entry);
  }

  #arm(entry: Entry): void {
    clearTimeout(entry.handle);
    const left = entry.at - this.now();
    const wait = Math.min(Math.max(0, Math.ceil(left)), LONGEST_SLEEP_MS);
    entry.handle = setTimeout(() => {
      if (!this.#entries.has(entry)) return;
      if (this.now() < entry.at) {
        this.#arm(entry);
        return;
      }
      this.#drop(entry);
      entry.fire();
    }, wait);
    if (entry.hold === "nothing") (entry.handle as { unref?: () => void }).unref?.();
  }

  #drop(entry: Entry): void {
    clearTimeout(entry.handle);
    this.#entries.delete(entry);
  }
}
