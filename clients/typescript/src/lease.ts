// The lease as its user sees it.

import type { NamedSlot } from "./asked.js";
import type { Kind, Loss } from "./errors.js";
import type { Holding } from "./holding.js";
import type { ReleaseResult } from "./release.js";

/** Hosts without the symbol get the one that compilers fall back to. */
export const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? (Symbol.for("Symbol.asyncDispose") as typeof Symbol.asyncDispose);

/**
 * Something held, for as long as it can be renewed. Call {@link check} right before every effect: it compares the clock, and so it is right
 * also after the process was stopped or its event loop was blocked, when `signal` comes late.
 */
export class Lease {
  readonly #holding: Holding;
  readonly #raiseOnLoss: boolean;
  #told = false;

  /** @internal */
  constructor(holding: Holding, raiseOnLoss: boolean) {
    this.#holding = holding;
    this.#raiseOnLoss = raiseOnLoss;
  }

  get kind(): Kind {
    return this.#holding.asked.kind;
  }

  /** The lock's or claim's name; of a pool its label, never its id. */
  get resource(): string {
    return this.#holding.asked.resource;
  }

  /** The fencing token, for the thing that is protected: it refuses tokens below the highest it has seen. Throws `LeaseLost`. */
  get token(): number {
    this.check();
    return this.#holding.grant.token;
  }

  /** The number of the slot, from 0; undefined where there are none. Throws `LeaseLost`. */
  get slot(): number | undefined {
    this.check();
    return this.#holding.grant.slot;
  }

  /** The name and the data of the slot, where the operator has given slots names, as they were at the grant. Throws `LeaseLost`. */
  get namedSlot(): NamedSlot | undefined {
    this.check();
    return this.#holding.grant.named;
  }

  /** The lease's or claim's id, or the lock's client. An id of a pool's lease is a secret: every client that has it can end the lease. */
  get id(): string {
    return this.#holding.grant.id;
  }

  get held(): boolean {
    return this.#holding.loss === undefined;
  }

  /** Seconds until it is lost, unless it is renewed before. */
  get remaining(): number {
    return this.#holding.leftMs / 1000;
  }

  /** When it is lost unless it is renewed before, in milliseconds of the client's lease clock. */
  get deadline(): number {
    return this.#holding.deadline;
  }

  /** The length that the service granted last, in seconds. */
  get ttl(): number {
    return this.#holding.lengthMs / 1000;
  }

  /** Throws `LeaseLost` unless it is held right now. */
  check(): void {
    const { loss } = this.#holding;
    if (loss === undefined) return;
    this.#told = true;
    throw loss;
  }

  /** Aborts with a `LeaseLost` when the lease is lost. It does not abort when it is released. */
  get signal(): AbortSignal {
    return this.#holding.signal;
  }

  /** Resolves when the lease is lost; never when it is released before. */
  get lost(): Promise<Loss> {
    return this.#holding.lost.then(({ loss }) => loss);
  }

  /** Gives it back, within five seconds. Never throws; any number of calls send one release. */
  release(): Promise<ReleaseResult> {
    return this.#holding.release();
  }

  /**
   * The end of `await using`: gives it back, and throws `LeaseLost` when it was lost without the body having been told by `check`, `token` or
   * `slot`. If the body threw as well, both are in the `SuppressedError` that the language makes of them; `run` leaves the body's alone.
   */
  async [asyncDispose](): Promise<void> {
    const loss = this.#holding.lossWhileHeld;
    await this.#holding.release();
    if (loss && this.#raiseOnLoss && !this.#told) throw loss;
  }

  /** Runs the body, gives the lease back however it ends. The body's own error is never replaced; a loss becomes its cause. */
  async during<T>(body: (lease: this) => T | Promise<T>): Promise<T> {
    let value: T;
    try {
      value = await body(this);
    } catch (thrown) {
      const loss = this.#holding.lossWhileHeld;
      await this.#holding.release();
      if (loss && thrown !== loss && thrown instanceof Error && thrown.cause === undefined) {
        try {
          thrown.cause = loss;
        } catch {
          // A frozen error stays as it is.
        }
      }
      throw thrown;
    }
    const loss = this.#holding.lossWhileHeld;
    await this.#holding.release();
    if (loss && this.#raiseOnLoss) throw loss;
    return value;
  }
}
