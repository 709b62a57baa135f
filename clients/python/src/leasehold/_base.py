"""Shared by the synchronous and the asynchronous client: settings, and what a lease and a request for one are, apart from waiting."""

from __future__ import annotations

import getpass
import os
import socket
import ssl
import warnings
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Union
from urllib.parse import quote

from ._acquire import Progress
from ._calls import Calls, unavailable
from ._errors import (
    Conflict,
    Forbidden,
    LeaseholdError,
    LeaseLost,
    NotFound,
    ProtocolError,
    ServiceUnavailable,
    Unauthenticated,
)
from ._keep import Keeper
from ._kinds import ClaimDialect, Dialect, LockDialect, PoolDialect
from ._lease import LeaseState
from ._wire import Answer, NoAnswer, Request, Token, Wire
from ._worker import Worker

DEFAULT_URL = "http://localhost:8080"
DEFAULT_TTL_S = 30.0
TTL_MIN_S = 1.0
ROUND_S = 50.0
ROUND_MIN_S, ROUND_MAX_S = 5.0, 290.0


class BaseClient:
    """
    `url`: one, several in a list, or several with commas, of one service; default `LEASEHOLD_URL`, else http://localhost:8080.
    `token`: a bearer token, or a function that returns one; `token_file`: a file that has it, read again after a 401. Default
    `LEASEHOLD_TOKEN`, `LEASEHOLD_TOKEN_FILE`. `name`: how holders of locks are shown, default user@host. `tls`: an SSL context,
    for a private CA (`LEASEHOLD_CA_FILE`) or a client certificate. `round`: how long one call waits, 5…290 s.
    """

    def __init__(
        self,
        url: Union[str, Sequence[str], None] = None,
        *,
        token: Token = None,
        token_file: Optional[str] = None,
        name: Optional[str] = None,
        tls: Optional[ssl.SSLContext] = None,
        ca_file: Optional[str] = None,
        round: float = ROUND_S,
    ) -> None:
        if not ROUND_MIN_S <= round <= ROUND_MAX_S:
            raise ValueError(f"round: must be {ROUND_MIN_S:g} to {ROUND_MAX_S:g} s, got {round!r}")
        urls = _urls(url)
        if token is not None and token_file is not None:
            raise ValueError("token, token_file: one of the two, not both")
        if token is None and token_file is None:
            token, token_file = os.environ.get("LEASEHOLD_TOKEN"), os.environ.get("LEASEHOLD_TOKEN_FILE")
            if token:
                token_file = None
        if token_file is not None:
            token = _reads(token_file)
        ca_file = ca_file or os.environ.get("LEASEHOLD_CA_FILE")
        if tls is None and ca_file:
            tls = ssl.create_default_context(cafile=ca_file)
        self._name = name or _own_name()
        Wire(urls, None, tls)
        self._worker = Worker(lambda: Wire(urls, token, tls), round)
        weakref.finalize(self, self._worker.retire).atexit = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}>"


@dataclass
class Options:
    """How something is acquired and kept."""

    timeout: Optional[float] = None
    on_lost: Optional[Callable[..., Any]] = None
    on_at_risk: Optional[Callable[..., Any]] = None
    on_progress: Optional[Callable[[Progress], Any]] = None
    max_hold: Optional[float] = None
    raise_on_loss: bool = True


@dataclass
class Wanted:
    """A resource that can be asked for again and again, each time under a new name."""

    make: Callable[[], Dialect]
    look: Request
    options: Options = field(default_factory=Options)


def wants_lock(client: BaseClient, name: str, ttl: float, options: Options) -> Wanted:
    _text("name", name)
    _ttl(ttl)
    look = Request("GET", f"/lock?job={quote(name, safe='')}")
    return Wanted(lambda: LockDialect(name, ttl, client._name), look, options)


def wants_claim(resource: str, ttl: float, metadata: Any, options: Options) -> Wanted:
    _text("resource", resource)
    _ttl(ttl)
    look = Request("GET", f"/v1/resources/{quote(resource, safe='')}")
    return Wanted(lambda: ClaimDialect(resource, ttl, metadata), look, options)


def wants_slot(pool: str, ttl: float, options: Options) -> Wanted:
    _ttl(ttl)
    return Wanted(lambda: PoolDialect(pool, ttl), Request("GET", f"/l/{quote(pool, safe='')}"), options)


def is_taken(answer: Answer) -> bool:
    """True if a plain read says that every slot is held."""
    body = answer.body
    if "is_expired" in body:
        return bool(body.get("holder")) and not body["is_expired"]
    if "available" in body:
        return int(body["available"]) <= 0
    if "capacity" in body:
        return int(body.get("in_use", 0)) >= int(body["capacity"])
    return False


