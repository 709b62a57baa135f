"""The asynchronous client: scopes, cancellation in all its places, a loss that ends the body."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Awaitable, Callable, List

import pytest
from conftest import Server

import leasehold
from leasehold import AsyncClient


def run(server: Server, story: Callable[[AsyncClient], Awaitable[Any]]) -> None:
    async def play() -> None:
        async with AsyncClient(server.url, name="tester") as client:
            await story(client)

    asyncio.run(play())


def test_scopes(server: Server, name: str, pool: str) -> None:
    async def story(client: AsyncClient) -> None:
        async with client.claim(name, timeout=600) as claim, client.pool(pool).borrow(ttl=60, wait=30) as slot:
            assert claim.held and claim.token and slot.position == 0
            assert await client.claim(name).locked()
            assert await client.claim(name).acquire(blocking=False) is None
            with pytest.raises(leasehold.Timeout):
                async with client.claim(name, timeout=0.2):
                    raise AssertionError("unreachable")
        assert not await client.claim(name).locked()
        assert (await client.pool(pool).show())["in_use"] == 0

    run(server, story)


def test_a_loss_cancels_the_body(server: Server, name: str) -> None:
    async def story(client: AsyncClient) -> None:
        told: List[str] = []

        async def on_lost(_: Any, loss: leasehold.LeaseLost) -> None:
            told.append(loss.cause)

        began = time.monotonic()
        with pytest.raises(leasehold.LeaseLost) as lost:
            async with client.lock(name, ttl=1.5, on_lost=on_lost) as lease:
                await asyncio.to_thread(server.revoke, f"lock:{name}", lease.token)
                await asyncio.sleep(30)
        assert time.monotonic() - began < 5 and lost.value.token == lease._state.token
        assert told and lease.lost.is_set()
        # The interruption is used up.
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None and (not hasattr(task, "cancelling") or task.cancelling() == 0)

    run(server, story)


def test_a_cancelled_body_stays_cancelled(server: Server, name: str) -> None:
    async def story(client: AsyncClient) -> None:
        inside = asyncio.Event()

        async def body() -> None:
            async with client.lock(name):
                inside.set()
                await asyncio.sleep(30)

        task = asyncio.ensure_future(body())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.lock_is_free, name)

    run(server, story)


def test_cancelled_at_every_moment(server: Server, name: str) -> None:
    """Whenever the task is cancelled, nothing is left held."""

    async def story(client: AsyncClient) -> None:
        for number in range(60):

            async def body(resource: str) -> None:
                async with client.claim(resource, ttl=60):
                    await asyncio.sleep(0.002)

            resource = f"{name}-{number}"
            task = asyncio.ensure_future(body(resource))
            await asyncio.sleep(number * 0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(server, story)
    # Closing the client has waited for what was being settled.
    for number in range(60):
        status, body = server.call("GET", f"/v1/resources/{name}-{number}")
        assert status == 404 or (body["in_use"], body["waiting"]) == (0, 0), (number, body)


def test_waiting_is_cancelled_with_its_task(server: Server, name: str) -> None:
    async def story(client: AsyncClient) -> None:
        async with client.claim(name):
            waiting = asyncio.ensure_future(client.claim(name).acquire())
            await asyncio.sleep(0.3)
            waiting.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert time.monotonic() - began < 0.5, "the caller returns at once"

    run(server, story)
    assert server.call("GET", f"/v1/resources/{name}")[0] == 404


def test_guarded_coroutines(server: Server, name: str) -> None:
    async def story(client: AsyncClient) -> None:
        @client.lock(name, timeout=0).guard(skip=True)
        async def nightly() -> str:
            return "done"

        assert await nightly() == "done"
        async with client.lock(name):
            assert await nightly() is None

    run(server, story)


def test_the_body_keeps_its_own_exception(server: Server, name: str) -> None:
    async def story(client: AsyncClient) -> None:
        with pytest.raises(KeyError):
            async with client.lock(name, ttl=1.5) as lease:
                await asyncio.to_thread(server.revoke, f"lock:{name}", lease.token)
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    raise KeyError("its own") from None

    run(server, story)
