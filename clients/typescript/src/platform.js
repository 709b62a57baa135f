// What differs between Node, Deno and browsers.
export {};
