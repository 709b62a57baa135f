// The list of resources as far as it was looked at: pages in the server's order, loaded when they are scrolled to and loaded
// again when an event touched them and they are in sight. What is out of sight is only marked, so that ten thousand resources
// under load cost one small request a quarter of a second.
//
// Pages are a chain: page k + 1 starts at the cursor that ended page k. When a refreshed page ends elsewhere (something was added
// or removed), the next one gets the new cursor and is marked; the chain mends itself as far as it is looked at. A leap far
// off the chain starts a new one there, by number; its first page has no cursor but that number.

import { listResources } from "./api.js";
import { tick_ms } from "./ticker.js";

const PAGE = 100;
const FAR_PAGE = 500;
const LEAP_PAGE = 200;
const LEAP_FROM = 1000; // rows past the end of the chain; nearer than that it is made longer
const FLUSH_MS = 250;
const COUNTS_MS = 2000;

export class Store extends EventTarget {
  matched = 0;
  total = null; // null until the first answer
  counts = {};
  problem = null;
  filter = { kind: "", state: "", q: "", sort: "contended" };
  #pages = [];
  #pageOf = new Map();
  #seen = { first: 0, last: PAGE - 1 };
  #touched = new Set();
  #generation = 0;
  #pumping = false;
  #flushTimer = null;
  #lastFlush_ms = -Infinity;
  #countsAsked_ms = 0;
  #countsWanted = false;
  #countsTimer = null;

  /** Starts over with another filter or order. What is shown stays until the first page is there. */
  setFilter(change) {
    Object.assign(this.filter, change);
    this.#startOver();
  }

