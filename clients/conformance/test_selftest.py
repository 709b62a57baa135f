"""The harness can fail: clients that are broken on purpose are rejected, each in the row that is about it.

The flags are in the Python driver (`clients/python/tests/broken.py`). A row that accepts one of them is a defect of the harness.
"""

from __future__ import annotations

import asyncio

import pytest
from proxy import Proxy
from runner import cases, play
from server import BINARY, Server

BROKEN = [
    # The flag, the row and kind that must reject it, and what the harness says.
    ("deadline-from-the-answer", 12, "pool", "later than its answers allow"),
    ("no-margin", 9, "claim", ""),
    ("held-is-stored", 25, "lock", "'ok': True"),
    ("key-for-every-attempt", 1, "claim", ""),
    ("cancelled-and-forgotten", 18, "pool", "something is left held"),
    ("any-answer-counts", 7, "claim", ""),
    ("ids-in-the-log", 36, "pool", "in what the driver wrote"),
]


@pytest.fixture(scope="session")
def verdicts() -> dict[str, str]:
    assert BINARY.exists(), f"{BINARY} is missing: cargo build -p leasehold makes it"

    async def judge() -> dict[str, str]:
        server = await Server(memory=True).start()
        starting = asyncio.Semaphore(2)
        try:
            played = [
                play(next(c for c in cases(["python"], {row}) if c.kind == kind and c.row == row), server, starting, {"break": flag})
                for flag, row, kind, _ in BROKEN
            ]
            outcomes = await asyncio.gather(*played)
        finally:
            await server.stop()
        return {flag: outcome.failure for (flag, *_), outcome in zip(BROKEN, outcomes)}

    return asyncio.run(judge())


@pytest.mark.parametrize(("flag", "says"), [(flag, says) for flag, _, _, says in BROKEN], ids=[flag for flag, *_ in BROKEN])
def test_a_broken_client_is_rejected(flag: str, says: str, verdicts: dict[str, str]) -> None:
    assert verdicts[flag], f"the harness accepts a client that is broken by {flag}"
    assert says in verdicts[flag], f"{flag} was rejected for another reason:\n{verdicts[flag]}"


def test_the_control_port_refuses_what_it_does_not_know() -> None:
    async def ask() -> dict[str, object]:
        return await Proxy(("127.0.0.1", 1)).command({"do": "nonsense"})

    answer = asyncio.run(ask())
    assert answer["ok"] is False and "do: must be one of" in str(answer["error"])


def test_every_row_of_the_table_is_there() -> None:
    assert {case.row for case in cases(["python"])} == set(range(1, 37))
    assert len(set(cases(["python"]))) == len(cases(["python"]))
