"""HTTP/1.1 messages as the harness needs them: whole requests and whole answers over asyncio streams.

Only what Leasehold's clients and server say is understood: `Content-Length` and chunks. It leaves meaning to others.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

HEAD_MAX = 64 * 1024


class Broken(Exception):
    """The other side closed or spoke something else in the middle of a message."""


@dataclass
class Message:
    """A request (`method`, `target`) or an answer (`status`), with the bytes as they came."""

    start: str
    headers: list[tuple[str, str]]
    body: bytes
    raw: bytes = b""

    @property
    def method(self) -> str:
        return self.start.split(" ")[0]

    @property
    def target(self) -> str:
        return self.start.split(" ")[1]

    @property
    def status(self) -> int:
        return int(self.start.split(" ")[1])

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


async def read_message(reader: asyncio.StreamReader, *, method: str | None = None) -> Message | None:
    """One message; None at a clean end. `method` is that of the request whose answer is read, None for a request."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise Broken("closed in the head of a message") from end
        return None
    except (ConnectionError, asyncio.LimitOverrunError) as error:
        raise Broken(str(error)) from error
    lines = head.decode("latin-1").split("\r\n")
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:] if line)]
    message = Message(lines[0], headers, b"", head)
    try:
        if method is not None and (method == "HEAD" or message.status in (204, 304) or message.status < 200):
            return message
        if (message.header("transfer-encoding") or "").lower() == "chunked":
            await _read_chunks(reader, message)
        elif (length := message.header("content-length")) is not None:
            message.body = await reader.readexactly(int(length))
            message.raw += message.body
        elif method is not None:
            message.body = await reader.read()
            message.raw += message.body
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise Broken("closed in the body of a message") from error
    return message


async def _read_chunks(reader: asyncio.StreamReader, message: Message) -> None:
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        chunk = await reader.readexactly(size + 2)
        message.raw += line + chunk
        if size == 0:
            return
        message.body += chunk[:-2]


def answer_bytes(status: int, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Injected", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class Answer:
    status: int
    body: dict[str, Any] = field(default_factory=dict)
    headers: list[tuple[str, str]] = field(default_factory=list)


async def call(
    address: tuple[str, int], method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> Answer:
    """One call on a connection of its own, as the witness and the operator make them."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        payload = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"host: {address[0]}:{address[1]}", f"content-length: {len(payload)}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
        message = await read_message(reader, method=method)
        if message is None:
            raise Broken("no answer")
        return Answer(message.status, message.json(), message.headers)
    finally:
        writer.close()
