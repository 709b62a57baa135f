"""Rows about holding: renewals that fail in every way, loss at the deadline, release."""

from __future__ import annotations

import asyncio

from driver import Driver, Event
from proxy import Log, now
from scene import Scene, at_risk_before, margin, row

# The time that L = 3 s leaves is measured in tenths of a second.
ON_TIME_S = 0.1


def untroubled(driver: Driver, lease: str = "l") -> None:
    told = [(event.event, event.data) for event in driver.events if event.event in ("at_risk", "lost") and event.lease == lease]
    assert not told, f"no caller should have been told of anything: {told}"


def on_time(scene: Scene, lost: Event, token: int) -> float:
    """It was lost at its deadline, and that follows from an answer that it was given. L."""
    assert abs(lost.at - lost.deadline) <= ON_TIME_S, f"lost {lost.at - lost.deadline:+.3f} s from the deadline"
    early = {}
    for record in scene.log.records:
        if record.granted and record.delivered and record.answer.get("token") == token:
            length = scene.length(record)
            early[record.arrived + length - margin(length) - lost.deadline] = length
    # The judge sees to it that it is not later than the last one allows.
    fitting = [e for e in early if -0.005 <= e <= 0.25]
    assert fitting, f"the deadline follows from no answer: {early}"
    return early[fitting[0]]


async def lost_at_the_deadline(scene: Scene, driver: Driver, token: int) -> None:
    """No renewal gets through any more: at risk at R, lost at D, the witness after that."""
    witness = scene.witness().want()
    lost = await driver.event("lost", "l", 10)
    at_risk = await driver.event("at_risk", "l", 1)
    length = on_time(scene, lost, token)
    assert lost.cause == "deadline", lost.data
    risk = lost.deadline - at_risk_before(length)
    assert abs(at_risk.at - risk) <= ON_TIME_S, f"at risk {at_risk.at - risk:+.3f} s from R"
    assert len(driver.all("lost")) == len(driver.all("at_risk")) == 1
    await scene.is_lost(driver)
    assert await witness.has_it(6) > lost.at
    await witness.give()


@row(6)
async def too_many_requests_while_held(scene: Scene) -> None:
    # With 3 s a tenth of a second would be left before R.
    driver = await scene.driver()
    grant = await scene.hold(driver, ttl=6)
    headers = {"Leasehold-Position": "1.1", "Retry-After": "60"}
    await scene.fault("answer", "renew", times=2, status=429, body={"error": "too many requests"}, headers=headers)
    record = await scene.renewed(timeout=6)
    bound = scene.deadline(scene.kind, scene.name, grant.token, record.arrived - 0.1)
    assert bound and record.arrived <= bound[0] - at_risk_before(bound[1]), "renewed after R"
    # A grant whose answer was slow is confirmed by a renewal before it is handed out.
    assert [r.status for r in scene.log.of("renew", grant.at)][:2] == [429, 429]
    await scene.holds(driver)


@row(7)
async def answers_that_are_not_ours(scene: Scene) -> None:
    driver = await scene.driver()
    grant = await scene.hold(driver)
    page = "<html><body>please sign in</body></html>"
    for status in (404, 502, 200):
        await scene.fault("answer", "renew", status=status, body=page, headers={"Content-Type": "text/html"})
    record = await scene.renewed(timeout=5)
    assert len([r for r in scene.log.of("renew") if r.did == "answer"]) == 3
    assert not driver.all("lost")
    assert (await scene.holds(driver))["token"] == grant.token == record.answer["token"]


