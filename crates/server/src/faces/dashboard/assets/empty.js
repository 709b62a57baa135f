// The page of a server without resources: three lines to try, one a dialect, against the address that callers use.

import { copy, h } from "./dom.js";
import { apiUrl } from "./who.js";

/** The element. The pool's id is made up on the spot, and is nowhere but in the text to copy. */
export function emptyState() {
  const at = apiUrl();
  const pool = randomUuid();
  const lines = [
    ["Take a lock", "It sticks with its holder; the same line renews it.", `curl -X POST '${at}/lock?client=laptop1&ttl=60s'`],
    ["Make a pool", "Four numbered slots. The id is yours to choose, and the key to it.", `curl -X PUT ${at}/l/${pool} -d '{"count": 4}'`],
    ["Queue for something", "The first call holds it, the next ones wait their turn.", `curl -X POST ${at}/v1/claims/ -d '{"resource": "gpu-7", "timeout": 60}'`],
  ];
  return h("div", { class: "empty" },
    h("h2", {}, "Nothing is lent yet"),
    h("p", {}, "Run one of these in a terminal. It appears here by itself, the moment it happens."),
    h("ol", {}, lines.map(([title, why, line]) => h("li", {},
      h("h3", {}, title),
      h("p", {}, why),
      h("div", { class: "line" },
        h("code", { tabindex: "0", "aria-label": `Command: ${title}` }, line),
        h("button", { type: "button", class: "small", "aria-label": `Copy: ${title}`, onclick: (event) => copy(line, event.currentTarget) }, "Copy"))))),
    h("p", { class: "hint" }, "Every call is in the ", h("a", { href: at === location.origin ? "/docs" : `${at}/docs` }, "API documentation"), "."));
}

// crypto.randomUUID is only there in secure contexts, and plain http on another host is none.
function randomUuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
