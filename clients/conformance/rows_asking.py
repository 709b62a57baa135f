"""Rows about asking: lost and doubled answers, refusals, cancelling. One function a row; a function that returns has passed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

from proxy import Log, Record, now
from scene import Scene, row

# The C library's own, except that they hang while there is a file of this name.
SHIM = r"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static void hang(void) {
    const char *path = getenv("HANG_WHILE");
    while (path && access(path, F_OK) == 0) usleep(1000);
}
int fsync(int fd) { hang(); return (int) syscall(SYS_fsync, fd); }
int fdatasync(int fd) { hang(); return (int) syscall(SYS_fdatasync, fd); }
"""


def acquisitions(scene: Scene) -> list[Record]:
    return scene.log.of("acquire")


def same_name(records: list[Record]) -> bool:
    """All are one acquisition: the same key, or of a lock the same client; and the same bytes."""
    return len({(record.key, record.target, str(record.body)) for record in records}) == 1


async def one_grant(scene: Scene, fault: str, **more: object) -> None:
    """The answer to the acquisition is harmed; the client finds the lease that was granted, and only that."""
    driver = await scene.driver()
    await scene.fault(fault, "acquire", **more)
    grant = await scene.hold(driver)
    asked = acquisitions(scene)
    assert len(asked) >= 2 and same_name(asked), f"the same request should be sent again: {asked}"
    assert asked[0].answer["token"] == grant.token, f"not the lease that was granted first: {asked[0].answer}"
    await scene.holds(driver)
    assert len(driver.all("granted")) == 1
    assert (await scene.release(driver)).result == "released"
    await scene.free_within(1.0)


@row(1)
async def reply_to_the_acquisition_lost(scene: Scene) -> None:
    await one_grant(scene, "cut-after")


@row(2)
async def reply_truncated(scene: Scene) -> None:
    await one_grant(scene, "truncate", bytes=20)


@row(3)
async def acquisition_delivered_twice(scene: Scene) -> None:
    if scene.kind == "pool":
        # With one slot a second grant could not show.
        await scene.server.call("PUT", f"/l/{scene.name}", {"count": 2})
    driver = await scene.driver()
    await scene.fault("twice", "acquire", delay=0.3)
    await scene.hold(driver)
    await asyncio.sleep(0.6)
    await scene.holds(driver)
    if scene.kind == "pool":
        assert (await scene.server.call("GET", f"/l/{scene.name}")).body["in_use"] == 1
    if scene.kind == "claim":
        shown = await scene.server.call("GET", f"/v1/resources/{scene.name}")
        assert (shown.body["in_use"], shown.body["waiting"]) == (1, 0), shown
    assert (await scene.release(driver)).result == "released"
    await scene.free_within(1.0)


@row(4)
async def bad_gateway(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.fault("answer", "acquire", status=502, body={"error": "the store did not confirm in time"}, headers={"Leasehold-Position": "1.1"})
    await scene.hold(driver)
    assert len(acquisitions(scene)) == 2 and same_name(acquisitions(scene))
    await scene.release(driver)
    await scene.free_within(1.0)


@row(4, kinds=("pool",))
async def a_store_that_hangs(scene: Scene) -> None:
    from server import TARGET

    library = Path(TARGET) / "conformance-hang.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}.{id(scene)}")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", str(made), "-"], input=SHIM.encode(), check=True)
        made.rename(library)
    server = await scene.own_server("--store-timeout", "500ms")
    hangs = Path(server.directory.name) / "hangs"
    await server.kill()
    server.env = {"LD_PRELOAD": str(library), "HANG_WHILE": str(hangs)}
    await server.start()
    driver = await scene.driver()
    hangs.touch()
    await scene.begin(driver)
    await scene.log.until(lambda log: [r for r in log.of("acquire") if r.status == 502], 10, "a 502 of the server's own")
    hangs.unlink()
    await driver.event("granted", "l")
    assert same_name(acquisitions(scene))
    assert (await scene.server.call("GET", f"/l/{scene.name}")).body["in_use"] == 1
    await scene.release(driver)
    await scene.free_within(1.0)


@row(5)
async def service_unavailable_for_two_seconds(scene: Scene) -> None:
    driver = await scene.driver()
    headers = {"Leasehold-Position": "1.1", "Retry-After": "2"}
    await scene.fault("answer", "acquire", status=503, body={"error": "starting"}, headers=headers)
    await scene.hold(driver)
    first, second = acquisitions(scene)
    assert same_name([first, second])
    later = second.arrived - first.arrived
    assert 2.0 <= later <= 3.3, f"asked again after {later:.2f} s"


