// Browsers. Hidden pages wake once a minute, so leases are long; six connections per origin are all there are, so polls are few.
import { countingInSleep } from "./clock.js";
const COARSE_MS = 20;
/** Whether `performance.now` counts in sleep differs between browsers; the wall clock does. A step forward loses a lease early, no more. */
export function leaseClock(now = () => performance.now(), wall = () => Date.now()) {
    return countingInSleep(now, wall, COARSE_MS);
}
export function webPlatform() {
    return {
        clock: leaseClock(),
        random: (bytes) => globalThis.crypto.getRandomValues(bytes),
        defaultTtlMs: 300_000,
        pollsAtOnce: 3,
        asksForHeaders: true,
        defaultUrl: () => (globalThis.location?.origin?.startsWith("http") ? globalThis.location.origin : undefined),
        defaultToken: () => undefined,
        defaultName: () => `browser@${globalThis.location?.hostname || "page"}`,
        connection: () => ({ init: {}, close: () => { } }),
        watch,
    };
}
function watch(timers, leave) {
    const look = () => timers.look();
    const wired = [
        [globalThis.document, "visibilitychange", look],
        [globalThis.document, "resume", look],
        [globalThis.window, "pageshow", look],
        [globalThis.window, "pagehide", leave],
    ];
    for (const [target, event, heard] of wired)
        target?.addEventListener(event, heard);
    return () => {
        for (const [target, event, heard] of wired)
            target?.removeEventListener(event, heard);
    };
}
