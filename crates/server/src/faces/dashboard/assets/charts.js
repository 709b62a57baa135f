// The charts of the last ten minutes, drawn as SVG. Values come by the second from the server; five seconds make one point. Each
// chart says in words what it shows, for users who do not see it.

import { getSeries } from "./api.js";
import { byId, h, s, setAttr, setText } from "./dom.js";
import { clock, figure, span } from "./format.js";

const BIN = 5;
const WIDTH = 240;
const HEIGHT = 48;
const POLL_MS = 2000;

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
const most = (values) => Math.max(0, ...values);
const sum = (values) => values.reduce((all, value) => all + value, 0);
// So many in one bin. Rare events are counts, which people grasp; many are a rate.
const events = (value) => (value >= BIN ? `${figure(value / BIN)}/s` : figure(value));
const whole = (value) => figure(Math.round(value));

const CHARTS = [
  { title: "Held and waiting", lines: [["holders", "held", "a"], ["waiters", "waiting", "b"]], bin: most, say: whole },
  { title: "Grants", lines: [["grants", "", "a"]], bin: sum, say: events, isCount: true },
  { title: "Had to wait", lines: [["waits", "", "b"]], bin: sum, say: events, isCount: true },
  { title: "Expiries", lines: [["expiries", "", "c"]], bin: sum, say: events, isCount: true },
  { title: "Time waited", lines: [["wait_p50_s", "p50", "a"], ["wait_p99_s", "p99", "b"]], bin: most, say: span },
];

export class Charts {
  #charts = [];
  #timer = null;
  #active = () => true;

  /** @param active tells whether it is worth asking now: connected, in sight */
  constructor(active) {
    this.#active = active;
    const strip = h("div", { class: "charts", role: "group", "aria-label": "Activity in the last ten minutes", tabindex: "0" });
    for (const chart of CHARTS) {
      const card = new Chart(chart);
      this.#charts.push(card);
      strip.append(card.element);
    }
    byId("charts").append(strip);
  }

  /** Asks now, and from then on every few seconds while active. */
  async refresh() {
    clearTimeout(this.#timer);
    try {
      if (this.#active()) {
        const series = await getSeries();
        for (const chart of this.#charts) chart.draw(series);
      }
      byId("charts").hidden = false;
    } catch (problem) {
      // Curves are of the whole service, and an observer of some resources sees none. The stream tells of a server that
      // is away; old curves do no harm.
      if (problem.status === 403) byId("charts").hidden = true;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.refresh(), POLL_MS);
  }
}

class Chart {
  #spec;
  #points = []; // per line, oldest first
  #from_unix = 0;
  #step_s = BIN;

  constructor(spec) {
    this.#spec = spec;
    this.value = h("p", { class: "value num" });
    this.when = h("span", { class: "when" });
    this.top = h("span", { class: "top-value num", "aria-hidden": "true" });
    this.areas = spec.lines.map(([, , colour]) => s("path", { class: `area ${colour}` }));
    this.lines = spec.lines.map(([, , colour]) => s("path", { class: `line ${colour}` }));
    this.axis = h("p", { class: "axis-line num", "aria-hidden": "true" }, h("span"), h("span"), h("span"));
    this.hair = s("line", { class: "hair", y1: 0, y2: HEIGHT });
    this.drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, this.areas, this.lines, this.hair);
    this.element = h("div", { class: "chart" }, h("h2", {}, spec.title, this.when), this.value, h("div", { class: "plot" }, this.drawing, this.top), this.axis);
    this.drawing.addEventListener("pointermove", (event) => this.#point(event));
    this.drawing.addEventListener("pointerleave", () => this.#say());
  }

  draw(series) {
    const { lines, bin } = this.#spec;
    this.#step_s = series.step_s * BIN;
    this.#points = lines.map(([name]) => binned(series[name], bin));
    const length = series[lines[0][0]].length;
    this.#from_unix = series.from_unix + (length - this.#points[0].length * BIN) * series.step_s;
    const top = niceTop(Math.max(...this.#points.flat(), 0));
    this.#points.forEach((points, index) => {
      const path = points.map((value, at) => `${at === 0 ? "M" : "L"}${((at / (points.length - 1)) * WIDTH).toFixed(1)} ${(HEIGHT - 1 - (value / top) * (HEIGHT - 4)).toFixed(1)}`).join("");
      this.lines[index].setAttribute("d", path);
      this.areas[index].setAttribute("d", `${path}V${HEIGHT}H0Z`);
    });
    setText(this.top, this.#points.flat().some((value) => value > 0) ? this.#spec.say(top) : "");
    const minutes = (this.#points[0].length * this.#step_s) / 60;
    [`−${figure(minutes)} min`, `−${figure(minutes / 2)} min`, "now"].forEach((text, index) => setText(this.axis.children[index], text));
    setAttr(this.drawing, "aria-label", this.#summary());
    this.#say();
  }

  #summary() {
    const parts = this.#spec.lines.map(([, word], index) => {
      const points = this.#points[index];
      const { say } = this.#spec;
      const there = points.filter((value) => value !== null);
      return `${word ? `${word} ` : ""}now ${points.at(-1) === null ? "nothing" : say(points.at(-1))}, at most ${say(most(there))}, on average ${say(mean(there))}`;
    });
    return `${this.#spec.title}, last ten minutes: ${parts.join("; ")}`;
  }

  #point(event) {
    if (this.#points.length === 0) return;
    const box = this.drawing.getBoundingClientRect();
    const last = this.#points[0].length - 1;
    const at = Math.max(0, Math.min(last, Math.round(((event.clientX - box.left) / box.width) * last)));
    setAttr(this.hair, "x1", (at / last) * WIDTH);
    setAttr(this.hair, "x2", (at / last) * WIDTH);
    this.hair.classList.add("on");
    this.#say(at);
  }

  #say(at = null) {
    if (this.#points.length === 0) return;
    if (at === null) this.hair.classList.remove("on");
    setText(this.when, at === null ? "" : clock(this.#from_unix + (at + 1) * this.#step_s));
    const parts = this.#spec.lines.map(([, word, colour], index) => {
      const points = this.#points[index];
      const value = points.at(at ?? -1);
      const total = sum(points);
      // Without a pointer: how many there were in all while they are rare, else how many there are now.
      if (this.#spec.isCount && at === null && total < points.length * BIN) return h("span", { class: colour }, h("b", {}, figure(total)), ` in ${figure((points.length * this.#step_s) / 60)} min`);
      const inBin = this.#spec.isCount && value !== null && value < BIN ? ` in ${this.#step_s} s` : "";
      return h("span", { class: colour }, h("b", {}, value === null ? "–" : this.#spec.say(value)), inBin, word && ` ${word}`);
    });
    this.value.replaceChildren(...parts);
  }
}

// Whole bins counted from the newest value, so that the last point is always of a full bin.
function binned(values, bin) {
  const points = [];
  for (let end = values.length; end >= BIN; end -= BIN) points.unshift(known(values.slice(end - BIN, end), bin));
  return points.length > 1 ? points : [0, 0];
}

// Null, where nothing was measured in a bin: no caller waited, so none waited for long, but also not for no time.
function known(values, bin) {
  const there = values.filter((value) => value !== null);
  return there.length > 0 ? bin(there) : null;
}

function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}
