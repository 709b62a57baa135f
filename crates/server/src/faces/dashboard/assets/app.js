// Where it starts: wires the stream to the store and the two panes, reads the address, and owns what belongs to the page as a
// whole: keys, colours, the banner, the pool dialog.

import { Charts } from "./charts.js";
import { Cluster } from "./cluster.js";
import { findPool, getService, serverNow } from "./api.js";
import { Detail } from "./detail.js";
import { announce, byId, setAttr, setText } from "./dom.js";
import { clock, exact, whole } from "./format.js";
import { icon } from "./icons.js";
import { Overview } from "./overview.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { freeze, onTick, thaw } from "./ticker.js";
import { learnWho, signInAt } from "./who.js";

const BANNER_AFTER_S = 1;
const RECHECK_MS = 15000;
const KEYS_OF_LIST = new Set(["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End"]);
const THEMES = ["auto", "light", "dark"];
const THEME_WORD = { auto: "as the system", light: "light", dark: "dark" };

const stream = new Stream();
const store = new Store();
const overview = new Overview(store, openPool);
const detail = new Detail(() => stream.state === "live", () => { location.hash = "#/"; });
const cluster = new Cluster(() => !document.hidden && stream.state === "live", () => { location.hash = "#/"; });
const charts = new Charts(() => !document.hidden && stream.state === "live");

stream.addEventListener("event", ({ detail: event }) => {
  store.touch(event.key);
  detail.take(event);
});
stream.addEventListener("resync", () => {
  store.resync();
  void detail.resync();
  void charts.refresh();
});
stream.addEventListener("state", () => {
  if (stream.state === "live") void learnService();
  if (stream.state === "live") thaw();
  else freeze();
  if (stream.state === "denied") void learnWho().then(showConnection);
  announce(stream.state === "live" ? "Live" : "Not connected: what is shown may be old");
  showConnection();
});
onTick(showConnection);
onTick(showService);
byId("banner-retry").addEventListener("click", () => stream.retry());
// Events tell of every change; this is for what drifts without one, such as a server that was suspended.
setInterval(() => { if (stream.state === "live" && !document.hidden) store.resync(); }, RECHECK_MS);

function showConnection() {
  const stale_s = stream.staleSince === null ? 0 : Date.now() / 1000 - stream.staleSince;
  const denied = stream.state === "denied";
  byId("live").dataset.state = stream.state;
  setText(byId("live-text"), { connecting: "Connecting", live: "Live", stale: "Stale", denied: "No access" }[stream.state]);
  const bad = (stream.state === "stale" && stale_s >= BANNER_AFTER_S) || denied;
  byId("banner").hidden = !bad;
  document.body.classList.toggle("stale", bad);
  if (!bad) return;
  if (denied) setText(byId("banner-text"), stream.problem.status === 401 ? `Sign in needed to see this. ${stream.problem.message}` : `You may not see this. ${stream.problem.message}`);
  else setText(byId("banner-text"), `Not connected since ${clock(stream.staleSince)} (${whole(stale_s)}). What you see is from then; clocks stand still. Trying again by itself.`);
  const link = byId("banner-link");
  const at = denied && stream.problem.status === 401 ? signInAt() : null;
  link.hidden = at === null;
  setAttr(link, "href", at);
  setText(link, "Sign in");
}

// --- the service: which version, since when, and where it keeps its data

let service = null;

async function learnService() {
  try {
    service = await getService();
  } catch {
    service = null; // an older server, or not for us
  }
  if (service !== null) cluster.learn(service.store);
  showService();
}

function showService() {
  const node = byId("service");
  node.hidden = service === null;
  if (service === null) return;
  setText(node, `${service.version} · up ${whole(serverNow() - service.started_unix)} · ${service.store}`);
  setAttr(node, "title", `Started ${exact(service.started_unix)}. ${service.store === "memory" ? "Everything is kept in memory and gone with the process." : "Every answer is durable."}`);
}

// --- the address: #/r/<key> has a resource open, #/cluster the cluster. A pool is there under its digest, never under its id.

function route() {
  const match = /^#\/r\/(.+)$/.exec(location.hash);
  let key = null;
  try {
    key = match && decodeURIComponent(match[1]);
  } catch {
    // A broken escape in a link typed by hand: the overview is a fair answer.
  }
  const before = detail.key;
  const isCluster = location.hash === "#/cluster";
  if (!isCluster) cluster.close();
  if (key !== null) detail.open(key);
  else detail.close();
  if (isCluster) cluster.open();
  byId("panes").classList.toggle("has-detail", key !== null || cluster.isOpen);
  overview.select(key);
  if (key === null && !cluster.isOpen) {
    document.title = "Leasehold";
    if (before !== null) overview.focusRow(before);
  }
}
addEventListener("hashchange", route);

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("overview-heading").focus();
});

// --- opening a pool by its id, which goes into the body of a request and nowhere else

const poolDialog = byId("pool-dialog");
byId("open-pool").addEventListener("click", () => askForPool());
byId("pool-cancel").addEventListener("click", () => poolDialog.close());
poolDialog.addEventListener("close", () => { byId("pool-id").value = ""; });
byId("pool-form").addEventListener("submit", (event) => {
  event.preventDefault();
  void openPool(byId("pool-id").value.trim());
});

function askForPool(problem = "") {
  setText(byId("pool-error"), problem);
  if (!poolDialog.open) poolDialog.showModal();
}

async function openPool(id) {
  try {
    const { key } = await findPool(id);
    poolDialog.close();
    location.hash = `#/r/${encodeURIComponent(key)}`;
  } catch (problem) {
    askForPool(problem.status === 404 ? "No pool has this id." : problem.message);
  }
}

// --- keys for the whole page

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && (detail.key !== null || cluster.isOpen)) {
    location.hash = "#/";
    return;
  }
  if (event.target.closest("input, select, textarea")) return;
  if (KEYS_OF_LIST.has(event.key) && (event.target === document.body || byId("overview").contains(event.target))) overview.key(event);
  const acts = { "/": () => byId("search").focus(), p: () => askForPool(), ...(cluster.isThere && { c: () => { location.hash = "#/cluster"; } }), "?": () => byId("help-dialog").showModal() };
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
});
byId("help").addEventListener("click", () => byId("help-dialog").showModal());

// --- colours

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("leasehold.theme", next);
  } catch {
    // Storage can be forbidden; it holds for this visit then.
  }
  showTheme();
  announce(`Colours: ${THEME_WORD[next]}`);
});

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function showTheme() {
  byId("theme").replaceChildren(icon(theme()));
  setAttr(byId("theme"), "aria-label", `Colours: ${THEME_WORD[theme()]}`);
}

showTheme();
void learnWho().then(() => {
  detail.redraw();
  overview.redraw();
});
route();
store.resync();
void charts.refresh();
stream.start();
