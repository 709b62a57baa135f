// The overview: search, filters and the virtual list. Only the rows in sight exist as elements; the list's height is that of all
// of them, so that the scroll bar tells the truth. What the rows show comes from store.js, how from rows.js.

import { byId, h, setAttr, setText, announce } from "./dom.js";
import { emptyState } from "./empty.js";
import { count, looksLikePoolId, plural } from "./format.js";
import { Row } from "./rows.js";
import { onTick } from "./ticker.js";
import { apiUrl } from "./who.js";

const OVERSCAN = 6;
const SEARCH_MS = 120;
const KINDS = [["", "All"], ["lock", "Locks"], ["pool", "Pools"], ["claim", "Claims"]];
const STATES = [["", "Any"], ["held", "Held"], ["contended", "Contended"], ["grace", "In grace"], ["free", "Free"], ["lapsed", "Lapsed"]];
// Each with the order that a click on it gives, where there is one; of orders, only that by name rises.
const COLUMNS = [["name", "Resource", "name"], ["state", "State", "contended"], ["use", "In use"], ["holder", "Holder"], ["waiting", "Waiting", "waiting"], ["wait", "Longest wait", "wait"], ["expiry", "Next expiry", "expiry"]];
const RISING = new Set(["name", "expiry"]);

export class Overview {
  #store;
  #openPool;
  #pane = byId("overview");
  #search = byId("search");
  #chips = [];
  #heads = [];
  #rows = new Map(); // index -> Row
  #spare = [];
  #cursor = 0; // the one row that Tab reaches
  #selected = null;
  #wanted = false;
  #marked = false;
  #searchTimer = null;
  #body = h("div", { class: "rows", role: "rowgroup" });
  #table = h("div", { class: "table", role: "table", "aria-label": "Resources" });
  #nothing = h("div", { class: "nothing", hidden: true });
  #empty = null;

