// The events of a resource, in sentences, newest first. Renewals in a row are told once, with their number.

import { h, reconcile, setText } from "./dom.js";
import { ago, exact, span } from "./format.js";
import { seen } from "./names.js";

const SHOWN = 100;

export class Log {
  element = h("ol", { class: "log" });
  #kept = new Map();

  /** With one slot only, which slot it was goes without saying. */
  show(history, capacity) {
    const lines = gather(history.events).slice(-SHOWN).reverse();
    reconcile(this.element, this.#kept, lines, (line) => line.event.id, makeLine, (made, line) => made.update(line, history, capacity === 1));
  }

  tick(now) {
    for (const made of this.#kept.values()) made.tick(now);
  }
}

/** Runs of renewals of one token become one line that keeps the id of its first, so that it stays the same line as it grows. */
export function gather(events) {
  const lines = [];
  for (const event of events) {
    const last = lines.at(-1);
    if (event.event === "renewed" && last?.event.event === "renewed" && last.event.token === event.token) {
      last.times += 1;
      last.at_unix = event.at_unix;
    } else {
      lines.push({ event, times: 1, at_unix: event.at_unix });
    }
  }
  return lines;
}

function makeLine() {
  const text = h("span", { class: "what" });
  const time = h("time", {});
  const element = h("li", {}, h("i", { class: "mark", "aria-hidden": "true" }), text, time);
  let at_unix = 0;
  return {
    element,
    update(line, history, single) {
      element.dataset.event = line.event.event;
      setText(text, sentence(line, history.who(line.event), single));
      at_unix = line.at_unix;
      time.dateTime = new Date(at_unix * 1000).toISOString();
      time.title = exact(at_unix);
    },
    tick: (now) => setText(time, ago(at_unix, now)),
  };
}

function sentence({ event, times }, who, single) {
  const slot = single || event.slot === null || event.slot === undefined ? "" : ` slot ${event.slot}`;
  const held = event.held_s ? ` after ${span(event.held_s)}` : "";
  const waited = event.waited_s ? ` after waiting ${span(event.waited_s)}` : "";
  // A lease without a name is called by its token already.
  const token = event.token && !who.endsWith(`#${event.token}`) ? ` · token ${event.token}` : "";
  switch (event.event) {
    case "granted": return `${who} got${slot || " it"}${event.from ? ` from ${seen(event.from)}` : ""}${waited}${token}`;
    case "waiting": return `${who} joined the queue`;
    case "renewed": return times > 1 ? `${who} renewed ${times} times` : `${who} renewed`;
    case "released": return `${who} gave${slot || " it"} back${held}`;
    case "expired": return `${who}’s hold expired${held}`;
    case "revoked": return event.token ? `${who}’s hold was revoked${held}` : `${who}’s claim was revoked while waiting`;
    case "withdrawn": return `${who} was withdrawn${event.token ? held : waited}`;
    case "aborted": return `${who} aborted${event.token ? held : waited}`;
    case "timed_out": return `${who} gave up${waited}`;
    case "deleted": return "It was deleted";
    case "handed_back": return `${who} was gone when its turn came; handed back`;
    case "superseded": return `${who}’s hold was taken over${held}`;
    case "grace": return `${who} is in grace: only ${who} may come back`;
    case "lapsed": return `${who}’s grace is over: any client may take it`;
    case "configured": return event.capacity === null || event.capacity === undefined ? "It was configured" : `Capacity set to ${event.capacity}`;
    case "paused": return `Paused${event.ttl_s ? ` for ${span(event.ttl_s)}` : ""}: ${seen(event.reason ?? "")}`;
    case "resumed": return `Resumed${event.held_s ? ` after ${span(event.held_s)}` : ""}`;
    case "out_of_service": return `Slot ${event.slot} is out of service: ${seen(event.reason ?? "")}`;
    case "in_service": return `Slot ${event.slot} is back in service`;
    case "unconfigured": return "Capacity put back to one";
    default: return `${event.event} ${who}`;
  }
}
