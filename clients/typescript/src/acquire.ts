// From the call to a confirmed lease: asking, waiting in rounds without losing the place, confirming, and leaving nothing behind when it is
// cancelled.

import type { Answer, Heard } from "./answer.js";
import { KEEP_MS, type Asked, type AskedClaim, type Grant, type Queue } from "./asked.js";
import { callUser, type Context, type LogEvent } from "./context.js";
import { Conflict, type Kind, type LeaseholdError, Timeout, ServiceUnavailable } from "./errors.js";
import { pointsOfGrant } from "./holding.js";
import { Patience, reasonOf } from "./patience.js";
import { attemptMs, type Points, pointsOf } from "./points.js";
import { pollPlace } from "./polls.js";
import { giveBack } from "./release.js";
import { settleClaim, settlePlace } from "./settle.js";
import type { Call } from "./transport.js";

/** How it goes while a lease is waited for. */
export interface Progress extends Queue {
  /** Seconds since the call. */
  readonly elapsed: number;
  /** How often the place in the queue was lost, by a restart of the service for instance, and asked for again at the back. */
  readonly placeLost: number;
}

export interface Acquiring {
  readonly kind: Kind;
  readonly resource: string;
  /** One acquisition under a new name. */
  readonly ask: (waitMs: number) => Asked | AskedClaim;
  /** The total from the call to a confirmed lease; undefined waits for ever, 0 asks once. */
  readonly waitMs: number | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((progress: Progress) => unknown) | undefined;
}

export interface Acquired {
  readonly asked: Asked;
  readonly grant: Grant;
  readonly points: Points;
}

interface Found {
  readonly grant: Grant;
  readonly answer: Answer;
}

const PLAIN_MS = 15_000;
const POLL_SLACK_MS = 10_000;
const OVERLAP_MS = 5000;
const LOOK_EVERY_MS = 10_000;
/** A call that has no answer after this long stands in the queue. */
const PARKED_MS = 500;
/** Asking once ends after this long, also when it is not known whether the request was carried out. */
const ONCE_MS = 15_000;
/** The twin of a call that was granted hears of the same grant at once. */
const TWIN_MS = 1000;

export class Acquisition {
  readonly #stop = new AbortController();
  readonly #began: number;
  readonly #patience: Patience;
  readonly #roundMs: number;
  #over: "time" | "cancelled" | undefined;
  #reason: unknown;
  #placeLost = 0;
  #queue: Queue = {};
  #asked: Asked | undefined;
  #look: Call | undefined;
  #told = 0;

  constructor(private readonly context: Context, private readonly wanted: Acquiring) {
    this.#began = context.timers.now();
    this.#patience = new Patience(() => context.transport.urls.length, wanted.waitMs === 0);
    this.#roundMs = Math.min(context.roundMs, wanted.waitMs ?? Number.POSITIVE_INFINITY);
  }

