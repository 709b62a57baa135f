// The cluster as a live picture: a card for each node with the partitions that it owns, how far this node is behind with the
// others, the shared store, and the moves that were seen. It is there where the service is a cluster and the user may see it.

import { getCluster, serverNow } from "./api.js";
import { announce, byId, h, reconcile, setAttr, setText } from "./dom.js";
import { ago, clock, count, exact, plural, shortId, span, whole } from "./format.js";
import { icon } from "./icons.js";
import { seen } from "./names.js";

const OPEN_MS = 1000;
const SHUT_MS = 5000; // the mark beside the link in the bar
const SHARED_STORES = { etcd: "etcd", postgres: "PostgreSQL" };
const SILENT_S = 1.5; // a node beats every second
const BEHIND_S = 2;
const LATE_S = 2.5; // without a beat that succeeded
const NEWS_S = 12; // so long a partition that moved is marked
const ROWS_MAX = 64;
const MOVES_MAX = 20;

const STATE_WORD = { alive: "Alive", silent: "Silent", draining: "Draining", dead: "Dead", none: "No owner" };
const WHY = { first: "its first owner", let_go: "let go", died: "its owner died", went_back: "the store went back" };

/** What the picture shows, from an answer of `GET /v1/cluster`. Pure: data in, data out. */
export function picture(cluster) {
  const living = cluster.nodes.filter(({ state }) => state !== "dead");
  const here = new Set(living.map(({ address }) => address));
  const addressOf = new Map(cluster.nodes.map(({ node, address }) => [node, address]));
  const name = (node) => seen(addressOf.get(node) ?? shortId(node));
  // A node has another life after each start: an earlier one is not worth a card where a later one is alive.
  const dead = new Map();
  for (const node of cluster.nodes) if (node.state === "dead" && !here.has(node.address)) dead.set(node.address, node);
  const owned = new Map();
  for (const partition of cluster.partitions) {
    const { owner } = partition;
    const holder = owner !== null && living.some(({ node }) => node === owner) ? owner : null;
    if (!owned.has(holder)) owned.set(holder, []);
    owned.get(holder).push(partition);
  }
  const nodes = [...living, ...dead.values()].sort((a, b) => a.address.localeCompare(b.address, "en", { numeric: true })).map((node) => ({
    id: node.address,
    node: node.node,
    name: seen(node.address),
    state: node.state === "alive" && node.silent_s > SILENT_S && node.node !== cluster.node ? "silent" : node.state,
    isHere: node.node === cluster.node,
    linked: node.linked,
    silent_s: node.silent_s,
    unreachable: node.unreachable.filter((other) => other !== node.node && living.some((each) => each.node === other)).map(name),
    partitions: owned.get(node.node) ?? [],
  }));
  const free = owned.get(null) ?? [];
  return { nodes, free, name, trouble: troubles(cluster, nodes, free) };
}

/** What an operator should know, worst first, each a sentence. */
function troubles(cluster, nodes, free) {
  const found = [];
  const say = (level, text) => found.push({ level, text });
  const list = (partitions) => partitions.slice(0, 12).map(({ partition }) => partition).join(", ") + (partitions.length > 12 ? " …" : "");
  if (cluster.store.error !== null) say("bad", `The store does not answer: ${seen(cluster.store.error)}. Leases stand still.`);
  else if (isStoreLate(cluster)) say("bad", `The store has not answered for ${span(cluster.beat_age_s)}. Leases stand still.`);
  if (cluster.node === null) say("bad", "This node is no part of the cluster at the moment. It joins again by itself.");
  if (free.length > 0) say("bad", `${free.length === 1 ? "Partition" : "Partitions"} ${list(free)} ${free.length === 1 ? "has" : "have"} no owner. Calls for ${free.length === 1 ? "it" : "them"} wait.`);
  for (const node of nodes.filter(({ state }) => state === "silent")) say("warn", `${node.name} has been silent for ${span(node.silent_s)}.`);
  // Of a node that ended in an orderly way no partition was taken.
  const isLost = ({ state, node }) => state === "dead" && cluster.moves.some(({ why, from }) => why === "died" && from === node);
  for (const node of nodes.filter(isLost)) say("warn", `${node.name} died. Other nodes take its partitions.`);
  if (cluster.store.low) say("warn", "The store has little room left. New claims are refused before it is full.");
  if (cluster.store.went_back > 0) say("warn", `The store went back ${cluster.store.went_back === 1 ? "once" : `${cluster.store.went_back} times`}: writes that it had confirmed were gone. Tokens jumped.`);
  for (const node of nodes.filter(({ state, unreachable }) => state !== "dead" && unreachable.length > 0)) say("warn", `${node.name} cannot reach ${node.unreachable.join(", ")}.`);
  const late = cluster.partitions.filter(isBehind);
  if (late.length > 0) say("warn", `This node is behind with ${late.length === 1 ? "partition" : "partitions"} ${list(late)}.`);
  const gone = nodes.filter((node) => node.state === "dead" && !isLost(node));
  if (gone.length > 0) say("note", `${gone.map(({ name }) => name).join(", ")} ${gone.length === 1 ? "is" : "are"} gone; ${gone.length === 1 ? "its" : "their"} partitions are with other nodes.`);
  return found;
}

