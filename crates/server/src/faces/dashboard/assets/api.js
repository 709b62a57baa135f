// Calls to the server. Every failure comes back as one `Problem` with words a person can act on; the caller decides where
// they are shown. Also keeps how far the server's clock is from ours.

let skew_s = 0;

/** The server's time now, unix seconds. */
export const serverNow = () => Date.now() / 1000 + skew_s;

export class Problem extends Error {
  /** @param status the HTTP status, 0 when there was no answer */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const listResources = (query) => call(`/v1/observe/resources?${new URLSearchParams(query)}`);
export const getResource = (key) => call(`/v1/observe/resources/${encodeURIComponent(key)}`);
export const getHistory = (key) => call(`/v1/observe/resources/${encodeURIComponent(key)}/history?limit=5000`);
/** The claims on a resource since a time, oldest first. */
export const listClaims = (resource, since_unix) => call(`/v1/claims/?${new URLSearchParams({ resource, minimum_created: since_unix, limit: 1000 })}`);
export const getSeries = () => call("/v1/observe/series");
export const findPool = (id) => call("/v1/observe/pool", "POST", { id });
export const whoami = () => call("/v1/whoami");
export const logOut = () => call("/logout", "POST");
export const revoke = (key, token) => call("/v1/admin/revoke", "POST", { key, token });
/** Takes a waiter out of the queue of a lock or a pool, by the order in which it came. */
export const takeOut = (key, order) => call("/v1/admin/revoke", "POST", { key, order });
export const releaseClaim = (id) => call(`/v1/claims/${encodeURIComponent(id)}/`, "PATCH", { status: "released" });
export const configure = (resource, settings) => call(`/v1/resources/${encodeURIComponent(resource)}/`, "PUT", settings);
export const getCluster = () => call("/v1/cluster");
const pauseOf = (detail) => (detail.kind === "lock" ? `/lock/pause?${new URLSearchParams({ job: detail.name })}` : `/v1/resources/${encodeURIComponent(detail.name)}/pause`);
export const pause = (detail, settings) => call(pauseOf(detail), "PUT", settings);
export const resume = (detail) => call(pauseOf(detail), "DELETE");
export const getService = () => call("/v1/observe/service");
export const withdrawClaim = (id) => call(`/v1/claims/${encodeURIComponent(id)}/`, "PATCH", { status: "withdrawn" });
export const releaseLock = (job, client) => call(`/lock?${new URLSearchParams({ job, client })}`, "DELETE");

async function call(path, method = "GET", body = null) {
  let response;
  try {
    response = await fetch(path, {
      method,
      body: body && JSON.stringify(body),
      headers: body ? { "content-type": "application/json" } : {},
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch {
    throw new Problem(0, "The server does not answer.");
  }
  noteClock(response);
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return null;
  return response.json();
}

/** Reads an error answer into words. Shared with the event stream, which fetches by itself. */
export async function problemOf(response) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    // Not ours (a proxy's page, say): the status has to do.
  }
  const words = typeof said?.error === "string" ? sentence(said.error) : `The server answered ${response.status}.`;
  return new Problem(response.status, words);
}

function sentence(text) {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

// The Date header has whole seconds; a smaller difference than two is not worth a correction that is itself half a second off.
export function noteClock(response) {
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const off = date / 1000 + 0.5 - Date.now() / 1000;
  skew_s = Math.abs(off) > 2 ? off : 0;
}
