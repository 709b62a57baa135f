// The timeline of one resource: a lane a slot with who held it when, and below them who waited. Zooms and pans over the kept
// history; follows the present until it is moved. What is drawn comes from history.js; timescale.js has the arithmetic.

import { serverNow } from "./api.js";
import { announce, h, s, setAttr, setText } from "./dom.js";
import { clock, Colours, exact, span, whole } from "./format.js";
import { pack } from "./history.js";
import { TimeScale } from "./timescale.js";
import { tick_ms } from "./ticker.js";

const AXIS = 26;
const LANE = 30;
const WAIT_ROW = 13;
const WAIT_ROWS = 8;
const ALL_LANES = 64; // with more slots than this, only those that were used get a lane
const LETTER = 6.4;
const READABLE = 9; // holds a lane to begin with
const HOW = { released: "released", expired: "expired", revoked: "revoked", withdrawn: "withdrawn", aborted: "aborted", timed_out: "gave up", deleted: "deleted", handed_back: "handed back", superseded: "taken over", granted: "got it" };

export class Timeline {
  #colours = new Colours();
  #history = null;
  #detail = null;
  #at_ms = 0;
  #now = serverNow();
  #scale = new TimeScale();
  #lanes = [];
  #waits = [];
  #drawn = []; // what can be pointed at: {x, y, w, h, item}
  #selected = null;
  #built = -1;
  #drag = null;
  #fingers = new Map();

