// The event stream: one connection to /v1/events that comes back by itself, and says how it is doing. `fetch` and not
// `EventSource`, because heartbeats (comments), the status of a refusal and the choice of where to resume matter here.
//
//   connecting ──hello──▶ live ──cut, silence──▶ stale ──hello──▶ live          (backoff between tries)
//                                                  └──401/403──▶ denied          (tries again, slowly)

import { noteClock, Problem, problemOf } from "./api.js";

const BACKOFF_MS = [250, 500, 1000, 2000, 4000, 8000];
const DENIED_RETRY_MS = 15000;

export class Stream extends EventTarget {
  state = "connecting";
  staleSince = null; // unix seconds, ours
  retryAt_ms = null;
  problem = null;
  #lastId = null;
  #tries = 0;
  #abort = null;
  #timer = null;
  #silence = null;
  #heartbeat_s = 10;

  start() {
    this.#connect();
    // A laptop that wakes or a network that returns should not wait for the backoff.
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.state !== "live") this.retry();
    });
  }

  /** Tries at once instead of when the backoff says. */
  retry() {
    if (this.#timer === null) return;
    clearTimeout(this.#timer);
    this.#connect();
  }

  async #connect() {
    this.#timer = null;
    this.retryAt_ms = null;
    this.#abort = new AbortController();
    this.#watch();
    let problem;
    try {
      const headers = { accept: "text/event-stream" };
      if (this.#lastId !== null) headers["last-event-id"] = this.#lastId;
      const response = await fetch("/v1/events", { headers, cache: "no-store", signal: this.#abort.signal });
      noteClock(response);
      if (!response.ok) throw await problemOf(response);
      await this.#read(response.body);
      problem = new Problem(0, "The connection to the server ended.");
    } catch (error) {
      problem = error instanceof Problem ? error : new Problem(0, "The server does not answer.");
    }
    this.#lost(problem);
  }

  async #read(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser((event) => this.#take(event));
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.#watch();
      parser.push(value);
    }
  }

  #take({ type, id, data }) {
    if (id) this.#lastId = id;
    if (data === null) return;
    const said = JSON.parse(data);
    if (type === "hello") {
      this.#heartbeat_s = said.heartbeat_s ?? this.#heartbeat_s;
      this.#tries = 0;
      this.#become("live");
      this.dispatchEvent(new Event("resync"));
    } else if (type === "gap" || type === "lagging") {
      // The missing events cannot be had from here, and after lagging the same place would only be too slow again: look anew.
      if (type === "lagging") this.#lastId = null;
      this.dispatchEvent(new Event("resync"));
    } else if (type === "signed-out") {
      // The stream ends here, and connecting again says why in its own words.
    } else {
      this.dispatchEvent(new CustomEvent("event", { detail: said }));
    }
  }

  // Silence for two heartbeats and a half is a dead connection, whatever the socket says.
  #watch() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#abort.abort(), this.#heartbeat_s * 2500);
  }

  #lost(problem) {
    clearTimeout(this.#silence);
    this.problem = problem;
    const denied = problem.status === 401 || problem.status === 403;
    const base = denied ? DENIED_RETRY_MS : BACKOFF_MS[Math.min(this.#tries, BACKOFF_MS.length - 1)];
    const wait_ms = base * (0.8 + 0.4 * Math.random());
    this.#tries += 1;
    this.retryAt_ms = Date.now() + wait_ms;
    this.#timer = setTimeout(() => this.#connect(), wait_ms);
    this.#become(denied ? "denied" : "stale");
  }

  #become(state) {
    if (state === "live") this.staleSince = null;
    else this.staleSince ??= Date.now() / 1000;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}

/** Cuts text/event-stream into events. Pieces may end anywhere, also within a line. */
export class EventParser {
  #rest = "";
  #type = "";
  #id = "";
  #data = [];
  #give;

  constructor(give) {
    this.#give = give;
  }

  push(piece) {
    const lines = (this.#rest + piece).split(/\r\n|\n|\r(?=.)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line);
  }

  #line(line) {
    if (line === "") {
      // An id without data is no event, but says where to resume.
      const data = this.#data.length > 0 ? this.#data.join("\n") : null;
      if (data !== null || this.#id !== "") this.#give({ type: this.#type || "message", id: this.#id, data });
      this.#type = "";
      this.#id = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#type = value;
    else if (field === "id") this.#id = value;
    else if (field === "data") this.#data.push(value);
  }
}
