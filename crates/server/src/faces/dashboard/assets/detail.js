// One resource in full: the timeline, its holders, its queue and what happened to it. Fetches on opening and whenever an event
// touched it, at most four times a second; the parts draw themselves.

import { askCapacity, askNote, askPause, askResume, canConfigure, canPause } from "./actions.js";
import { getHistory, getResource, listClaims, serverNow } from "./api.js";
import { byId, copy, h, setAttr, setText } from "./dom.js";
import { ago, count, exact, KIND_WORD, nameOf, plural, span, STATE_WORD } from "./format.js";
import { History } from "./history.js";
import { icon } from "./icons.js";
import { Log } from "./log.js";
import { seen } from "./names.js";
import { Holders, Queue } from "./people.js";
import { tick_ms, onTick } from "./ticker.js";
import { Timeline } from "./timeline.js";

const FETCH_MS = 250;
const TABLE_ROWS = 200;
const NAMED_EVENTS = 2000;
const NAMED_BEFORE_S = 300;

export class Detail {
  key = null;
  #pane = byId("detail");
  #live;
  #history = new History();
  #detail = null;
  #at_ms = 0;
  #fetching = false;
  #again = false;
  #hasNames = true;
  #lastFetch_ms = -Infinity;

  /** @param live tells whether the page is up to date, so that clocks may run */
  constructor(live, close) {
    this.#live = live;
    this.kind = h("p", { class: "eyebrow" });
    this.title = h("h2", { id: "detail-title", tabindex: "-1" });
    this.state = h("span", { class: "state" });
    this.summary = h("p", { class: "summary num" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.capacity = h("button", { type: "button", class: "quiet small", hidden: true, onclick: () => askCapacity(this.#detail, () => this.#fetchSoon()) }, "Capacity…");
    this.annotate = h("button", { type: "button", class: "quiet small", hidden: true, onclick: () => askNote(this.#detail, () => this.#fetchSoon()) }, "Note…");
    this.pause = h("button", { type: "button", class: "quiet small", hidden: true, onclick: () => askPause(this.#detail, () => this.#fetchSoon()) }, "Pause…");
    this.resume = h("button", { type: "button", class: "quiet small", hidden: true, onclick: () => askResume(this.#detail, () => this.#fetchSoon()) }, "Resume…");
    this.note = h("p", { class: "note", hidden: true });
    this.paused = h("p", { class: "summary pause", hidden: true });
    const link = h("button", { type: "button", class: "quiet small wide-only", onclick: () => copy(location.href, link) }, "Copy link");
    const shut = h("button", { type: "button", class: "quiet icon", "aria-label": "Close the details", onclick: close }, icon("close"));
    this.timeline = new Timeline();
    this.table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The timeline as a table" });
    this.tableFold = h("details", { class: "fold", ontoggle: () => this.#fillTable() }, h("summary", {}, "The same as a table"), this.table);
    this.holders = new Holders();
    this.queue = new Queue();
    this.log = new Log();
    this.holdersHead = h("h3", {}, "Holders");
    this.queueHead = h("h3", {}, "Queue");
    const part = (name, head, ...children) => h("section", { class: `part ${name}` }, head, ...children);
    this.#pane.append(
      h("header", { class: "detail-head" }, h("div", { class: "names" }, this.kind, h("div", { class: "title-line" }, this.title, this.state), this.summary, this.paused, this.note), h("div", { class: "tools" }, this.pause, this.resume, this.capacity, this.annotate, link, shut)),
      this.problem,
      part("p-timeline", h("h3", {}, "Timeline"), this.timeline.element, this.tableFold),
      h("div", { class: "columns" },
        h("div", {}, part("p-holders", this.holdersHead, this.holders.element), part("p-queue", this.queueHead, this.queue.element)),
        part("p-log", h("h3", {}, "What happened"), this.log.element)));
    onTick(() => this.#tick());
  }

  open(key) {
    if (key === this.key) return;
    this.key = key;
    this.#history = new History();
    this.#detail = null;
    this.#pane.hidden = false;
    this.#pane.scrollTop = 0;
    this.#pane.classList.add("loading");
    this.#head({ kind: key.split(":")[0], key, ...nameFrom(key) });
    this.resync();
    this.title.focus({ preventScroll: true });
  }

  close() {
    this.key = null;
    this.#pane.hidden = true;
  }

  /** The same facts again: what we may do with them has changed. */
  redraw() {
    if (this.key !== null && this.#detail) this.#render();
  }

  /** Everything anew: on opening, after a reconnect or a gap. */
  async resync() {
    const { key } = this;
    if (key === null) return;
    const history = this.#history;
    try {
      const { events, complete_since_unix } = await getHistory(key);
      history.seed(events, complete_since_unix);
    } catch (problem) {
      if (problem.status !== 404) this.#say(problem.message);
    }
    if (this.key !== key || this.#history !== history) return;
    await Promise.all([this.#fetch(), this.#fetchNames(history)]);
  }

  // Events tell of claims by id; people know them by what their metadata says.
  async #fetchNames(history) {
    const first = history.events.slice(-NAMED_EVENTS)[0];
    if (!first || !this.key.startsWith("claim:") || !this.#hasNames) return;
    try {
      history.learnNames(await listClaims(this.key.slice("claim:".length), Math.floor(first.at_unix) - NAMED_BEFORE_S));
      if (this.#history === history && this.#detail) this.#render();
    } catch {
      this.#hasNames = false; // not served here, or not for us: ids have to do
    }
  }

  /** An event of the stream; the store has its own use of it. */
  take(event) {
    if (event.key !== this.key) return;
    this.#history.add(event);
    this.#fetchSoon();
  }

  #fetchSoon() {
    if (this.#again) return;
    this.#again = true;
    setTimeout(() => {
      this.#again = false;
      void this.#fetch();
    }, Math.max(30, this.#lastFetch_ms + FETCH_MS - performance.now()));
  }

  async #fetch() {
    if (this.#fetching) {
      this.#fetchSoon();
      return;
    }
    const { key } = this;
    this.#fetching = true;
    this.#lastFetch_ms = performance.now();
    try {
      const detail = await getResource(key);
      if (key === this.key) this.#show(detail);
    } catch (problem) {
      if (key === this.key) this.#failed(problem);
    } finally {
      this.#fetching = false;
    }
  }

  #show(detail) {
    this.#detail = detail;
    this.#at_ms = tick_ms();
    this.#pane.classList.remove("loading");
    this.problem.hidden = true;
    this.#history.learn(detail);
    this.#head(detail);
    this.#render();
  }

  #failed(problem) {
    this.#pane.classList.remove("loading");
    if (problem.status !== 404) {
      if (problem.status !== 0) this.#say(problem.message);
      return;
    }
    // The server keeps nothing about a lock or claims without holders and waiters, but for what happened: that is free, not
    // gone. A pool is there until it is deleted.
    const kind = this.key.split(":")[0];
    const isKnown = this.#history.events.length > 0;
    this.#show({
      key: this.key, kind, ...nameFrom(this.key), capacity: kind === "pool" ? 0 : this.#detail?.capacity || 1, in_use: 0, waiting: 0,
      holders: [], queue: [], latest_token: this.#history.latestToken(), state: kind === "pool" || !isKnown ? null : "free",
    });
    if (kind === "pool") this.#say("This pool is not there any more.");
    else if (!isKnown) this.#say("Nothing is known under this name. It appears here as soon as a client asks for it.");
  }

  #render() {
    this.timeline.show(this.#history, this.#detail, this.#at_ms);
    this.holders.show(this.#detail, this.#at_ms, this.#history);
    this.queue.show(this.#detail, this.#at_ms, this.#history);
    this.log.show(this.#history, this.#detail.capacity);
    this.log.tick(serverNow());
    setText(this.holdersHead, this.#detail.in_use > 1 ? `Holders (${count(this.#detail.in_use)})` : this.#detail.state === "lapsed" ? "Last holder" : "Holder");
    setText(this.queueHead, this.#detail.waiting > 0 ? `Queue (${count(this.#detail.waiting)})` : "Queue");
    this.#fillTable();
  }

  #head(detail) {
    this.kind.replaceChildren(icon(detail.kind in KIND_WORD ? detail.kind : "lock", 16), KIND_WORD[detail.kind] ?? detail.kind);
    const name = nameOf(detail);
    setText(this.title, name);
    setAttr(this.title, "title", name);
    this.capacity.hidden = this.annotate.hidden = !detail.state || !canConfigure(detail);
    this.pause.hidden = !detail.state || !canPause(detail) || Boolean(detail.paused);
    this.resume.hidden = !detail.state || !canPause(detail) || !detail.paused;
    this.paused.hidden = !detail.paused;
    setText(this.paused, detail.paused ? pausedWords(detail.paused) : "");
    // A pool is called by its label, so that it is no note beside its name.
    const note = detail.kind === "pool" ? null : detail.label;
    this.note.hidden = !note;
    setText(this.note, note ? seen(note) : "");
    setAttr(this.#pane, "aria-label", `Details of ${name}`);
    document.title = `${name} · Leasehold`;
    this.state.hidden = !detail.state;
    if (!detail.state) {
      setText(this.summary, "");
      return;
    }
    setText(this.state, STATE_WORD[detail.state] ?? detail.state);
    setAttr(this.state, "data-state", detail.state);
    const parts = [`${count(detail.in_use)} of ${plural(detail.capacity, "slot")} in use`, detail.waiting > 0 && `${count(detail.waiting)} waiting`, detail.latest_token > 0 && `latest token ${detail.latest_token}`];
    setText(this.summary, parts.filter(Boolean).join(" · "));
    setAttr(this.summary, "title", detail.history_from_unix ? `history since ${exact(detail.history_from_unix)}, ${ago(detail.history_from_unix, serverNow())}` : null);
  }

  #fillTable() {
    if (this.tableFold.open && this.#detail) this.table.replaceChildren(this.timeline.table(TABLE_ROWS));
  }

  #say(text) {
    setText(this.problem, text);
    this.problem.hidden = false;
  }

  #tick() {
    if (this.key === null || this.#detail === null) return;
    this.holders.tick();
    this.queue.tick();
    this.timeline.tick(this.#live());
    if (this.#live()) this.log.tick(serverNow());
  }
}

function pausedWords(paused) {
  const ends = paused.resumes_in_s === null ? "" : `, for ${span(paused.resumes_in_s)} more`;
  return `Paused since ${exact(Date.parse(paused.since) / 1000)}${ends}: ${seen(paused.reason)}`;
}

// A key says the name of what it is about, or a pool's digest.
function nameFrom(key) {
  const rest = key.slice(key.indexOf(":") + 1);
  return key.startsWith("pool:") ? { digest: rest } : { name: rest };
}