async def plain(calls: Calls, request: Request, *, missing_is_none: bool = False) -> Optional[Answer]:
    """A call that is not about a lease: on a fresh connection and without retries, as it may not be repeatable."""
    try:
        answer = await calls.once(request, fresh=True)
    except NoAnswer as error:
        raise unavailable(error) from None
    if answer.status < 300:
        return answer
    where = {"url": answer.url, "request_id": answer.request_id}
    if answer.status == 404 and missing_is_none:
        return None
    kinds: Dict[int, Callable[..., LeaseholdError]] = {401: Unauthenticated, 403: Forbidden, 404: NotFound, 409: Conflict}
    if answer.status in kinds:
        raise kinds[answer.status](answer.error, **where)
    if answer.status == 429 or answer.status >= 500:
        raise ServiceUnavailable(answer.error, **where)
    raise ProtocolError(answer.error, **where)


class BaseLease:
    """A lease that was granted: renewed in the background, held until its deadline on a clock that runs while the machine sleeps."""

    def __init__(self, worker: Worker, state: LeaseState, keeper: Keeper) -> None:
        self._worker, self._state, self._keeper = worker, state, keeper
        self._let_go = False

    @property
    def token(self) -> int:
        """The fencing token, for the resource to compare. Raises `LeaseLost` when the lease is lost."""
        self.check()
        return self._state.token

    @property
    def slot(self) -> Optional[int]:
        """The number of the slot: of a pool, and of a claim whose slots have names; else None."""
        return self._state.slot

    @property
    def slot_name(self) -> Optional[str]:
        """The name of the slot, where the operator has given slots names; else None."""
        return self._state.slot_name

    @property
    def slot_data(self) -> Any:
        """The data of a slot with a name, as they were at the grant; None when there are none."""
        return self._state.slot_data

    @property
    def position(self) -> Optional[int]:
        """The same as `slot`."""
        return self._state.slot

    @property
    def held(self) -> bool:
        """True if it is held right now, computed from the clock."""
        return self._state.held

    @property
    def deadline(self) -> float:
        """Until when it is held if no renewal succeeds, on the lease clock."""
        return self._state.deadline

    @property
    def ttl(self) -> float:
        """The length that the service granted, in seconds."""
        return self._state.length_s

    @property
    def resource(self) -> str:
        """The resource of the lease, as it may be shown: a pool is never named."""
        return self._state.dialect.label

    def remaining(self) -> float:
        """Seconds until the deadline; 0 when it is lost."""
        return self._state.remaining_s()

    def check(self) -> None:
        """Raises `LeaseLost` unless it is held. Call it before each effect."""
        self._state.check()

    def loss(self) -> Optional[LeaseLost]:
        """How it was lost; None while it is held or when it was released."""
        return self._state.loss() if self._state.lost else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.resource}, token {self._state.token}, {'held' if self.held else 'not held'}>"

    def __del__(self) -> None:
        if getattr(self, "_let_go", True) or not self._state.held:
            return
        self._worker.release_later(self._keeper)
        warnings.warn(f"{self.resource}: a lease was forgotten; release it or use `with`", ResourceWarning, stacklevel=2)


class Box:
    """Leads from the worker to the lease without keeping it alive."""

    def __init__(self) -> None:
        self._reference: Callable[[], Any] = lambda: None

    def put(self, lease: BaseLease) -> None:
        self._reference = weakref.ref(lease)

    def get(self) -> Any:
        return self._reference()


def attach(error: BaseException, loss: LeaseLost) -> None:
    """The body's own exception is never replaced; it tells of the loss as well."""
    try:
        error.lease_lost = loss  # type: ignore[attr-defined]
        if hasattr(error, "add_note"):
            error.add_note(str(loss))
    except AttributeError:
        pass


def _urls(url: Union[str, Sequence[str], None]) -> List[str]:
    if url is None:
        url = os.environ.get("LEASEHOLD_URL") or DEFAULT_URL
    parts = url.split(",") if isinstance(url, str) else list(url)
    return [part.strip() for part in parts if part.strip()]


def _reads(path: str) -> Callable[[], str]:
    def read() -> str:
        with open(path, encoding="ascii") as file:
            return file.read().strip()

    return read


def _own_name() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def _text(what: str, value: str) -> None:
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= 1024:
        raise ValueError(f"{what}: must be a text of 1 to 1024 bytes")


def _ttl(ttl: float) -> None:
    if not isinstance(ttl, (int, float)) or not TTL_MIN_S <= ttl <= 1e9:
        raise ValueError(f"ttl: must be a number of seconds, at least {TTL_MIN_S:g}, got {ttl!r}")
