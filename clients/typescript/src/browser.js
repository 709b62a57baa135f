/** A client of Leasehold for browsers. */
import { BaseClient } from "./client.js";
import { webPlatform } from "./web.js";
export * from "./exports.js";
export class Client extends BaseClient {
    constructor(options = {}) {
        super(webPlatform(), options);
    }
}
