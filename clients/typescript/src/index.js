/**
 * A client of Leasehold for Node and Deno: locks, numbered slots and places in a queue, renewed while they are held.
 *
 * ```ts
 * import { Client } from "leasehold";
 * const client = new Client({ url: "http://127.0.0.1:8080" });
 * await client.lock("backup", { wait: "10m" }).run(async (lease) => {
 *   lease.check();
 * });
 * ```
 */
import { BaseClient } from "./client.js";
import { nodePlatform } from "./node.js";
export * from "./exports.js";
export class Client extends BaseClient {
    constructor(options = {}) {
        super(nodePlatform(), options);
    }
}
