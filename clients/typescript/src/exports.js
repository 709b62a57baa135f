// What the package gives out on every host, beside `Client`.
export { Conflict, DifferentServices, Forbidden, LeaseholdError, LeaseLost, NotFound, ProtocolError, Timeout, TlsError, Unauthenticated, ServiceUnavailable, WrongHost, } from "./errors.js";
export { Lease } from "./lease.js";
