// One row of the overview: made once, then given the data of whichever resource it stands for. Leaves scrolling and loading to
// overview.js.

import { h, setAttr, setText } from "./dom.js";
import { count, isEnding, KIND_WORD, nameOf, plural, STATE_WORD, whole } from "./format.js";
import { icon } from "./icons.js";
import { seen } from "./names.js";
import { tick_ms } from "./ticker.js";

const SEGMENTS = 12; // up to this capacity each slot is a piece of its own in the bar

export class Row {
  #entry = null;
  #key = null;
  #shown = "";
  #news = "";

  constructor() {
    this.kind = h("span", { class: "kind" });
    this.link = h("a", { class: "name", tabindex: "-1" });
    this.state = h("span", { class: "state" });
    this.bar = h("span", { class: "bar", "aria-hidden": "true" });
    this.use = h("span", { class: "use num" });
    this.holder = h("span", { class: "who" });
    this.waiting = h("span", { class: "num" });
    this.wait = h("span", { class: "num" });
    this.expiry = h("span", { class: "num" });
    const cell = (name, ...children) => h("div", { role: "cell", class: `cell c-${name}` }, ...children);
    this.element = h("div", { role: "row", class: "row" },
      cell("name", this.kind, this.link), cell("state", this.state), cell("use", this.bar, this.use), cell("holder", this.holder),
      cell("waiting", this.waiting), cell("wait", this.wait), cell("expiry", this.expiry));
  }

  /** Shows `entry` (from Store.row), or an empty bed for what is not loaded yet. */
  show(index, entry, selected) {
    this.#entry = entry;
    setAttr(this.element, "aria-rowindex", index + 2);
    this.element.classList.toggle("loading", entry === null);
    this.element.classList.toggle("selected", selected);
    setAttr(this.link, "aria-current", selected ? "true" : null);
    if (entry === null) {
      this.#key = null;
      this.link.removeAttribute("href");
      for (const part of [this.link, this.state, this.use, this.holder, this.waiting, this.wait, this.expiry]) setText(part, "");
      return;
    }
    const { row } = entry;
    const sameKey = this.#key === row.key;
    const shown = JSON.stringify([row.state, row.in_use, row.capacity, row.waiting, row.holder]);
    const news = JSON.stringify([row.state, row.holder, row.capacity]);
    if (!sameKey || shown !== this.#shown) {
      this.#draw(row);
      // Only a change of what stood here counts as news: not a row that scrolled in, nor the comings and goings of a busy pool.
      if (sameKey && news !== this.#news) this.#flash();
    }
    this.#key = row.key;
    this.#shown = shown;
    this.#news = news;
    this.tick();
  }

  #draw(row) {
    const name = nameOf(row);
    setText(this.link, name);
    setAttr(this.link, "href", `#/r/${encodeURIComponent(row.key)}`);
    setAttr(this.link, "title", name);
    this.kind.replaceChildren(icon(row.kind), h("span", { class: "unseen" }, `${KIND_WORD[row.kind]} `));
    setAttr(this.kind, "title", KIND_WORD[row.kind]);
    setText(this.state, STATE_WORD[row.state] ?? row.state);
    setAttr(this.state, "data-state", row.state);
    setText(this.use, `${count(row.in_use)} / ${count(row.capacity)}`);
    this.element.classList.toggle("single", row.capacity === 1);
    drawBar(this.bar, row);
    setText(this.holder, holders(row));
    setAttr(this.holder, "title", row.holder === null ? null : seen(row.holder));
    this.holder.classList.toggle("anonymous", row.holder === null);
    setText(this.waiting, row.waiting > 0 ? count(row.waiting) : "");
  }

  /** Counts up and down; called a few times a second for rows in sight. */
  tick() {
    if (this.#entry === null) return;
    const { row, at_ms } = this.#entry;
    const since_s = (tick_ms() - at_ms) / 1000;
    setText(this.wait, row.longest_wait_s === null ? "" : whole(row.longest_wait_s + since_s));
    setText(this.expiry, row.next_expiry_s === null ? "" : whole(row.next_expiry_s - since_s));
    this.expiry.classList.toggle("soon", row.next_expiry_s !== null && isEnding(row.next_expiry_s - since_s, row.next_expiry_ttl_s));
  }

  #flash() {
    this.element.classList.remove("news");
    void this.element.offsetWidth; // restarts the animation
    this.element.classList.add("news");
  }
}

// The first of them by name, and how many more. A lapsed lock has no holder any more, but its last one may still come back.
function holders({ holder, in_use, state }) {
  if (holder !== null && state === "lapsed") return `last: ${seen(holder)}`;
  if (holder !== null) return in_use > 1 ? `${seen(holder)} +${count(in_use - 1)}` : seen(holder);
  return in_use > 0 ? plural(in_use, "holder") : "";
}

function drawBar(bar, row) {
  bar.dataset.state = row.state;
  if (row.capacity > 0 && row.capacity <= SEGMENTS) {
    const pieces = [];
    for (let slot = 0; slot < row.capacity; slot += 1) pieces.push(h("i", { class: slot < row.in_use ? "on" : null }));
    bar.replaceChildren(...pieces);
  } else {
    const share = row.capacity > 0 ? Math.min(1, row.in_use / row.capacity) : 0;
    bar.replaceChildren(h("i", { class: "share", "--share": share }));
  }
}
