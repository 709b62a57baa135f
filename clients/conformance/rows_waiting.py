"""Rows about waiting: places kept over rounds, cuts and restarts."""

from __future__ import annotations

import asyncio
from typing import Callable

from proxy import Log
from rows_asking import acquisitions
from scene import Scene, duration, row


def asked(scene: Scene, count: int) -> Callable[[Log], bool]:
    """So many calls came that wait."""
    op = "poll" if scene.kind == "claim" else "acquire"
    return lambda log: len(log.of(op)) >= count


def parked(scene: Scene, count: int) -> Callable[[Log], bool]:
    """So many calls wait at the server."""
    op = "poll" if scene.kind == "claim" else "acquire"
    return lambda log: sum(record.parked for record in log.of(op)) >= count


def keep_of(target: str) -> float:
    """`keep` of a lock's call."""
    return next((duration(value) for name, _, value in (part.partition("=") for part in target.split("&")) if name == "keep"), 0.0)


@row(15)
async def server_killed_while_three_wait(scene: Scene) -> None:
    server = await scene.own_server()
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver()
    leases = ["first", "second", "third"]
    for number, lease in enumerate(leases, 1):
        await scene.begin(driver, lease, ttl=10)
        await scene.log.until(parked(scene, number), 10, f"{lease} waits")
        await asyncio.sleep(0.2)
    await server.kill()
    await server.start()
    await scene.log.until(parked(scene, 3), 15, "all three wait again")
    await asyncio.sleep(1.0)
    await holder.give()
    order: list[str] = []
    for _ in leases:
        while not (new := [e for e in driver.all("granted") if e.lease not in order]):
            await driver.event("granted", timeout=20, nth=len(order) + 1)
        order.append(new[0].lease)
        await scene.release(driver, new[0].lease)
    # Claims stand in their queue by themselves; places of pools and locks are kept (`keep`), as the client is back soon enough.
    assert order == leases, f"places keep their order over a restart, got {order}"
    assert not driver.all("place_lost"), "no place was lost"
    await scene.free_within(1.0)


@row(16)
async def four_rounds_in_order(scene: Scene) -> None:
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver(round=5)
    await scene.begin(driver)
    await scene.log.until(parked(scene, 1), 10, "it waits")
    await asyncio.sleep(0.3)
    # It asks second, so it must be granted second.
    second = scene.witness(ttl=60).want()
    await scene.log.until(asked(scene, 4), 40, "four rounds")
    await asyncio.sleep(2.5)
    await holder.give()
    grant = await driver.event("granted", "l", 10)
    assert second.granted_at is None, "the witness asked later and was granted first"
    assert not driver.all("place_lost")
    await scene.release(driver)
    assert await second.has_it(5) > grant.at
    await second.give()


@row(17)
async def poll_cut_in_mid_round(scene: Scene) -> None:
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver()
    await scene.fault("cut-after", "poll" if scene.kind == "claim" else "acquire", seconds=0.7)
    await scene.begin(driver)
    await scene.log.until(asked(scene, 2), 15, "it asks again")
    await scene.log.until(parked(scene, 1), 15, "it waits again")
    await asyncio.sleep(0.3)
    await holder.give()
    await driver.event("granted", "l", 10)
    await scene.holds(driver)
    assert len(driver.all("granted")) == 1
    await scene.release(driver)
    await scene.free_within(1.0)


@row(17)
async def poll_cut_at_the_grant(scene: Scene) -> None:
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver()
    await scene.fault("cut-after", "poll" if scene.kind == "claim" else "acquire")
    await scene.begin(driver)
    await scene.log.until(parked(scene, 1), 15, "it waits")
    await asyncio.sleep(0.3)
    await holder.give()
    grant = await driver.event("granted", "l", 10)
    cut = [record for record in scene.log.records if record.did == "cut-after"][0]
    assert cut.answer["token"] == grant.token, "another lease than the one that was granted unheard"
    assert len(driver.all("granted")) == 1
    await scene.release(driver)
    await scene.free_within(1.0)


@row(20, kinds=("claim",))
async def active_before_the_poll_comes(scene: Scene) -> None:
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver()
    await scene.fault("delay", "poll", seconds=2.0, side="call")
    await scene.begin(driver, ttl=10)
    poll = (await scene.log.until(lambda log: log.of("poll"), 10, "a poll"))[0]
    await asyncio.sleep(1.0)
    await holder.give()
    grant = await driver.event("granted", "l", 10)
    assert grant.at - (poll.arrived + 2.0) <= 1.0, f"heard {grant.at - poll.arrived - 2.0:.2f} s after the poll came"
    await scene.release(driver)
    assert acquisitions(scene)[0].answer["status"] == "waiting"


@row(15, kinds=("lock", "pool"))
async def away_for_longer_than_a_place_is_kept(scene: Scene) -> None:
    """The service lives on and the client cannot reach it: its place goes to those behind it, and the client says so."""
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver()
    await scene.begin(driver)
    await scene.log.until(parked(scene, 1), 10, "it waits")
    kept = max(record.body.get("keep", 0) or keep_of(record.target) for record in acquisitions(scene))
    assert 5 <= kept <= 60, f"a place is kept for {kept} s"
    second = scene.witness().want()
    await scene.fault("refuse")
    await asyncio.sleep(kept + 3)
    await holder.give()
    await second.has_it(10)
    await scene.well()
    await driver.event("place_lost", "l", 20)
    await scene.log.until(parked(scene, 1), 20, "it waits again")
    await second.give()
    await driver.event("granted", "l", 10)
    assert len(driver.all("place_lost")) == 1
    await scene.release(driver)
    await scene.free_within(1.0)
