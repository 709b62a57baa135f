"""Plays cases, many at a time: rows mostly wait, so a whole table takes about as long as its longest row."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass
from typing import Any

import rows_asking  # noqa: F401  (each module adds its rows)
import rows_holding  # noqa: F401
import rows_hosts  # noqa: F401
import rows_waiting  # noqa: F401
from driver import DRIVERS
from scene import ROWS, Row, Scene, Verdict
from server import Server

# The long ones begin first.
LONGEST = (12, 16, 36, 32, 15, 14, 23)
# These keep the processor busy, so they are played when the rows that measure time are over.
BUSY = (18, 34)
BUSY_AT_A_TIME = 2
LIMIT_S = 150.0


@dataclass(frozen=True)
class Case:
    client: str
    row: int
    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.client}-{self.row:02}-{self.name}-{self.kind}"


@dataclass
class Outcome:
    failure: str = ""
    #: A promise was broken, which no busy machine excuses.
    is_final: bool = False
    played_again: bool = False
    calls: int = 0
    faults: int = 0
    events: int = 0


def cases(clients: list[str], numbers: set[int] | None = None) -> list[Case]:
    return [
        Case(client, row.number, row.name, kind)
        for client in clients
        for row in sorted(ROWS, key=lambda row: row.number)
        for kind in row.kinds
        if row.number in (numbers or DRIVERS[client].get("rows") or {row.number})
    ]


async def play_all(wanted: list[Case], jobs: int, flags: dict[str, Any] | None = None) -> dict[Case, Outcome]:
    """Every case against one server that they share, each with resources of its own."""
    # In memory: rows that measure time shall not measure the disk. Those that kill a server have a durable one of their own.
    server = await Server(memory=True).start()
    gate = asyncio.Semaphore(jobs)
    # Drivers start one after the other: starting is what takes the processor away from rows that measure time.
    starting = asyncio.Semaphore(2)
    outcomes: dict[Case, Outcome] = {}

    async def gated(case: Case) -> None:
        async with gate:
            outcomes[case] = await play(case, server, starting, flags)

    rank = {number: place for place, number in enumerate(LONGEST)}
    ranked = sorted(wanted, key=lambda case: rank.get(case.row, 99))
    try:
        await asyncio.gather(*(gated(case) for case in ranked if case.row not in BUSY))
        gate = asyncio.Semaphore(BUSY_AT_A_TIME)
        await asyncio.gather(*(gated(case) for case in ranked if case.row in BUSY))
        # Rows measure tenths of a second, and the machine may be busy with something else: a row that failed is played once more,
        # with nothing beside it. A broken promise is final.
        for case in [case for case, outcome in outcomes.items() if outcome.failure and not outcome.is_final and flags is None]:
            outcomes[case] = await play(case, server, starting, flags)
            outcomes[case].played_again = True
    finally:
        await server.stop()
    return outcomes


async def play(case: Case, server: Server, starting: asyncio.Semaphore, flags: dict[str, Any] | None) -> Outcome:
    row: Row = next(row for row in ROWS if row.number == case.row and row.name == case.name)
    scene = Scene(case.client, case.kind, server, flags)
    scene.starting = starting
    outcome = Outcome()
    try:
        await scene.start()
        limit = LIMIT_S + (rows_hosts.row_34_seconds() if case.row == 34 else 0)
        await asyncio.wait_for(row.play(scene), limit)
    except (Exception, asyncio.CancelledError) as error:
        outcome.failure, outcome.is_final = traceback.format_exc(), isinstance(error, Verdict)
    try:
        await scene.finish(failed=bool(outcome.failure))
    except (Exception, asyncio.CancelledError) as error:
        outcome.failure += traceback.format_exc()
        outcome.is_final = outcome.is_final or isinstance(error, Verdict)
    if outcome.failure:
        outcome.failure += scene.story()
    outcome.calls = len(scene.log.records)
    outcome.faults = sum(record.did != "forward" for record in scene.log.records)
    outcome.events = sum(len(driver.events) for driver in scene.drivers)
    return outcome
