"""The driver of the Python client for the conformance runner; see clients/conformance/PROTOCOL.md. `--mode sync` or `async`."""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import broken  # noqa: E402

import leasehold  # noqa: E402
from leasehold._clock import CLOCK, _read  # noqa: E402

_output = threading.Lock()


def say(**line: Any) -> None:
    line.setdefault("at", _read())
    text = json.dumps(line) + "\n"
    with _output:
        sys.stdout.write(text)
        sys.stdout.flush()


def misbehave(how: Optional[str]) -> None:
    if how == "raise":
        raise RuntimeError("a callback that raises")
    if how and how.startswith("block:"):
        time.sleep(float(how.split(":")[1]))


def shown(deadline: float) -> float:
    return deadline - CLOCK.jump_s


class Driver:
    """The shared parts of both modes."""

    mode = ""

    def __init__(self) -> None:
        self.clients: Dict[str, Any] = {}
        self.scopes: Dict[str, Any] = {}
        self.leases: Dict[str, Any] = {}

    def handle(self, line: str) -> bool:
        """False at the end."""
        command = json.loads(line)
        op, number = command["op"], command["id"]
        try:
            extra = getattr(self, f"op_{op}")(command) or {}
            say(reply=number, **{"ok": True, **extra})
        except leasehold.LeaseLost as loss:
            say(reply=number, ok=False, error="LeaseLost", cause=loss.cause, message=str(loss))
        except Exception as error:
            say(reply=number, ok=False, error=type(error).__name__, message=str(error))
        return bool(op != "quit")

    def make(self, **settings: Any) -> Any:
        raise NotImplementedError

    def op_time(self, command: Dict[str, Any]) -> None:
        pass

    def op_open(self, command: Dict[str, Any]) -> None:
        if command.get("break"):
            broken.FLAGS[command["break"]]()
        settings = {"url": command["urls"], "token_file": command.get("token_file"), "name": command.get("name")}
        if "round" in command:
            settings["round"] = command["round"]
        self.clients[command["client"]] = self.make(**settings)

    def scope(self, command: Dict[str, Any]) -> Any:
        lease, client = command["lease"], self.clients[command["client"]]
        told = [0]

        def on_lost(_: Any, loss: leasehold.LeaseLost) -> None:
            at = _read()
            say(event="lost", lease=lease, cause=loss.cause, token=loss.token, deadline=shown(loss.deadline or 0), message=str(loss), at=at)
            misbehave(command.get("on_lost"))

        def on_at_risk(_: Any, deadline: float, cause: str) -> None:
            say(event="at_risk", lease=lease, deadline=shown(deadline), cause=cause)
            misbehave(command.get("on_at_risk"))

        def on_progress(progress: leasehold.Progress) -> None:
            while told[0] < progress.place_lost:
                told[0] += 1
                say(event="place_lost", lease=lease)
            say(event="progress", lease=lease, **{name: value for name, value in vars(progress).items() if value is not None})

        options = {"ttl": command["ttl"], "on_lost": on_lost, "on_at_risk": on_at_risk, "on_progress": on_progress}
        if command["kind"] == "pool":
            return client.pool(command["name"]).borrow(wait=command["timeout"], **options)
        return getattr(client, command["kind"])(command["name"], timeout=command["timeout"], **options)

    def granted(self, lease: str, got: Any) -> None:
        self.leases[lease] = got
        say(event="granted", lease=lease, token=got._state.token, slot=got.slot, deadline=shown(got.deadline), ttl=got.ttl)

    def op_check(self, command: Dict[str, Any]) -> Dict[str, Any]:
        lease = self.leases[command["lease"]]
        lease.check()
        return {"held": lease.held, "token": lease.token, "slot": lease.slot, "deadline": shown(lease.deadline)}

    def op_drop(self, command: Dict[str, Any]) -> None:
        self.scopes.pop(command["lease"], None)
        self.leases.pop(command["lease"], None)

    def op_clock(self, command: Dict[str, Any]) -> None:
        CLOCK.jump_s += command["jump"]

    def op_block(self, command: Dict[str, Any]) -> None:
        until = time.monotonic() + command["seconds"]
        while time.monotonic() < until:
            pass

    def op_quit(self, command: Dict[str, Any]) -> None:
        pass

    def hello(self) -> None:
        supports = ["block", "clock", "fork", "callbacks", "break"]
        say(event="hello", client="python", mode=self.mode, pid=os.getpid(), supports=supports)


