// The exports of the package on every host, beside `Client`.

export type { Progress } from "./acquire.js";
export type { NamedSlot } from "./asked.js";
export type { Claim, ClientOptions, HoldOptions, Lock, Pool, PoolState } from "./client.js";
export type { LogEvent } from "./context.js";
export type { Duration } from "./duration.js";
export {
  Conflict, DifferentServices, Forbidden, LeaseholdError, LeaseLost, NotFound, ProtocolError, Timeout, TlsError, Unauthenticated, ServiceUnavailable, WrongHost,
} from "./errors.js";
export type { Kind, Loss, LossCause } from "./errors.js";
export { Lease } from "./lease.js";
export type { ReleaseResult } from "./release.js";