const isStoreLate = ({ beat_age_s }) => beat_age_s !== null && beat_age_s > LATE_S;

const isBehind = ({ behind_s }) => behind_s === null || behind_s > BEHIND_S;

/** How far this node's copy of a partition is. */
function following(partition) {
  if (partition.here) return "serves it";
  if (partition.behind_s === null) return "reads it";
  return partition.behind_s > BEHIND_S ? `${span(partition.behind_s)} behind` : "up to date";
}

export class Cluster {
  isOpen = false;
  #pane = byId("cluster");
  #link = byId("cluster-link");
  #active;
  #timer = null;
  #isThere = null; // not known yet
  #cards = new Map();
  #lines = new Map();
  #moves = new Map();
  #worst = null;

  /** @param active tells whether it is worth asking now: connected, in sight */
  constructor(active, close) {
    this.#active = active;
    this.title = h("h2", { id: "cluster-title", tabindex: "-1" }, "Cluster");
    this.state = h("span", { class: "state" });
    this.summary = h("p", { class: "summary num" });
    this.trouble = h("ul", { class: "troubles" });
    this.nodes = h("ul", { class: "nodes" });
    this.rows = h("tbody");
    this.rowsNote = h("p", { class: "hint", hidden: true });
    this.moves = h("ol", { class: "log moves" });
    this.noMoves = h("p", { class: "hint" }, "None since this node started.");
    this.store = h("dl", { class: "facts store" });
    const shut = h("button", { type: "button", class: "quiet icon", "aria-label": "Close the cluster", onclick: close }, icon("close"));
    const heads = ["Partition", "Owner", "Epoch", "Position", "This node"].map((text) => h("th", { scope: "col" }, text));
    const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Partitions" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), this.rows));
    const part = (name, head, ...children) => h("section", { class: `part ${name}` }, h("h3", {}, head), ...children);
    this.#link.append(icon("cluster"));
    this.#pane.append(
      h("header", { class: "detail-head" }, h("div", { class: "names" }, h("p", { class: "eyebrow" }, icon("cluster", 16), "Cluster"), h("div", { class: "title-line" }, this.title, this.state), this.summary), h("div", { class: "tools" }, shut)),
      this.trouble,
      part("p-nodes", "Nodes and their partitions", this.nodes),
      h("div", { class: "columns" },
        h("div", {}, part("p-partitions", "Partitions", table, this.rowsNote)),
        h("div", {}, part("p-store", "Shared store", this.store), part("p-moves", "Moves", this.noMoves, this.moves))));
  }

  /** The service is kept in this store: one that nodes share means that there is a cluster. */
  learn(store) {
    const isThere = store in SHARED_STORES;
    if (isThere === this.#isThere) return;
    this.#isThere = isThere;
    if (isThere) void this.refresh();
    else this.#hide();
  }

  open() {
    if (this.isOpen) return;
    this.isOpen = true;
    this.#pane.hidden = false;
    this.#pane.scrollTop = 0;
    document.title = "Cluster · Leasehold";
    this.title.focus({ preventScroll: true });
    if (this.#isThere) void this.refresh();
  }

  close() {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#pane.hidden = true;
    if (!this.#link.hidden) this.#link.focus();
  }

  /** Asks now, and from then on as long as there is a cluster to see. */
  async refresh() {
    clearTimeout(this.#timer);
    try {
      if (this.#active()) this.#show(await getCluster());
    } catch (problem) {
      // The stream tells of a server that is away.
      if (problem.status === 403 || problem.status === 404) {
        this.#isThere = false;
        this.#hide();
        return;
      }
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.refresh(), this.isOpen ? OPEN_MS : SHUT_MS);
  }

  get isThere() {
    return this.#isThere === true;
  }

  #hide() {
    clearTimeout(this.#timer);
    this.#link.hidden = true;
    setText(this.title, "No cluster to be seen");
    setText(this.summary, "This service runs in one process, or the cluster is not for you to see.");
  }

  #show(cluster) {
    const { nodes, free, name, trouble } = picture(cluster);
    const alive = nodes.filter(({ state }) => state !== "dead").length;
    const worst = trouble.some(({ level }) => level === "bad") ? "bad" : trouble.some(({ level }) => level === "warn") ? "warn" : "well";
    const word = { bad: "Trouble", warn: "Look here", well: "All well" }[worst];
    this.#link.hidden = false;
    setAttr(this.#link, "data-level", worst);
    setAttr(this.#link, "aria-label", `Cluster: ${plural(alive, "node")}, ${word.toLowerCase()}`);
    const first = trouble[0]?.text ?? "Every partition has an owner, and every node is heard of.";
    if (this.#worst !== null && this.#worst !== worst) announce(`Cluster: ${word}. ${first}`);
    this.#worst = worst;
    if (!this.isOpen) return;
    setText(this.title, `${plural(alive, "node")}, ${plural(cluster.partitions.length, "partition")}`);
    setText(this.state, word);
    setAttr(this.state, "data-state", { bad: "dead", warn: "silent", well: "alive" }[worst]);
    setText(this.summary, `As ${seen(cluster.address)} sees it at ${clock(serverNow())}`);
    reconcile(this.trouble, this.#lines, trouble, ({ text }) => text, ({ level, text }) => ({ element: h("li", { "data-level": level }, text) }), () => {});
    const moved = new Map(cluster.moves.filter(({ at_unix }) => serverNow() - at_unix < NEWS_S).map((move) => [move.partition, move]).reverse());
    const cards = free.length > 0 ? [...nodes, { id: "", name: "No owner", state: "none", partitions: free, unreachable: [] }] : nodes;
    reconcile(this.nodes, this.#cards, cards, ({ id }) => id, makeCard, (card, node) => card.update(node, moved, name));
    this.#showRows(cluster, name);
    this.#showStore(cluster);
    this.noMoves.hidden = cluster.moves.length > 0;
    reconcile(this.moves, this.#moves, cluster.moves.slice(0, MOVES_MAX), ({ partition, epoch }) => `${partition}.${epoch}`, makeMove, (made, move) => made.update(move, name));
  }

  #showRows({ partitions }, name) {
    const isOdd = (partition) => partition.owner === null || isBehind(partition);
    const shown = partitions.length <= ROWS_MAX ? partitions : [...partitions.filter(isOdd), ...partitions.filter((each) => !isOdd(each))].slice(0, ROWS_MAX);
    this.rowsNote.hidden = shown.length === partitions.length;
    setText(this.rowsNote, `${count(shown.length)} of ${count(partitions.length)}, those in trouble first.`);
    const cells = shown.map((partition) => [String(partition.partition), partition.owner === null ? "none" : name(partition.owner), count(partition.epoch), count(partition.position), following(partition)]);
    while (this.rows.children.length > cells.length) this.rows.lastChild.remove();
    while (this.rows.children.length < cells.length) this.rows.append(h("tr", {}, h("th", { scope: "row" }), h("td"), h("td"), h("td"), h("td")));
    cells.forEach((texts, index) => {
      const row = this.rows.children[index];
      row.classList.toggle("odd", isOdd(shown[index]));
      texts.forEach((text, at) => setText(row.children[at], text));
    });
  }

  #showStore(cluster) {
    const { store, beat_age_s } = cluster;
    const isWell = store.error === null && !isStoreLate(cluster);
    const facts = [
      ["Kind", SHARED_STORES[store.kind] ?? seen(store.kind)],
      ["Answers", isWell ? "yes" : "no"],
      ["A write and back", store.round_trip_s > 0 ? span(store.round_trip_s) : "–"],
      ["Last beat of this node", beat_age_s === null ? "none" : `${span(beat_age_s)} ago`],
      ["Room", store.low ? "little" : "enough"],
      ["Went back", store.went_back === 0 ? "never seen" : plural(store.went_back, "time")],
    ];
    const parts = facts.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]);
    if (this.store.children.length !== parts.length) this.store.replaceChildren(...parts);
    else parts.forEach((part, index) => setText(this.store.children[index], part.textContent));
    this.store.classList.toggle("odd", !isWell || store.low);
  }
}

function makeCard() {
  const name = h("b", { class: "name-of" });
  const state = h("span", { class: "state" });
  const sub = h("p", { class: "sub num" });
  const tiles = h("ul", { class: "tiles" });
  const none = h("p", { class: "sub" }, "owns nothing");
  const element = h("li", { class: "node" }, h("div", { class: "node-head" }, name, state), sub, tiles, none);
  const kept = new Map();
  return {
    element,
    update(node, moved, nameOf) {
      setText(name, node.name);
      setAttr(name, "title", node.name);
      setText(state, STATE_WORD[node.state]);
      setAttr(state, "data-state", node.state);
      setAttr(element, "data-state", node.state);
      setText(sub, subtitle(node));
      setAttr(tiles, "aria-label", `Partitions of ${node.name}`);
      none.hidden = node.partitions.length > 0;
      tiles.hidden = node.partitions.length === 0;
      element.classList.toggle("many", node.partitions.length > 64);
      reconcile(tiles, kept, node.partitions, ({ partition }) => partition, ({ partition }) => ({ element: h("li", { class: "tile num" }, String(partition)) }), (tile, partition) => {
        const move = moved.get(partition.partition);
        const isNews = move !== undefined && move.why !== "first" && node.state !== "none";
        tile.element.classList.toggle("moved", isNews);
        tile.element.classList.toggle("behind", isBehind(partition));
        const from = isNews ? `; came from ${nameOf(move.from)}, ${WHY[move.why]}` : "";
        setAttr(tile.element, "title", `Partition ${partition.partition}: epoch ${partition.epoch}, position ${partition.position}, this node ${following(partition)}${from}`);
      });
    },
  };
}

function subtitle(node) {
  if (node.state === "none") return "waiting for a node to take over";
  if (node.state === "dead") return "silent for too long, or ended";
  if (node.isHere) return "this node";
  return `${node.linked ? "linked" : "no link"} · heard ${node.silent_s < 1 ? "just now" : `${whole(node.silent_s)} ago`}`;
}

function makeMove() {
  const text = h("span", { class: "what" });
  const time = h("time", {});
  const element = h("li", {}, h("i", { class: "mark", "aria-hidden": "true" }), text, time);
  return {
    element,
    update(move, nameOf) {
      setAttr(element, "data-why", move.why);
      const way = move.from === null ? `to ${nameOf(move.to)}` : move.from === move.to ? `again with ${nameOf(move.to)}` : `${nameOf(move.from)} → ${nameOf(move.to)}`;
      const pause = move.pause_s >= 0.001 ? `, ${span(move.pause_s)} without an owner` : "";
      setText(text, `Partition ${move.partition}: ${way}; ${WHY[move.why]}${move.why === "first" ? "" : pause}`);
      setText(time, ago(move.at_unix, serverNow()));
      setAttr(time, "title", exact(move.at_unix));
      setAttr(time, "datetime", new Date(move.at_unix * 1000).toISOString());
    },
  };
}