  /** @param openPool is given a pool id that was typed into the search, which must not go into an address */
  constructor(store, openPool) {
    this.#store = store;
    this.#openPool = openPool;
    this.#makeChips();
    const heads = COLUMNS.map(([name, word, sort]) => h("div", { role: "columnheader", class: `cell c-${name}`, "data-sort": sort },
      sort ? h("button", { type: "button", class: "sorter", onclick: () => this.#sort(sort) }, word) : word));
    this.#heads = heads.filter((head) => head.dataset.sort);
    this.#table.append(h("div", { role: "rowgroup", class: "head" }, h("div", { role: "row", class: "row", "aria-rowindex": 1 }, heads)), this.#body);
    byId("list").append(this.#table, this.#nothing);

    store.addEventListener("change", () => this.#later());
    this.#pane.addEventListener("scroll", () => this.#later(), { passive: true });
    new ResizeObserver(() => this.#later()).observe(this.#pane);
    onTick(() => { for (const row of this.#rows.values()) row.tick(); });
    this.#body.addEventListener("keydown", (event) => this.#key(event));
    this.#body.addEventListener("focusin", (event) => this.#focused(event));
    this.#search.addEventListener("input", () => this.#typed());
    this.#search.addEventListener("keydown", (event) => this.#searchKey(event));
    byId("sort").addEventListener("change", (event) => this.#sort(event.target.value));
    this.#showSort();
  }

  /** Marks the resource whose detail is open. */
  select(key) {
    this.#selected = key;
    this.#later();
  }

  /** Our knowledge of the server has changed, and with it where its lines to try lead. */
  redraw() {
    if (this.#empty === null || apiUrl() === location.origin) return;
    const again = emptyState();
    this.#empty.replaceWith(again);
    this.#empty = again;
  }

  /** Puts the focus back on the row of `key`, as after closing its detail. */
  focusRow(key) {
    const index = this.#store.indexOf(key);
    if (index >= 0) this.#moveTo(index);
  }

  #sort(sort) {
    this.#filter({ sort });
    this.#showSort();
  }

  #showSort() {
    const { sort } = this.#store.filter;
    byId("sort").value = sort;
    for (const head of this.#heads) setAttr(head, "aria-sort", head.dataset.sort !== sort ? null : RISING.has(sort) ? "ascending" : "descending");
  }

  #makeChips() {
    const make = (group, name, choices) => {
      for (const [value, word] of choices) {
        const number = h("span", { class: "num" });
        const button = h("button", { type: "button", class: "chip", "data-value": value, onclick: () => this.#filter({ [name]: value }) }, word, " ", number);
        this.#chips.push({ name, value, button, number });
        byId(group).append(button);
      }
    };
    make("kinds", "kind", KINDS);
    make("states", "state", STATES);
  }

  #filter(change) {
    this.#store.setFilter(change);
    this.#cursor = 0;
    const top = this.#table.offsetTop - byId("toolbar").offsetHeight;
    if (this.#pane.scrollTop > top) this.#pane.scrollTop = top;
    this.#later();
  }

  #typed() {
    clearTimeout(this.#searchTimer);
    const text = this.#search.value.trim();
    const hint = byId("search-hint");
    // A pool's id is a credential: it must not be sent as a query. Enter opens the pool by a POST instead.
    const secret = looksLikePoolId(text);
    hint.hidden = !secret;
    setText(hint, secret ? "This looks like a pool’s id. Press Enter to open the pool; it is not searched for, so that it stays out of every address." : "");
    if (secret) return;
    this.#searchTimer = setTimeout(() => this.#filter({ q: text }), SEARCH_MS);
  }

  #searchKey(event) {
    if (event.key === "Enter" && looksLikePoolId(this.#search.value)) {
      const id = this.#search.value.trim();
      this.#search.value = "";
      this.#typed();
      this.#openPool(id);
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      this.#moveTo(Math.min(this.#cursor, this.#store.matched - 1));
    } else if (event.key === "Escape" && this.#search.value !== "") {
      event.stopPropagation();
      this.#search.value = "";
      this.#typed();
    }
  }

  /** Keys of the list, also pressed before it has the focus: then the first one goes to the row that Tab would reach. */
  key(event) {
    if (this.#body.contains(document.activeElement)) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.#moveTo(this.#cursor);
    } else {
      this.#key(event);
    }
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.#pane.clientHeight / this.#rowHeight()) - 3);
    const moves = { ArrowDown: this.#cursor + 1, ArrowUp: this.#cursor - 1, PageDown: this.#cursor + page, PageUp: this.#cursor - page, Home: 0, End: this.#store.matched - 1 };
    const to = moves[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#moveTo(to);
  }

  #moveTo(index) {
    if (this.#store.matched === 0) return;
    this.#cursor = Math.max(0, Math.min(this.#store.matched - 1, index));
    this.#scrollTo(this.#cursor);
    this.#render();
    this.#rows.get(this.#cursor)?.link.focus({ preventScroll: true });
  }

  #scrollTo(index) {
    const height = this.#rowHeight();
    const top = this.#table.offsetTop + this.#body.offsetTop + index * height;
    const covered = byId("toolbar").offsetHeight + this.#body.offsetTop;
    if (top < this.#pane.scrollTop + covered) this.#pane.scrollTop = top - covered;
    else if (top + height > this.#pane.scrollTop + this.#pane.clientHeight) this.#pane.scrollTop = top + height - this.#pane.clientHeight;
  }

  #focused(event) {
    for (const [index, row] of this.#rows) if (row.link === event.target) this.#cursor = index;
    this.#later();
  }

  #later() {
    if (this.#wanted) return;
    this.#wanted = true;
    requestAnimationFrame(() => this.#render());
  }

  #rowHeight() {
    return parseFloat(getComputedStyle(this.#table).getPropertyValue("--row"));
  }

  #render() {
    this.#wanted = false;
    const store = this.#store;
    if (store.total === null) return;
    this.#renderChips();
    const empty = store.total === 0;
    this.#renderEmpty(empty);
    this.#table.hidden = store.matched === 0;
    this.#nothing.hidden = empty || store.matched > 0;
    if (!this.#nothing.hidden) this.#renderNothing();
    setAttr(this.#table, "aria-rowcount", store.matched + 1);
    this.#cursor = Math.max(0, Math.min(this.#cursor, store.matched - 1));

    const height = this.#rowHeight();
    this.#body.style.height = `${store.matched * height}px`;
    const offset = this.#table.offsetTop + this.#body.offsetTop;
    const first = Math.max(0, Math.floor((this.#pane.scrollTop - offset) / height) - OVERSCAN);
    const last = Math.min(store.matched - 1, Math.ceil((this.#pane.scrollTop - offset + this.#pane.clientHeight) / height) + OVERSCAN);
    store.look(first, last);
    this.#recycle(first, last);
    for (let index = first; index <= last; index += 1) this.#place(index, height);
    if (store.matched > 0 && store.row(first) && !this.#marked) {
      this.#marked = true;
      performance.mark("rows-shown"); // for tests that measure how soon there is something to see
    }
    // The row with the focus, or that Tab would reach, stays even when it is scrolled away.
    if (store.matched > 0 && (this.#cursor < first || this.#cursor > last)) this.#place(this.#cursor, height);
  }

  #recycle(first, last) {
    for (const [index, row] of this.#rows) {
      if ((index >= first && index <= last) || (index === this.#cursor && index < this.#store.matched)) continue;
      row.element.remove();
      this.#rows.delete(index);
      this.#spare.push(row);
    }
  }

  #place(index, height) {
    let row = this.#rows.get(index);
    if (!row) {
      row = this.#spare.pop() ?? new Row();
      this.#rows.set(index, row);
      row.element.style.transform = `translateY(${index * height}px)`;
      this.#body.append(row.element);
    } else {
      row.element.style.transform = `translateY(${index * height}px)`;
    }
    const entry = this.#store.row(index);
    row.show(index, entry, entry !== null && entry.row.key === this.#selected);
    setAttr(row.link, "tabindex", index === this.#cursor ? "0" : "-1");
  }

  #renderChips() {
    const { counts, total, filter } = this.#store;
    for (const { name, value, button, number } of this.#chips) {
      const n = value === "" ? (name === "kind" ? total : null) : counts[value];
      setText(number, n === null || n === undefined ? "" : count(n));
      setAttr(button, "aria-pressed", String(filter[name] === value));
      button.classList.toggle("some", Boolean(n));
      // Rare enough not to take room for nothing.
      button.hidden = value === "lapsed" && !n && filter.state !== value;
    }
  }

  #renderEmpty(empty) {
    this.#pane.classList.toggle("is-empty", empty);
    if (empty && this.#empty === null) {
      this.#empty = emptyState();
      byId("list").prepend(this.#empty);
    } else if (!empty && this.#empty !== null) {
      this.#empty.remove();
      this.#empty = null;
      announce("The first resource is here.");
    }
  }

  #renderNothing() {
    const { q, kind, state } = this.#store.filter;
    const parts = [q && `“${q}”`, kind && KINDS.find(([value]) => value === kind)[1].toLowerCase(), state && STATES.find(([value]) => value === state)[1].toLowerCase()];
    const clear = h("button", { type: "button", class: "plain", onclick: () => this.#clear() }, "Show everything");
    this.#nothing.replaceChildren(h("p", {}, `None of ${plural(this.#store.total, "resource")} matches ${parts.filter(Boolean).join(", ")}.`), clear);
  }

  #clear() {
    this.#search.value = "";
    byId("search-hint").hidden = true;
    this.#filter({ q: "", kind: "", state: "" });
    this.#search.focus();
  }
}
