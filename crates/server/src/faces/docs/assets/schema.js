// A schema as a person reads it: what kind of value, which members, which limits.

import { h } from "./dom.js";
import { inline } from "./text.js";

/** One line: `string, uuid`, `integer, 0 to 1000`, `array of Claim`. */
export function kindOf(api, schema) {
  const name = api.nameOf(schema);
  if (name) return name;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map((each) => kindOf(api, each)).join(" or ");
  const types = [schema.type ?? "any JSON"].flat();
  const kind = types.map((type) => (type === "array" ? `array of ${kindOf(api, schema.items ?? {})}` : type)).join(" or ");
  return [kind, schema.format, range(schema), length(schema)].filter(Boolean).join(", ");
}

function range({ minimum, maximum, exclusiveMinimum }) {
  const low = exclusiveMinimum !== undefined ? `above ${exclusiveMinimum}` : minimum !== undefined ? `from ${minimum}` : null;
  if (maximum === undefined) return low;
  return low === null ? `up to ${maximum}` : `${low} to ${maximum}`;
}

function length({ minLength, maxLength }) {
  return maxLength === undefined ? null : `${minLength ?? 0} to ${maxLength} long`;
}

/** The members of an object, of what an array has in it, or nothing. Deep enough for every schema there is. */
export function members(api, schema, depth = 0) {
  const resolved = api.resolve(schema) ?? {};
  if (resolved.type === "array") return members(api, resolved.items ?? {}, depth);
  const properties = Object.entries(resolved.properties ?? {});
  if (properties.length === 0) return null;
  const required = new Set(resolved.required ?? []);
  const rows = properties.map(([name, each]) => {
    const inner = depth < 3 && needsMore(api, each) ? members(api, each, depth + 1) : null;
    return h("div", { class: "member" },
      h("dt", {}, h("code", {}, name), required.has(name) ? null : h("span", { class: "maybe" }, "optional")),
      h("dd", {}, h("span", { class: "kind" }, kindOf(api, each)), " ", inline(describe(api, each)), inner));
  });
  return h("dl", { class: "members" }, rows);
}

/** Only what is named is opened: a nested reference, or an array of one. */
const needsMore = (api, schema) => Boolean(api.nameOf(schema) ?? api.nameOf(schema.items));

function describe(api, schema) {
  const own = schema.description ?? api.resolve(schema)?.description ?? "";
  const fallback = schema.default === undefined ? "" : ` Default: \`${schema.default}\`.`;
  return own + fallback;
}
