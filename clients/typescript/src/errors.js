// Every way in which the client says no. Messages are whole sentences without ids and credentials; `requestId` finds the request in the
// log of the service.
/** The parent of every error of this package, apart from the `signal.reason` of a cancelled call and `RangeError` for an option. */
export class LeaseholdError extends Error {
    /** The `X-Request-Id` of the answer, or of the last request. */
    requestId;
    /** The address that was asked, without path. */
    url;
    constructor(message, details = {}) {
        super(details.requestId ? `${message} (request ${details.requestId})` : message);
        this.requestId = details.requestId;
        this.url = details.url;
    }
}
/** Held by another, and the call was not to wait. */
export class Conflict extends LeaseholdError {
    holder;
    name = "Conflict";
    constructor(message, holder, details) {
        super(message, details);
        this.holder = holder;
    }
}
/** Not acquired within `wait`. */
export class Timeout extends LeaseholdError {
    name = "Timeout";
}
/** There is no such pool. */
export class NotFound extends LeaseholdError {
    name = "NotFound";
}
/** The caller is known and may not. */
export class Forbidden extends LeaseholdError {
    name = "Forbidden";
}
/** The caller is not known, also after its token was read again. */
export class Unauthenticated extends LeaseholdError {
    name = "Unauthenticated";
}
/** No address answered within `wait`. */
export class ServiceUnavailable extends LeaseholdError {
    name = "ServiceUnavailable";
}
/** The certificate of every address is wrong. */
export class TlsError extends LeaseholdError {
    name = "TlsError";
}
/** Every address says that it does not serve this host name. */
export class WrongHost extends LeaseholdError {
    name = "WrongHost";
}
/** Two of the addresses belong to different services: together they would make two holders. */
export class DifferentServices extends LeaseholdError {
    name = "DifferentServices";
}
/** The service does not understand the call. It is never retried. */
export class ProtocolError extends LeaseholdError {
    status;
    name = "ProtocolError";
    constructor(message, status, details) {
        super(message, details);
        this.status = status;
    }
}
/** The lease is not held any more. Final: it never comes back, also if the service would still renew it. */
export class LeaseLost extends LeaseholdError {
    loss;
    name = "LeaseLost";
    constructor(loss, details) {
        const last = loss.lastError ? `; last error: ${loss.lastError}` : "";
        super(`the ${loss.kind} ${quoted(loss)}is not held any more (${loss.cause}, token ${loss.token})${last}`, details);
        this.loss = loss;
    }
}
function quoted({ kind, resource }) {
    return kind === "pool" && resource === "pool" ? "" : `'${resource}' `;
}
