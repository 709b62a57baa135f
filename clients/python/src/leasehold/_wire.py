"""HTTP/1.1 to one service at one or several URLs, on the worker's event loop.

The client needs to know what libraries hide: whether a connection was reused, whether a call had left before it failed, and the
socket itself, which a forked child closes without a goodbye. It leaves retries and the meaning of statuses to the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import os
import ssl
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple, Union
from urllib.parse import urlsplit

from ._clock import CLOCK

CONNECT_S = 2.0
PLAIN_S = 15.0
IDLE_S = 20.0
HEAD_MAX = 64 * 1024
BODY_MAX = 4 * 1024 * 1024

Token = Union[None, str, Callable[[], str]]


class NoAnswer(Exception):
    """No answer of Leasehold. `sent`: the call may have been carried out."""

    def __init__(
        self,
        why: str,
        *,
        url: str,
        sent: bool,
        tls: bool = False,
        misdirected: bool = False,
        other_service: bool = False,
        retry_after_s: Optional[float] = None,
        status: Optional[int] = None,
    ) -> None:
        super().__init__(why)
        self.why, self.url, self.sent, self.tls, self.misdirected = why, url, sent, tls, misdirected
        self.other_service, self.retry_after_s, self.status = other_service, retry_after_s, status


@dataclass
class Request:
    method: str
    path: str
    body: Optional[Dict[str, Any]] = None
    key: Optional[str] = None
    #: A parked call: the service holds its answer back for up to this long.
    wait_s: float = 0.0


@dataclass
class Answer:
    status: int
    body: Dict[str, Any]
    url: str
    request_id: Optional[str]
    epoch: int
    retry_after_s: Optional[float]
    #: The lease clock before the call was given to this module.
    sent_at: float
    heard_at: float

    @property
    def error(self) -> str:
        return str(self.body.get("error") or f"HTTP {self.status}")


@dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0
    used: bool = False

    def abort(self) -> None:
        self.writer.transport.abort()

    def descriptor(self) -> int:
        sock = self.writer.get_extra_info("socket")
        return sock.fileno() if sock is not None else -1


@dataclass
class _Place:
    """One of the URLs."""

    url: str
    host: str
    port: int
    prefix: str
    tls: Optional[ssl.SSLContext]
    idle: List[_Connection] = field(default_factory=list)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Wire:
    def __init__(self, urls: List[str], token: Token, tls: Optional[ssl.SSLContext]) -> None:
        if not urls:
            raise ValueError("urls: at least one URL is needed, such as http://localhost:8080")
        self.places = [_place(url, tls) for url in urls]
        self.preferred = 0
        self._token = token
        self._known_token: Optional[str] = None
        self._service: Optional[Tuple[str, str]] = None
        self._epoch = 0
        self._open: Dict[int, _Connection] = {}

    def order(self) -> List[int]:
        """The URLs in the order in which they are tried: the last that answered first."""
        count = len(self.places)
        return [(self.preferred + step) % count for step in range(count)]

    def skip(self, place: int) -> None:
        """That URL failed: the next one is tried first."""
        if self.preferred == place:
            self.preferred = (place + 1) % len(self.places)

    def forget_token(self) -> None:
        """The service did not accept it: it is read again."""
        self._known_token = None

    async def call(self, request: Request, place: int, *, within_s: float, renewal: bool = False, fresh: bool = False) -> Answer:
        """One call to one URL. `within_s` is for the whole answer, connecting included."""
        sent_at = CLOCK.now()
        where = self.places[place]
        try:
            return await asyncio.wait_for(self._call(request, where, sent_at, renewal, fresh), within_s)
        except asyncio.TimeoutError:
            raise NoAnswer(f"no answer within {within_s:.3g} s", url=where.url, sent=True) from None
        except NoAnswer:
            raise
        except ssl.SSLError as error:
            raise NoAnswer(_tls_reason(error), url=where.url, sent=False, tls=True) from None
        except (OSError, EOFError, ValueError, http.client.HTTPException) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}", url=where.url, sent=True) from None

    async def _call(self, request: Request, where: _Place, sent_at: float, renewal: bool, fresh: bool) -> Answer:
        head, payload = self._bytes(request, where)
        while True:
            connection = await self._take(where, fresh)
            reused = connection.used
            try:
                connection.used = True
                connection.writer.write(head + payload)
                try:
                    raw = await connection.reader.readuntil(b"\r\n\r\n")
                except asyncio.IncompleteReadError as end:
                    if reused and not end.partial:
                        # The server or a proxy closed it while it lay idle.
                        fresh = True
                        continue
                    raise EOFError("the connection was closed before the answer was whole") from None
                except (ConnectionError, BrokenPipeError):
                    if reused:
                        fresh = True
                        continue
                    raise
                except asyncio.LimitOverrunError:
                    raise ValueError("the head of the answer is longer than 64 KiB") from None
                status, headers, body, keep = await _read_body(connection.reader, raw, request.method)
                answer = self._answer(status, headers, body, where, sent_at, renewal)
                if keep:
                    self._put(where, connection)
                    connection = None  # type: ignore[assignment]
                return answer
            finally:
                if connection is not None:
                    self._drop(connection)

    def _bytes(self, request: Request, where: _Place) -> Tuple[bytes, bytes]:
        payload = b"" if request.body is None else json.dumps(request.body, separators=(",", ":")).encode()
        lines = [
            f"{request.method} {where.prefix}{request.path} HTTP/1.1",
            f"Host: {where.authority}",
            f"Content-Length: {len(payload)}",
            "Accept: application/json",
            "User-Agent: leasehold-python",
        ]
        if payload:
            lines.append("Content-Type: application/json")
        if request.key:
            lines.append(f"Idempotency-Key: {request.key}")
        token = self._read_token()
        if token:
            lines.append(f"Authorization: Bearer {token}")
        return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n", payload

    def _read_token(self) -> Optional[str]:
        if self._token is None:
            return None
        if self._known_token is None:
            token = (self._token() if callable(self._token) else self._token).strip()
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise ValueError("token: must be visible ASCII without spaces")
            self._known_token = token
        return self._known_token

    async def _take(self, where: _Place, fresh: bool) -> _Connection:
        loop = asyncio.get_running_loop()
        while where.idle and not fresh:
            connection = where.idle.pop()
            if loop.time() - connection.idle_since < IDLE_S and not connection.reader.at_eof():
                return connection
            self._drop(connection)
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection(where.host, where.port, ssl=where.tls, limit=HEAD_MAX), CONNECT_S
            )
        except asyncio.TimeoutError:
            raise NoAnswer(f"no connection within {CONNECT_S:.3g} s", url=where.url, sent=False) from None
        except ssl.SSLError:
            raise
        except OSError as error:
            raise NoAnswer(f"cannot connect: {error.strerror or error}", url=where.url, sent=False) from None
        connection = _Connection(reader, writer)
        self._open[id(connection)] = connection
        return connection

    def _put(self, where: _Place, connection: _Connection) -> None:
        connection.idle_since = asyncio.get_running_loop().time()
        where.idle.append(connection)

    def _drop(self, connection: _Connection) -> None:
        self._open.pop(id(connection), None)
        connection.abort()

    def drop_all(self) -> None:
        for connection in list(self._open.values()):
            self._drop(connection)

    def close_descriptors(self) -> None:
        """In a forked child: the sockets are the parent's, so nothing may be said on them."""
        for connection in self._open.values():
            descriptor = connection.descriptor()
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        self._open.clear()

    def _answer(self, status: int, headers: http.client.HTTPMessage, body: bytes, where: _Place, sent_at: float, renewal: bool) -> Answer:
        retry_after_s = _seconds(headers.get("Retry-After"))

        def no(why: str, **more: Any) -> NoAnswer:
            return NoAnswer(why, url=where.url, sent=True, retry_after_s=retry_after_s, status=status, **more)

        if status == 421:
            raise no("the host is not served there (421)", misdirected=True)
        position = headers.get("Leasehold-Position")
        if position is None:
            raise no(f"HTTP {status} that is not from Leasehold (no Leasehold-Position)")
        if status == 204 and not body:
            decoded: Any = {}
        else:
            try:
                decoded = json.loads(body)
            except ValueError:
                raise no(f"HTTP {status} whose body is not JSON") from None
        if not isinstance(decoded, dict):
            raise no(f"HTTP {status} whose body is no JSON object")
        service = headers.get("Leasehold-Service")
        if service:
            if self._service is None:
                self._service = (service, where.url)
            elif self._service[0] != service:
                raise no(f"it is another service than {self._service[1]}", other_service=True)
        epoch_text = position.split(".")[0]
        epoch = int(epoch_text) if epoch_text.isdigit() else 0
        if renewal and epoch < self._epoch:
            raise no(f"its history (epoch {epoch}) is older than what was heard before ({self._epoch})")
        self._epoch = max(self._epoch, epoch)
        self.preferred = self.places.index(where)
        return Answer(status, decoded, where.url, headers.get("X-Request-Id"), epoch, retry_after_s, sent_at, CLOCK.now())


