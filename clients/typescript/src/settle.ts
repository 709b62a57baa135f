// Leaving nothing behind: whether a cancelled request was carried out is not known, so what it may have got is ended by name, or asked for
// once more and given back.

import type { Asked, AskedClaim } from "./asked.js";
import type { Heard } from "./answer.js";
import type { Context } from "./context.js";
import { acquiringPauseMs } from "./points.js";
import { giveBack } from "./release.js";
import type { Call } from "./transport.js";

const BUDGET_MS = 5000;
const ATTEMPT_MS = 1200;
/** Without a call that ends an acquisition by name, the same request is open this much longer. */
const AGAIN_MS = 1000;

/** Pools and locks: closing the connection gave up the place; a grant that crossed it is ended. */
export async function settlePlace(context: Context, asked: Asked): Promise<void> {
  if (asked.withdraw && (await ended(context, asked.withdraw))) return;
  const heard = await context.transport.send(asked.ask, { timeoutMs: AGAIN_MS, hold: "process" });
  const grant = heard.is === "answer" ? asked.granted(heard) : undefined;
  if (grant) await giveBack(context, asked, grant, BUDGET_MS);
}

/** A claim is withdrawn by its id, waiting or active; where the answer with the id was lost, the same request finds it. */
export async function settleClaim(context: Context, asked: AskedClaim, id: string | undefined): Promise<void> {
  let known = id;
  if (known === undefined) {
    const heard = await answered(context, asked.ask);
    if (heard?.is === "answer" && typeof heard.body["id"] === "string") known = heard.body["id"];
  }
  if (known !== undefined) await answered(context, asked.withdrawn(known));
}

/** Whether the service knows this call: it then ended whatever there was. */
async function ended(context: Context, call: Call): Promise<boolean> {
  const heard = await answered(context, call);
  return heard?.is === "answer" && heard.status !== 405 && heard.status !== 400;
}

async function answered(context: Context, call: Call): Promise<Heard | undefined> {
  const { transport, timers } = context;
  const until = timers.now() + BUDGET_MS;
  for (let n = 0; timers.now() < until; n += 1) {
    const heard = await transport.send(call, { timeoutMs: Math.min(ATTEMPT_MS, until - timers.now()), hold: "process" });
    if (heard.is === "answer" && heard.status < 500 && heard.status !== 429) return heard;
    const asked = heard.retryAfterMs ?? acquiringPauseMs(n);
    await timers.sleep(Math.min(asked, Math.max(0, until - timers.now()) / 2), "process");
  }
  return undefined;
}
