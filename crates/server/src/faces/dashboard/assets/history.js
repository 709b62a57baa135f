// From events to stretches of time: who held which slot from when to when, and who waited. Pure: events in, `holds` and `waits`
// out; drawing them is timeline.js's.
//
// An end says how long it was held and a grant how long it was waited for, so that also what began before the kept history has
// its true beginning, and holds are matched by token alone. Only who gives up waiting must be matched with when it came: by claim,
// by client, and where there is neither (pools) as the one who came first.

import { seen } from "./names.js";

const KEPT = 5000;
const ENDS = new Set(["released", "expired", "revoked", "withdrawn", "aborted", "timed_out", "deleted", "handed_back", "superseded"]);
// As observe/label.rs has them, so that the list and the detail call people alike.
const LABEL_FIELDS = ["client", "owner", "user", "name", "who", "job", "host", "by"];
const LABEL_MAX = 80;

export class History {
  holds = new Map(); // token -> hold
  waits = []; // ended ones, oldest first
  events = []; // oldest first
  completeSince = null;
  version = 0; // rises with every change, so that a drawing knows whether it is old
  #ids = new Set();
  #came = []; // who waits, as far as events told: {client, claim, at_unix}
  #labels = new Map(); // claim id -> label

  /** Takes in what the server kept; what came live in the meantime is not doubled. */
  seed(events, completeSince) {
    this.completeSince = completeSince;
    const live = this.events;
    this.holds.clear();
    this.waits = [];
    this.events = [];
    this.#came = [];
    this.#ids.clear();
    for (const event of [...events, ...live]) this.add(event);
  }

  add(event) {
    if (this.#ids.has(event.id)) return;
    this.#ids.add(event.id);
    this.events.push(event);
    this.version += 1;
    if (this.events.length > KEPT) this.#ids.delete(this.events.shift().id);
    if (event.event === "waiting") this.#came.push(event);
    else if (event.event === "granted") this.#granted(event);
    else if (event.event === "renewed") this.#renewed(event);
    else if (event.event === "grace" || event.event === "lapsed") this.#weakened(event);
    else if (ENDS.has(event.event)) this.#ended(event);
  }

  /** Learns what only the present state tells: names of claims, and holders from before the kept history. */
  learn(detail) {
    for (const one of [...detail.holders, ...detail.queue]) {
      const label = labelOf(one);
      if (one.claim && label) this.#labels.set(one.claim, label);
    }
    for (const holder of detail.holders) {
      const hold = this.holds.get(holder.token);
      if (hold) {
        hold.end = null;
        hold.how = null;
      } else {
        this.holds.set(holder.token, newHold(holder.token, holder.slot, holder, holder.since_unix));
      }
    }
    // A holder that is no longer there without an event telling of its end (a gap): it ended at some time unknown, at the latest now.
    const there = new Set(detail.holders.map((holder) => holder.token));
    for (const hold of this.holds.values()) {
      if (hold.end !== null || there.has(hold.token) || hold.token > detail.latest_token) continue;
      hold.end = hold.last;
      hold.isGuessed = true; // the event may only be late
    }
    this.version += 1;
  }

  /** Claims that ended before the page looked have their names from their metadata, too. */
  learnNames(claims) {
    for (const { id, metadata } of claims) {
      const label = labelOf({ metadata });
      if (label) this.#labels.set(id, label);
    }
    this.version += 1;
  }

  /** True if a holder that renews has not done so for clearly longer than it ever took before. */
  hasMissed(token, now_unix) {
    const hold = this.holds.get(token);
    return hold !== undefined && hold.renewals >= 2 && now_unix - hold.last > Math.max(2, hold.gap_s * 1.5);
  }

  latestToken() {
    return Math.max(0, ...this.holds.keys());
  }

  /** The name of the client that an event, a holder or a waiter is about. */
  who(one) {
    const label = labelOf(one) ?? this.#labels.get(one.claim);
    if (label) return seen(label);
    return one.claim ? `claim ${one.claim.slice(0, 8)}` : one.token ? `lease #${one.token}` : "someone";
  }

  #granted(event) {
    for (const hold of this.holds.values()) if (hold.slot === event.slot && hold.end === null && hold.token < event.token) close(hold, event.at_unix, "superseded");
    this.holds.set(event.token, newHold(event.token, event.slot, event, event.at_unix));
    if (event.waited_s > 0) {
      this.#arrival(event);
      this.waits.push(wait(event, event.at_unix - event.waited_s, "granted"));
    }
    this.#trim();
  }

