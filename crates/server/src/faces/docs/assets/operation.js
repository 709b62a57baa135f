// One operation: what it is for, what it takes, what it answers, a line of curl, and a form to try it.

import { curl, sample } from "./api.js";
import { h } from "./dom.js";
import { kindOf, members } from "./schema.js";
import { codeBlock, inline, methodBadge, pretty, prose } from "./text.js";
import { tryIt } from "./try.js";

export function operationSection(api, operation) {
  const example = exampleValues(operation);
  return h("article", { class: "operation", id: operation.id, "aria-labelledby": `${operation.id}-title`, tabindex: "-1" },
    h("h3", { id: `${operation.id}-title` }, operation.summary, h("a", { class: "anchor", href: `#${operation.id}`, "aria-label": `Link to ${operation.summary}` }, "#")),
    h("p", { class: "address" }, methodBadge(operation.method), h("code", {}, breakable(operation.path))),
    ...prose(operation.description),
    codeBlock(curl(api.base, operation, example), "the curl line").element,
    ...parameters(api, operation),
    ...body(api, operation),
    ...answers(api, operation),
    tryIt(api, operation, example),
  );
}

/** The arguments of an example call: every required one, and the body. */
function exampleValues(operation) {
  const of = (place) => operation.parameters.filter((each) => each.in === place && each.required).map((each) => [each.name, String(sample(each.schema))]);
  return {
    path: Object.fromEntries(of("path")), query: Object.fromEntries(of("query")), headers: {},
    body: operation.body ? JSON.stringify(operation.body.example) : "",
  };
}

function parameters(api, operation) {
  const own = operation.parameters.filter(({ name }) => name !== "X-Request-Id");
  if (own.length === 0) return [];
  const rows = own.map((each) => h("div", { class: "member" },
    h("dt", {}, h("code", {}, each.name), h("span", { class: "maybe" }, each.required ? `in the ${each.in}` : `in the ${each.in}, optional`)),
    h("dd", {}, h("span", { class: "kind" }, kindOf(api, each.schema)), " ", inline(describe(each)))));
  return [h("h4", {}, "Parameters"), h("dl", { class: "members" }, rows)];
}

function describe({ description = "", schema }) {
  return schema.default === undefined ? description : `${description} Default: \`${schema.default}\`.`;
}

function body(api, operation) {
  if (!operation.body) return [];
  return [h("h4", {}, "Body"), members(api, operation.body.schema)];
}

function answers(api, operation) {
  const own = operation.responses.filter(({ isCommon }) => !isCommon);
  const common = operation.responses.filter(({ isCommon }) => isCommon);
  return [h("h4", {}, "Answers"),
    ...own.map((answer) => answerDetails(api, operation, answer)),
    common.length === 0 ? null : h("details", { class: "answer common" },
      h("summary", {}, "And, as everywhere: ", common.map(({ status }) => status).join(", ")),
      h("dl", { class: "members" }, common.map((each) => h("div", { class: "member" }, h("dt", {}, h("code", {}, each.status)), h("dd", {}, inline(each.description)))))),
  ];
}

function answerDetails(api, operation, answer) {
  const shown = answer.headers.filter(({ name }) => !["X-Request-Id", "Leasehold-Position", "Leasehold-Service"].includes(name));
  const hasExample = answer.media?.example !== undefined;
  return h("details", { class: "answer" },
    h("summary", {}, h("span", { class: "status", "data-class": answer.status[0] }, answer.status), h("span", {}, inline(answer.description))),
    answer.type && answer.type !== "application/json" ? h("p", { class: "sub" }, answer.type) : null,
    answer.media ? members(api, answer.media.schema) : null,
    shown.length === 0 ? null : h("dl", { class: "members" }, shown.map((each) => h("div", { class: "member" },
      h("dt", {}, h("code", {}, each.name), h("span", { class: "maybe" }, "header")), h("dd", {}, inline(each.description))))),
    hasExample ? codeBlock(pretty(answer.media.example), `an example of ${answer.status} from ${operation.summary}`).element : null,
  );
}

/** A path may be broken after each slash. */
function breakable(path) {
  return path.split(/(?<=\/)/).flatMap((piece) => [piece, document.createElement("wbr")]);
}
