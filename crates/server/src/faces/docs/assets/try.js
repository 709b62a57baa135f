// The form that tries an operation: fields for everything it takes, the call itself, and what came back. Where an answer says
// what can be done next (a lease that was borrowed can be returned), it leads to that operation's form, filled in.

import { curl, evaluate, sample, target } from "./api.js";
import { announce, byId, h } from "./dom.js";
import { kindOf } from "./schema.js";
import { codeBlock, pretty } from "./text.js";

/** A pool of this visitor's own: the id is the key, so no two readers of this page should meet in one. */
const OWN_POOL = ownId();

const forms = new Map();

export function tryIt(api, operation, example) {
  if (operation.streams) return h("p", { class: "hint" }, "This one goes on for as long as you listen: try the line above.");
  const details = h("details", { class: "try" }, h("summary", {}, "Try it"));
  // Made when it is first opened: few are.
  const open = () => {
    if (!forms.has(operation.id)) {
      forms.set(operation.id, new Form(api, operation, example));
      details.append(forms.get(operation.id).element);
    }
    return forms.get(operation.id);
  };
  details.addEventListener("toggle", () => { if (details.open) open(); });
  openers.set(operation.id, (values) => {
    details.open = true;
    open().fill(values);
    details.scrollIntoView({ block: "nearest" });
    open().focus();
  });
  return details;
}

const openers = new Map();

class Form {
  #api;
  #operation;
  #inputs = [];
  #body = null;
  #send;
  #result = h("div", { class: "result" });

  constructor(api, operation, example) {
    this.#api = api;
    this.#operation = operation;
    const fields = operation.parameters.map((parameter) => this.#field(parameter));
    if (operation.body) fields.push(this.#bodyField(example.body));
    this.#send = h("button", { type: "submit", class: "primary" }, `Send ${operation.method}`);
    this.element = h("form", { class: "try-form", "aria-label": `Try: ${operation.summary}`, onsubmit: (event) => { event.preventDefault(); this.#call(); } },
      h("div", { class: "fields" }, fields), h("p", {}, this.#send), this.#result);
  }

  /** Puts values in, as a link has them: `{path: {id}, body: {…}}`. */
  fill({ path = {}, body }) {
    for (const { parameter, input } of this.#inputs) if (parameter.in === "path" && path[parameter.name] !== undefined) input.value = path[parameter.name];
    if (body !== undefined && this.#body) this.#body.value = pretty(body);
  }

  focus() {
    this.#send.focus();
  }

  #field(parameter) {
    const id = `${this.#operation.id}-${parameter.in}-${parameter.name}`;
    const { schema, name, required } = parameter;
    let input;
    if (schema.enum) {
      const choices = required ? schema.enum : ["", ...schema.enum];
      input = h("select", { id }, choices.map((each) => h("option", { value: each }, each)));
    } else {
      const placeholder = required ? null : kindOf(this.#api, schema);
      input = h("input", { id, name, required, placeholder, autocomplete: "off", autocapitalize: "none", spellcheck: "false", class: "mono" });
    }
    if (required) input.value = initial(this.#operation, parameter);
    this.#inputs.push({ parameter, input });
    return h("div", { class: "field" }, h("label", { for: id }, h("span", { class: "mono" }, name), h("span", { class: "maybe" }, parameter.in)), input);
  }

  #bodyField(text) {
    const id = `${this.#operation.id}-body`;
    this.#body = h("textarea", { id, rows: "4", class: "mono", spellcheck: "false", autocapitalize: "none" });
    this.#body.value = pretty(JSON.parse(text));
    return h("div", { class: "field wide" }, h("label", { for: id }, "Body", h("span", { class: "maybe" }, "JSON")), this.#body);
  }

  #values() {
    const of = (place) => Object.fromEntries(this.#inputs.filter(({ parameter, input }) => parameter.in === place && input.value !== "").map(({ parameter, input }) => [parameter.name, input.value]));
    return { path: of("path"), query: of("query"), headers: of("header"), body: this.#body?.value ?? "" };
  }

  async #call() {
    const values = this.#values();
    const { method } = this.#operation;
    const headers = { ...values.headers };
    if (this.#body) headers["content-type"] = "application/json";
    const token = byId("token").value.trim();
    if (token !== "") headers.authorization = `Bearer ${token}`;
    const init = { method, headers, cache: "no-store", ...(this.#body ? { body: values.body } : {}) };
    this.#send.disabled = true;
    const began_at = performance.now();
    try {
      const response = await fetch(target(this.#operation, values), init);
      const text = await response.text();
      this.#show(values, response, text, performance.now() - began_at);
    } catch (error) {
      this.#result.replaceChildren(h("p", { class: "problem", role: "alert" }, `No answer: ${error.message}`));
    } finally {
      this.#send.disabled = false;
    }
  }

  #show(values, response, text, took_ms) {
    const status = String(response.status);
    const parsed = parse(text);
    const shown = parsed === undefined ? text.slice(0, 20_000) : pretty(parsed);
    const took = took_ms < 10 ? took_ms.toFixed(1) : Math.round(took_ms);
    const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
    this.#result.replaceChildren(
      h("p", { class: "outcome" }, h("span", { class: "status", "data-class": status[0] }, status), `${response.statusText} in ${took} ms`),
      shown === "" ? h("p", { class: "hint" }, "No body.") : codeBlock(shown, "the answer").element,
      h("details", { class: "answer" }, h("summary", {}, "Headers"), codeBlock(headers, "the headers").element),
      h("details", { class: "answer" }, h("summary", {}, "As curl"), codeBlock(curl(this.#api.base, this.#operation, values), "the call as curl").element),
      ...this.#next(values, status, parsed),
    );
    announce(`Answered ${status} in ${took} milliseconds`);
  }

  /** Buttons to what can be done with this answer. */
  #next(values, status, response) {
    const links = this.#operation.responses.find((each) => each.status === status)?.links ?? {};
    const buttons = Object.values(links).map((link) => {
      const operation = this.#api.find(link.operationId);
      const context = { path: values.path, response };
      const filled = { path: evaluate(link.parameters ?? {}, context), body: link.requestBody === undefined ? undefined : evaluate(link.requestBody, context) };
      return h("button", { type: "button", class: "small", onclick: () => openers.get(operation.id)(filled) }, operation.summary);
    });
    return buttons.length === 0 ? [] : [h("p", { class: "next" }, "Next: ", buttons)];
  }
}

function initial(operation, { name, schema }) {
  if (operation.tag === "Pools" && name === "id") return OWN_POOL;
  return String(sample(schema));
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `crypto.randomUUID` is for secure pages only, and this one may be on plain http. */
function ownId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
