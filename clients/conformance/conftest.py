"""Which clients and rows are played, and how the table is run: all cases at once, then one test each tells the outcome."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from driver import DRIVERS  # noqa: E402
from runner import Case, Outcome, cases, play_all  # noqa: E402
from server import BINARY, ROOT  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--client", action="append", help="a client of drivers.toml, several times for several; all that there are")
    parser.addoption("--rows", help="numbers of rows, with commas; all")
    parser.addoption("--jobs", type=int, default=40, help="how many cases are played at a time")


def clients_of(config: pytest.Config) -> list[str]:
    named = config.getoption("--client")
    if named:
        unknown = set(named) - set(DRIVERS)
        if unknown:
            raise pytest.UsageError(f"--client: must be one of {', '.join(DRIVERS)}, got {', '.join(unknown)}")
        return list(named)
    there = [name for name, driver in DRIVERS.items() if (ROOT / driver["source"]).is_dir()]
    for name in there:
        for file in DRIVERS[name]["needs"]:
            if not (ROOT / file).exists():
                raise pytest.UsageError(f"{name} has no driver: {file} is missing, {DRIVERS[name]['built_by']} makes it")
    return there


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        rows = metafunc.config.getoption("--rows")
        numbers = {int(number) for number in rows.split(",")} if rows else None
        metafunc.parametrize("case", cases(clients_of(metafunc.config), numbers), ids=str)


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> dict[Case, Outcome]:
    assert BINARY.exists(), f"{BINARY} is missing: cargo build -p leasehold makes it"
    wanted = [item.callspec.params["case"] for item in request.session.items if hasattr(item, "callspec") and "case" in item.callspec.params]
    began = time.monotonic()
    played = asyncio.run(play_all(wanted, request.config.getoption("--jobs")))
    request.config.stash[FIGURES] = (played, time.monotonic() - began)
    return played


FIGURES = pytest.StashKey[tuple[dict[Case, Outcome], float]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if FIGURES not in config.stash:
        return
    played, seconds = config.stash[FIGURES]
    for client in sorted({case.client for case in played}):
        mine = {case: outcome for case, outcome in played.items() if case.client == client}
        good = sum(not outcome.failure for outcome in mine.values())
        terminalreporter.write_line(
            f"conformance: {client}, {len({case.row for case in mine})} rows, {good} of {len(mine)} cases, "
            f"{sum(o.calls for o in mine.values())} calls, {sum(o.faults for o in mine.values())} faults, "
            f"{sum(o.played_again for o in mine.values())} played again, {seconds:.0f} s"
        )
