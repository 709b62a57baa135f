// A held lease at work: renews it, notices when it is at risk or lost, gives it back.
//
//   held ◀──▶ at risk ──▶ lost (final)
//    └───────────┴──────▶ releasing ──▶ released | ended_before | unknown
//
// The lease clock says whether it is held, and the answer is never remembered: a process that was stopped, or whose event loop was blocked, sees
// the loss before any timer has run.

import type { Answer } from "./answer.js";
import type { Asked, Grant } from "./asked.js";
import { callUser, type Context } from "./context.js";
import { LeaseLost, type LossCause } from "./errors.js";
import { attemptMs, marginMs, type Points, pointsOf, renewalPauseMs } from "./points.js";
import { reasonOf } from "./patience.js";
import { giveBack, RELEASE_BUDGET_MS, type ReleaseResult } from "./release.js";

export interface Hooks {
  readonly onAtRisk?: (secondsLeft: number, cause: string) => unknown;
  readonly onLost?: (loss: LeaseLost) => unknown;
}

/** A release waits this long for an attempt to renew that is under way, so that it does not arrive after the release. */
const RENEWAL_ENDS_MS = 500;

export class Holding {
  #points: Points;
  #state: "held" | "lost" | "released" = "held";
  #atRisk = false;
  #loss: LeaseLost | undefined;
  #lastError: string | undefined;
  #lastRequest: string | undefined;
  #released: Promise<ReleaseResult> | undefined;
  #told = new Set<string>();
  readonly #abort = new AbortController();
  readonly #renewerEnds = new AbortController();
  readonly #attemptEnds = new AbortController();
  readonly #renewer: Promise<void>;
  #cancelRisk = (): void => {};
  #cancelDeadline = (): void => {};
  #tellLost: (loss: LeaseLost) => void = () => {};
  readonly lost: Promise<LeaseLost>;