  /** After a reconnect or a gap: everything may have changed. */
  resync() {
    for (const page of this.#pages) page.marked = true;
    if (this.#pages.length === 0) this.#startOver();
    else this.#pump();
  }

  #startOver() {
    this.#generation += 1;
    this.#pages = [];
    this.#pageOf.clear();
    this.#seen = { first: 0, last: PAGE - 1 };
    this.#pump();
  }

  /** Row number `index`, or null while it is not loaded; `at_ms` says when its numbers were true. */
  row(index) {
    const page = this.#pages[this.#pageAt(index)];
    const row = page?.rows[index - page.start];
    return row ? { row, at_ms: page.at_ms } : null;
  }

  /** Where a key is now, -1 when it is not loaded. */
  indexOf(key) {
    const page = this.#pageOf.get(key);
    return page ? page.start + page.rows.findIndex((row) => row.key === key) : -1;
  }

  /** Tells which rows are in sight; loads what is missing there. */
  look(first, last) {
    if (first === this.#seen.first && last === this.#seen.last) return;
    this.#seen = { first, last };
    this.#pump();
  }

  /** An event happened to this resource. Bursts are gathered. */
  touch(key) {
    this.#touched.add(key);
    if (this.#flushTimer !== null) return;
    const wait_ms = Math.max(30, this.#lastFlush_ms + FLUSH_MS - performance.now());
    this.#flushTimer = setTimeout(() => this.#flush(), wait_ms);
  }

  #flush() {
    this.#flushTimer = null;
    this.#lastFlush_ms = performance.now();
    let elsewhere = false;
    for (const key of this.#touched) {
      const page = this.#pageOf.get(key);
      if (page) page.marked = true;
      else elsewhere = true;
    }
    this.#touched.clear();
    // A key not seen yet may belong among the rows in sight, and with another order than by name any event can move a row there.
    if (elsewhere || this.filter.sort !== "name") for (const page of this.#pages) page.marked = true;
    this.#countsWanted = true;
    this.#pump();
  }

  // One request at a time: first what is in sight and marked, then what is in sight and missing, then the counts.
  async #pump() {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      for (let work = this.#next(); work !== null; work = this.#next()) await work();
      this.problem = null;
    } catch (problem) {
      if (problem.status === 410 && this.#pages.length > 0) {
        // The order these pages were cut from is not kept any more.
        setTimeout(() => this.#startOver());
        return;
      }
      this.problem = problem;
      this.#changed();
    } finally {
      this.#pumping = false;
    }
  }

  #next() {
    const { first, last } = this.#seen;
    const end = this.#pages.at(-1);
    const loaded = end ? end.start + end.rows.length : 0;
    if (end && last < this.matched && (first < this.#pages[0].start || first > loaded + LEAP_FROM)) return () => this.#leap(first, last);
    for (const [index, page] of this.#pages.entries()) {
      if (page.marked && page.start <= last && page.start + page.rows.length > first) return () => this.#load(index, page.after, page.limit);
    }
    if (this.#pages.length > 0 && this.#pages[0].marked && this.#pages[0].rows.length === 0) return () => this.#load(0, null, PAGE);
    if (!end || (end.next !== null && loaded <= last)) {
      return () => this.#load(this.#pages.length, end?.next ?? null, last - loaded > FAR_PAGE ? FAR_PAGE : PAGE);
    }
    if (!this.#countsWanted) return null;
    const wait_ms = this.#countsAsked_ms + COUNTS_MS - performance.now();
    if (wait_ms <= 0) return () => this.#loadCounts();
    this.#countsTimer ??= setTimeout(() => {
      this.#countsTimer = null;
      this.#pump();
    }, wait_ms);
    return null;
  }

  // The visible part ends up in the middle of the page, so that a little scrolling either way does not leap again.
  async #leap(first, last) {
    const generation = this.#generation;
    const offset = Math.max(0, Math.min(Math.floor((first + last - LEAP_PAGE) / 2), this.matched - LEAP_PAGE));
    const answer = await listResources(this.#query(LEAP_PAGE, null, offset));
    if (generation !== this.#generation) return;
    this.#pageOf.clear();
    this.#pages = [];
    this.#put(0, { after: null, limit: LEAP_PAGE, start: offset }, answer);
  }

  async #load(index, after, limit) {
    const generation = this.#generation;
    // A chain that has nothing any more goes back to where all begin.
    const start = index === 0 && this.#pages[0]?.rows.length > 0 ? this.#pages[0].start : 0;
    const answer = await listResources(this.#query(limit, after, start));
    if (generation !== this.#generation) return;
    this.#put(index, { after, limit, start }, answer);
  }

  #put(index, place, answer) {
    const page = { ...place, rows: answer.resources, next: answer.next, marked: false, at_ms: tick_ms() };
    for (const row of this.#pages[index]?.rows ?? []) this.#pageOf.delete(row.key);
    this.#pages[index] = page;
    for (const row of page.rows) this.#pageOf.set(row.key, page);
    this.#mendChain(index);
    this.#takeCounts(answer);
  }

  #mendChain(index) {
    const page = this.#pages[index];
    const following = this.#pages[index + 1];
    if (page.next === null) this.#pages.length = index + 1;
    else if (following && following.after !== page.next) {
      following.after = page.next;
      following.marked = true;
    }
    let { start } = this.#pages[0];
    for (const each of this.#pages) {
      each.start = start;
      start += each.rows.length;
    }
  }

  async #loadCounts() {
    const generation = this.#generation;
    const answer = await listResources(this.#query(1, null));
    if (generation === this.#generation) this.#takeCounts(answer);
  }

  #takeCounts(answer) {
    this.#countsAsked_ms = performance.now();
    this.#countsWanted = false;
    this.matched = answer.matched;
    this.total = answer.total;
    this.counts = answer.counts;
    this.#changed();
  }

  #query(limit, after, offset = 0) {
    const query = { limit, ...this.filter };
    if (after !== null) query.after = after;
    else if (offset > 0) query.offset = offset;
    for (const name of ["kind", "state", "q"]) if (!query[name]) delete query[name];
    return query;
  }

  // The last page that starts at or before `index`; pages may be of different lengths.
  #pageAt(index) {
    let low = 0;
    let high = this.#pages.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#pages[middle].start <= index) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
