// The page's pure modules, data in and data out, run where they are meant to run.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Cleanup, openPage, Server, startBrowser } from "./support.mjs";

describe("modules", () => {
  let page;

  const t = new Cleanup();
  after(() => t.run());
  before(async () => {
    const server = await Server.start(t, "--memory");
    page = await openPage(t, await startBrowser(t), server);
  });

  test("every module is announced in the page, none twice and none in vain", async () => {
    const { announced, loaded } = await page.evaluate(() => ({
      announced: [...document.querySelectorAll("link[rel=modulepreload], script[src]")].map((each) => new URL(each.href ?? each.src, location).pathname).sort(),
      loaded: [...new Set(performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname).filter((name) => name.endsWith(".js")))].sort(),
    }));
    const imported = new Set(["/assets/app.js", "/assets/theme.js"]);
    for (const name of loaded) {
      const text = await page.evaluate(async (each) => (await fetch(each)).text(), name);
      for (const [, file] of text.matchAll(/from "\.\/([a-z]+\.js)"/g)) imported.add(`/assets/${file}`);
    }
    assert.deepEqual(announced, [...imported].sort());
  });

  test("durations", async () => {
    const said = await page.evaluate(async () => {
      const { whole, span } = await import("/assets/format.js");
      return [[0, 59.9, 60, 605, 3660, 86399, 93600].map(whole), [0, 0.0123, 0.9, 3.25, 12.9].map(span)];
    });
    assert.deepEqual(said, [["0 s", "59 s", "1 m 00 s", "10 m 05 s", "1 h 01 m", "23 h 59 m", "1 d 2 h"], ["0 s", "12 ms", "900 ms", "3.3 s", "12 s"]]);
  });

  test("what could be a pool's id is never searched for", async () => {
    const said = await page.evaluate(async () => {
      const { looksLikePoolId } = await import("/assets/format.js");
      return ["9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01", " 9F1C2E7A-5B3D-4c ", "9f1c2e7a-", "9f1c2e7a", "runner-042", "deadbeef-but-no-id", "9f1c2e7a5b3d4c8ea1f06d2b9c4e7a01"].map(looksLikePoolId);
    });
    assert.deepEqual(said, [true, true, true, false, false, false, false]);
  });

  test("events cut anywhere come out whole", async () => {
    const whole = "event: hello\ndata: {\"a\":1}\n\n: heartbeat\nid: 1.1\n\nid: 1.2\r\nevent: granted\r\ndata: one\r\ndata: two\r\n\r\ndata: last\n\n";
    const said = await page.evaluate(async (text) => {
      const { EventParser } = await import("/assets/stream.js");
      return [1, 2, 3, 7, text.length].map((size) => {
        const out = [];
        const parser = new EventParser((event) => out.push(event));
        for (let at = 0; at < text.length; at += size) parser.push(text.slice(at, at + size));
        return out;
      });
    }, whole);
    const expected = [{ type: "hello", id: "", data: "{\"a\":1}" }, { type: "message", id: "1.1", data: null }, { type: "granted", id: "1.2", data: "one\ntwo" }, { type: "message", id: "", data: "last" }];
    for (const out of said) assert.deepEqual(out, expected);
  });

  test("events become stretches of time", async () => {
    const said = await page.evaluate(async () => {
      const { History } = await import("/assets/history.js");
      const history = new History();
      let n = 0;
      const event = (event, at_unix, more) => ({ id: `1.${++n}`, event, at_unix, slot: 0, ...more });
      const events = [
        event("released", 100, { token: 4, client: "early", held_s: 30 }),
        event("granted", 110, { token: 5, client: "anna", waited_s: 6 }),
        event("renewed", 115, { token: 5, client: "anna" }),
        event("grace", 120, { token: 5, client: "anna" }),
        event("renewed", 122, { token: 5, client: "anna" }),
        event("grace", 130, { token: 5, client: "anna" }),
        event("lapsed", 135, { token: 5, client: "anna" }),
        event("granted", 140, { token: 6, client: "bob", waited_s: 0 }),
        event("waiting", 141, { token: null, slot: null, client: "carol" }),
        event("timed_out", 150, { token: null, slot: null, client: "carol" }),
      ];
      history.add(events[9]);
      history.seed(events, 90);
      history.learn({ holders: [{ token: 6, slot: 0, client: "bob", since_unix: 140 }], queue: [], latest_token: 6 });
      const holds = [...history.holds.values()].map(({ client, start, end, how, stretches, renewals }) => ({ client, start, end, how, renewals, states: stretches.map(({ state }) => state).join(" ") }));
      return { holds, waits: history.waits.map(({ client, start, end, how }) => ({ client, start, end, how })) };
    });
    assert.deepEqual(said, {
      holds: [
        { client: "early", start: 70, end: 100, how: "released", renewals: 0, states: "active" },
        { client: "anna", start: 110, end: 140, how: "superseded", renewals: 2, states: "active grace active grace lapsed" },
        { client: "bob", start: 140, end: null, how: null, renewals: 0, states: "active" },
      ],
      waits: [{ client: "anna", start: 104, end: 110, how: "granted" }, { client: "carol", start: 141, end: 150, how: "timed_out" }],
    });
  });

  test("characters that cannot be seen are shown by their codes", async () => {
    const said = await page.evaluate(async () => {
      const { seen } = await import("/assets/names.js");
      return ["deploy", "a\u202eb", "a\u200bb", "tab\there", " ends ", "مريم", "Zoe\u0308", "a\u00a0b", "x\ufe0f", "\u{e0041}"].map(seen);
    });
    assert.deepEqual(said, ["deploy", "a[U+202E]b", "a[U+200B]b", "tab[U+0009]here", "␣ends␣", "مريم", "Zoe\u0308", "a[U+00A0]b", "x[U+FE0F]", "[U+E0041]"]);
  });

  test("names of one view have colours of their own, and keep them", async () => {
    const said = await page.evaluate(async () => {
      const { Colours } = await import("/assets/format.js");
      const colours = new Colours();
      const of = (name) => JSON.stringify(colours.get(name));
      const names = Array.from({ length: 24 }, (_, n) => `runner-${n}`);
      const first = names.map(of);
      const more = Array.from({ length: 24 }, (_, n) => of(`more-${n}`));
      return { different: new Set(first).size, again: names.map(of).every((each, n) => each === first[n]), evenly: new Set(more).size };
    });
    assert.deepEqual(said, { different: 24, again: true, evenly: 24 });
  });

  test("little time left is judged by the ttl, and a missed renewal by the ones before", async () => {
    const said = await page.evaluate(async () => {
      const { isEnding } = await import("/assets/format.js");
      const { History } = await import("/assets/history.js");
      const history = new History();
      const event = (event, at_unix) => ({ id: `1.${at_unix}`, event, at_unix, slot: 0, token: 7, client: "anna" });
      for (const [name, at] of [["granted", 100], ["renewed", 110], ["renewed", 121], ["renewed", 131]]) history.add(event(name, at));
      return {
        ending: [[9, 30], [6, 30], [5.9, 30], [700, 3600], [719, 3600], [721, 3600], [9.9, null], [10, null]].map(([rest, ttl]) => isEnding(rest, ttl)),
        missed: [140, 147.4, 147.6].map((now) => history.hasMissed(7, now)),
        unknown: history.hasMissed(8, 1000),
      };
    });
    assert.deepEqual(said, { ending: [false, false, true, true, true, false, true, false], missed: [false, false, true], unknown: false });
  });

  test("waits that overlap get rows of their own", async () => {
    const said = await page.evaluate(async () => {
      const { pack } = await import("/assets/history.js");
      const waits = [{ start: 0, end: 10 }, { start: 5, end: null }, { start: 10, end: 12 }, { start: 11, end: 13 }, { start: 11.5, end: 14 }];
      return [pack(waits, 3, 20), waits.map(({ row }) => row)];
    });
    assert.deepEqual(said, [3, [0, 1, 0, 2, 2]]);
  });

  test("the timeline follows the present until it is moved", async () => {
    const said = await page.evaluate(async () => {
      const { TimeScale } = await import("/assets/timescale.js");
      const scale = new TimeScale();
      const seen = [];
      const note = () => seen.push([scale.following, Math.round(scale.from), Math.round(scale.to)]);
      scale.layout(0, 1000);
      scale.last(100, 1000);
      note();
      scale.slide(1010);
      note();
      scale.pan(-500, 1010);
      note();
      scale.slide(1020);
      note();
      scale.zoom(0.5, 0, 1020);
      note();
      scale.pan(5000, 1020);
      note();
      return seen;
    });
    assert.deepEqual(said, [[true, 910, 1010], [true, 920, 1020], [false, 870, 970], [false, 870, 970], [false, 870, 920], [true, 975, 1025]]);
  });

  test("renewals in a row are one line", async () => {
    const said = await page.evaluate(async () => {
      const { gather } = await import("/assets/log.js");
      const events = ["granted", "renewed", "renewed", "expired", "renewed"].map((event, id) => ({ id, event, token: 1, at_unix: id }));
      return gather(events).map(({ event, times, at_unix }) => [event.event, times, at_unix]);
    });
    assert.deepEqual(said, [["granted", 1, 0], ["renewed", 2, 2], ["expired", 1, 3], ["renewed", 1, 4]]);
  });
});
