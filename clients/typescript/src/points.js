// The arithmetic of a lease: when to renew it, when it is at risk, when it is lost. All times are milliseconds of the lease clock.
const RISK_MOST_MS = 10_000;
const MARGIN_LEAST_MS = 50;
export function pointsOf(sentAt, lengthMs, random = Math.random) {
    const deadline = sentAt + lengthMs - marginMs(lengthMs);
    return {
        sentAt,
        lengthMs,
        renewAt: sentAt + (lengthMs / 3) * (0.85 + 0.15 * random()),
        riskAt: deadline - Math.min(RISK_MOST_MS, lengthMs / 3),
        deadline,
    };
}
/** Covers the rates of two clocks and scheduling. */
export function marginMs(lengthMs) {
    return Math.max(lengthMs / 50, MARGIN_LEAST_MS);
}
/** How long one attempt to renew may take, connecting included. */
export function attemptMs(lengthMs) {
    return Math.min(5000, Math.max(250, lengthMs / 10));
}
/** The pause after the `n`th failed attempt to renew, counted from 0. */
export function renewalPauseMs(lengthMs, n, random = Math.random) {
    return random() * Math.min(2000, lengthMs / 20, 100 * 2 ** Math.min(n, 20));
}
/** The pause after the `n`th failed attempt to acquire, counted from 0. */
export function acquiringPauseMs(n, random = Math.random) {
    return random() * Math.min(5000, 100 * 2 ** Math.min(n, 20));
}
