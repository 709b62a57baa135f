"""A scene: one row of the table played for one client and one kind of lease, with its proxies, drivers and witness, and the judge.

The judge looks at every scene when its row is over, whatever the row was about: never two holders by the clients' own logs, no deadline
later than the runner's own arithmetic allows, no id or credential in anything a driver wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from dataclasses import dataclass
from typing import Any, Awaitable, Callable
from urllib.parse import quote

from driver import Driver, Event
from http1 import Answer
from proxy import Log, Proxy, Record, now
from server import Server

KINDS = ("lock", "claim", "pool")
_numbers = itertools.count(1)

# The difference that the clock of a driver can have from ours after calibration.
CLOCK_TOLERANCE_S = 0.005


def margin(length: float) -> float:
    return max(length / 50, 0.05)


def at_risk_before(length: float) -> float:
    return min(10.0, length / 3)


def attempt(length: float) -> float:
    return min(max(length / 10, 0.25), 5.0)


class Verdict(AssertionError):
    """A promise was broken: two holders, a deadline that is too late, a secret shown. No second chance."""


@dataclass
class Held:
    """A time in which a client says that it holds the resource."""

    who: str
    resource: tuple[str, str]
    token: int
    since: float
    until: float


class Witness:
    """Wants the same resource, straight from the server. It is what must never hold at the same time."""

    def __init__(self, scene: Scene, kind: str, name: str, ttl: float = 60.0) -> None:
        self.scene, self.kind, self.name, self.ttl = scene, kind, name, ttl
        self.who = f"witness-{next(_numbers)}"
        self.granted_at: float | None = None
        self.token = 0
        self._id = ""
        self._key = uuid.uuid4().hex
        self._task: asyncio.Task[None] | None = None

    async def take(self, wait: float = 0.0) -> bool:
        """Asks once, waiting at most `wait` seconds; true when it holds."""
        answer = await self._ask(wait)
        heard = now()
        granted = answer.status in (200, 201) and answer.body.get("status", "active") == "active"
        if granted:
            self.granted_at, self.token = heard, answer.body["token"]
            self._id = str(answer.body.get("lease") or answer.body.get("id") or self.who)
            self._held = Held(self.who, (self.kind, self.name), self.token, heard, float("inf"))
            self.scene.intervals.append(self._held)
        elif self.kind == "claim" and answer.status == 202:
            await self.scene.server.call("PATCH", f"/v1/claims/{answer.body['id']}/", {"status": "withdrawn"})
        return granted

    def want(self, wait: float = 120.0) -> Witness:
        """Waits in the background until it has it."""

        async def take() -> None:
            # A server that is killed in the row ends the wait; the witness asks again.
            while True:
                with contextlib.suppress(OSError, Exception):
                    if await self.take(wait):
                        return
                await asyncio.sleep(0.05)

        self._task = asyncio.create_task(take())
        return self

    async def has_it(self, timeout: float) -> float:
        """When it got it."""
        assert self._task
        try:
            await asyncio.wait_for(asyncio.shield(self._task), timeout)
        except asyncio.TimeoutError:
            raise AssertionError(f"the witness did not get the {self.kind} within {timeout} s: something is left held") from None
        assert self.granted_at is not None
        return self.granted_at

    async def give(self) -> None:
        self._held.until = now()
        if self.kind == "lock":
            answer = await self.scene.server.call("DELETE", f"/lock?job={quote(self.name)}&client={self.who}")
        elif self.kind == "claim":
            answer = await self.scene.server.call("PATCH", f"/v1/claims/{self._id}/", {"status": "released"})
        else:
            answer = await self.scene.server.call("POST", f"/l/{self.name}/return", {"lease": self._id})
        assert answer.status in (200, 204), f"the witness could not give back: {answer}"

    async def stop(self) -> None:
        if self._task and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _ask(self, wait: float) -> Answer:
        call = self.scene.server.call
        if self.kind == "lock":
            return await call("POST", f"/lock?job={quote(self.name)}&client={self.who}&ttl={self.ttl}s&wait={wait}s")
        if self.kind == "pool":
            return await call("POST", f"/l/{self.name}/borrow", {"ttl": self.ttl, "wait": wait})
        query = f"?wait={wait}" if wait else ""
        return await call("POST", f"/v1/claims/{query}", {"resource": self.name, "timeout": self.ttl})


class Scene:
    def __init__(self, client: str, kind: str, server: Server, flags: dict[str, Any] | None = None) -> None:
        self.client, self.kind, self.server = client, kind, server
        self.flags = flags or {}
        self.log = Log()
        self.proxies: list[Proxy] = []
        self.drivers: list[Driver] = []
        self.intervals: list[Held] = []
        self.credentials: set[str] = set()
        self.name = ""
        self._leases: dict[tuple[int, str], tuple[str, str]] = {}
        self._checks: list[tuple[Driver, str, float, float]] = []
        self._witnesses: list[Witness] = []
        self._servers: list[Server] = []
        self._began = now()
        self.starting = asyncio.Semaphore(1)

    @property
    def proxy(self) -> Proxy:
        return self.proxies[0]

    @property
    def is_typescript(self) -> bool:
        return self.client.startswith("typescript")

    async def start(self) -> Scene:
        await self.add_proxy()
        self.name = await self.new_resource()
        return self

    async def own_server(self, *args: str, **options: Any) -> Server:
        """A server that the row may kill, instead of the one that all rows share."""
        self.server = await self.another_server(*args, **options)
        for proxy in self.proxies:
            proxy.upstream = self.server.address
        self.name = await self.new_resource()
        return self.server

    async def another_server(self, *args: str, **options: Any) -> Server:
        server = Server(*args, **options)
        self._servers.append(server)
        return await server.start()

    async def add_proxy(self, server: Server | None = None) -> Proxy:
        proxy = Proxy((server or self.server).address, self.log, f"proxy-{len(self.proxies) + 1}")
        self.proxies.append(await proxy.start())
        return proxy

    async def new_resource(self, kind: str | None = None) -> str:
        kind = kind or self.kind
        if kind != "pool":
            return f"{kind}-{uuid.uuid4().hex[:12]}"
        name = str(uuid.uuid4())
        answer = await self.server.call("PUT", f"/l/{name}", {"count": 1}, self.operator_headers)
        assert answer.status == 200, answer
        return name

    operator_headers: dict[str, str] = {}

    async def fault(self, do: str, op: str = "any", *, proxy: Proxy | None = None, **more: Any) -> None:
        answer = await (proxy or self.proxy).command({"do": do, "op": op, **more})
        assert answer["ok"], answer

    async def well(self) -> None:
        for proxy in self.proxies:
            await proxy.command({"do": "well"})

    async def bare_driver(self, env: dict[str, str] | None = None) -> Driver:
        driver = Driver(self.client, env)
        async with self.starting:
            await driver.start()
        self.drivers.append(driver)
        return driver

    async def driver(self, *, env: dict[str, str] | None = None, started: Driver | None = None, **options: Any) -> Driver:
        """A driver with a client `c` that goes through the proxies."""
        driver = started or await self.bare_driver(env)
        urls = [proxy.url for proxy in self.proxies]
        await driver.ask("open", client="c", **{"urls": urls, **self.flags, **options})
        return driver

    async def begin(self, driver: Driver, lease: str = "l", *, kind: str | None = None, name: str | None = None, **options: Any) -> None:
        """Begins to acquire."""
        kind, name = kind or self.kind, name or self.name
        self._leases[(id(driver), lease)] = (kind, name)
        await driver.ask("acquire", **{"client": "c", "lease": lease, "kind": kind, "name": name, "ttl": 3, "timeout": None, **options})

    async def hold(self, driver: Driver, lease: str = "l", *, within: float = 30.0, **options: Any) -> Event:
        """Acquires; the grant."""
        await self.begin(driver, lease, **options)
        return await driver.event("granted", lease, within)

    async def check(self, driver: Driver, lease: str = "l") -> dict[str, Any]:
        reply = await driver.op("check", lease=lease)
        if reply.get("ok") and "deadline" in reply:
            self._checks.append((driver, lease, reply["at"], reply["deadline"]))
        return reply

    async def holds(self, driver: Driver, lease: str = "l") -> dict[str, Any]:
        reply = await self.check(driver, lease)
        assert reply["ok"], f"the lease should be held: {reply}"
        return reply

    async def is_lost(self, driver: Driver, lease: str = "l") -> dict[str, Any]:
        reply = await self.check(driver, lease)
        assert not reply["ok"] and reply["error"] == "LeaseLost", f"the lease should be lost: {reply}"
        return reply

    async def release(self, driver: Driver, lease: str = "l") -> Event:
        before = len(driver.all("released", lease))
        await driver.ask("release", lease=lease)
        return await driver.event("released", lease, nth=before + 1)

    def witness(self, kind: str | None = None, name: str | None = None, **options: Any) -> Witness:
        witness = Witness(self, kind or self.kind, name or self.name, **options)
        self._witnesses.append(witness)
        return witness

    async def free_within(self, seconds: float, kind: str | None = None, name: str | None = None) -> None:
        """Nothing is left: a witness gets it that soon, and gives it back."""
        witness = self.witness(kind, name).want()
        await witness.has_it(seconds)
        await witness.give()

    async def renewed(self, since: float | None = None, timeout: float = 20.0, count: int = 1) -> Record:
        """The `count`th renewal that arrived after `since` (now) and was answered well."""
        since = now() if since is None else since

        def found(log: Log) -> Record | None:
            records = [r for r in log.of("renew", since) if r.granted and r.delivered]
            return records[count - 1] if len(records) >= count else None

        record: Record = await self.log.until(found, timeout, "a renewal that is answered")
        return record

    def deadline(self, kind: str, name: str, token: int, at: float) -> tuple[float, float] | None:
        """The latest deadline that the answers delivered before `at` allow, and L: arrival + L − margin, as a client's `s` was earlier."""
        best: tuple[float, float] | None = None
        for record in self.log.records:
            if not record.granted or record.delivered is None or record.delivered > at + 0.05 or record.answer.get("token") != token:
                continue
            resource = record.answer.get("resource") if record.kind == "claim" else record.resource
            if record.kind != kind or resource != name:
                continue
            length = self.length(record)
            waited = float(record.answer.get("waited_s") or 0.0)
            latest = record.arrived + waited + length - margin(length)
            if best is None or latest > best[0]:
                best = (latest, length)
        return best

    @staticmethod
    def length(record: Record) -> float:
        for member in ("expires_in", "ttl"):
            if isinstance(record.answer.get(member), (int, float)):
                return float(record.answer[member])
        text = next(part[4:] for part in record.target.replace("?", "&").split("&") if part.startswith("ttl="))
        return duration(text)

    async def finish(self, *, failed: bool) -> None:
        """Ends everything, and judges; of a row that has failed by itself, broken promises alone."""
        try:
            self._settle_intervals()
            try:
                self.judge()
            except AssertionError as error:
                if not failed or isinstance(error, Verdict):
                    raise
            codes = [await driver.quit() if not failed else await driver.kill() for driver in self.drivers if driver.process.returncode is None]
            if not failed:
                assert not any(codes), f"a driver ended with {codes}"
                self.judge_output()
        finally:
            for driver in self.drivers:
                await driver.kill()
            for witness in self._witnesses:
                await witness.stop()
            for proxy in self.proxies:
                await proxy.stop()
            for server in self._servers:
                await server.stop()

    def _settle_intervals(self) -> None:
        over = now()
        for driver in self.drivers:
            for grant in driver.all("granted"):
                kind, name = self._leases[(id(driver), grant.lease)]
                ends = [over if driver.ended_at is None else driver.ended_at]
                ends += [event.at for event in driver.all("lost", grant.lease)]
                ends += [event.began for event in driver.all("released", grant.lease)]
                if (bound := self.deadline(kind, name, grant.token, over)) is not None:
                    ends.append(bound[0])
                self.intervals.append(Held(f"{self.client} {grant.lease}", (kind, name), grant.token, grant.at, min(ends)))

    def judge(self) -> None:
        by_resource: dict[tuple[str, str], list[Held]] = {}
        for held in self.intervals:
            by_resource.setdefault(held.resource, []).append(held)
        for (kind, _), all_held in by_resource.items():
            all_held.sort(key=lambda held: held.since)
            for first, second in itertools.combinations(all_held, 2):
                overlap = min(first.until, second.until) - max(first.since, second.since)
                if overlap > CLOCK_TOLERANCE_S:
                    raise Verdict(f"two holders of one {kind} for {overlap:.3f} s: {first} and {second}")
                if first.token >= second.token:
                    raise Verdict(f"the token did not rise: {first} and {second}")
        told = [(driver, e.lease, e.at, e.deadline) for driver in self.drivers for e in driver.events if e.data.get("deadline") is not None]
        for driver, lease, at, deadline in told + self._checks:
            kind, name = self._leases[(id(driver), lease)]
            token = driver.all("granted", lease)[0].token
            bound = self.deadline(kind, name, token, at)
            assert bound is not None, f"{lease} has a deadline, and no answer gave it one"
            late = deadline - bound[0]
            if late > CLOCK_TOLERANCE_S:
                raise Verdict(f"the deadline of {lease} is {late:.3f} s later than its answers allow")

    def story(self) -> str:
        """The events, for the reader of a failure."""
        lines = [(r.arrived, f"{r.proxy} {r.op} {r.method} {r.resource[:13]} {r.did} -> {r.status} {'delivered' if r.delivered else 'not delivered'}") for r in self.log.records]
        lines += [(e.at, f"event {e.event} {e.lease} " + ", ".join(f"{k}={v}" for k, v in e.data.items() if k not in ("event", "at", "lease")))
                  for driver in self.drivers for e in driver.events]
        lines += [(held.since, f"{held.who} holds") for held in self.intervals]
        lines.sort(key=lambda line: line[0])
        told = "\n".join(f"  {at - self._began:8.3f} {text}" for at, text in lines[-60:])
        errors = "".join(line for driver in self.drivers for line in driver.output if not line.startswith("{"))
        return f"\nwhat happened:\n{told}\nstderr of the driver:\n{errors[-2500:]}"

    def judge_output(self) -> None:
        for driver in self.drivers:
            output = "".join(driver.output).lower()
            for secret in self.log.secrets | self.credentials:
                if secret.lower() in output:
                    raise Verdict(f"an id or credential is in what the driver wrote: …{secret[-4:]}")


def duration(text: str) -> float:
    """A Go duration of one or several units."""
    total, number = 0.0, ""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
    unit = ""
    for character in text + "0":
        if character.isdigit() or character == ".":
            if unit:
                total += float(number) * units[unit]
                number = unit = ""
            number += character
        else:
            unit += character
    return total


@dataclass
class Row:
    number: int
    name: str
    kinds: tuple[str, ...]
    play: Callable[[Scene], Awaitable[None]]


ROWS: list[Row] = []


def row(number: int, *, kinds: tuple[str, ...] = KINDS) -> Callable[[Callable[[Scene], Awaitable[None]]], Callable[[Scene], Awaitable[None]]]:
    def add(play: Callable[[Scene], Awaitable[None]]) -> Callable[[Scene], Awaitable[None]]:
        ROWS.append(Row(number, play.__name__, kinds, play))
        return play

    return add
