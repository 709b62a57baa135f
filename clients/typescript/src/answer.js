// One attempt of one call ends in an answer of the service or in silence. An answer has `Leasehold-Position` and whole JSON; anything
// else, such as the 404 of a proxy or the 200 of a captive portal, is silence.
import { scrub } from "./scrub.js";
const LONGEST_BODY = 1 << 24;
const LONGEST_RETRY_AFTER_MS = 3_600_000;
/** A request on an idle connection that the other side has closed fails at once. */
const BROKE_WITHIN_MS = 1000;
export function silence(why, sentence, { url, requestId, sentAt }, now, more = {}) {
    return { is: "silence", why, sentence: scrub(sentence), retryAfterMs: undefined, broke: false, heardAt: now(), url, requestId, sentAt, ...more };
}
/** Reads what `fetch` brought. Throws what the stream throws: the caller of this knows whether it was a timeout. */
export async function readAnswer(response, sent, now) {
    const { headers, status } = response;
    const requestId = headers.get("x-request-id")?.slice(0, 128) ?? sent.requestId;
    const retryAfterMs = readRetryAfter(headers.get("retry-after"));
    const position = headers.get("leasehold-position");
    const text = await readText(response);
    const heard = { ...sent, requestId };
    if (status === 421)
        return silence("host", `${sent.url} says that it does not serve this host name (421)`, heard, now);
    if (position === null) {
        return silence("unknown", `${sent.url} answered ${status} without Leasehold-Position: something else than Leasehold answers there`, heard, now, { retryAfterMs });
    }
    const body = status === 204 ? {} : parseBody(text);
    if (body === undefined)
        return silence("unknown", `${sent.url} answered ${status} with a body that is not whole JSON`, heard, now, { retryAfterMs });
    const service = headers.get("leasehold-service") ?? undefined;
    return { is: "answer", status, body, position, service, retryAfterMs, heardAt: now(), ...heard };
}
/** Puts what `fetch` threw in words. Its own text is not kept: some hosts put the address with a pool's id into it. */
export function readFailure(thrown, sent, now) {
    const codes = codesOf(thrown);
    const known = codes.find((code) => /^[A-Z][A-Z0-9_]+$/.test(code));
    const said = codes.join(" ");
    if (/certificate|\btls\b|handshake|CERT_|ERR_TLS|ERR_SSL|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|EPROTO/i.test(said)) {
        return silence("tls", `the certificate or TLS of ${sent.url} is wrong (${known ?? "TLS"}: ${reasonOf(thrown)})`, sent, now);
    }
    if (/ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|CONNECT_TIMEOUT|connection refused|dns error|failed to lookup|bad port/i.test(said)) {
        return silence("refused", `${sent.url} cannot be reached (${known ?? (/bad port/.test(said) ? "fetch refuses this port" : "connection refused")})`, sent, now);
    }
    const broke = now() - sent.sentAt < BROKE_WITHIN_MS;
    return silence("unknown", `the connection to ${sent.url} broke (${known ?? "network error"})`, sent, now, { broke });
}
function codesOf(thrown, depth = 0) {
    if (typeof thrown !== "object" || thrown === null || depth > 4)
        return [];
    const { code, message, cause, errors } = thrown;
    const own = [code, message].filter((each) => typeof each === "string" && each !== "");
    const inner = [cause, ...(Array.isArray(errors) ? errors.slice(0, 4) : [])];
    return [...own, ...inner.flatMap((each) => codesOf(each, depth + 1))];
}
function reasonOf(thrown) {
    const { cause } = thrown;
    return typeof cause?.message === "string" ? scrub(cause.message.split(/[\n;]/)[0]) : "refused by the host";
}
function readRetryAfter(value) {
    if (value === null || !/^\d{1,9}$/.test(value.trim()))
        return undefined;
    return Math.min(Number(value) * 1000, LONGEST_RETRY_AFTER_MS);
}
/** An object, or a list as `list`. */
function parseBody(text) {
    try {
        const value = JSON.parse(text);
        if (Array.isArray(value))
            return { list: value };
        return typeof value === "object" && value !== null ? value : undefined;
    }
    catch {
        return undefined;
    }
}
async function readText(response) {
    if (response.body === null)
        return "";
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done)
            return text + decoder.decode();
        text += decoder.decode(value, { stream: true });
        if (text.length > LONGEST_BODY) {
            await reader.cancel();
            return "";
        }
    }
}