  #renewed(event) {
    const hold = this.#hold(event);
    if (!hold) return;
    hold.gap_s = Math.max(hold.gap_s, event.at_unix - hold.last);
    hold.last = event.at_unix;
    hold.end = null;
    hold.how = null;
    hold.renewals += 1;
    if (hold.stretches.at(-1).state !== "active") hold.stretches.push({ state: "active", from: event.at_unix });
  }

  #weakened(event) {
    const hold = this.#hold(event);
    if (!hold) return;
    hold.last = event.at_unix;
    hold.end = null;
    hold.how = null;
    hold.stretches.push({ state: event.event, from: event.at_unix });
  }

  #ended(event) {
    // Without a token it was still waiting.
    if (event.token === null || event.token === undefined) {
      const came = this.#arrival(event);
      if (came) this.waits.push(wait(event, came.at_unix, event.event));
      this.#trim();
      return;
    }
    const hold = this.#hold(event);
    if (hold) close(hold, event.at_unix, event.event);
  }

  #hold(event) {
    if (event.token === null || event.token === undefined) return null;
    if (!this.holds.has(event.token)) {
      if (event.slot === null || event.slot === undefined) return null;
      this.holds.set(event.token, newHold(event.token, event.slot, event, event.at_unix - (event.held_s ?? 0)));
    }
    return this.holds.get(event.token);
  }

  /** When the client of an event came into the queue, and forgets it; null when that was before the kept history. */
  #arrival(event) {
    const { client, claim, holder } = named(event);
    const at = this.#came.map(named).findIndex((each) => each.claim === claim && each.client === client && each.holder === holder);
    return at < 0 ? null : this.#came.splice(at, 1)[0];
  }

  #trim() {
    if (this.#came.length > KEPT) this.#came.shift();
    if (this.waits.length > KEPT) this.waits.splice(0, this.waits.length - KEPT);
    while (this.holds.size > KEPT) this.holds.delete(this.holds.keys().next().value);
  }
}

function newHold(token, slot, from, start) {
  return { token, slot, ...named(from), metadata: from.metadata, start, end: null, last: start, how: null, isGuessed: false, renewals: 0, gap_s: 0, stretches: [{ state: "active", from: start }] };
}

function close(hold, at_unix, how) {
  if (hold.end !== null && !hold.isGuessed) return;
  hold.isGuessed = false;
  hold.end = at_unix;
  hold.last = at_unix;
  hold.how = how;
}

// The names by which callers are told apart: a lock's client, a claim's id, the name that a pool's borrower gave itself.
const named = ({ client = null, claim = null, holder = null }) => ({ client, claim, holder });

function wait(event, start, how) {
  return { ...named(event), token: event.token ?? null, start, end: event.at_unix, how };
}

// Claims have no client; their metadata often says who it is.
function labelOf(one) {
  if (one.holder) return one.holder;
  if (one.client) return one.client;
  const { metadata } = one;
  if (isLabel(metadata)) return metadata;
  if (!metadata || typeof metadata !== "object") return null;
  const field = LABEL_FIELDS.find((name) => isLabel(metadata[name]));
  return field ? metadata[field] : null;
}

const isLabel = (text) => typeof text === "string" && text !== "" && text.length <= LABEL_MAX;

/**
 * Places stretches in as few rows as need be so that none overlap, first come first placed; those past `rows` go in the last.
 * Gives each its `row` and returns how many rows are used.
 */
export function pack(stretches, rows, now) {
  const ends = [];
  for (const stretch of [...stretches].sort((a, b) => a.start - b.start)) {
    let row = ends.findIndex((end) => end <= stretch.start);
    if (row < 0) row = Math.min(ends.length, rows - 1);
    ends[row] = Math.max(ends[row] ?? -Infinity, stretch.end ?? now + 1e9);
    stretch.row = row;
  }
  return ends.length;
}
