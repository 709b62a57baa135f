// Which stretch of time the timeline shows, and where a moment is on it. While it follows, the present stays at the same place
// with some future beside it. Pure but for its own state.

import { clock } from "./format.js";

const SHORTEST_S = 2;
const LONGEST_S = 30 * 86400;
const FUTURE = 0.1; // of the window, when following
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const TICK_ROOM = 84;

export class TimeScale {
  from = 0;
  to = 60;
  following = true;
  left = 0;
  right = 600;

  layout(left, right) {
    this.left = left;
    this.right = Math.max(left + 50, right);
  }

  /** The last so many seconds, following the present. */
  last(seconds, now) {
    const length = Math.max(SHORTEST_S, Math.min(LONGEST_S, seconds));
    this.following = true;
    this.to = now + length * FUTURE;
    this.from = now - length * (1 - FUTURE);
  }

  follow(now) {
    this.last(this.to - this.from, now);
  }

  /** Time went on. */
  slide(now) {
    if (this.following) this.follow(now);
  }

  secondsPerPixel() {
    return (this.to - this.from) / (this.right - this.left);
  }

  x(unix) {
    return this.left + ((unix - this.from) / (this.to - this.from)) * (this.right - this.left);
  }

  /** The part of a stretch that is in the window, at least a hair wide; null when it is outside. */
  box(start, end) {
    if (end < this.from || start > this.to) return null;
    const x = Math.max(this.left, this.x(start));
    const until = Math.min(this.right, this.x(end));
    return { x, w: Math.max(1.5, until - x) };
  }

  /** `factor` below one looks closer, at `x` or, where none is given, at the present or the middle. */
  zoom(factor, x, now) {
    const length = Math.max(SHORTEST_S, Math.min(LONGEST_S, (this.to - this.from) * factor));
    if (this.following && x === null) {
      this.last(length, now);
      return;
    }
    const part = x === null ? 0.5 : (x - this.left) / (this.right - this.left);
    const fixed = this.from + part * (this.to - this.from);
    this.from = fixed - part * length;
    this.to = this.from + length;
    this.#meetPresent(now);
  }

  /** Moves by pixels. Reaching the present again means following it. */
  pan(pixels, now) {
    const by = (pixels / (this.right - this.left)) * (this.to - this.from);
    this.from += by;
    this.to += by;
    this.#meetPresent(now);
  }

  #meetPresent(now) {
    this.following = this.to >= now + (this.to - this.from) * FUTURE;
    this.slide(now);
  }

  /** Moves as little as need be for a stretch to be seen. */
  reveal(start, end, now) {
    const length = this.to - this.from;
    if (start >= this.from && start <= this.to - length * 0.05) return;
    if (end > this.from + length * 0.1 && start < this.from) return;
    this.following = false;
    this.from = start - length * 0.2;
    this.to = this.from + length;
    if (this.to > now + length * FUTURE) this.follow(now);
  }

  ticks() {
    const room = Math.max(1, Math.floor((this.right - this.left) / TICK_ROOM));
    const step = STEPS_S.find((each) => (this.to - this.from) / each <= room) ?? STEPS_S.at(-1);
    // Whole hours and days are those of the local zone.
    const zone_s = new Date(this.from * 1000).getTimezoneOffset() * 60;
    const ticks = [];
    for (let at = Math.ceil((this.from - zone_s) / step) * step + zone_s; at < this.to; at += step) {
      const x = this.x(at);
      if (x > this.left + 24 && x < this.right - 24) ticks.push({ x, label: tickLabel(at, step) });
    }
    return ticks;
  }
}

function tickLabel(at, step) {
  if (step >= 86400) return new Date(at * 1000).toLocaleDateString("en", { month: "short", day: "numeric" });
  return step < 60 ? clock(at) : clock(at).slice(0, 5);
}