@row(18)
async def cancelled_a_hundred_times(scene: Scene) -> None:
    """Parked, at the grant, and with the reply lost: whatever was cancelled is free within six seconds. 34 times of each kind."""
    await scene.add_proxy()
    lossy = scene.proxies[1]
    await scene.fault("cut-after", "acquire", proxy=lossy, times=0, first=True)
    driver = await scene.driver(urls=[scene.proxies[0].url])
    await driver.ask("open", client="lossy", urls=[lossy.url], **scene.flags)

    async def once(number: int) -> None:
        how = ("parked", "at the grant", "reply lost")[number % 3]
        name = await scene.new_resource()
        lease = f"l{number}"
        holder = None if how == "reply lost" else scene.witness(name=name)
        if holder:
            assert await holder.take()
        await scene.begin(driver, lease, name=name, ttl=30, client="lossy" if how == "reply lost" else "c")

        def is_there(log: Log) -> bool:
            asked = [record for record in log.of("acquire") if record.resource == name]
            if scene.kind != "claim" or not holder:
                return bool(asked)
            claims = {record.answer.get("id") for record in asked}
            return any(record.resource in claims for record in log.of("poll"))

        await scene.log.until(is_there, 20, f"{how}: it asks")
        if how == "at the grant":
            assert holder
            await asyncio.gather(holder.give(), driver.ask("cancel", lease=lease))
        else:
            await driver.ask("cancel", lease=lease)
        cancelled = now()
        outcome = await _outcome(driver, lease)
        if outcome == "granted":
            await scene.release(driver, lease)
        if how == "parked":
            assert holder
            await holder.give()
        try:
            await scene.free_within(max(0.1, 6.0 - (now() - cancelled)), name=name)
        except AssertionError as error:
            raise AssertionError(f"{how}, {outcome}, {name[:17]}: {error}") from None

    # Some at a time: the harness shares its processor with what it measures.
    gate = asyncio.Semaphore(12)

    async def gated(number: int) -> None:
        async with gate:
            await once(number)

    await asyncio.gather(*(gated(number) for number in range(34)))


async def _outcome(driver: object, lease: str) -> str:
    from driver import Driver

    assert isinstance(driver, Driver)
    names = ("granted", "cancelled", "failed")
    waits = [asyncio.ensure_future(driver.event(name, lease)) for name in names]
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return done.pop().result().event


@row(19)
async def total_timeout(scene: Scene) -> None:
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver()
    began = now()
    await scene.begin(driver, timeout=3)
    failed = await driver.event("failed", "l", 10)
    assert failed.error == "Timeout", failed.data
    assert 2.8 <= failed.at - began <= 3.6, f"timed out after {failed.at - began:.2f} s"
    # The queue must be empty of it soon: settling takes at most 5 s.
    await holder.give()
    await scene.free_within(5.0)


@row(19)
async def asked_once(scene: Scene) -> None:
    holder = scene.witness()
    assert await holder.take()
    driver = await scene.driver()
    began = now()
    await scene.begin(driver, timeout=0)
    failed = await driver.event("failed", "l", 10)
    assert failed.error == "Conflict", failed.data
    assert failed.at - began <= 1.5, f"answered after {failed.at - began:.2f} s"
    await holder.give()
    await scene.free_within(1.0)


@row(22, kinds=("claim", "pool"))
async def ended_unheard(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.fault("cut-after", "acquire", delay=3.5)
    grant = await scene.hold(driver)
    asked = acquisitions(scene)
    keys = [record.key for record in asked]
    assert 410 in [record.status for record in asked], f"the same name should be asked for first: {asked}"
    assert len(set(keys)) == 2 and keys[0] == keys[1] != keys[-1], keys
    assert grant.token > asked[0].answer["token"]
    assert driver.all("place_lost", "l")
    await scene.holds(driver)
    await scene.release(driver)
    await scene.free_within(1.0)


@row(35)
async def late_copy_after_the_release(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.fault("twice", "acquire", delay=1.5)
    await scene.hold(driver, ttl=20)
    assert (await scene.release(driver)).result == "released"
    await asyncio.sleep(2.0)
    await scene.free_within(1.0)
