// The meaning of an answer, or of silence, to a call that has to get through before a lease is held: pause and send the same bytes again, or fail.

import type { Answer, Heard, Why } from "./answer.js";
import { DifferentServices, Forbidden, NotFound, ProtocolError, TlsError, Unauthenticated, ServiceUnavailable, WrongHost } from "./errors.js";
import { acquiringPauseMs } from "./points.js";
import { scrub } from "./scrub.js";

/** Given by the service besides "ask again later": the request was not executed. */
const NOT_NOW = new Set([429, 503]);

export class Patience {
  #failed = 0;
  #inRow: Why[] = [];
  /** The last failure, for the error when the time is over. */
  problem: { readonly sentence: string; readonly requestId: string | undefined; readonly url: string } | undefined;

  /** `once`: no address answers is a failure, not a reason to wait. */
  constructor(private readonly addresses: () => number, private readonly once: boolean) {}

  /** An answer that is neither busy nor broken ends a row of failures. */
  answered(): void {
    this.#failed = 0;
    this.#inRow = [];
    this.problem = undefined;
  }

  /** How long to pause before the same bytes are sent again. Throws when sending them again cannot help. */
  after(heard: Heard): number {
    const { requestId, url } = heard;
    const sentence = heard.is === "silence" ? heard.sentence : `${url} answered ${heard.status}: ${reasonOf(heard)}`;
    this.problem = { sentence, requestId, url };
    if (heard.is === "answer") {
      this.#inRow = [];
      refuse(heard, sentence);
      if (NOT_NOW.has(heard.status)) return (heard.retryAfterMs ?? acquiringPauseMs(this.#failed++)) + Math.random() * 1000;
      return acquiringPauseMs(this.#failed++);
    }
    if (heard.why === "different") throw new DifferentServices(sentence, { requestId, url });
    this.#inRow.push(heard.why);
    const lastRound = this.#inRow.slice(-this.addresses());
    const isRound = this.#inRow.length % this.addresses() === 0;
    if (isRound && lastRound.every((why) => why === "tls")) throw new TlsError(sentence, { requestId, url });
    if (isRound && lastRound.every((why) => why === "host")) throw new WrongHost(sentence, { requestId, url });
    if (isRound && this.once && lastRound.every((why) => why !== "unknown")) throw this.unavailable();
    if (heard.retryAfterMs !== undefined) return heard.retryAfterMs + Math.random() * 1000;
    return heard.why !== "unknown" && !isRound ? 0 : acquiringPauseMs(this.#failed++);
  }

  unavailable(): ServiceUnavailable {
    const { sentence, requestId, url } = this.problem ?? { sentence: "no answer yet", requestId: undefined, url: undefined };
    const hint = /cannot be reached/.test(sentence) ? "; is the server running? `leasehold serve` starts one, and `url` or LEASEHOLD_URL says where it is" : "";
    return new ServiceUnavailable(sentence + hint, { requestId, url });
  }
}

function refuse(answer: Answer, sentence: string): void {
  const { status, requestId, url } = answer;
  switch (status) {
    case 401:
      throw new Unauthenticated(`${sentence}; \`token\` or LEASEHOLD_TOKEN_FILE gives the sign-on token`, { requestId, url });
    case 403:
      throw new Forbidden(sentence, { requestId, url });
    case 404:
      throw new NotFound(sentence, { requestId, url });
    case 429:
      return;
    default:
      if (status >= 400 && status < 500) throw new ProtocolError(sentence, status, { requestId, url });
  }
}

export function reasonOf({ body }: Answer): string {
  return typeof body["error"] === "string" ? scrub(body["error"]) : "no reason given";
}
