// The page: fetches the document, lists the operations on the left, shows each one, and follows the address. What one operation
// looks like is left to operation.js.

import { byId, h, setAttr } from "./dom.js";
import { icon } from "./icons.js";
import { Api } from "./api.js";
import { operationSection } from "./operation.js";
import { methodBadge, prose } from "./text.js";

const THEMES = ["auto", "light", "dark"];
const THEME_WORD = { auto: "as the system", light: "light", dark: "dark" };

async function start() {
  showTheme();
  const response = await fetch("/openapi.json", { headers: { accept: "application/json" } });
  if (!response.ok) throw new Error(`/openapi.json answered ${response.status}`);
  const api = new Api(await response.json());
  byId("title").textContent = `${api.info.title} API`;
  byId("introduction").replaceChildren(
    h("p", { class: "lead" }, api.info.summary ?? ""),
    ...prose(api.info.description ?? ""),
    h("p", { class: "sub" }, `Version ${api.info.version}, at `, h("code", {}, api.base)),
  );
  byId("dashboard").hidden = !api.find("dashboard");
  const sections = [];
  for (const group of api.groups) {
    const id = `group-${group.name.toLowerCase()}`;
    byId("contents").append(contentsOf(group, id));
    const shown = group.operations.map((operation) => operationSection(api, operation));
    sections.push(...shown);
    byId("groups").append(h("section", { class: "group", "aria-labelledby": id },
      h("h2", { id, tabindex: "-1" }, group.name), ...prose(group.description), shown));
  }
  followAddress();
  markWhatIsRead(sections);
}

function contentsOf(group, id) {
  const items = group.operations.map((operation) => h("li", { "data-words": words(operation) },
    h("a", { href: `#${operation.id}` }, methodBadge(operation.method), h("span", {}, operation.summary))));
  return h("section", {}, h("h2", {}, h("a", { href: `#${id}` }, group.name)), h("ul", {}, items));
}

const words = (operation) => `${operation.method} ${operation.path} ${operation.summary} ${operation.id}`.toLowerCase();

/** The document comes after the page, so that the browser could not go where the address says. */
function followAddress() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) target.scrollIntoView();
}

/** The operation at the top of the window is marked in the list. */
function markWhatIsRead(sections) {
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) isIntersecting ? seen.add(target) : seen.delete(target);
    const first = sections.find((section) => seen.has(section));
    for (const link of document.querySelectorAll("#contents a")) {
      const isCurrent = first && link.getAttribute("href") === `#${first.id}`;
      setAttr(link, "aria-current", isCurrent ? "true" : null);
      if (isCurrent) showInList(link);
    }
  }, { rootMargin: "-80px 0px -60% 0px" });
  for (const section of sections) watch.observe(section);
}

/** Scrolls the list and nothing else: where it is part of the page, the page must not jump. */
function showInList(link) {
  const list = document.querySelector(".contents");
  if (getComputedStyle(list).position !== "sticky") return;
  const [at, frame] = [link.getBoundingClientRect(), list.getBoundingClientRect()];
  if (at.top < frame.top) list.scrollTop -= frame.top - at.top;
  else if (at.bottom > frame.bottom) list.scrollTop += at.bottom - frame.bottom;
}

byId("search").addEventListener("input", () => {
  const wanted = byId("search").value.trim().toLowerCase().split(/\s+/);
  for (const item of document.querySelectorAll("#contents li")) item.hidden = !wanted.every((word) => item.dataset.words.includes(word));
  for (const section of document.querySelectorAll("#contents section")) section.hidden = !section.querySelector("li:not([hidden])");
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  byId("search").focus();
});

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("leasehold.theme", next);
  } catch {
    // Storage can be forbidden; the colours hold for this page then.
  }
  showTheme();
});

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function showTheme() {
  byId("theme").replaceChildren(icon(theme()));
  setAttr(byId("theme"), "aria-label", `Colours: ${THEME_WORD[theme()]}`);
}

start().catch((error) => { byId("problem").textContent = `The API could not be shown: ${error.message}`; });
