// Data in, data out: durations, the points of a lease, the clock, texts without secrets.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { countingInSleep, Timers } from "#dist/clock";
import { milliseconds } from "#dist/duration";
import { attemptMs, pointsOf } from "#dist/points";
import { scrub } from "#dist/scrub";
import { leaseClock as nodeClock } from "#dist/node";
import { leaseClock as webClock } from "#dist/web";
import { pause } from "./support.js";

describe("durations", () => {
  test("numbers are seconds, texts have units", () => {
    const read = (value: number | string): number => milliseconds("ttl", value, 0, 1e9);
    assert.deepEqual([30, 0.5, "500ms", "30s", "1m30s", "1.5h", 0].map(read), [30_000, 500, 500, 30_000, 90_000, 5_400_000, 0]);
  });

  test("a bad one is refused with the field, the value and the range", () => {
    for (const bad of ["", "30", "s", "1m 30s", "-1s", "1d", Number.NaN, -1, Number.POSITIVE_INFINITY, null, undefined, {}]) {
      assert.throws(() => milliseconds("ttl", bad as never, 1000, 60_000), (thrown: Error) => thrown instanceof RangeError && /^ttl is .*1 s to 60 s$/.test(thrown.message), String(bad));
    }
    assert.equal(milliseconds("ttl", 1, 1000, 60_000), 1000);
    assert.equal(milliseconds("ttl", 60, 1000, 60_000), 60_000);
    assert.throws(() => milliseconds("ttl", 0.999, 1000, 60_000), RangeError);
    assert.throws(() => milliseconds("ttl", "60001ms", 1000, 60_000), RangeError);
  });
});

describe("the points of a lease", () => {
  test("of 30 s", () => {
    const early = pointsOf(0, 30_000, () => 0);
    const late = pointsOf(0, 30_000, () => 1);
    assert.deepEqual([early.renewAt, late.renewAt], [8500, 10_000]);
    assert.deepEqual([early.riskAt, early.deadline], [19_400, 29_400]);
    assert.equal(attemptMs(30_000), 3000);
  });

  test("of 1 s and of a day: the bounds of margin, attempt and risk", () => {
    const short = pointsOf(1000, 1000, () => 1);
    assert.equal(short.deadline, 1950);
    assert.ok(Math.abs(short.riskAt - (1950 - 1000 / 3)) < 1e-6);
    assert.equal(attemptMs(1000), 250);
    const long = pointsOf(0, 86_400_000);
    assert.equal(long.deadline, 86_400_000 - 1_728_000);
    assert.equal(long.riskAt, long.deadline - 10_000);
    assert.equal(attemptMs(86_400_000), 5000);
  });
});

describe("the lease clock", () => {
  test("counts sleep that the steady clock does not see", () => {
    let steady = 100;
    let uptime = 5;
    const clock = nodeClock(() => steady, () => uptime);
    steady += 400;
    uptime += 0.4;
    assert.equal(clock(), 400);
    uptime += 3600;
    assert.ok(clock() >= 3_600_400 - 1000);
    steady += 10;
    uptime += 0.01;
    assert.ok(clock() >= 3_600_410 - 1000);
  });

  test("an uptime in whole seconds adds nothing by its steps", () => {
    let steady = 0;
    const clock = nodeClock(() => steady, () => Math.floor(7.9 + steady / 1000));
    for (; steady < 10_000; steady += 37) assert.equal(clock(), steady);
  });

  test("a wall clock that is set changes nothing but that a step forward counts", () => {
    let steady = 0;
    let wall = 1e12;
    const clock = webClock(() => steady, () => wall);
    wall -= 3_600_000;
    steady += 1000;
    wall += 1000;
    assert.equal(clock(), 1000);
    wall += 7_200_000;
    assert.equal(clock(), 7_201_000);
    wall -= 7_200_000;
    steady += 1000;
    wall += 1000;
    assert.equal(clock(), 7_202_000, "it does not stand still after a step forward and back");
  });

  test("many looks do not make it run faster", () => {
    let steady = 0;
    const clock = countingInSleep(() => steady, () => Math.floor(steady), 20);
    for (let n = 0; n < 10_000; n += 1) {
      steady += 0.1;
      clock();
    }
    assert.ok(Math.abs(clock() - 1000) < 1e-6);
  });

  test("a timer fires by the clock, within a second of a jump, or at once when told to look", async () => {
    let jump = 0;
    const timers = new Timers(() => performance.now() + jump);
    const fired: string[] = [];
    timers.at(timers.now() + 3_600_000, "nothing", () => fired.push("hour"));
    timers.at(timers.now() + 7_200_000, "nothing", () => fired.push("two"));
    jump = 3_600_001;
    timers.look();
    await pause(20);
    assert.deepEqual(fired, ["hour"]);
    jump = 7_200_001;
    await pause(1100);
    assert.deepEqual(fired, ["hour", "two"]);
  });
});

test("texts lose ids and credentials", () => {
  const id = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01";
  assert.equal(scrub(`error sending http://u:p@h/l/${id}/borrow ${id.toUpperCase()} ${id.replaceAll("-", "")}`), "error sending http://h/l/<id>/borrow <id> <id>");
  assert.equal(scrub("Authorization: Bearer abc.def-ghi lh_8e8d422cd504"), "Authorization: Bearer <hidden> lh_<hidden>");
});
