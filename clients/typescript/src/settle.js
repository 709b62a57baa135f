// Leaving nothing behind: whether a cancelled request was carried out is not known, so what it may have got is ended by name, or asked for
// once more and given back.
import { acquiringPauseMs } from "./points.js";
import { giveBack } from "./release.js";
const BUDGET_MS = 5000;
const ATTEMPT_MS = 1200;
/** Without a call that ends an acquisition by name, the same request is open this much longer. */
const AGAIN_MS = 1000;
/** Pools and locks: closing the connection gave up the place; a grant that crossed it is ended. */
export async function settlePlace(context, asked) {
    if (asked.withdraw) {
        const heard = await answered(context, asked.withdraw);
        // 405: the service has no such call. 403: the lock is not held, but a wait that it has not seen the end of may still be granted.
        if (heard && heard.status !== 405 && heard.status !== 403)
            return;
    }
    const heard = await context.transport.send(asked.ask, { timeoutMs: AGAIN_MS, hold: "process", use: "poll" });
    const grant = heard.is === "answer" ? asked.granted(heard) : undefined;
    if (grant)
        await giveBack(context, asked, grant, BUDGET_MS);
    else if (heard.is === "silence" && asked.withdraw)
        await answered(context, asked.withdraw);
}
/** A claim is withdrawn by its id, waiting or active; where the answer with the id was lost, the same request or the list finds it. */
export async function settleClaim(context, asked, id) {
    const known = id ?? (await idOf(context, asked));
    if (known !== undefined)
        await answered(context, asked.withdrawn(known));
}
async function idOf(context, asked) {
    const heard = await answered(context, asked.ask, AGAIN_MS);
    if (typeof heard?.body["id"] === "string")
        return heard.body["id"];
    for (const call of asked.lists) {
        const list = (await answered(context, call))?.body["list"];
        const found = Array.isArray(list) ? list.map(asked.isThis).find((each) => each !== undefined) : undefined;
        if (found !== undefined)
            return found;
    }
    return undefined;
}
async function answered(context, call, budgetMs = BUDGET_MS) {
    const { transport, timers } = context;
    const until = timers.now() + budgetMs;
    for (let n = 0; timers.now() < until; n += 1) {
        const heard = await transport.send(call, { timeoutMs: Math.min(ATTEMPT_MS, until - timers.now()), hold: "process" });
        if (heard.is === "answer" && heard.status < 500 && heard.status !== 429)
            return heard;
        const asked = heard.retryAfterMs ?? acquiringPauseMs(n);
        await timers.sleep(Math.min(asked, Math.max(0, until - timers.now()) / 2), "process");
    }
    return undefined;
}
