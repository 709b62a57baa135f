// Times, counts and names as people read them. Pure: data in, text out.

import { seen } from "./names.js";

const UUID_START = /^[0-9a-f]{8}-[0-9a-f]{0,4}(-[0-9a-f]{0,4}(-[0-9a-f]{0,4}(-[0-9a-f]{0,12})?)?)?$/i;
const COUNT = new Intl.NumberFormat("en");

const two = (n) => String(n).padStart(2, "0");

/** A rest or a duration, in whole seconds: `42 s`, `4 m 05 s`, `1 h 03 m`, `2 d 4 h`. Never rounded up. */
export function whole(seconds) {
  const t = Math.max(0, Math.floor(seconds));
  if (t < 60) return `${t} s`;
  if (t < 3600) return `${Math.floor(t / 60)} m ${two(t % 60)} s`;
  if (t < 86400) return `${Math.floor(t / 3600)} h ${two(Math.floor(t / 60) % 60)} m`;
  return `${Math.floor(t / 86400)} d ${Math.floor(t / 3600) % 24} h`;
}

/** How long something took: short spans keep their milliseconds. */
export function span(seconds) {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return whole(seconds);
}

export function ago(unix, now) {
  const t = now - unix;
  return t < 1 ? "just now" : `${whole(t)} ago`;
}

/** The exact local time, for titles: `2026-01-31 14:03:22.123 +01:00`. */
export function exact(unix) {
  const d = new Date(unix * 1000);
  const offset = -d.getTimezoneOffset();
  const zone = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(unix)}.${String(d.getMilliseconds()).padStart(3, "0")} ${zone}`;
}

/** The local time of day. */
export function clock(unix) {
  const d = new Date(unix * 1000);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

export const count = (n) => COUNT.format(n);

/** `1 slot`, `2 slots`. */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A rate or a value on a chart's axis: at most three digits that matter. */
export function figure(value) {
  if (value >= 100 || Number.isInteger(value)) return count(Math.round(value));
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** True of whatever starts like a pool's id: such text must never be sent in an address. */
export const looksLikePoolId = (text) => UUID_START.test(text.trim());

export const shortId = (id) => id.slice(0, 8);

/** The name of a resource: `kind` says which of its names it has. */
export const nameOf = (resource) => {
  const pool = () => `pool ${shortId(resource.digest ?? resource.key.slice(5))}`;
  return seen(resource.name ?? resource.label ?? pool());
};

const HUES = 12;
const COLOURS = 2 * HUES;
const NAMES_MAX = 5000; // a pool of leases without names has a name per lease

/** The number of a name's colour when it is alone: one of twelve hues, far enough apart to be told from each other, in two tones. */
function wish(name) {
  let hash = 2166136261;
  for (const char of String(name)) hash = Math.imul(hash ^ char.codePointAt(0), 16777619);
  hash = Math.imul(hash ^ (hash >>> 16), 2246822507);
  hash = (hash ^ (hash >>> 13)) >>> 0;
  return hash % COLOURS;
}

/**
 * Colours for the names of one view. A name keeps its colour as long as the view lasts; two names have the same one only when
 * there are more names than colours. Where a name's own colour is taken, the next hue that is free stands in.
 */
export class Colours {
  #of = new Map();
  #taken = new Array(COLOURS).fill(0);

  /** `{hue, tone}` of a name. */
  get(name) {
    const text = String(name);
    if (!this.#of.has(text)) {
      if (this.#of.size >= NAMES_MAX) this.#forget();
      this.#of.set(text, this.#choose(wish(text)));
    }
    const number = this.#of.get(text);
    return { hue: (number % HUES) * (360 / HUES) + 10, tone: Math.floor(number / HUES) };
  }

  #forget() {
    this.#of.clear();
    this.#taken.fill(0);
  }

  // Five hues on, so that neighbours in time differ clearly; every number is reached, as five and the number of colours share no divisor.
  #choose(wished) {
    const least = Math.min(...this.#taken);
    let number = wished;
    while (this.#taken[number] > least) number = (number + 5) % COLOURS;
    this.#taken[number] += 1;
    return number;
  }
}

/** Less than this part of a ttl left is little: a holder that renews in time never gets there. */
export const LITTLE = 0.2;

/** True if a lease is about to end, judged by its own ttl; without one, ten seconds are little. */
export const isEnding = (rest_s, ttl_s) => (ttl_s > 0 ? rest_s < ttl_s * LITTLE : rest_s < 10);

export const KIND_WORD = { pool: "Pool", claim: "Claims", lock: "Lock" };
export const STATE_WORD = { free: "Free", held: "Held", contended: "Contended", grace: "In grace", lapsed: "Lapsed" };