  constructor() {
    this.axis = s("svg", { class: "axis", height: AXIS, "aria-hidden": "true" });
    this.plot = s("svg", { class: "lanes", "aria-hidden": "true" });
    this.hint = h("p", { class: "hint" }, h("span", { class: "mouse" }, "Drag to move. Click, then scroll to zoom; or Ctrl and scroll."), h("span", { class: "touch" }, "Drag to move, pinch to zoom."));
    this.frame = h("div", { class: "frame", tabindex: "0", role: "group", "aria-label": "Timeline. Left and right arrows step through who held it; plus and minus zoom; shift and arrows move." }, this.plot);
    this.tip = h("div", { class: "tip", hidden: true });
    this.holder = h("div", { class: "timeline" }, this.axis, this.frame, this.tip);
    this.element = h("div", {}, this.#buttons(), this.holder, this.hint);
    new ResizeObserver(() => this.draw()).observe(this.holder);
    this.frame.addEventListener("scroll", () => this.draw(), { passive: true });
    this.#listen();
  }

  #buttons() {
    const button = (word, label, act) => h("button", { type: "button", class: "small", "aria-label": label, onclick: act }, word);
    const back = (seconds) => () => this.#move(() => this.#scale.last(seconds, this.#now));
    this.follow = button("Now", "Now: follow the present", () => this.#move(() => this.#scale.follow(this.#now)));
    return h("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
      button("1 m", "1 m: the last minute", back(60)), button("10 m", "10 m: the last ten minutes", back(600)), button("1 h", "1 h: the last hour", back(3600)),
      button("All", "All of the kept history", () => this.#fitAll()),
      button("−", "Zoom out", () => this.#move(() => this.#scale.zoom(2, null, this.#now))), button("+", "Zoom in", () => this.#move(() => this.#scale.zoom(0.5, null, this.#now))), this.follow);
  }

  /** Shows another resource, or new facts about this one. */
  show(history, detail, at_ms) {
    const first = history !== this.#history;
    this.#history = history;
    this.#detail = detail;
    this.#at_ms = at_ms;
    this.#built = -1;
    if (first) {
      this.#selected = null;
      this.#now = serverNow();
      this.#scale.last(Math.min(600, Math.max(60, (this.#now - this.#recent()) * 1.1)), this.#now);
    }
    this.draw();
  }

  tick(live) {
    const now = serverNow();
    // Not before it would show: half a pixel, or a change of what is pointed at.
    if (!this.#history || !live || (now - this.#now < this.#scale.secondsPerPixel() / 2 && this.#selected === null)) return;
    this.#now = now;
    this.#scale.slide(now);
    this.draw();
  }

  // Since when there were so many holds that their names can just be read.
  #recent() {
    const starts = [...this.#history.holds.values()].map((hold) => hold.start).sort((a, b) => b - a);
    const enough = READABLE * Math.max(1, this.#detail?.capacity ?? 1);
    return starts[Math.min(enough, starts.length) - 1] ?? this.#now;
  }

  #earliest() {
    let earliest = this.#now;
    for (const hold of this.#history.holds.values()) earliest = Math.min(earliest, hold.start);
    for (const each of this.#waits.length ? this.#waits : this.#history.waits) earliest = Math.min(earliest, each.start);
    return earliest;
  }

  #fitAll() {
    this.#move(() => this.#scale.last((this.#now - this.#earliest()) * 1.05 + 2, this.#now));
  }

  #move(how) {
    how();
    this.draw();
  }

  // Lanes and packed waits: built anew only when there is news.
  #build() {
    if (this.#built === this.#history.version) return;
    this.#built = this.#history.version;
    const used = new Set();
    for (const hold of this.#history.holds.values()) used.add(hold.slot);
    const capacity = this.#detail?.capacity ?? 0;
    if (capacity <= ALL_LANES) for (let slot = 0; slot < capacity; slot += 1) used.add(slot);
    this.#lanes = [...used].sort((a, b) => a - b);
    const told = this.#now - (tick_ms() - this.#at_ms) / 1000;
    const open = (this.#detail?.queue ?? []).map((one) => ({ ...one, start: told - one.waiting_s, end: null, how: null }));
    this.#waits = [...this.#history.waits, ...open].map((each) => ({ ...each, waiting: true }));
    this.waitRows = pack(this.#waits, WAIT_ROWS, this.#now);
  }

  draw() {
    const width = this.holder.clientWidth;
    if (!this.#history || width === 0) return;
    this.#build();
    const left = width < 520 ? 52 : 76;
    this.#scale.layout(left, width - 1);
    const lanesHeight = this.#lanes.length * LANE;
    const waitHeight = Math.max(1, this.waitRows) * WAIT_ROW + 8;
    setAttr(this.plot, "height", lanesHeight + waitHeight);
    setAttr(this.plot, "width", width);
    setAttr(this.axis, "width", width);
    const parts = [];
    this.#drawn = [];
    const ticks = this.#scale.ticks();
    this.axis.replaceChildren(...ticks.map(({ x, label }) => s("text", { x, y: 17, "text-anchor": "middle" }, label)));
    for (const { x } of ticks) parts.push(s("line", { class: "tick", x1: x, x2: x, y1: 0, y2: lanesHeight + waitHeight }));
    this.#drawUnknown(parts, lanesHeight + waitHeight);
    this.#drawHolds(parts);
    this.#drawWaits(parts, lanesHeight);
    const now = this.#scale.x(this.#now);
    if (now >= left && now <= width) parts.push(s("line", { class: "now", x1: now, x2: now, y1: 0, y2: lanesHeight + waitHeight }));
    this.#drawLabels(parts, left, lanesHeight, waitHeight, width);
    this.plot.replaceChildren(hatch(), ...parts);
    setAttr(this.follow, "aria-pressed", String(this.#scale.following));
    this.#showTip();
  }

  #drawUnknown(parts, height) {
    const since = this.#history.completeSince;
    if (since === null || since === undefined) return;
    const [x1, x2] = [this.#scale.left, Math.min(this.#scale.x(since), this.#scale.right)];
    if (x2 <= x1) return;
    parts.push(s("rect", { class: "unknown", x: x1, y: 0, width: x2 - x1, height }));
    if (x2 - x1 > 130) parts.push(s("text", { class: "unknown-text", x: x2 - 8, y: height - 8, "text-anchor": "end" }, "before the kept history"));
  }

  #drawHolds(parts) {
    const lane = new Map(this.#lanes.map((slot, index) => [slot, index]));
    const top = this.frame.scrollTop - LANE;
    const bottom = this.frame.scrollTop + this.frame.clientHeight;
    const filled = new Map(); // lane -> up to which pixel it is drawn
    for (const hold of this.#history.holds.values()) {
      const y = lane.get(hold.slot) * LANE + 4;
      if (y < top || y > bottom) continue;
      const end = hold.end ?? this.#now;
      const box = this.#scale.box(hold.start, end);
      if (!box) continue;
      // From afar many fall on one pixel; the first stands for them.
      if (box.w < 2 && box.x + box.w <= (filled.get(y) ?? -1) + 0.5) continue;
      filled.set(y, box.x + box.w);
      const label = this.#history.who(hold);
      const group = s("g", { class: this.#classOf(hold), ...paint(this.#colours, hold, label) });
      hold.stretches.forEach((stretch, index) => {
        const piece = this.#scale.box(Math.max(stretch.from, hold.start), hold.stretches[index + 1]?.from ?? end);
        if (piece) group.append(s("rect", { class: `hold ${stretch.state}`, x: piece.x, y, width: piece.w, height: LANE - 8, rx: Math.min(4, piece.w / 2) }));
      });
      this.#drawFuture(group, hold, y);
      if (hold.how === "expired" || hold.how === "revoked") group.append(s("rect", { class: `end ${hold.how}`, x: box.x + box.w - 2.5, y, width: 2.5, height: LANE - 8 }));
      const room = Math.floor((box.w - 12) / LETTER);
      if (room >= 3) group.append(s("text", { x: box.x + 7, y: y + 15 }, label.length > room ? `${label.slice(0, room - 1)}…` : label));
      parts.push(group);
      this.#drawn.push({ ...box, y, h: LANE - 8, item: hold });
    }
  }

  // The rest of a lease, as an outline into the future.
  #drawFuture(group, hold, y) {
    if (hold.end !== null) return;
    const holder = this.#detail?.holders.find((each) => each.token === hold.token);
    const left_s = (holder?.remaining_s ?? 0) - (tick_ms() - this.#at_ms) / 1000;
    const box = left_s > 0 ? this.#scale.box(this.#now, this.#now + left_s) : null;
    if (box) group.append(s("rect", { class: "promised", x: box.x, y: y + 0.5, width: box.w, height: LANE - 9, rx: 3 }));
  }

  #drawWaits(parts, top) {
    for (const each of this.#waits) {
      const box = this.#scale.box(each.start, each.end ?? this.#now);
      if (!box) continue;
      const y = top + 4 + each.row * WAIT_ROW;
      parts.push(s("g", { class: this.#classOf(each), ...paint(this.#colours, each, this.#history.who(each)) },
        s("rect", { class: `wait ${each.how ?? "open"}`, x: box.x, y: y + 2, width: box.w, height: WAIT_ROW - 5, rx: Math.min(4, box.w / 2) })));
      this.#drawn.push({ ...box, y, h: WAIT_ROW - 1, item: each });
    }
  }

  #drawLabels(parts, left, lanesHeight, waitHeight, width) {
    parts.push(s("rect", { class: "gutter", x: 0, y: 0, width: left, height: lanesHeight + waitHeight }));
    const word = left > 60 ? "slot " : "";
    this.#lanes.forEach((slot, index) => {
      parts.push(s("text", { class: "lane-label", x: left - 10, y: index * LANE + 19, "text-anchor": "end" }, `${word}${slot}`));
      parts.push(s("line", { class: "rule", x1: 0, x2: width, y1: (index + 1) * LANE, y2: (index + 1) * LANE }));
    });
    parts.push(s("text", { class: "lane-label", x: left - 10, y: lanesHeight + waitHeight / 2 + 4, "text-anchor": "end" }, "waiting"));
  }

  #classOf(item) {
    return item === this.#selected || (this.#selected && keyOf(item) === keyOf(this.#selected)) ? "item chosen" : "item";
  }

  #listen() {
    this.frame.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    this.frame.addEventListener("keydown", (event) => this.#key(event));
    this.frame.addEventListener("blur", () => this.#choose(null));
    this.frame.addEventListener("pointerdown", (event) => this.#down(event));
    this.frame.addEventListener("pointermove", (event) => this.#moved(event));
    for (const name of ["pointerup", "pointercancel"]) this.frame.addEventListener(name, (event) => this.#up(event));
    this.frame.addEventListener("pointerleave", () => { if (!this.frame.matches(":focus-visible")) this.#choose(null); });
  }

  // Scrolling the page over the timeline must go on working: only a focused timeline, or Ctrl, takes the wheel.
  #wheel(event) {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== this.frame) return;
    event.preventDefault();
    if (sideways) this.#move(() => this.#scale.pan(event.deltaX, this.#now));
    else this.#move(() => this.#scale.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 200), this.#local(event).x, this.#now));
  }

  #local(event) {
    const box = this.plot.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  #down(event) {
    if (event.button !== 0) return;
    this.#fingers.set(event.pointerId, event.clientX);
    this.#drag = { x: event.clientX, apart: this.#apart() };
    this.frame.setPointerCapture(event.pointerId);
  }

  #moved(event) {
    if (!this.#fingers.has(event.pointerId)) {
      this.#choose(this.#hit(this.#local(event)));
      return;
    }
    this.#fingers.set(event.pointerId, event.clientX);
    if (this.#fingers.size === 2) {
      const apart = this.#apart();
      if (apart > 10 && this.#drag.apart > 10) this.#move(() => this.#scale.zoom(this.#drag.apart / apart, this.#local(event).x, this.#now));
      this.#drag.apart = apart;
    } else if (event.clientX !== this.#drag.x) {
      const by = this.#drag.x - event.clientX;
      this.#drag.x = event.clientX;
      this.#move(() => this.#scale.pan(by, this.#now));
    }
  }

  #up(event) {
    this.#fingers.delete(event.pointerId);
    this.#choose(this.#hit(this.#local(event)));
  }

  #apart() {
    const [a, b] = [...this.#fingers.values()];
    return b === undefined ? 0 : Math.abs(a - b);
  }

  #hit({ x, y }) {
    return this.#drawn.findLast((each) => x >= each.x - 2 && x <= each.x + each.w + 2 && y >= each.y && y <= each.y + each.h)?.item ?? null;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (this.#scale.right - this.#scale.left) / 5;
    const acts = {
      "+": () => this.#scale.zoom(0.5, null, this.#now), "=": () => this.#scale.zoom(0.5, null, this.#now), "-": () => this.#scale.zoom(2, null, this.#now),
      "0": () => this.#fitAll(), End: () => this.#scale.follow(this.#now),
      ArrowLeft: () => (event.shiftKey ? this.#scale.pan(-step, this.#now) : this.#step(-1)),
      ArrowRight: () => (event.shiftKey ? this.#scale.pan(step, this.#now) : this.#step(1)),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    this.#move(act);
  }

  // From one stretch to the next in time, holds and waits alike; the window follows.
  #step(by) {
    const all = [...this.#history.holds.values(), ...this.#waits].sort((a, b) => a.start - b.start);
    if (all.length === 0) return;
    const at = this.#selected ? all.findIndex((each) => keyOf(each) === keyOf(this.#selected)) : -1;
    const to = at < 0 ? all[all.length - 1] : all[Math.max(0, Math.min(all.length - 1, at + by))];
    this.#selected = to;
    this.#scale.reveal(to.start, to.end ?? this.#now, this.#now);
    announce(this.#words(to).join(", "));
  }

  #choose(item) {
    if (item === this.#selected) return;
    this.#selected = item;
    this.draw();
  }

  #words(item) {
    const end = item.end ?? this.#now;
    const took = span(end - item.start);
    const who = this.#history.who(item);
    const when = `${clock(item.start)} to ${item.end === null ? "now" : clock(item.end)}`;
    if (item.waiting) return [who, item.end === null ? `waiting for ${took}` : `waited ${took}, ${HOW[item.how] ?? item.how}`, when];
    const ending = item.end === null ? `holds it for ${took}` : `held ${took}, ${HOW[item.how] ?? "ended"}`;
    return [who, `slot ${item.slot}, token ${item.token}`, ending, when, item.renewals > 0 && `renewed ${item.renewals} ×`].filter(Boolean);
  }

  #showTip() {
    const where = this.#selected && this.#drawn.find((each) => keyOf(each.item) === keyOf(this.#selected));
    this.tip.hidden = !where;
    if (!where) return;
    const [who, ...rest] = this.#words(this.#selected);
    this.tip.replaceChildren(h("b", {}, who), ...rest.map((line) => h("span", {}, line)));
    const width = this.tip.offsetWidth;
    const middle = Math.max(where.x, this.#scale.left) + Math.min(where.w, 160) / 2;
    this.tip.style.left = `${Math.max(0, Math.min(this.holder.clientWidth - width, middle - width / 2))}px`;
    this.tip.style.top = `${AXIS + where.y + where.h + 6 - this.frame.scrollTop}px`;
  }

  /** The same as a table, newest first, for users who do not see the drawing. */
  table(limit) {
    this.#build();
    const all = [...this.#history.holds.values(), ...this.#waits].sort((a, b) => b.start - a.start).slice(0, limit);
    const head = ["Who", "What", "Slot", "Token", "From", "Until", "How long", "How it ended"];
    return h("table", {}, h("thead", {}, h("tr", {}, head.map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, all.map((item) => h("tr", {}, [
        this.#history.who(item), item.waiting ? "waited" : "held", item.waiting ? "" : String(item.slot), item.token ? String(item.token) : "",
        exact(item.start), item.end === null ? "still" : exact(item.end), whole((item.end ?? this.#now) - item.start), item.end === null ? "" : HOW[item.how] ?? "ended",
      ].map((text) => h("td", {}, text))))));
  }
}

const keyOf = (item) => (item.waiting ? `w ${item.claim ?? item.client ?? item.holder} ${Math.round(item.start)}` : `h ${item.token}`);

// Holders without a name are told apart by lease, so that a hand-over shows.
function paint(colours, item, label) {
  const { hue, tone } = colours.get(item.client ?? (item.claim ? label : item.token ?? label));
  return { "--h": hue, "data-tone": tone };
}

function hatch() {
  return s("defs", {}, s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 2, height: 6, class: "hatch" })));
}
