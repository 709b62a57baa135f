// Spans of time as callers write them: a number of seconds, as everywhere in the HTTP contract, or a text with units.
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h)/y;
/** The duration in milliseconds, or a `RangeError` that names the field, its value and the range. */
export function milliseconds(field, value, leastMs, mostMs) {
    const ms = typeof value === "number" ? value * 1000 : parse(value);
    if (Number.isFinite(ms) && ms >= leastMs && ms <= mostMs)
        return ms;
    const shown = typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : String(value);
    const range = mostMs === Number.MAX_SAFE_INTEGER ? `at least ${leastMs / 1000} s` : `${leastMs / 1000} s to ${mostMs / 1000} s`;
    throw new RangeError(`${field} is ${shown}, it has to be a number of seconds or a text like "1m30s", ${range}`);
}
function parse(text) {
    if (typeof text !== "string" || text === "")
        return Number.NaN;
    let sum = 0;
    PART.lastIndex = 0;
    while (PART.lastIndex < text.length) {
        const found = PART.exec(text);
        if (!found)
            return Number.NaN;
        sum += Number(found[1]) * UNIT_MS[found[2]];
    }
    return sum;
}
