"""Rows about waiting: places kept over rounds, cuts and restarts."""

from __future__ import annotations

import asyncio
from typing import Callable

from proxy import Log
from rows_asking import acquisitions
from scene import Scene, row


def asked(scene: Scene, count: int) -> Callable[[Log], bool]:
    """So many calls came that wait."""
    op = "poll" if scene.kind == "claim" else "acquire"
    return lambda log: len(log.of(op)) >= count


def parked(scene: Scene, count: int) -> Callable[[Log], bool]:
    """So many calls wait at the server."""
    op = "poll" if scene.kind == "claim" else "acquire"
    return lambda log: sum(record.parked for record in log.of(op)) >= count


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
    if scene.kind == "claim":
        assert order == leases, f"claims keep their order over a restart, got {order}"
        assert not driver.all("place_lost")
    else:
        keeps = any("keep" in record.body or "keep=" in record.target for record in scene.log.records)
        if keeps:
            assert order == leases, f"a place that is kept survives a restart, got {order}"
        else:
            told = {event.lease for event in driver.all("place_lost")}
            assert told == set(leases), f"place_lost was told of {told} alone"
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
