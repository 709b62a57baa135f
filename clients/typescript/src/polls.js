// How many polls are in flight at one address. Browsers open six connections per origin over HTTP/1.1; were all of them parked, no renewal
// would get through. Counted per origin for the whole page, whatever the number of clients.
const inFlight = new Map();
const waiting = new Map();
/** Waits for a place, and answers with the way to give it back. The overlap of a poll with its successor may take the last place. */
export async function pollPlace(origin, most, overlap, stop) {
    if (most === Number.POSITIVE_INFINITY)
        return () => { };
    const limit = overlap ? most : most - 1;
    while ((inFlight.get(origin) ?? 0) >= limit && !stop.aborted) {
        await new Promise((resolve) => {
            waiting.set(origin, [...(waiting.get(origin) ?? []), resolve]);
            stop.addEventListener("abort", () => resolve(), { once: true });
        });
    }
    if (stop.aborted)
        return () => { };
    inFlight.set(origin, (inFlight.get(origin) ?? 0) + 1);
    return () => {
        inFlight.set(origin, (inFlight.get(origin) ?? 1) - 1);
        const woken = waiting.get(origin) ?? [];
        waiting.delete(origin);
        for (const wake of woken)
            wake();
    };
}