  cancel(reason: unknown): void {
    if (this.#over) return;
    this.#over = "cancelled";
    this.#reason = reason;
    this.#stop.abort();
  }

  async run(): Promise<Acquired> {
    const { signal, waitMs } = this.wanted;
    signal?.throwIfAborted();
    const { timers } = this.context;
    const cancel = (): void => this.cancel(signal?.reason);
    signal?.addEventListener("abort", cancel, { once: true });
    const cancelTimer = waitMs === undefined ? () => {} : timers.at(this.#began + (waitMs === 0 ? ONCE_MS : waitMs), "process", () => {
      this.#over ??= "time";
      this.#stop.abort();
    });
    const cancelProgress = this.#tellProgress();
    try {
      await this.context.transport.reach(this.#stop.signal);
      for (;;) {
        const acquired = await this.#once(this.wanted.ask(this.#roundMs));
        if (acquired && !this.#stop.signal.aborted) return acquired;
        if (acquired) {
          // Cancelled after the grant and before it was handed out.
          this.context.track(giveBack(this.context, acquired.asked, acquired.grant));
          throw this.#ended();
        }
        this.#lostPlace();
      }
    } finally {
      signal?.removeEventListener("abort", cancel);
      cancelTimer();
      cancelProgress();
    }
  }

  /** Undefined: it was granted and had ended before we heard of it; a new name starts afresh. */
  async #once(asked: Asked | AskedClaim): Promise<Acquired | undefined> {
    this.#asked = asked;
    this.#look = asked.look;
    const found = "poll" in asked ? await this.#byClaim(asked) : await this.#byRounds(asked);
    if (!found) return undefined;
    const points = pointsOfGrant(found.grant, found.answer);
    const acquired = points ? { asked, grant: found.grant, points } : await this.#confirm(asked, found.grant);
    if (acquired) this.#log("granted", { token: acquired.grant.token, position: found.answer.position, requestId: found.answer.requestId, url: found.answer.url });
    return acquired;
  }

  /**
   * A place lives as long as one call that joined it, and KEEP_MS longer. Before a round ends the same request is sent on a second connection, and the first
   * runs out.
   */
  async #byRounds(asked: Asked): Promise<Found | undefined> {
    const { timers, transport, platform } = this.context;
    const overlapMs = Math.min(OVERLAP_MS, this.#roundMs / 2);
    const waits = this.#roundMs > 0;
    const timeoutMs = waits ? this.#roundMs + POLL_SLACK_MS : PLAIN_MS;
    const flights = new Set<AbortController>();
    const heard: { heard: Heard; lastedMs: number }[] = [];
    let wake = (): void => {};
    let executed = false;
    let done: Grant | undefined;

    const launch = async (overlap: boolean): Promise<void> => {
      const flight = new AbortController();
      flights.add(flight);
      const back = await pollPlace(transport.urls[0] as string, waits ? platform.pollsAtOnce : Number.POSITIVE_INFINITY, overlap, flight.signal);
      const sentAt = timers.now();
      const result = await transport.send(asked.ask, { timeoutMs, hold: "process", stop: flight.signal, use: waits ? "poll" : "call" });
      back();
      flights.delete(flight);
      executed ||= mayBeExecuted(result);
      if (done) this.#twin(asked, result, done);
      else heard.push({ heard: result, lastedMs: timers.now() - sentAt });
      wake();
    };
    const end = (): void => {
      for (const flight of flights) flight.abort();
    };
    const stop = (): void => wake();
    this.#stop.signal.addEventListener("abort", stop, { once: true });
    try {
      let nextAt = timers.now();
      // Since when no call is at the service. One that ended without an answer may have been granted: the next one tells, unless it is parked.
      let awaySince: number | undefined;
      let parkedAt = Number.POSITIVE_INFINITY;
      for (;;) {
        if (this.#stop.signal.aborted) {
          const unsettled = executed || flights.size > 0;
          end();
          if (unsettled) this.context.track(settlePlace(this.context, asked));
          throw this.#ended();
        }
        if (heard.length === 0 && timers.now() >= nextAt) {
          const isAlone = flights.size === 0;
          void launch(!isAlone);
          // Away for longer than the service keeps a place: it may stand at the back now.
          if (isAlone && awaySince !== undefined && timers.now() - awaySince > KEEP_MS) parkedAt = timers.now() + PARKED_MS;
          nextAt = waits ? timers.now() + this.#roundMs - overlapMs : Number.POSITIVE_INFINITY;
        }
        if (heard.length === 0 && timers.now() >= parkedAt) {
          awaySince = undefined;
          parkedAt = Number.POSITIVE_INFINITY;
          this.#lostPlace();
        }
        if (heard.length === 0) {
          const wakeAt = Math.min(nextAt, parkedAt);
          const woken = new Promise<void>((resolve) => { wake = resolve; });
          const cancel = Number.isFinite(wakeAt) ? timers.at(wakeAt, "process", () => wake()) : () => {};
          await woken;
          cancel();
          continue;
        }
        const { heard: each, lastedMs } = heard.shift() as { heard: Heard; lastedMs: number };
        const grant = each.is === "answer" ? asked.granted(each) : undefined;
        if (grant) {
          done = grant;
          if (flights.size > 0) timers.at(timers.now() + TWIN_MS, "process", end);
          return { grant, answer: each as Answer };
        }
        if (each.is === "answer" && each.status === 410) {
          end();
          return undefined;
        }
        const lost = flights.size === 0 && (each.is === "silence" ? each.why === "unknown" : lastedMs >= PARKED_MS);
        if (each.is === "answer" && each.status === 409) {
          this.#patience.answered();
          if (!waits) throw this.#conflict(each);
          if (flights.size > 0) continue;
          // The round was shorter than asked for, or its successor comes late: the service keeps the place for it.
          awaySince = timers.now();
          parkedAt = Number.POSITIVE_INFINITY;
          nextAt = timers.now() + (lastedMs < this.#roundMs / 2 ? 1000 * Math.random() + 500 : 0);
          continue;
        }
        if (each.is === "silence" && each.why === "stopped") continue;
        let pauseMs: number;
        try {
          pauseMs = this.#patience.after(each);
        } catch (thrown) {
          end();
          if (executed && each.is === "silence") this.context.track(settlePlace(this.context, asked));
          throw thrown;
        }
        if (lost && (awaySince === undefined || lastedMs >= PARKED_MS)) awaySince = timers.now();
        parkedAt = Number.POSITIVE_INFINITY;
        nextAt = timers.now() + pauseMs;
      }
    } finally {
      this.#stop.signal.removeEventListener("abort", stop);
    }
  }

  /** The second call of two that overlapped has heard of the same grant. Were it another one, no caller would have it. */
  #twin(asked: Asked, heard: Heard, done: Grant): void {
    const grant = heard.is === "answer" ? asked.granted(heard) : undefined;
    if (grant && grant.id !== done.id) this.context.track(giveBack(this.context, asked, grant));
  }

  /** The claim is made without waiting, as it would die with its connection otherwise; then each round asks whether it is its turn. */
  async #byClaim(asked: AskedClaim): Promise<Found | undefined> {
    const { timers, transport, platform } = this.context;
    let id: string | undefined;
    let executed = false;
    const settle = (): void => {
      if (executed) this.context.track(settleClaim(this.context, asked, id));
    };
    for (;;) {
      if (this.#stop.signal.aborted) {
        settle();
        throw this.#ended();
      }
      let heard: Heard;
      const startedAt = timers.now();
      if (id === undefined) {
        heard = await transport.send(asked.ask, { timeoutMs: PLAIN_MS, hold: "process", stop: this.#stop.signal });
      } else {
        const back = await pollPlace(transport.urls[0] as string, platform.pollsAtOnce, false, this.#stop.signal);
        heard = await transport.send(asked.poll(id), { timeoutMs: this.#roundMs + POLL_SLACK_MS, hold: "process", stop: this.#stop.signal, use: "poll" });
        back();
      }
      executed ||= mayBeExecuted(heard);
      const grant = heard.is === "answer" ? asked.granted(heard) : undefined;
      if (grant) return { grant, answer: heard as Answer };
      const lastedMs = timers.now() - startedAt;
      if (heard.is === "answer") {
        const { status, body } = heard;
        if (status === 202 && typeof body["id"] === "string") {
          this.#patience.answered();
          id = body["id"];
          this.#look = asked.lookAt(id);
          this.#queue = asked.queue(heard);
          if (this.wanted.waitMs === 0) {
            settle();
            throw this.#conflict(heard);
          }
          this.#log("waiting", { position: heard.position, requestId: heard.requestId, url: heard.url });
          continue;
        }
        if (id !== undefined && status === 409 && body["status"] === "waiting") {
          this.#patience.answered();
          // A round that ended early was cut by something on the way.
          if (lastedMs < this.#roundMs / 2) await timers.sleep(500 + 500 * Math.random(), "process", this.#stop.signal);
          continue;
        }
        if (status === 410 || status === 409 || (status === 404 && id !== undefined)) return undefined;
      }
      if (heard.is === "silence" && heard.why === "stopped") continue;
      let pauseMs: number;
      try {
        pauseMs = this.#patience.after(heard);
      } catch (thrown) {
        settle();
        throw thrown;
      }
      await timers.sleep(pauseMs, "process", this.#stop.signal);
    }
  }

  /**
   * The answer to a request that waited is counted from before the wait, which would put the deadline into the past: one renewal is sent and
   * counted from instead.
   */
  async #confirm(asked: Asked, grant: Grant): Promise<Acquired | undefined> {
    const { timers, transport } = this.context;
    for (;;) {
      if (this.#stop.signal.aborted) {
        this.context.track(giveBack(this.context, asked, grant));
        throw this.#ended();
      }
      const heard = await transport.send(asked.renew(grant), { timeoutMs: attemptMs(grant.lengthMs), hold: "process", stop: this.#stop.signal });
      if (heard.is === "answer") {
        if ([404, 409, 410].includes(heard.status)) return undefined;
        const renewed = asked.granted(heard);
        if (renewed && renewed.id === grant.id && renewed.token !== grant.token) {
          this.context.track(giveBack(this.context, asked, renewed));
          return undefined;
        }
        const points = renewed && renewed.id === grant.id ? pointsOf(heard.sentAt, renewed.lengthMs) : undefined;
        if (renewed && points && timers.now() < points.riskAt) return { asked, grant: { ...renewed, slot: renewed.slot ?? grant.slot, named: renewed.named ?? grant.named }, points };
      }
      if (heard.is === "silence" && heard.why === "stopped") continue;
      let pauseMs: number;
      try {
        pauseMs = this.#patience.after(heard);
      } catch (thrown) {
        this.context.track(giveBack(this.context, asked, grant));
        throw thrown;
      }
      await timers.sleep(Math.min(pauseMs, grant.lengthMs / 10), "process", this.#stop.signal);
    }
  }

  #conflict(answer: Answer): LeaseholdError {
    const { requestId, url, body } = answer;
    const holder = typeof body["holder"] === "string" && body["holder"] !== "" ? body["holder"] : undefined;
    const why = answer.status === 409 ? reasonOf(answer) : "held by another";
    return new Conflict(`${why}${holder ? `: ${holder}` : ""}`, holder, { requestId, url });
  }

  #ended(): unknown {
    if (this.#over === "cancelled") {
      this.#log("cancelled", {});
      return this.#reason;
    }
    if (this.#patience.problem) return this.#patience.unavailable();
    if (this.wanted.waitMs === 0) return new ServiceUnavailable("no answer within 15 s");
    return new Timeout(`not acquired within ${(this.wanted.waitMs as number) / 1000} s`);
  }

  #lostPlace(): void {
    this.#placeLost += 1;
    this.#log("place_lost", {});
    this.#progress();
  }

  #progress(): void {
    const { onProgress } = this.wanted;
    if (!onProgress) return;
    const now = this.context.timers.now();
    this.#told = now;
    const progress: Progress = { elapsed: (now - this.#began) / 1000, placeLost: this.#placeLost, ...this.#queue };
    callUser(this.context, this.wanted, () => onProgress(progress));
  }

  #log(event: LogEvent["event"], more: Partial<LogEvent>): void {
    const { kind, resource } = this.wanted;
    this.context.log({ event, kind, resource, ...more });
  }

  /** After a second, and then with a fresh look at the queue every ten; what changes in between is told at once. */
  #tellProgress(): () => void {
    if (!this.wanted.onProgress) return () => {};
    const { timers, transport } = this.context;
    const ends = new AbortController();
    const tell = async (): Promise<void> => {
      await timers.sleep(1000, "process", ends.signal);
      while (!ends.signal.aborted) {
        const look = this.#look;
        const heard = look ? await transport.send(look, { timeoutMs: 5000, hold: "process", stop: ends.signal }) : undefined;
        if (ends.signal.aborted) return;
        if (heard?.is === "answer" && heard.status === 200 && this.#asked) this.#queue = this.#asked.queue(heard);
        if (timers.now() - this.#told >= 1000) this.#progress();
        await timers.sleep(LOOK_EVERY_MS, "process", ends.signal);
      }
    };
    void tell();
    return () => ends.abort();
  }
}

/** A request that was cut off while it was under way may have been carried out. */
function mayBeExecuted(heard: Heard): boolean {
  return heard.is === "answer" || heard.why === "unknown" || heard.why === "stopped";
}
