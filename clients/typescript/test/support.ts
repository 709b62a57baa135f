// The tools of every test: the real binary on a free port, a relay before it that can misbehave, and a clock that can jump.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, request, type IncomingMessage, type Server as HttpServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { randomUUID } from "node:crypto";
import { Client, type ClientOptions } from "leasehold";

export const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));
export const ROOT = path.join(PACKAGE, "../..");
const TARGET = process.env["CARGO_TARGET_DIR"] ?? path.join(ROOT, "target");
export const BINARY = process.env["LEASEHOLD_BINARY"] ?? path.join(TARGET, "debug/leasehold");
const START_MS = 20_000;

interface Test {
  after(undo: () => unknown): void;
}

/** A server of our own; it ends with the test that started it. */
export class Server {
  url = "";
  #child: ChildProcess | undefined;
  #dir = "";
  #args: readonly string[] = [];

  static async start(t: Test, ...args: string[]): Promise<Server> {
    const server = new Server();
    server.#dir = await mkdtemp(path.join(tmpdir(), "leasehold-ts-"));
    server.#args = args;
    t.after(async () => {
      await server.kill();
      await rm(server.#dir, { recursive: true, force: true });
    });
    await server.#spawn("127.0.0.1:0");
    return server;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#child = undefined;
    const gone = new Promise((resolve) => { child.once("exit", resolve); });
    child.kill("SIGKILL");
    await gone;
  }

  restart(): Promise<void> {
    return this.#spawn(new URL(this.url).host);
  }

  async #spawn(listen: string): Promise<void> {
    const data = this.#args.includes("--memory") ? [] : ["--data", path.join(this.#dir, "data")];
    const child = spawn(BINARY, ["serve", "--listen", listen, ...data, ...this.#args], { stdio: ["ignore", "ignore", "pipe"] });
    this.#child = child;
    let said = "";
    this.url = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`the server did not start: ${said}`)), START_MS);
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
      child.stderr?.on("data", (piece) => {
        said = `${said}${piece}`.slice(-10_000);
        // eslint-disable-next-line no-control-regex
        const found = /listening on (http:\/\/[^\s,]+)/.exec(said.replaceAll(/\x1b\[[0-9;]*m/g, ""));
        if (!found) return;
        clearTimeout(late);
        resolve(found[1] as string);
      });
    });
  }

  async call(method: string, where: string, body?: object): Promise<{ status: number; body: Record<string, unknown> }> {
    const response = await fetch(this.url + where, { method, ...(body ? { body: JSON.stringify(body) } : {}) });
    return { status: response.status, body: JSON.parse((await response.text()) || "{}") as Record<string, unknown> };
  }

  /** A pool of so many slots, by its id. */
  async pool(count: number): Promise<string> {
    const id = randomUUID();
    await this.call("PUT", `/l/${id}`, { count });
    return id;
  }
}

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly key: string | undefined;
  readonly body: string;
  readonly authorization: string | undefined;
  readonly requestId: string | undefined;
}

/** Decides about one request: `pass` it on, `lose` its answer, `hang`, or answer by itself. */
export type Verdict = "pass" | "lose" | "hang" | { status: number; headers?: Record<string, string>; body: string; forward?: boolean };

/** Stands before the server and does to requests what the test says. */
export class Relay {
  url = "";
  readonly seen: Seen[] = [];
  decide: (seen: Seen) => Verdict = () => "pass";
  /** Pages and modules that it serves by itself. */
  files: (where: string) => Promise<{ type: string; body: string } | undefined> = async () => undefined;
  #server: HttpServer | undefined;

  static async start(t: Test, target: () => string): Promise<Relay> {
    const relay = new Relay();
    const server = createServer((incoming, outgoing) => void relay.#handle(target(), incoming, outgoing));
    relay.#server = server;
    await new Promise<void>((resolve) => { server.listen(0, "127.0.0.1", resolve); });
    relay.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    return relay;
  }

  cut(): void {
    this.#server?.closeAllConnections();
  }

  async #handle(target: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of incoming) pieces.push(piece as Buffer);
    const body = Buffer.concat(pieces).toString();
    const { headers } = incoming;
    const file = await this.files(incoming.url ?? "");
    if (file) {
      outgoing.writeHead(200, { "content-type": file.type }).end(file.body);
      return;
    }
    const seen: Seen = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      key: headers["idempotency-key"] as string | undefined,
      body,
      authorization: headers.authorization,
      requestId: headers["x-request-id"] as string | undefined,
    };
    this.seen.push(seen);
    const verdict = this.decide(seen);
    if (verdict === "hang") return;
    if (typeof verdict === "object" && !verdict.forward) {
      outgoing.writeHead(verdict.status, verdict.headers).end(verdict.body);
      return;
    }
    const url = new URL(target + seen.path);
    const onward = request({ host: url.hostname, port: url.port, path: seen.path, method: seen.method, headers, agent: false }, (answer) => {
      if (verdict === "lose") {
        answer.resume();
        answer.on("end", () => outgoing.destroy());
        return;
      }
      if (typeof verdict === "object") {
        answer.resume();
        outgoing.writeHead(verdict.status, verdict.headers).end(verdict.body);
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    onward.end(body);
  }
}

/** A client that is closed with the test, and a lease clock that the test can push. */
export function connect(t: Test, url: string | string[], more: ClientOptions = {}): { client: Client; clock: { jumpMs: number } } {
  const clock = { jumpMs: 0 };
  const client = new Client({ url, clock: () => performance.now() + clock.jumpMs, ...more });
  t.after(() => client.close());
  return { client, clock };
}

/** An address where nothing listens. */
export async function nowhere(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => { server.close(resolve); });
  return `http://127.0.0.1:${port}`;
}

/** Asks again until it is so. */
export async function eventually(check: () => unknown, withinMs = 5000): Promise<void> {
  const until = performance.now() + withinMs;
  for (;;) {
    try {
      await check();
      return;
    } catch (thrown) {
      if (performance.now() > until) throw thrown;
    }
    await pause(20);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}
