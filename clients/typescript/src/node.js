// Node and Deno.
import { webcrypto } from "node:crypto";
import { readFile } from "node:fs/promises";
import { hostname, uptime, userInfo } from "node:os";
import { countingInSleep } from "./clock.js";
/** Some systems count their uptime in whole seconds. */
const WHOLE_SECOND_MS = 1000;
/** `/proc/uptime` has hundredths. */
const HUNDREDTHS_MS = 20;
const IDLE_MS = 20_000;
/** `performance.now` stops on Linux while the machine sleeps; the uptime goes on. */
export function leaseClock(now = () => performance.now(), uptimeSeconds = uptime) {
    const first = attempt(uptimeSeconds);
    // Deno without --allow-sys has the monotonic clock alone.
    if (first === undefined)
        return countingInSleep(now, now, 0);
    return countingInSleep(now, () => uptimeSeconds() * 1000, Number.isInteger(first) ? WHOLE_SECOND_MS : HUNDREDTHS_MS);
}
export function nodePlatform() {
    const environment = (name) => attempt(() => process.env[name]) || undefined;
    return {
        clock: leaseClock(),
        random: (bytes) => webcrypto.getRandomValues(bytes),
        defaultTtlMs: 30_000,
        pollsAtOnce: Number.POSITIVE_INFINITY,
        asksForHeaders: false,
        defaultUrl: () => environment("LEASEHOLD_URL"),
        defaultToken: () => {
            const file = environment("LEASEHOLD_TOKEN_FILE");
            if (file)
                return async () => (await readFile(file, "utf8")).trim();
            const token = environment("LEASEHOLD_TOKEN");
            return token ? () => token : undefined;
        },
        defaultName: () => `${attempt(() => userInfo().username) ?? "user"}@${attempt(hostname) ?? "host"}`,
        connection: () => {
            // Deno speaks HTTP/2, where calls share a connection unless each sort has a client of its own. Node's fetch speaks HTTP/1.1,
            // where a parked call has its connection to itself, and drops idle ones after four seconds.
            const deno = globalThis.Deno;
            const client = attempt(() => deno?.createHttpClient?.({ poolIdleTimeout: IDLE_MS }));
            return { init: client ? { client } : {}, close: () => client?.close() };
        },
        watch: () => () => { },
    };
}
/** Deno refuses what it was not allowed by throwing. */
function attempt(read) {
    try {
        return read();
    }
    catch {
        return undefined;
    }
}
