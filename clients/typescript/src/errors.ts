// Every way in which the client says no. Messages are whole sentences without ids and credentials; `requestId` finds the request in the
// log of the service.

/** The resource that is asked for. */
export type Kind = "lock" | "claim" | "pool";

interface Details {
  readonly requestId?: string | undefined;
  readonly url?: string | undefined;
}

/** The parent of every error of this package, apart from the `signal.reason` of a cancelled call and `RangeError` for an option. */
export abstract class LeaseholdError extends Error {
  /** The `X-Request-Id` of the answer, or of the last request. */
  readonly requestId: string | undefined;
  /** The address that was asked, without path. */
  readonly url: string | undefined;

  constructor(message: string, details: Details = {}) {
    super(details.requestId ? `${message} (request ${details.requestId})` : message);
    this.requestId = details.requestId;
    this.url = details.url;
  }
}

/** Held by another, and the call was not to wait. */
export class Conflict extends LeaseholdError {
  override readonly name = "Conflict";

  constructor(message: string, readonly holder: string | undefined, details?: Details) {
    super(message, details);
  }
}
/** Not acquired within `wait`. */
export class Timeout extends LeaseholdError {
  override readonly name = "Timeout";
}
/** There is no such pool. */
export class NotFound extends LeaseholdError {
  override readonly name = "NotFound";
}
/** The caller is known and may not. */
export class Forbidden extends LeaseholdError {
  override readonly name = "Forbidden";
}
/** The caller is not known, also after its token was read again. */
export class Unauthenticated extends LeaseholdError {
  override readonly name = "Unauthenticated";
}
/** No address answered within `wait`. */
export class ServiceUnavailable extends LeaseholdError {
  override readonly name = "ServiceUnavailable";
}
/** The certificate of every address is wrong. */
export class TlsError extends LeaseholdError {
  override readonly name = "TlsError";
}
/** Every address says that it does not serve this host name. */
export class WrongHost extends LeaseholdError {
  override readonly name = "WrongHost";
}
/** Two of the addresses belong to different services: together they would make two holders. */
export class DifferentServices extends LeaseholdError {
  override readonly name = "DifferentServices";
}
/** The service does not understand the call. It is never retried. */
export class ProtocolError extends LeaseholdError {
  override readonly name = "ProtocolError";

  constructor(message: string, readonly status: number, details?: Details) {
    super(message, details);
  }
}

/** Why a lease was lost. `deadline`: it could not be renewed in time. The others are what the service said. */
export type LossCause = "deadline" | "max_hold" | "released" | "expired" | "revoked" | "deleted" | "superseded" | "page_hidden" | (string & {});

export interface Loss {
  readonly kind: Kind;
  /** The lock's or claim's name; of a pool its label, never its id. */
  readonly resource: string;
  readonly token: number;
  readonly cause: LossCause;
  /** The last failed attempt to renew, in words. */
  readonly lastError: string | undefined;
}

/** The lease is not held any more. Final: it never comes back, also if the service would still renew it. */
export class LeaseLost extends LeaseholdError {
  override readonly name = "LeaseLost";

  constructor(readonly loss: Loss, details?: Details) {
    const last = loss.lastError ? `; last error: ${loss.lastError}` : "";
    super(`the ${loss.kind} ${quoted(loss)}is not held any more (${loss.cause}, token ${loss.token})${last}`, details);
  }
}

function quoted({ kind, resource }: Loss): string {
  return kind === "pool" && resource === "pool" ? "" : `'${resource}' `;
}
