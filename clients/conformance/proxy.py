"""The fault proxy: it stands before the real server, forwards HTTP/1.1, and does harm on request.

A *rule* says to which calls it applies, what to do, and how often. The first rule that matches a call and has uses left is applied;
without one the call is forwarded. A *mode* applies to all bytes of all connections. Both are set with `command`, in process or, one JSON
object a line, over the control port; every call that came is kept in the log, with the time it came and what became of it.

    {"do": "cut-after", "op": "acquire", "times": 1}            forward, throw the answer away, reset
      with "seconds": so long after the call came, answered or not; with "delay": so long after the answer
    {"do": "cut-before", …}                                     reset without forwarding
    {"do": "hang", …}                                           read the call, never answer
    {"do": "delay", "seconds": 2, "side": "answer"|"call", …}   hold the answer, or the call, back that long
    {"do": "truncate", "bytes": 20, …}                          forward; head and so many bytes of the answer's body, then reset
    {"do": "answer", "status": 502, "body": "…", "headers": {}, …}   answer without forwarding
    {"do": "twice", "delay": 0, …}                              forward twice; the second copy that much later
    {"do": "refuse"}, {"do": "black-hole", "way": "both"|"calls"|"replies"}   modes
    {"do": "idle-reset"}                                        the next call on each connection that is open now is reset
    {"do": "upstream", "to": "127.0.0.1:8080"}                  another server
    {"do": "well"}                                              all rules and modes end; what hangs stays hung
    {"do": "log"}                                               the log so far

`op` is acquire, poll, renew, release, cancel, read, revoke, or any (default); `times` is how often, 0 for always. `chance` applies a rule at random, `first` to the
first call of its bytes only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from http1 import HEAD_MAX, Broken, Message, answer_bytes, read_message

RULES = {"cut-after", "cut-before", "hang", "delay", "truncate", "answer", "twice"}
MODES = {"refuse", "black-hole"}


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Record:
    """A call that came to the proxy."""

    arrived: float
    op: str
    kind: str
    resource: str
    method: str
    target: str
    body: dict[str, Any]
    key: str | None
    connection: int
    reused: bool
    proxy: str
    did: str = "forward"
    status: int | None = None
    answer: dict[str, Any] = field(default_factory=dict)
    delivered: float | None = None
    is_over: bool = False

    @property
    def parked(self) -> bool:
        """The server has it and has not answered, and the client is still there."""
        return self.status is None and not self.is_over

    @property
    def granted(self) -> bool:
        """The server granted or renewed something by this call."""
        if self.did == "answer" or self.status not in (200, 201) or self.op not in ("acquire", "poll", "renew"):
            return False
        return self.kind != "claim" or self.answer.get("status") == "active"


class Log:
    """The calls of one scenario, of all its proxies, in the order in which they came."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.changed = asyncio.Event()
        self.secrets: set[str] = set()
        self._held_locks: set[tuple[str, str]] = set()

    def of(self, op: str, since: float = 0.0) -> list[Record]:
        return [record for record in self.records if record.op == op and record.arrived >= since]

    def classify(self, request: Message) -> tuple[str, str, str]:
        """The purpose of a call: op, kind, resource."""
        url = urlsplit(request.target)
        parts = [unquote(part) for part in url.path.split("/") if part]
        body, query = request.json(), parse_qs(url.query)
        match parts:
            case ["l", pool, "borrow"]:
                return ("cancel" if request.method == "DELETE" else "acquire"), "pool", pool
            case ["l", pool, "renew"]:
                return "renew", "pool", pool
            case ["l", pool, "return"]:
                return "release", "pool", pool
            case ["v1", "claims"] if request.method == "POST":
                return "acquire", "claim", body.get("resource", "")
            case ["v1", "claims", claim] if request.method in ("PATCH", "PUT"):
                wanted = body.get("status")
                if wanted == "released":
                    return "release", "claim", claim
                if wanted in ("withdrawn", "revoked", "aborted"):
                    return "cancel", "claim", claim
                waits = "wait" in query or "wait" in (request.header("prefer") or "")
                return ("poll" if waits else "renew"), "claim", claim
            case ["lock"] if request.method == "POST":
                job, client = query.get("job", ["default"])[0], query.get("client", [""])[0]
                known = "token" in query or (job, client) in self._held_locks
                return ("renew" if known else "acquire"), "lock", job
            case ["lock"] if request.method == "DELETE":
                return "release", "lock", query.get("job", ["default"])[0]
        return "read", "", ""

    def keep(self, record: Record) -> None:
        self.records.append(record)
        self.note_secrets(record)
        self.tell()

    def note_secrets(self, record: Record) -> None:
        """Pool ids and lease ids, which no client may show."""
        if record.kind == "pool":
            self.secrets.add(record.resource)
            for source in (record.body, record.answer):
                if isinstance(source.get("lease"), str):
                    self.secrets.add(source["lease"])

    def answered(self, record: Record) -> None:
        """The answer is in the hands of the client."""
        record.delivered = now()
        if record.kind == "lock":
            query = parse_qs(urlsplit(record.target).query)
            holder = (record.resource, query.get("client", [""])[0])
            if record.op == "release":
                self._held_locks.discard(holder)
            elif record.status == 200:
                self._held_locks.add(holder)
        self.tell()

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, condition: Any, timeout: float = 20.0, why: str = "") -> Any:
        """Waits until `condition(log)` is true of the log, and gives what it returned."""
        deadline = now() + timeout
        while not (value := condition(self)):
            left = deadline - now()
            if left <= 0:
                raise AssertionError(f"not seen at the proxy within {timeout} s: {why}")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.changed.wait(), left)
        return value


