// The document, made easy to walk: references resolved, operations in groups, examples found. It draws nothing.

const METHODS = ["get", "put", "post", "patch", "delete"];

export class Api {
  #document;

  constructor(document) {
    this.#document = document;
    this.info = document.info;
    const url = document.servers?.[0]?.url ?? "/";
    /** The beginning of the addresses in examples. */
    this.base = /^https?:/.test(url) ? url.replace(/\/$/, "") : location.origin;
    this.operations = Object.entries(document.paths).flatMap(([path, item]) => [
      ...Object.keys(item).filter((name) => METHODS.includes(name)).map((method) => this.#operation(method, path, item[method])),
      // Methods that OpenAPI has no place for.
      ...Object.entries(item["x-additionalOperations"] ?? {}).map(([method, value]) => this.#operation(method, path, value)),
    ]);
    this.groups = document.tags
      .map(({ name, description }) => ({ name, description, operations: this.operations.filter((each) => each.tag === name) }))
      .filter(({ operations }) => operations.length > 0);
  }

  find(id) {
    return this.operations.find((operation) => operation.id === id);
  }

  resolve(value) {
    if (!value?.$ref) return value;
    return value.$ref.slice(2).split("/").reduce((at, name) => at[name.replaceAll("~1", "/").replaceAll("~0", "~")], this.#document);
  }

  /** The name of what a reference leads to. */
  nameOf(value) {
    return value?.$ref?.split("/").at(-1) ?? null;
  }

  #operation(method, path, value) {
    const parameters = (value.parameters ?? []).map((each) => this.resolve(each));
    const body = this.resolve(value.requestBody)?.content?.["application/json"] ?? null;
    const responses = Object.entries(value.responses).map(([status, each]) => {
      const response = this.resolve(each);
      const [[type, media] = []] = Object.entries(response.content ?? {});
      return {
        status, type, media, isCommon: Boolean(each.$ref), description: response.description, links: response.links ?? {},
        headers: Object.entries(response.headers ?? {}).map(([name, header]) => ({ name, ...this.resolve(header) })),
      };
    });
    return {
      method: method.toUpperCase(), path, id: value.operationId, tag: value.tags[0], summary: value.summary, description: value.description ?? "",
      parameters, body, responses, streams: responses.some(({ type }) => type?.startsWith("text/event-stream")),
    };
  }
}

/** A value to start with: the example, the default, or something of the right kind. */
export function sample(schema) {
  const [example] = schema.examples ?? [];
  return example ?? schema.default ?? schema.enum?.[0] ?? "";
}

/** The target of a call: the path with its parameters filled in, and the query. */
export function target(operation, values) {
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values.path?.[name] ?? ""));
  const query = new URLSearchParams(Object.entries(values.query ?? {}).filter(([, value]) => value !== "")).toString();
  return query ? `${path}?${query}` : path;
}

/** A line for a shell. */
export function curl(base, operation, { path, query, headers = {}, body = "" }) {
  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = ["curl"];
  if (operation.streams) parts.push("-N");
  if (operation.method !== "GET") parts.push("-X", operation.method);
  for (const [name, value] of Object.entries(headers)) if (value !== "") parts.push("-H", quote(`${name}: ${value}`));
  if (body !== "") parts.push("-d", quote(body));
  parts.push(quote(base + target(operation, { path, query })));
  return parts.join(" ");
}

/** The value that a link takes over: `$request.path.id`, `$response.body#/lease`, or a value as it is. */
export function evaluate(expression, { path, response }) {
  if (expression !== null && typeof expression === "object") {
    return Object.fromEntries(Object.entries(expression).map(([name, value]) => [name, evaluate(value, { path, response })]));
  }
  if (typeof expression !== "string") return expression;
  if (expression.startsWith("$request.path.")) return path[expression.slice("$request.path.".length)];
  if (expression.startsWith("$response.body#/")) return expression.slice("$response.body#/".length).split("/").reduce((at, name) => at?.[name], response);
  return expression;
}