class SyncDriver(Driver):
    mode = "sync"

    def __init__(self) -> None:
        super().__init__()
        self.cancels: Dict[str, leasehold.Cancel] = {}

    def make(self, **settings: Any) -> Any:
        return leasehold.Client(**settings)

    def begin(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def op_acquire(self, command: Dict[str, Any]) -> None:
        lease, scope, cancel = command["lease"], self.scope(command), leasehold.Cancel()
        self.scopes[lease], self.cancels[lease] = scope, cancel

        def work() -> None:
            try:
                self.granted(lease, scope._acquire(command["timeout"], cancel))
            except leasehold.Cancelled:
                say(event="cancelled", lease=lease)
            except leasehold.LeaseholdError as error:
                say(event="failed", lease=lease, error=error.name, message=str(error))

        self.begin(work)

    def op_cancel(self, command: Dict[str, Any]) -> None:
        self.cancels[command["lease"]].cancel()

    def op_release(self, command: Dict[str, Any]) -> None:
        lease = command["lease"]
        got = self.leases[lease]

        def work() -> None:
            began = _read()
            result = got.release()
            say(event="released", lease=lease, result=result, began=began)

        self.begin(work)

    def op_close(self, command: Dict[str, Any]) -> None:
        def work() -> None:
            self.clients[command["client"]].close()
            say(event="closed", client=command["client"])

        self.begin(work)

    def op_fork(self, command: Dict[str, Any]) -> None:
        lease = command["lease"]
        scope, got = self.scopes[lease], self.leases[lease]
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            told: Dict[str, Any] = {"check": None, "cause": None, "release": None}
            try:
                got.check()
            except leasehold.LeaseLost as loss:
                told.update(check="LeaseLost", cause=loss.cause)
            scope.__exit__(None, None, None)
            told["release"] = got.release()
            os.write(writable, json.dumps(told).encode())
            sys.exit(0)
        os.close(writable)
        self.begin(lambda: self.await_child(lease, child, readable))

    def await_child(self, lease: str, child: int, readable: int) -> None:
        with os.fdopen(readable) as pipe:
            told = json.loads(pipe.read())
        _, status = os.waitpid(child, 0)
        say(event="forked", lease=lease, exit=os.waitstatus_to_exitcode(status), **told)

    def run(self) -> None:
        self.hello()
        for line in sys.stdin:
            if not self.handle(line):
                break
        for client in self.clients.values():
            client.close()


class AsyncDriver(Driver):
    mode = "async"

    def __init__(self) -> None:
        super().__init__()
        self.tasks: Dict[str, "asyncio.Task[None]"] = {}
        self.others: "set[asyncio.Task[Any]]" = set()

    def make(self, **settings: Any) -> Any:
        return leasehold.AsyncClient(**settings)

    def begin(self, work: Any) -> "asyncio.Task[None]":
        task: "asyncio.Task[None]" = asyncio.ensure_future(work)
        self.others.add(task)
        task.add_done_callback(self.others.discard)
        return task

    def op_acquire(self, command: Dict[str, Any]) -> None:
        lease, scope = command["lease"], self.scope(command)
        self.scopes[lease] = scope

        async def work() -> None:
            try:
                self.granted(lease, await scope._acquire(command["timeout"]))
            except asyncio.CancelledError:
                say(event="cancelled", lease=lease)
            except leasehold.LeaseholdError as error:
                say(event="failed", lease=lease, error=error.name, message=str(error))

        self.tasks[lease] = self.begin(work())

    def op_cancel(self, command: Dict[str, Any]) -> None:
        self.tasks[command["lease"]].cancel()

    def op_release(self, command: Dict[str, Any]) -> None:
        lease = command["lease"]
        got = self.leases[lease]

        async def work() -> None:
            began = _read()
            result = await got.release()
            say(event="released", lease=lease, result=result, began=began)

        self.begin(work())

    def op_close(self, command: Dict[str, Any]) -> None:
        async def work() -> None:
            await self.clients[command["client"]].close()
            say(event="closed", client=command["client"])

        self.begin(work())

    def op_fork(self, command: Dict[str, Any]) -> None:
        lease = command["lease"]
        scope, got = self.scopes[lease], self.leases[lease]
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            told: Dict[str, Any] = {"check": None, "cause": None, "release": None}
            try:
                got.check()
            except leasehold.LeaseLost as loss:
                told.update(check="LeaseLost", cause=loss.cause)
            # Driven by hand: the event loop is the parent's.
            for step in (scope.__aexit__(None, None, None), got.release()):
                try:
                    step.send(None)
                except StopIteration as end:
                    told["release"] = end.value
            os.write(writable, json.dumps(told).encode())
            atexit._run_exitfuncs()
            os._exit(0)
        os.close(writable)

        def await_child() -> None:
            with os.fdopen(readable) as pipe:
                told = json.loads(pipe.read())
            _, status = os.waitpid(child, 0)
            say(event="forked", lease=lease, exit=os.waitstatus_to_exitcode(status), **told)

        threading.Thread(target=await_child, daemon=True).start()

    async def run(self) -> None:
        self.hello()
        reader = asyncio.StreamReader(limit=1 << 20)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            if not self.handle(line.decode()):
                break
        for client in self.clients.values():
            await client.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["sync", "async"], default="sync")
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    if parser.parse_args().mode == "sync":
        SyncDriver().run()
    else:
        asyncio.run(AsyncDriver().run())


if __name__ == "__main__":
    main()