async def _read_body(reader: asyncio.StreamReader, raw: bytes, method: str) -> Tuple[int, http.client.HTTPMessage, bytes, bool]:
    """Status, headers, body, and whether the connection can be used again."""
    line, _, rest = raw.partition(b"\r\n")
    parts = line.split(b" ", 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
        raise ValueError("the answer is not HTTP/1.1")
    status = int(parts[1])
    headers = http.client.parse_headers(io.BytesIO(rest))
    keep = parts[0] == b"HTTP/1.1" and (headers.get("Connection") or "").lower() != "close"
    try:
        if status in (204, 304):
            return status, headers, b"", keep
        if (headers.get("Transfer-Encoding") or "").lower() == "chunked":
            return status, headers, await _read_chunks(reader), keep
        length = headers.get("Content-Length")
        if length is not None:
            if not length.isdigit() or int(length) > BODY_MAX:
                raise ValueError("the answer's body is longer than 4 MiB")
            return status, headers, await reader.readexactly(int(length)), keep
        body = await reader.read(BODY_MAX)
        return status, headers, body, False
    except asyncio.IncompleteReadError:
        raise EOFError("the connection was closed before the answer was whole") from None


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size < 0 or len(body) + size > BODY_MAX:
            raise ValueError("the answer's body is longer than 4 MiB")
        if size == 0:
            while (await reader.readuntil(b"\r\n")) != b"\r\n":
                pass
            return body
        body += (await reader.readexactly(size + 2))[:-2]


def _place(url: str, tls: Optional[ssl.SSLContext]) -> _Place:
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"url: must be http://host[:port] or https://host[:port], got {url!r}")
    if parts.scheme == "http":
        return _Place(url, parts.hostname, parts.port or 80, parts.path.rstrip("/"), None)
    return _Place(url, parts.hostname, parts.port or 443, parts.path.rstrip("/"), tls or ssl.create_default_context())


def _seconds(text: Optional[str]) -> Optional[float]:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return f"TLS failed: {error.reason or error}"