  constructor(
    private readonly context: Context,
    readonly asked: Asked,
    readonly grant: Grant,
    points: Points,
    private readonly holdUntil: number,
    private readonly hooks: Hooks,
    private readonly over: (holding: Holding) => void,
  ) {
    this.#points = points;
    this.lost = new Promise((resolve) => { this.#tellLost = resolve; });
    this.#watch();
    this.#renewer = this.#renew();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get lengthMs(): number {
    return this.#points.lengthMs;
  }

  get deadline(): number {
    return this.#points.deadline;
  }

  get leftMs(): number {
    return this.#state === "held" ? Math.max(0, this.#points.deadline - this.context.timers.now()) : 0;
  }

  /** Undefined while held. Past the deadline the loss happens here, if no timer came first. */
  get loss(): LeaseLost | undefined {
    if (this.#state === "held" && this.context.timers.now() >= this.#points.deadline) this.lose(this.#pastHold() ? "max_hold" : "deadline");
    if (this.#state === "released") return this.#loss ?? this.#lossBecause("released");
    return this.#loss;
  }

  /** The loss that happened while it was held, not the end by a release. */
  get lossWhileHeld(): LeaseLost | undefined {
    void this.loss;
    return this.#loss;
  }

  release(budgetMs = RELEASE_BUDGET_MS): Promise<ReleaseResult> {
    this.#released ??= this.#release(budgetMs);
    return this.#released;
  }

  /** The page goes: the release has to be on its way before this returns. */
  leave(): void {
    if (this.#state !== "held") return;
    this.lose("page_hidden");
    this.#attemptEnds.abort();
    this.#released ??= giveBack(this.context, this.asked, this.grant, RELEASE_BUDGET_MS, true);
    this.context.track(this.#released);
  }

  lose(cause: LossCause, answer?: Answer): void {
    if (this.#state !== "held") return;
    this.#state = "lost";
    this.#lastRequest = answer?.requestId ?? this.#lastRequest;
    const loss = this.#lossBecause(cause);
    this.#loss = loss;
    this.#stopTimers();
    this.#log("lost", { message: loss.message, position: answer?.position, url: answer?.url });
    this.#abort.abort(loss);
    this.#tellLost(loss);
    const { onLost } = this.hooks;
    callUser(this.context, this.asked, onLost && (() => onLost(loss)));
    // One release, best effort: a renewal may have been carried out without our hearing of it. Not before the service would end it by
    // itself, as the body may still be busy stopping.
    const endsAt = answer ? 0 : this.#points.sentAt + this.#points.lengthMs;
    const late = this.context.timers.sleep(Math.max(0, endsAt - this.context.timers.now()), "nothing", this.#renewerEnds.signal);
    this.context.track(late.then(() => this.release()));
  }

  async #release(budgetMs: number): Promise<ReleaseResult> {
    const wasLost = this.loss !== undefined;
    if (this.#state === "held") this.#state = "released";
    this.#stopTimers();
    this.#renewerEnds.abort();
    const cancel = this.context.timers.at(this.context.timers.now() + (wasLost ? 0 : RENEWAL_ENDS_MS), "process", () => this.#attemptEnds.abort());
    await this.#renewer;
    cancel();
    const result = await giveBack(this.context, this.asked, this.grant, budgetMs);
    this.#log("released", { message: result });
    this.over(this);
    return result;
  }

  #lossBecause(cause: LossCause): LeaseLost {
    const { kind, resource } = this.asked;
    return new LeaseLost({ kind, resource, token: this.grant.token, cause, lastError: this.#lastError }, { requestId: this.#lastRequest });
  }

  #pastHold(): boolean {
    return this.context.timers.now() >= this.holdUntil;
  }

  #stopTimers(): void {
    this.#cancelRisk();
    this.#cancelDeadline();
  }

  #watch(): void {
    this.#stopTimers();
    const { timers } = this.context;
    this.#cancelDeadline = timers.at(this.#points.deadline, "nothing", () => void this.loss);
    this.#cancelRisk = timers.at(this.#points.riskAt, "nothing", () => this.#risk());
  }

  #risk(): void {
    if (this.loss !== undefined || this.#atRisk) return;
    this.#atRisk = true;
    const cause = this.#pastHold() ? "max_hold is over" : this.#lastError ?? "no renewal was answered";
    this.#log("at_risk", { message: cause });
    const { onAtRisk } = this.hooks;
    callUser(this.context, this.asked, onAtRisk && (() => onAtRisk(this.leftMs / 1000, cause)));
  }

  /** One attempt is under way at a time, and past the deadline none leaves. */
  async #renew(): Promise<void> {
    const { timers, transport } = this.context;
    let failed = 0;
    let refused = 0;
    let nextAt = this.#points.renewAt;
    for (;;) {
      await timers.sleep(nextAt - timers.now(), "nothing", this.#renewerEnds.signal);
      if (this.#renewerEnds.signal.aborted || this.loss !== undefined || this.#pastHold()) return;
      const timeoutMs = Math.min(attemptMs(this.lengthMs), this.leftMs);
      const heard = await transport.send(this.asked.renew(this.grant), { timeoutMs, hold: "nothing", stop: this.#attemptEnds.signal });
      if (heard.is === "answer" && this.#answered(heard)) {
        failed = 0;
        refused = 0;
        nextAt = this.#points.renewAt;
        continue;
      }
      if (this.#state !== "held" || this.loss !== undefined) return;
      const sentence = heard.is === "silence" ? heard.sentence : `${heard.url} answered ${heard.status}: ${reasonOf(heard)}`;
      this.#lastRequest = heard.requestId;
      this.#failed(sentence, heard.url);
      const untilRisk = this.#points.riskAt - timers.now();
      const quarter = Math.min(this.leftMs / 4, untilRisk > 0 ? untilRisk / 2 : Number.POSITIVE_INFINITY);
      const busy = heard.is === "answer" ? heard.status === 429 || heard.status === 503 : heard.retryAfterMs !== undefined;
      // An address that refuses costs no time: the next one is asked at once, until all have been.
      const passed = heard.is === "silence" && heard.why !== "unknown";
      refused = passed ? refused + 1 : 0;
      let pause = busy ? Math.min(heard.retryAfterMs ?? quarter, quarter) : renewalPauseMs(this.lengthMs, failed);
      if (passed && refused % transport.urls.length !== 0) pause = 0;
      else failed += 1;
      nextAt = timers.now() + pause;
    }
  }

  /** True if the answer renewed the lease. One that is heard past the deadline changes nothing. */
  #answered(answer: Answer): boolean {
    const { transport } = this.context;
    if (transport.isBehind(answer)) {
      transport.distrust(answer.url);
      return false;
    }
    if (this.#state !== "held" || this.loss !== undefined) return false;
    if (answer.status === 404 || answer.status === 409 || answer.status === 410) {
      this.lose(this.asked.endedBy(answer), answer);
      return false;
    }
    const grant = this.asked.granted(answer);
    if (!grant || grant.id !== this.grant.id) return false;
    if (grant.token !== this.grant.token) {
      // The lock had passed on, and this renewal took it anew: no caller holds that one.
      this.context.track(giveBack(this.context, this.asked, grant));
      this.lose("superseded", answer);
      return false;
    }
    this.#renewed(answer, grant);
    return true;
  }

  #renewed(answer: Answer, grant: Grant): void {
    const points = pointsOf(answer.sentAt, grant.lengthMs);
    this.#points = { ...points, deadline: Math.max(points.deadline, this.#points.deadline) };
    this.#told.clear();
    this.#lastError = undefined;
    this.#log("renewed", { position: answer.position, requestId: answer.requestId, url: answer.url });
    if (this.#atRisk && this.context.timers.now() < this.#points.riskAt) {
      this.#atRisk = false;
      this.#log("safe", {});
    }
    this.#watch();
  }

  #failed(sentence: string, url: string): void {
    this.#lastError = sentence;
    if (this.#told.has(sentence)) return;
    this.#told.add(sentence);
    this.#log("attempt_failed", { message: sentence, requestId: this.#lastRequest, url });
  }

  #log(event: Parameters<Context["log"]>[0]["event"], more: object): void {
    const { kind, resource } = this.asked;
    this.context.log({ event, kind, resource, token: this.grant.token, ...more });
  }
}

/** When a grant that was heard of is counted from, or undefined when it has to be renewed first, as it was waited for. */
export function pointsOfGrant(grant: Grant, answer: Answer): Points | undefined {
  // The call waited that long by the clock of the service, so it was granted no earlier than that after it was sent.
  const sentAt = Math.min(answer.sentAt + (grant.waitedMs ?? 0), answer.heardAt);
  if (answer.heardAt - sentAt > grant.lengthMs / 10) return undefined;
  return marginMs(grant.lengthMs) < grant.lengthMs ? pointsOf(sentAt, grant.lengthMs) : undefined;
}