class Proxy:
    def __init__(self, upstream: tuple[str, int], log: Log | None = None, name: str = "proxy", seed: int = 1) -> None:
        self.upstream = upstream
        self.log = log or Log()
        self.name = name
        self.rules: list[dict[str, Any]] = []
        self.modes: dict[str, dict[str, Any]] = {}
        self.port = 0
        #: Added to answers that do not name their service: a server older than `Leasehold-Service`.
        self.service: str | None = None
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._connections: dict[int, _Connection] = {}
        self._count = 0
        self._copies: set[asyncio.Task[None]] = set()
        self._seen: set[tuple[str | None, str]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=HEAD_MAX)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        self._refuse()
        for task in list(self._copies):
            task.cancel()
        await asyncio.gather(*self._copies, return_exceptions=True)

    async def command(self, command: dict[str, Any]) -> dict[str, Any]:
        do = command.get("do")
        if do in RULES:
            self.rules.append({"op": "any", "times": 1, "chance": 1.0, **command})
        elif do == "refuse":
            self.modes["refuse"] = command
            self._refuse()
        elif do == "black-hole":
            self.modes["black-hole"] = {"way": "both", **command}
        elif do == "idle-reset":
            for connection in self._connections.values():
                connection.stale = True
        elif do == "upstream":
            host, _, port = command["to"].rpartition(":")
            self.upstream = (host, int(port))
        elif do == "well":
            self.rules.clear()
            refused = "refuse" in self.modes
            self.modes.clear()
            if refused:
                await self.start()
        elif do == "log":
            return {"ok": True, "log": [vars(record) for record in self.log.records]}
        else:
            return {"ok": False, "error": f"do: must be one of {', '.join(sorted(RULES | MODES))}, idle-reset, upstream, well or log, got {do!r}"}
        return {"ok": True}

    def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections.values()):
            connection.reset()

    def pick(self, op: str, name: tuple[str | None, str]) -> dict[str, Any] | None:
        is_first = name not in self._seen
        self._seen.add(name)
        for rule in self.rules:
            if rule.get("first") and not is_first:
                continue
            if rule["op"] not in ("any", op) or (rule["chance"] < 1 and self._random.random() >= rule["chance"]):
                continue
            if rule["times"] == 1:
                self.rules.remove(rule)
            elif rule["times"] > 1:
                rule["times"] -= 1
            return rule
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        number = self._count
        connection = self._connections[number] = _Connection(self, number, reader, writer)
        try:
            await connection.run()
        except (Broken, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            connection.reset()
            del self._connections[number]

    def copy_later(self, request: Message, seconds: float) -> None:
        async def send() -> None:
            await asyncio.sleep(seconds)
            with contextlib.suppress(OSError, Broken):
                reader, writer = await asyncio.open_connection(*self.upstream)
                try:
                    writer.write(request.raw)
                    await read_message(reader, method=request.method)
                finally:
                    writer.close()

        task = asyncio.create_task(send())
        self._copies.add(task)
        task.add_done_callback(self._copies.discard)


class _Connection:
    """A client's connection and the one to the server that goes with it."""

    def __init__(self, proxy: Proxy, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.proxy, self.number, self.reader, self.writer = proxy, number, reader, writer
        self.up: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.served = 0
        self.stale = False
        self._left = asyncio.Event()
        self._notice_end()

    def reset(self) -> None:
        """Ends both connections with RST, so that the client's kernel cannot mistake it for a clean end."""
        for writer in [self.writer] + ([self.up[1]] if self.up else []):
            sock = writer.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def run(self) -> None:
        while True:
            request = await read_message(self.reader)
            if request is None:
                return
            op, kind, resource = self.proxy.log.classify(request)
            record = Record(
                now(), op, kind, resource, request.method, request.target, request.json(), request.header("idempotency-key"),
                self.number, self.served > 0, self.proxy.name,
            )
            self.proxy.log.keep(record)
            self.served += 1
            try:
                if not await self._one(request, record):
                    return
            finally:
                record.is_over = True
                self.proxy.log.tell()
            if (request.header("connection") or "").lower() == "close":
                return

    async def _one(self, request: Message, record: Record) -> bool:
        """Plays one call; False when the connection is over."""
        if self.stale:
            record.did = "idle-reset"
            return False
        hole = self.proxy.modes.get("black-hole")
        if hole and hole["way"] in ("both", "calls"):
            record.did = "black-hole"
            await self._hang()
        rule = self.proxy.pick(record.op, (record.key, record.target)) or {"do": "forward"}
        record.did = do = rule["do"]
        if do == "cut-before":
            return False
        if do == "hang":
            await self._hang()
        if do == "answer":
            body = rule.get("body", "")
            text = body if isinstance(body, str) else json.dumps(body)
            record.status = rule["status"]
            self.proxy.log.answered(record)
            self.writer.write(answer_bytes(rule["status"], text.encode(), rule.get("headers")))
            return True
        if do == "delay" and rule.get("side", "answer") == "call":
            await self._leave_or(asyncio.sleep(rule["seconds"]))
        if do == "twice":
            self.proxy.copy_later(request, rule.get("delay", 0))
        try:
            answer = await asyncio.wait_for(self._forward(request), rule.get("seconds") if do == "cut-after" else None)
        except asyncio.TimeoutError:
            return False
        record.status, record.answer = answer.status, answer.json()
        if self.proxy.service and answer.header("leasehold-service") is None:
            answer.raw = answer.raw.replace(b"\r\n", f"\r\nleasehold-service: {self.proxy.service}\r\n".encode(), 1)
        self.proxy.log.note_secrets(record)
        self.proxy.log.tell()
        if do == "delay" and rule.get("side", "answer") == "answer":
            await self._leave_or(asyncio.sleep(rule["seconds"]))
        if do == "cut-after":
            await self._leave_or(asyncio.sleep(rule.get("delay", 0)))
            return False
        hole = self.proxy.modes.get("black-hole")
        if hole and hole["way"] in ("both", "replies"):
            record.did = "black-hole"
            await self._hang()
        if do == "truncate":
            head = len(answer.raw) - len(answer.body)
            self.writer.write(answer.raw[: head + rule["bytes"]])
            await self.writer.drain()
            # A clean end after too few bytes: only the length in the head tells.
            self.writer.close()
            return False
        # Noted first: the client may act on it before this process goes on.
        self.proxy.log.answered(record)
        self.writer.write(answer.raw)
        return (answer.header("connection") or "").lower() != "close"

    async def _forward(self, request: Message) -> Message:
        for attempt in (1, 2):
            fresh = self.up is None
            if self.up is None:
                try:
                    self.up = await asyncio.open_connection(*self.proxy.upstream, limit=HEAD_MAX)
                except OSError as error:
                    raise Broken("the server refuses") from error
            reader, writer = self.up
            began = now()
            try:
                writer.write(request.raw)
                answer = await self._leave_or(read_message(reader, method=request.method))
                if answer is None:
                    raise Broken("the server closed")
                return answer
            except (Broken, ConnectionError):
                writer.transport.abort()
                self.up = None
                # A connection that lay idle over a restart of the server. A call that was parked on it has lost its place, and hears so.
                if fresh or attempt == 2 or self.reader.at_eof() or now() - began > 0.1:
                    raise
        raise AssertionError("unreachable")

    async def _leave_or(self, work: Any) -> Any:
        """Runs `work` unless the client leaves; then this connection is over, and the server sees it."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._left.wait())
        try:
            done, _ = await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task in done:
                return task.result()
            raise Broken("the client left")
        finally:
            for future in (task, gone):
                future.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    def _notice_end(self) -> None:
        """The client's end of the connection is noticed while an answer is waited for, as the server would notice it."""
        protocol = self.writer.transport.get_protocol()
        eof_received, connection_lost = protocol.eof_received, protocol.connection_lost

        def on_eof() -> Any:
            self._left.set()
            return eof_received()

        def on_lost(error: Exception | None) -> None:
            self._left.set()
            connection_lost(error)

        protocol.eof_received, protocol.connection_lost = on_eof, on_lost

    async def _hang(self) -> None:
        await self._left.wait()
        raise Broken("the client left")


async def main() -> None:
    parser = argparse.ArgumentParser(description="A fault proxy before a Leasehold server; see the head of this file for its commands.")
    parser.add_argument("--upstream", required=True, help="host:port of the server")
    parser.add_argument("--listen", type=int, default=0, help="port of the proxy on 127.0.0.1, 0 for a free one")
    parser.add_argument("--control", type=int, default=0, help="port of the control on 127.0.0.1, 0 for a free one")
    args = parser.parse_args()
    host, _, port = args.upstream.rpartition(":")
    proxy = Proxy((host, int(port)))
    proxy.port = args.listen
    await proxy.start()

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                answer = await proxy.command(json.loads(line))
            except (ValueError, KeyError, AttributeError) as error:
                answer = {"ok": False, "error": f"not a command: {error}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(control, "127.0.0.1", args.control)
    print(json.dumps({"url": proxy.url, "control": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
    sys.exit(0)
