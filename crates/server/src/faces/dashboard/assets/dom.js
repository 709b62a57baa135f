// Making and changing elements. Text only ever enters as text nodes: names are chosen by callers of the API, and nothing
// here or above builds markup from strings.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An HTML element: `h("p", {class: "x", onclick: f}, "text", child)`. Null and false children are left out. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

/** Sets text only where it differs, so that ticking clocks do not disturb layout, selection or screen readers. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/**
 * Makes the children of `parent` those of `items`, in order, keeping the element of an item whose key was there before: focus,
 * hover and open disclosures survive. `make(item)` gives an object with an `element`, `update(made, item)` brings it up to date.
 */
export function reconcile(parent, kept, items, keyOf, make, update) {
  const keys = new Set(items.map(keyOf));
  for (const [key, made] of kept) {
    if (keys.has(key)) continue;
    made.element.remove();
    kept.delete(key);
  }
  items.forEach((item, index) => {
    const key = keyOf(item);
    if (!kept.has(key)) kept.set(key, make(item));
    const made = kept.get(key);
    update(made, item);
    if (parent.children[index] !== made.element) parent.insertBefore(made.element, parent.children[index] ?? null);
  });
}

/** Says something to screen readers, once: the same sentence twice in a row is said once. */
export function announce(text) {
  setText(byId("announce"), text);
}

/** Copies text and tells on the button that it did. Where the clipboard is not allowed (plain http) it selects instead. */
export async function copy(text, button) {
  const before = button.textContent;
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyTheOldWay(text);
    button.textContent = "Copied";
    announce("Copied");
  } catch {
    button.textContent = "Copy failed";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

function copyTheOldWay(text) {
  const area = h("textarea", { class: "unseen", readonly: true });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("not allowed");
}
