// Giving back: sends the release until it is answered or its time is over, and says which of the three it was.
import { acquiringPauseMs } from "./points.js";
export const RELEASE_BUDGET_MS = 5000;
/** A release that hangs is abandoned and sent again, to the next address, while there is budget. */
const ATTEMPT_MS = 1200;
export async function giveBack(context, asked, grant, budgetMs = RELEASE_BUDGET_MS, keepalive = false) {
    const { transport, timers } = context;
    const until = timers.now() + budgetMs;
    let call = asked.release(grant);
    let unheard = false;
    for (let n = 0;; n += 1) {
        const left = until - timers.now();
        if (left <= 0)
            return "unknown";
        const heard = await transport.send(call, { timeoutMs: Math.min(left, ATTEMPT_MS), hold: "process", keepalive });
        let pauseMs = acquiringPauseMs(n);
        if (heard.is === "silence") {
            if (heard.why === "tls" || heard.why === "different")
                return "unknown";
            unheard ||= heard.why === "unknown";
        }
        else {
            if (heard.status === 409 && heard.body["status"] === "waiting")
                call = { ...call, body: JSON.stringify({ status: "withdrawn" }) };
            else {
                const result = resultOf(asked, heard);
                // A release whose answer was lost may have been carried out: that it had ended is then no news.
                if (result)
                    return result === "ended_before" && unheard ? "released" : result;
                if (heard.status === 429 || heard.status === 503)
                    pauseMs = Math.min(heard.retryAfterMs ?? 250, (until - timers.now()) / 4);
            }
        }
        await timers.sleep(Math.min(pauseMs, Math.max(0, until - timers.now())), "process");
    }
}
/** Undefined: it has to be sent again. */
function resultOf(asked, answer) {
    switch (answer.status) {
        case 200:
        case 204:
            return asked.endedBefore(answer) ? "ended_before" : "released";
        case 404:
        case 409:
        case 410:
            return "ended_before";
        case 403:
            return isNotTheHolder(answer) ? "ended_before" : "unknown";
        default:
            return answer.status >= 500 || answer.status === 429 ? undefined : "unknown";
    }
}
/** 403 says "not allowed" too. */
function isNotTheHolder({ body }) {
    return body["code"] === "not_the_holder" || body["error"] === "client does not hold the lock";
}
