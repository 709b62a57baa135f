// Calls to the service: one attempt on one of its addresses, with a time limit and the sign-on token. Which answer means what, and whether
// to try again, is decided elsewhere; here are the addresses, the token, and the connection that broke while it was idle.

import { type Answer, type Heard, readAnswer, readFailure, type Sent, silence } from "./answer.js";
import type { Hold, Timers } from "./clock.js";
import type { Platform } from "./platform.js";

/** A call as it is sent; repeated, it is the same bytes. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the address, with its query. */
  readonly path: string;
  readonly body?: string;
  /** `Idempotency-Key`. */
  readonly key?: string;
  /** True if sending it twice has the effect of sending it once. Default: yes. */
  readonly once?: boolean;
}

export interface Attempt {
  readonly timeoutMs: number;
  readonly hold: Hold;
  readonly stop?: AbortSignal | undefined;
  readonly use?: "poll" | "call";
  /** Outlives the page that sends it. */
  readonly keepalive?: boolean;
}

export type ReadToken = () => string | Promise<string>;
export type Fetch = (input: string, init?: RequestInit) => Promise<Response>;

const REACH_MS = 2000;
/** An address that answered this recently needs no look whether it can be reached. */
const FRESH_MS = 10_000;

export class Transport {
  #urls: string[];
  #at = 0;
  #token: string | undefined;
  #reading: Promise<string> | undefined;
  #epoch = 0;
  readonly #heard = new Map<string, { at: number; service: string | undefined }>();
  readonly #connections;

  constructor(
    urls: readonly string[],
    readonly timers: Timers,
    private readonly platform: Platform,
    private readonly fetch: Fetch,
    private readonly readToken: ReadToken | undefined,
  ) {
    this.#urls = [...urls];
    this.#connections = { poll: platform.connection("poll"), call: platform.connection("call") };
  }

  get urls(): readonly string[] {
    return this.#urls;
  }

  get signsOn(): boolean {
    return this.readToken !== undefined;
  }

  close(): void {
    this.#connections.poll.close();
    this.#connections.call.close();
  }

  /** One attempt. After silence the next attempt goes to the next address. */
  async send(call: Call, attempt: Attempt): Promise<Heard> {
    const url = this.#urls[this.#at] as string;
    let heard = await this.#sendTo(url, call, attempt);
    // A poll that breaks has lost its place, which is not for this file to hide.
    if (heard.is === "silence" && heard.broke && !call.once && attempt.use !== "poll" && !attempt.stop?.aborted) heard = await this.#sendTo(url, call, attempt);
    if (heard.is === "answer" && heard.status === 401 && this.readToken) {
      // The token may have been replaced since it was read.
      this.#token = undefined;
      heard = await this.#sendTo(url, call, attempt);
    }
    if (heard.is === "answer") heard = await this.#compare(heard);
    if (heard.is === "silence" && heard.why !== "stopped") this.#leave(url);
    return heard;
  }

