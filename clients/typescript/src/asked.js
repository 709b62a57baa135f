// How the three dialects say the same things: ask, renew, give back, withdraw. Each of them is one object here; waiting, renewing and
// losing are written once, elsewhere.
export function askPool(id, label, key, { ttlMs, waitMs }) {
    const at = `/l/${id}`;
    const ttl = ttlMs / 1000;
    const granted = ({ status, body }) => {
        const { lease, token, position, expires_in, waited_s } = body;
        if (status !== 200 || !isText(lease) || !isToken(token) || !isSpan(expires_in))
            return undefined;
        return { id: lease, token, slot: isSpan(position) ? position : undefined, lengthMs: expires_in * 1000, waitedMs: spanMs(waited_s) };
    };
    return {
        kind: "pool",
        resource: label,
        ask: { method: "POST", path: `${at}/borrow`, key, body: JSON.stringify({ ttl, wait: waitMs / 1000 }) },
        granted,
        renew: (grant) => ({ method: "POST", path: `${at}/renew`, body: JSON.stringify({ lease: grant.id, ttl }) }),
        release: (grant) => ({ method: "POST", path: `${at}/return`, body: JSON.stringify({ lease: grant.id }) }),
        endedBefore: ({ body }) => body["returned"] === false,
        withdraw: { method: "DELETE", path: `${at}/borrow`, key },
        endedBy: ({ status, body }) => textOr(body["ended"], status === 404 ? "deleted" : "expired"),
        look: { method: "GET", path: at },
        queue: ({ body }) => ({ ...waitingIn(body), holders: isSpan(body["in_use"]) ? body["in_use"] : undefined }),
    };
}
export function askClaim(resource, name, key, acquisition, { ttlMs, waitMs }) {
    const ttl = ttlMs / 1000;
    const at = (id) => `/v1/claims/${encodeURIComponent(id)}/`;
    const granted = ({ status, body }) => {
        const { id, token, expires_in, slot, waited_s } = body;
        const length = isSpan(expires_in) ? expires_in : body["ttl"];
        if ((status !== 200 && status !== 201) || body["status"] !== "active" || !isText(id) || !isToken(token) || !isSpan(length))
            return undefined;
        return { id, token, slot: isSpan(slot) ? slot : undefined, lengthMs: length * 1000, waitedMs: spanMs(waited_s) };
    };
    return {
        kind: "claim",
        resource,
        ask: { method: "POST", path: "/v1/claims/", key, body: JSON.stringify({ resource, timeout: ttl, metadata: { client: name, acquisition } }) },
        granted,
        renew: (grant) => ({ method: "PATCH", path: at(grant.id), body: JSON.stringify({ ttl }) }),
        release: (grant) => ({ method: "PATCH", path: at(grant.id), body: JSON.stringify({ status: "released" }) }),
        endedBefore: () => false,
        withdraw: undefined,
        endedBy: ({ body }) => textOr(body["ended"], textOr(body["status"], "expired")),
        look: undefined,
        queue: ({ body }) => ({ ...waitingIn(body), holders: Array.isArray(body["holders"]) ? body["holders"] : undefined }),
        poll: (id) => ({ method: "PATCH", path: `${at(id)}?wait=${waitMs / 1000}`, body: JSON.stringify({ status: "active", ttl }) }),
        withdrawn: (id) => ({ method: "PATCH", path: at(id), body: JSON.stringify({ status: "withdrawn" }) }),
        lookAt: (id) => ({ method: "GET", path: at(id) }),
        lists: ["active", "waiting"].map((status) => ({ method: "GET", path: `/v1/claims/?limit=1000&status=${status}&resource=${encodeURIComponent(resource)}` })),
        isThis: (claim) => {
            const { id, metadata } = claim;
            return isText(id) && metadata?.acquisition === acquisition ? id : undefined;
        },
    };
}
/** Of a lock the client's name is the name of the acquisition: the same call finds its own lock and renews it. */
export function askLock(job, client, key, { ttlMs, waitMs }) {
    const who = `client=${encodeURIComponent(client)}&job=${encodeURIComponent(job)}`;
    const ttl = `ttl=${Math.round(ttlMs)}ms`;
    const granted = ({ status, body }) => {
        const { holder, token, expires_in, waited_s } = body;
        if (status !== 200 || holder !== client || !isToken(token))
            return undefined;
        // Without `expires_in` the answer has wall-clock times alone: the ttl asked for counts, up to the usual maximum.
        const lengthMs = isSpan(expires_in) ? expires_in * 1000 : Math.min(ttlMs, 86_400_000);
        return { id: client, token, slot: undefined, lengthMs, waitedMs: spanMs(waited_s) };
    };
    return {
        kind: "lock",
        resource: job,
        ask: { method: "POST", key, path: `/lock?${who}&${ttl}${waitMs > 0 ? `&wait=${Math.round(waitMs)}ms` : ""}` },
        granted,
        renew: (grant) => ({ method: "POST", path: `/lock?${who}&${ttl}&token=${grant.token}` }),
        release: (grant) => ({ method: "DELETE", path: `/lock?${who}&token=${grant.token}` }),
        endedBefore: () => false,
        withdraw: { method: "DELETE", path: `/lock?${who}` },
        endedBy: ({ body }) => textOr(body["ended"], "expired"),
        look: { method: "GET", path: `/lock?${who}` },
        queue: ({ body }) => ({ ...waitingIn(body), holders: isText(body["holder"]) ? [body["holder"]] : undefined }),
    };
}
function waitingIn(body) {
    const { queue_position, waiting, eta_s } = body;
    return {
        queuePosition: isSpan(queue_position) ? queue_position : undefined,
        waiting: isSpan(waiting) ? waiting : undefined,
        eta: isSpan(eta_s) ? eta_s : undefined,
    };
}
function isText(value) {
    return typeof value === "string" && value !== "";
}
function isToken(value) {
    return Number.isSafeInteger(value) && value >= 0;
}
function isSpan(value) {
    return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
function spanMs(value) {
    return isSpan(value) ? value * 1000 : undefined;
}
function textOr(value, otherwise) {
    return typeof value === "string" && /^[a-z_]{1,40}$/.test(value) ? value : otherwise;
}