@row(8)
async def one_renewal_reply_lost(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.hold(driver)
    await scene.fault("cut-after", "renew")
    await scene.renewed(timeout=5)
    await scene.renewed(timeout=5)
    untroubled(driver)
    await scene.holds(driver)
    assert [record.did for record in scene.log.of("renew")].count("cut-after") == 1


@row(9)
async def renewals_hang(scene: Scene) -> None:
    driver = await scene.driver()
    grant = await scene.hold(driver)
    await scene.renewed()
    await scene.fault("hang", "renew", times=0)
    await lost_at_the_deadline(scene, driver, grant.token)


@row(10)
async def hang_past_at_risk_then_well(scene: Scene) -> None:
    driver = await scene.driver()
    grant = await scene.hold(driver, ttl=6)
    await scene.fault("hang", "renew", times=0)
    await driver.event("at_risk", "l", 10)
    await scene.well()
    await scene.renewed(timeout=5)
    await scene.renewed(timeout=5)
    assert not driver.all("lost")
    assert len(driver.all("at_risk")) == 1
    assert (await scene.holds(driver))["token"] == grant.token


@row(11)
async def network_cut_both_ways(scene: Scene) -> None:
    driver = await scene.driver()
    grant = await scene.hold(driver)
    await scene.renewed()
    await scene.fault("black-hole", way="both")
    await lost_at_the_deadline(scene, driver, grant.token)


@row(11)
async def network_cut_for_replies(scene: Scene) -> None:
    driver = await scene.driver()
    grant = await scene.hold(driver)
    await scene.renewed()
    await scene.fault("black-hole", way="replies")
    await lost_at_the_deadline(scene, driver, grant.token)


@row(12, kinds=("lock", "pool"))
async def slow_answers(scene: Scene) -> None:
    # A is 1 s, of which 0.2 s are left for everything else; with a ttl of 3 s it would be 0.06 s.
    driver = await scene.driver()
    await scene.hold(driver, ttl=10)
    await scene.fault("delay", "renew", times=0, seconds=0.8)
    await asyncio.sleep(60)
    untroubled(driver)
    await scene.holds(driver)
    given_up = [record for record in scene.log.of("renew")[:-1] if not record.delivered]
    assert len(given_up) <= 2, f"{len(given_up)} attempts were given up before A"


@row(13)
async def renewal_answered_after_the_deadline(scene: Scene) -> None:
    driver = await scene.driver()
    grant = await scene.hold(driver)
    await scene.fault("delay", "renew", times=0, seconds=4.0)
    lost = await driver.event("lost", "l", 10)
    on_time(scene, lost, grant.token)
    await asyncio.sleep(4.5)
    await scene.is_lost(driver)
    assert len(driver.all("lost")) == 1 and len(driver.all("granted")) == 1
    releases = scene.log.of("release")
    assert len(releases) == 1, f"one release after a loss, got {releases}"
    assert not scene.log.of("renew", lost.at), "a renewal was sent after the loss"
    await scene.free_within(1.0)


@row(14)
async def server_killed_and_back(scene: Scene) -> None:
    server = await scene.own_server()
    driver = await scene.driver()
    grant = await scene.hold(driver, ttl=10)
    await scene.renewed(timeout=10)
    for _ in range(2):
        await server.kill()
        began = now()
        await server.start()
        assert now() - began <= 2.5, "the server took longer than L/4 to come back"
        await scene.renewed(timeout=10)
        assert (await scene.holds(driver))["token"] == grant.token
    assert not driver.all("lost")


@row(21)
async def revoked(scene: Scene) -> None:
    driver = await scene.driver()
    grant = await scene.hold(driver)
    await scene.renewed()
    key = f"{scene.kind}:{scene.name}"
    if scene.kind == "pool":
        key = (await scene.server.call("POST", "/v1/observe/pool", {"id": scene.name})).body["key"]
    revoked_at = now()
    answer = await scene.server.call("POST", "/v1/admin/revoke", {"key": key, "token": grant.token})
    assert answer.body == {"revoked": True}, answer
    lost = await driver.event("lost", "l", 5)
    assert lost.at - revoked_at <= 1.5, f"lost {lost.at - revoked_at:.2f} s after it was revoked"
    last = [record for record in scene.log.of("renew") if record.arrived <= lost.at][-1]
    reason = last.answer.get("ended") or last.answer.get("status") if last.status == 409 else None
    if reason:
        assert lost.cause == reason == "revoked", (lost.data, last.answer)
    await scene.is_lost(driver)
    await scene.free_within(2.0)


@row(21, kinds=("pool",))
async def pool_deleted(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.hold(driver)
    await scene.renewed()
    deleted_at = now()
    await scene.server.call("DELETE", f"/l/{scene.name}")
    lost = await driver.event("lost", "l", 5)
    assert lost.at - deleted_at <= 1.5 and lost.cause == "deleted", lost.data
    await scene.is_lost(driver)


@row(31)
async def idle_connection_reset(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.hold(driver)
    await scene.renewed()
    before = now()
    await scene.fault("idle-reset")
    await scene.renewed(timeout=5)
    reset = [record for record in scene.log.records if record.did == "idle-reset" and record.arrived >= before]
    for record in reset:
        again = next(r for r in scene.log.records if r.arrived > record.arrived and r.op == record.op)
        # A failed attempt would be followed by a backoff; this is the same attempt on another connection.
        assert again.connection != record.connection and again.arrived - record.arrived <= 0.1, "it was not repeated at once"
    untroubled(driver)
    await scene.fault("idle-reset")
    assert (await scene.release(driver)).result == "released"
    await scene.free_within(1.0)


@row(32)
async def release_reply_lost_twice(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.hold(driver)
    await scene.fault("hang", "renew", times=0)
    await scene.fault("cut-after", "release", times=2)

    def renewal_hangs(log: Log) -> bool:
        return any(record.did == "hang" for record in log.of("renew"))

    await scene.log.until(renewal_hangs, 5, "a renewal that hangs")
    released = await scene.release(driver)
    assert released.result == "released", released.data
    assert len(scene.log.of("release")) == 3
    await scene.well()
    await scene.free_within(1.0)
    until = now() + 6.0
    while now() < until:
        await scene.free_within(0.5)
        await asyncio.sleep(0.25)
    assert not scene.log.of("renew", released.at), "a renewal outlived its release"
    # It is idempotent.
    assert (await scene.release(driver)).result in ("released", "ended_before")


@row(33, kinds=("claim",))
async def callbacks_that_raise_or_block(scene: Scene) -> None:
    driver = await scene.driver()
    assert "callbacks" in driver.supports
    # A callback that blocks the only thread there is blocks everything; TypeScript says so.
    ways = ["raise"] if scene.is_typescript else ["raise", "block:10"]
    other = await scene.new_resource()
    await scene.hold(driver, "other", name=other)
    for way in ways:
        name = await scene.new_resource()
        grant = await scene.hold(driver, way, name=name, on_lost=way, on_at_risk=way)
        await scene.server.call("POST", "/v1/admin/revoke", {"key": f"claim:{name}", "token": grant.token})
        await driver.event("lost", way, 5)
    since = now()
    await scene.renewed(since, count=8, timeout=15)
    untroubled(driver, "other")
    await scene.holds(driver, "other")