  /**
   * `fetch` has no time limit for connecting. Where there are several addresses, one that has not answered lately is asked something small
   * first, so that one that hangs costs two seconds and not the time limit of a long call.
   */
  async reach(stop: AbortSignal | undefined): Promise<void> {
    if (this.#urls.length < 2) return;
    const current = this.#heard.get(this.#urls[this.#at] as string);
    if (current && this.timers.now() - current.at < FRESH_MS) return;
    const looks = await Promise.all(this.#urls.map((url) => this.#look(url, stop)));
    const first = looks.indexOf(true, this.#at) >= 0 ? looks.indexOf(true, this.#at) : looks.indexOf(true);
    if (first >= 0) this.#at = first;
  }

  /** This address told something older than what was heard before: it is asked last. */
  distrust(url: string): void {
    const kept = this.#urls.filter((each) => each !== url);
    if (kept.length === this.#urls.length) return;
    const current = this.#urls[this.#at] as string;
    this.#urls = [...kept, url];
    this.#at = current === url ? 0 : this.#urls.indexOf(current);
  }

  #leave(url: string): void {
    if (this.#urls[this.#at] === url) this.#at = (this.#at + 1) % this.#urls.length;
  }

  async #look(url: string, stop: AbortSignal | undefined): Promise<boolean> {
    const heard = await this.#sendTo(url, { method: "GET", path: "/healthz" }, { timeoutMs: REACH_MS, hold: "process", stop }, true);
    if (heard.is === "answer") this.#note(heard);
    return heard.is === "answer";
  }

  /** True if the answer is of an earlier life of the service than one heard before, as one of a restored or forgotten replica is. */
  isBehind(answer: Answer): boolean {
    return epochOf(answer) < this.#epoch;
  }

  #note(answer: Answer): void {
    this.#epoch = Math.max(this.#epoch, epochOf(answer));
    const before = this.#heard.get(answer.url)?.service;
    this.#heard.set(answer.url, { at: answer.heardAt, service: answer.service ?? before });
  }

  /** Several addresses name one service. Were there two, each would have a holder. */
  async #compare(answer: Answer): Promise<Heard> {
    this.#note(answer);
    if (this.#at !== this.#urls.indexOf(answer.url) && this.#urls.includes(answer.url)) this.#at = this.#urls.indexOf(answer.url);
    if (answer.service === undefined || !this.#differs(answer)) return answer;
    // The data may have been made anew behind all of them: the others are asked again before they are called different.
    await Promise.all(this.#urls.filter((url) => url !== answer.url).map(async (url) => {
      if (!(await this.#look(url, undefined))) this.#heard.delete(url);
    }));
    const other = this.#differs(answer);
    return other === undefined ? answer : silence("different", `${answer.url} and ${other} are different services, and each would have a holder of its own`, answer, this.timers.now);
  }

  #differs(answer: Answer): string | undefined {
    for (const [url, { service }] of this.#heard) if (service !== undefined && service !== answer.service && this.#urls.includes(url)) return url;
    return undefined;
  }

  async #authorization(): Promise<string | undefined> {
    if (!this.readToken) return undefined;
    if (this.#token !== undefined) return this.#token;
    this.#reading ??= Promise.resolve().then(this.readToken).finally(() => { this.#reading = undefined; });
    this.#token = (await this.#reading).trim();
    return this.#token;
  }

  async #sendTo(url: string, call: Call, attempt: Attempt, bare = false): Promise<Heard> {
    const now = this.timers.now;
    const requestId = this.platform.asksForHeaders ? undefined : randomName(this.platform);
    let sent: Sent = { url, requestId, sentAt: now() };
    if (attempt.stop?.aborted) return silence("stopped", "the call was cancelled", sent, now);
    const control = new AbortController();
    const stop = (): void => control.abort();
    attempt.stop?.addEventListener("abort", stop, { once: true });
    let late = false;
    const cancelTimer = this.timers.at(sent.sentAt + attempt.timeoutMs, attempt.hold, () => {
      late = true;
      control.abort();
    });
    try {
      const headers: Record<string, string> = {};
      if (requestId) headers["X-Request-Id"] = requestId;
      if (call.body !== undefined) headers["Content-Type"] = "application/json";
      if (call.key !== undefined) headers["Idempotency-Key"] = call.key;
      if (!bare) {
        const token = await this.#authorization().catch(() => undefined);
        if (token) headers["Authorization"] = `Bearer ${token}`;
        else if (this.readToken) return silence("unknown", "the sign-on token cannot be read", sent, now);
      }
      sent = { ...sent, sentAt: now() };
      const response = await this.fetch(url + call.path, {
        ...this.#connections[attempt.use ?? "call"].init,
        method: call.method,
        headers,
        redirect: "manual",
        cache: "no-store",
        referrerPolicy: "no-referrer",
        signal: control.signal,
        ...(call.body === undefined ? {} : { body: call.body }),
        ...(attempt.keepalive ? { keepalive: true } : {}),
      });
      return await readAnswer(response, sent, now);
    } catch (thrown) {
      if (late) return silence("unknown", `${url} did not answer within ${Math.round(attempt.timeoutMs)} ms`, sent, now);
      if (attempt.stop?.aborted) return silence("stopped", "the call was cancelled", sent, now);
      return readFailure(thrown, sent, now);
    } finally {
      cancelTimer();
      attempt.stop?.removeEventListener("abort", stop);
    }
  }
}

/** 0 where positions have another form: then nothing heard before is later. */
function epochOf({ position }: Answer): number {
  const found = /^(\d{1,15})\.\d+$/.exec(position);
  return found ? Number(found[1]) : 0;
}

/** 128 random bits, in hex. */
export function randomName(platform: Platform): string {
  return Array.from(platform.random(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
