// The people of a resource: holders with what is left of their time, and the queue in order.

import { askRelease, askRevoke, askWithdraw, canRelease, canWithdraw } from "./actions.js";
import { serverNow } from "./api.js";
import { h, reconcile, s, setAttr, setText } from "./dom.js";
import { count, exact, isEnding, span, whole } from "./format.js";
import { seen } from "./names.js";
import { tick_ms } from "./ticker.js";
import { may } from "./who.js";

const SHOWN = 200;
const RADIUS = 11;
const ROUND = 2 * Math.PI * RADIUS;

export class Holders {
  element = h("div", {});
  #list = h("ul", { class: "holders" });
  #note = h("p", { class: "hint" });
  #kept = new Map();

  constructor() {
    this.element.append(this.#list, this.#note);
  }

  show(detail, at_ms, history) {
    const shown = detail.holders.slice(0, SHOWN);
    reconcile(this.#list, this.#kept, shown, (holder) => holder.token, () => makeHolder(), (made, holder) => made.update(detail, holder, at_ms, history));
    const more = detail.in_use - shown.length;
    setText(this.#note, detail.holders.length === 0 ? "None. The next to ask gets it." : more > 0 ? `And ${count(more)} more.` : "");
  }

  tick() {
    for (const made of this.#kept.values()) made.tick();
  }
}

function makeHolder() {
  const arc = s("circle", { class: "arc", cx: 14, cy: 14, r: RADIUS, "stroke-dasharray": ROUND });
  const ring = s("svg", { class: "ring", viewBox: "0 0 28 28", width: 28, height: 28, "aria-hidden": "true" }, s("circle", { class: "track", cx: 14, cy: 14, r: RADIUS }), arc);
  const name = h("b", { class: "who" });
  const facts = h("span");
  const since = h("time");
  const left = h("span", { class: "left num" });
  const leftWord = h("span", { class: "sub" });
  const extra = h("div", { class: "extra" });
  let now = { detail: null, holder: null, at_ms: 0, who: "", history: null };
  const release = h("button", { type: "button", class: "small", onclick: () => askRelease(now.detail, now.holder, now.who) }, "Release");
  const end = h("button", { type: "button", class: "small warn", onclick: () => askRevoke(now.detail, now.holder, now.who) }, "Revoke");
  const element = h("li", {}, ring, h("div", { class: "person" }, name, h("span", { class: "sub num" }, facts, " · held ", since)),
    h("div", { class: "rest" }, left, leftWord), h("div", { class: "acts" }, release, end), extra);
  return {
    element,
    update(detail, holder, at_ms, history) {
      const who = history.who(holder);
      now = { detail, holder, at_ms, who, history };
      setText(name, who);
      setAttr(name, "title", who);
      setText(facts, `slot ${holder.slot} · token ${holder.token}${holder.owner && holder.owner !== who ? ` · of ${seen(holder.owner)}` : ""}`);
      element.dataset.state = holder.state;
      since.dateTime = new Date(holder.since_unix * 1000).toISOString();
      since.title = `since ${exact(holder.since_unix)}`;
      release.hidden = !canRelease(detail, holder);
      end.hidden = !may("revoke-any");
      setAttr(release, "aria-label", `Release for ${who}`);
      setAttr(end, "aria-label", `Revoke ${who}’s hold`);
      showMetadata(extra, holder);
      this.tick();
    },
    tick() {
      const { holder, at_ms } = now;
      const since_s = (tick_ms() - at_ms) / 1000;
      setText(since, whole(holder.held_s + since_s));
      const grace = holder.state === "grace";
      const rest_s = holder.state === "lapsed" ? 0 : Math.max(0, (grace ? holder.grace_remaining_s ?? 0 : holder.remaining_s) - since_s);
      setText(left, holder.state === "lapsed" ? "lapsed" : whole(rest_s));
      const missed = holder.state === "active" && now.history.hasMissed(holder.token, serverNow());
      setText(leftWord, grace ? "of grace left" : holder.state === "lapsed" ? "any client may take it" : `left of ${whole(holder.ttl_s)}${missed ? " · missed a renewal" : ""}`);
      const part = grace ? 1 : holder.ttl_s > 0 ? Math.min(1, rest_s / holder.ttl_s) : 0;
      setAttr(arc, "stroke-dashoffset", (ROUND * (1 - part)).toFixed(1));
      element.classList.toggle("soon", holder.state === "active" && (missed || isEnding(rest_s, holder.ttl_s)));
    },
  };
}

export class Queue {
  element = h("div", {});
  #list = h("ol", { class: "queue" });
  #note = h("p", { class: "hint" });
  #kept = new Map();

  constructor() {
    this.element.append(this.#list, this.#note);
  }

  show(detail, at_ms, history) {
    reconcile(this.#list, this.#kept, detail.queue, (one) => one.claim ?? one.order ?? `${one.client} ${one.place}`, () => makeWaiter(), (made, one) => made.update(detail, one, at_ms, history.who(one)));
    const more = detail.waiting - detail.queue.length;
    setText(this.#note, detail.waiting === 0 ? "No one is waiting." : more > 0 ? `And ${count(more)} more behind them.` : "");
  }

  tick() {
    for (const made of this.#kept.values()) made.tick();
  }
}

function makeWaiter() {
  const place = h("span", { class: "place num" });
  const name = h("b", { class: "who" });
  const time = h("span", { class: "num" });
  const extra = h("div", { class: "extra" });
  let now = { detail: null, one: null, at_ms: 0, who: "" };
  const out = h("button", { type: "button", class: "small", onclick: () => askWithdraw(now.detail, now.one, now.who) }, "Take out");
  const element = h("li", {}, place, name, h("span", { class: "rest" }, time), h("span", { class: "acts" }, out), extra);
  return {
    element,
    update(detail, one, at_ms, who) {
      now = { detail, one, at_ms, who };
      setText(place, String(one.place));
      setText(name, who);
      setAttr(name, "title", who);
      out.hidden = !canWithdraw(one);
      setAttr(out, "aria-label", `Take out ${who}`);
      showMetadata(extra, one);
      this.tick();
    },
    tick() {
      const since_s = (tick_ms() - now.at_ms) / 1000;
      const { waiting_s, eta_s } = now.one;
      // An estimate, not a promise: from past holds, and none where there are too few of them.
      const eta = typeof eta_s === "number" ? ` · about ${span(Math.max(0, eta_s - since_s))} to go` : "";
      setText(time, `waiting ${whole(waiting_s + since_s)}${eta}`);
      setAttr(time, "title", eta === "" ? null : "An estimate from past holds, not a promise");
    },
  };
}

// The claim's id and its metadata, folded away. Built once: neither changes while the claim lives.
function showMetadata(extra, one) {
  const has = one.metadata !== null && one.metadata !== undefined;
  if (extra.childElementCount > 0 || (!has && !one.claim)) return;
  const text = has ? linked(JSON.stringify(one.metadata, null, 2)) : "";
  extra.append(h("details", {}, h("summary", {}, has ? gist(one.metadata) : "Claim"), h("p", { class: "sub mono" }, one.claim ?? ""), has && h("pre", { tabindex: "0", "aria-label": "Metadata" }, text)));
}

// Addresses of pages within a text become links; the rest stays text. Callers write metadata, so a link leads only to the web, in a
// tab of its own that knows nothing of ours.
function linked(text) {
  return text.split(/(https?:\/\/[^\s"'<>\\]+)/).map((part, index) => (index % 2 === 1 ? h("a", { href: part, target: "_blank", rel: "noopener noreferrer nofollow" }, seen(part)) : seenLines(part)));
}

const seenLines = (text) => text.split("\n").map((line) => /^ */.exec(line)[0] + seen(line.trimStart())).join("\n");

// Metadata in one line: the plain values of an object with their names, or a word for what is more complicated.
function gist(metadata) {
  if (typeof metadata !== "object") return seen(metadata).slice(0, 120);
  const plain = Object.entries(metadata).filter(([, value]) => value !== null && typeof value !== "object");
  return seen(plain.map(([name, value]) => `${name} ${value}`).join(" · ")).slice(0, 120) || "Metadata";
}
