// The lease clock and its timers. The clock counts while the machine sleeps; the timers of the host do not, so none of them sleeps
// longer than a second before it looks at the clock again.
const LONGEST_SLEEP_MS = 1000;
/**
 * A clock that counts in sleep, from one that may not (`steady`) and one that does but is coarse or may be set (`awake`), both in
 * milliseconds. `awake` running ahead of `steady` by more than `coarseMs` is time slept, and counts; running behind it means that it
 * was set back, and changes nothing. A plain maximum of the two would stand still after `awake` was set forward and back again.
 */
export function countingInSleep(steady, awake, coarseMs) {
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
        }
        else if (back < -coarseMs) {
            ahead += back;
        }
        return now - began + slept;
    };
}
export class Timers {
    now;
    #entries = new Set();
    constructor(now) {
        this.now = now;
    }
    /** Calls `fire` once the lease clock has reached `at`; the answer cancels that. */
    at(at, hold, fire) {
        const entry = { at, fire, hold, handle: undefined };
        this.#entries.add(entry);
        this.#arm(entry);
        return () => this.#drop(entry);
    }
    /** Resolves after `ms`; `stop` ends it early. */
    sleep(ms, hold, stop) {
        if (stop?.aborted)
            return Promise.resolve();
        return new Promise((resolve) => {
            const done = () => {
                cancel();
                stop?.removeEventListener("abort", done);
                resolve();
            };
            const cancel = this.at(this.now() + ms, hold, done);
            stop?.addEventListener("abort", done, { once: true });
        });
    }
    /** Looks at the clock now: the page was hidden, or the machine woke up. */
    look() {
        for (const entry of [...this.#entries])
            this.#arm(entry);
    }
    #arm(entry) {
        clearTimeout(entry.handle);
        const left = entry.at - this.now();
        const wait = Math.min(Math.max(0, Math.ceil(left)), LONGEST_SLEEP_MS);
        entry.handle = setTimeout(() => {
            if (!this.#entries.has(entry))
                return;
            if (this.now() < entry.at) {
                this.#arm(entry);
                return;
            }
            this.#drop(entry);
            entry.fire();
        }, wait);
        if (entry.hold === "nothing")
            entry.handle.unref?.();
    }
    #drop(entry) {
        clearTimeout(entry.handle);
        this.#entries.delete(entry);
    }
}
