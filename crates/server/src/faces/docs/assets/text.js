// Words as they are shown: paragraphs with `code` in them, method badges, JSON. Text only ever becomes text nodes.

import { copy, h } from "./dom.js";

/** Paragraphs, with what stands in backticks as code. */
export function prose(text) {
  return text.split(/\n\s*\n/).filter((each) => each.trim() !== "").map((each) => h("p", { class: "prose" }, inline(each)));
}

export function inline(text) {
  return text.split("`").map((piece, index) => (index % 2 === 1 ? h("code", {}, piece) : piece));
}

export function methodBadge(method) {
  return h("span", { class: "method", "data-method": method }, method);
}

/** A block of code with a button that copies it. */
export function codeBlock(text, label) {
  const code = h("code", {}, text);
  const button = h("button", { type: "button", class: "small copy", "aria-label": `Copy ${label}`, onclick: () => copy(code.textContent, button) }, "Copy");
  // A long one is scrolled, also with the keyboard.
  return { element: h("div", { class: "block" }, h("pre", { tabindex: "0", role: "region", "aria-label": label }, code), button), code };
}

export const pretty = (value) => JSON.stringify(value, null, 2);
