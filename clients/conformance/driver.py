"""The runner's end of a driver: a process that speaks PROTOCOL.md, with its events kept and its clock calibrated."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy import now
from server import ROOT, TARGET

DRIVERS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "drivers.toml").read_text())
PATIENCE_S = 30.0


def command_of(client: str) -> list[str]:
    return [part.format(python=sys.executable, target=TARGET) for part in DRIVERS[client]["command"]]


@dataclass
class Event:
    """A report of a driver; `at` and `deadline` are on the runner's clock."""

    event: str
    at: float
    lease: str
    data: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"{self.event} has no {name}: {self.data}") from None


class Driver:
    def __init__(self, client: str, env: dict[str, str] | None = None) -> None:
        self.client = client
        self.env = env or {}
        self.events: list[Event] = []
        self.output: list[str] = []
        self.supports: set[str] = set()
        self.ended_at: float | None = None
        self.calibration = 0.0
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def start(self) -> Driver:
        self.process = await asyncio.create_subprocess_exec(
            *command_of(self.client), cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, limit=1 << 20,
            env={**{k: v for k, v in os.environ.items() if not k.startswith("LEASEHOLD_")}, **self.env},
        )
        self._tasks = [asyncio.create_task(self._read_stdout()), asyncio.create_task(self._read_stderr())]
        hello = await self.event("hello", timeout=PATIENCE_S)
        self.supports = set(hello.supports)
        # The tightest of a few exchanges tells how the driver's clock differs from ours.
        best: tuple[float, float] | None = None
        for _ in range(5):
            sent = now()
            reply = await self.op("time", raw=True)
            heard = now()
            if best is None or heard - sent < best[0]:
                best = (heard - sent, (sent + heard) / 2 - reply["at"])
        assert best
        # Within what an exchange can tell the clocks are one.
        self.calibration = best[1] if abs(best[1]) > best[0] / 2 + 0.001 else 0.0
        return self

    async def op(self, op: str, *, raw: bool = False, wait: bool = True, **members: Any) -> dict[str, Any]:
        number = next(self._ids)
        future = self._replies[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"op": op, "id": number, **members})
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")
        if not wait:
            return {}
        reply = await asyncio.wait_for(future, PATIENCE_S)
        return reply if raw else self._translated(reply)

    async def ask(self, op: str, **members: Any) -> dict[str, Any]:
        """A command that has to succeed."""
        reply = await self.op(op, **members)
        assert reply["ok"], f"{op} {members} was answered {reply}"
        return reply

    async def event(self, name: str, lease: str | None = None, timeout: float = PATIENCE_S, nth: int = 1) -> Event:
        """The nth event of that name, now or later."""
        deadline = now() + timeout
        while True:
            found = self.all(name, lease)
            if len(found) >= nth:
                return found[nth - 1]
            left = deadline - now()
            if left <= 0 or (self.ended_at is not None and not self._tasks_run()):
                told = [(event.event, event.data) for event in self.events[-8:]]
                raise AssertionError(f"{self.client}: no {name} of {lease} within {timeout} s; last events {told}; stderr {''.join(self.output)[-1500:]}")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    def all(self, name: str, lease: str | None = None) -> list[Event]:
        return [event for event in self.events if event.event == name and lease in (None, event.lease)]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    async def quit(self) -> int:
        """Ends the driver as a program ends; its exit code."""
        if self.process.returncode is None:
            with contextlib.suppress(ConnectionError):
                await self.op("quit", wait=False)
                assert self.process.stdin
                self.process.stdin.close()
            try:
                await asyncio.wait_for(self.process.wait(), 10)
            except asyncio.TimeoutError:
                await self.kill()
                raise AssertionError(f"{self.client}: the driver did not end within 10 s of quit; stderr {''.join(self.output)[-1500:]}") from None
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.process.returncode or 0

    async def kill(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            await self.process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _tasks_run(self) -> bool:
        return any(not task.done() for task in self._tasks)

    def _translated(self, data: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value + self.calibration if name in ("at", "deadline", "began") and isinstance(value, (int, float)) else value
            for name, value in data.items()
        }

    async def _read_stdout(self) -> None:
        assert self.process.stdout
        async for line in self.process.stdout:
            text = line.decode(errors="replace")
            self.output.append(text)
            try:
                data = json.loads(text)
            except ValueError:
                continue
            if "reply" in data:
                future = self._replies.pop(data["reply"], None)
                if future and not future.done():
                    future.set_result(data)
            elif "event" in data:
                data = self._translated(data)
                self.events.append(Event(data["event"], data["at"], data.get("lease", ""), data))
            self._tell()
        self.ended_at = now()
        for future in self._replies.values():
            if not future.done():
                future.set_exception(AssertionError(f"{self.client}: the driver ended; stderr {''.join(self.output)[-1500:]}"))
                future.exception()
        self._tell()

    async def _read_stderr(self) -> None:
        assert self.process.stderr
        async for line in self.process.stderr:
            self.output.append(line.decode(errors="replace"))

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
