"""The three dialects: which call asks, renews, gives back, and what their answers say. No retries, no clocks."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple
from urllib.parse import quote, urlencode

from ._wire import Answer, Request

LOCK_TTL_MAX_S = 86_400.0
#: A claim whose waiter is gone leaves the queue after this long, where the service knows the member.
WAIT_TTL_S = 120
#: So long the service keeps the place of a pool or a lock when none of its calls is there: longer than a restart and the pause before
#: the next call, and no longer than a dead waiter may hold up those behind it.
KEEP_S = 15.0


@dataclass
class Grant:
    """The part of an answer about a lease."""

    id: str
    token: int
    slot: Optional[int]
    length_s: float
    #: How long the service held the call back before it granted, where it says so.
    waited_s: Optional[float] = None
    #: The name and the data of the slot, where slots have names.
    slot_name: Optional[str] = None
    slot_data: Any = None


class Dialect:
    """One acquisition of one resource, under a name of its own that is never used again."""

    kind = ""
    #: A poll of its own follows the first answer (claims); else the first call itself is parked.
    polls = False

    def __init__(self, resource: str, ttl_s: float) -> None:
        self.resource = resource
        self.ttl_s = ttl_s
        self.name = secrets.token_hex(16)

    @property
    def label(self) -> str:
        """The resource, as it may be shown."""
        return f"{self.kind} {self.resource!r}"

    def anew(self) -> "Dialect":
        raise NotImplementedError

    def ask(self, wait_s: float) -> Request:
        raise NotImplementedError

    def grant(self, answer: Answer) -> Optional[Grant]:
        """The lease that a 200 or 201 tells of; None when it does not fit."""
        raise NotImplementedError

    def renew(self, lease_id: str, token: int) -> Request:
        raise NotImplementedError

    def release(self, lease_id: str, token: int) -> Request:
        raise NotImplementedError

    def withdraw(self, lease_id: Optional[str]) -> Optional[Request]:
        """Ends whatever this name has, held or waiting; None when there is no such call."""
        raise NotImplementedError

    def look(self, lease_id: Optional[str]) -> Optional[Request]:
        """A plain read that tells of the queue."""
        raise NotImplementedError


class LockDialect(Dialect):
    kind = "lock"

    def __init__(self, resource: str, ttl_s: float, client: str) -> None:
        super().__init__(resource, ttl_s)
        self.client = client
        self.holder = f"{client}/{self.name}"

    def anew(self) -> "LockDialect":
        return LockDialect(self.resource, self.ttl_s, self.client)

    def _path(self, **query: str) -> str:
        return "/lock?" + urlencode({"job": self.resource, "client": self.holder, **query}, quote_via=quote)

    def ask(self, wait_s: float) -> Request:
        query = {"ttl": _go(self.ttl_s)}
        if wait_s > 0:
            query["wait"] = _go(wait_s)
            query["keep"] = _go(KEEP_S)
        return Request("POST", self._path(**query), key=self.name, wait_s=wait_s)

    def grant(self, answer: Answer) -> Optional[Grant]:
        token = answer.body.get("token")
        if not isinstance(token, int) or answer.body.get("holder") != self.holder:
            return None
        length_s = _number(answer.body.get("expires_in"))
        if length_s is None:
            length_s = min(self.ttl_s, LOCK_TTL_MAX_S)
        return Grant(self.holder, token, None, length_s, _number(answer.body.get("waited_s")))

    def renew(self, lease_id: str, token: int) -> Request:
        return Request("POST", self._path(ttl=_go(self.ttl_s), token=str(token)))

    def release(self, lease_id: str, token: int) -> Request:
        return Request("DELETE", self._path(token=str(token)))

    def withdraw(self, lease_id: Optional[str]) -> Optional[Request]:
        return Request("DELETE", self._path(), key=self.name)

    def look(self, lease_id: Optional[str]) -> Optional[Request]:
        return Request("GET", self._path())


class ClaimDialect(Dialect):
    kind = "claim"
    polls = True

    def __init__(self, resource: str, ttl_s: float, metadata: Any) -> None:
        super().__init__(resource, ttl_s)
        self.metadata = metadata

    def anew(self) -> "ClaimDialect":
        return ClaimDialect(self.resource, self.ttl_s, self.metadata)

    def ask(self, wait_s: float) -> Request:
        body: Dict[str, Any] = {"resource": self.resource, "timeout": self.ttl_s}
        if self.metadata is not None:
            body["metadata"] = self.metadata
        return Request("POST", "/v1/claims/", body, key=self.name)

    def poll(self, lease_id: str, wait_s: float) -> Request:
        path = f"/v1/claims/{quote(lease_id, safe='')}/?wait={wait_s:.6g}"
        return Request("PATCH", path, {"status": "active", "ttl": self.ttl_s}, wait_s=wait_s)

    def grant(self, answer: Answer) -> Optional[Grant]:
        body = answer.body
        length_s = _number(body.get("expires_in"))
        if length_s is None:
            length_s = _number(body.get("ttl"))
        if body.get("status") != "active" or not isinstance(body.get("token"), int) or length_s is None:
            return None
        if not isinstance(body.get("id"), str) or body.get("resource") != self.resource:
            return None
        number, name, data = _named(body)
        return Grant(body["id"], body["token"], number, length_s, _number(body.get("waited_s")), name, data)

    def _patch(self, lease_id: str, **body: Any) -> Request:
        return Request("PATCH", f"/v1/claims/{quote(lease_id, safe='')}/", body)

    def renew(self, lease_id: str, token: int) -> Request:
        return self._patch(lease_id, ttl=self.ttl_s)

    def release(self, lease_id: str, token: int) -> Request:
        return self._patch(lease_id, status="released")

    def withdraw(self, lease_id: Optional[str]) -> Optional[Request]:
        return self._patch(lease_id, status="withdrawn") if lease_id else None

    def look(self, lease_id: Optional[str]) -> Optional[Request]:
        return Request("GET", f"/v1/claims/{quote(lease_id, safe='')}/") if lease_id else None


class PoolDialect(Dialect):
    kind = "pool"

    @property
    def label(self) -> str:
        # The id is the credential.
        return "a pool"

    def anew(self) -> "PoolDialect":
        return PoolDialect(self.resource, self.ttl_s)

    def _path(self, call: str) -> str:
        return f"/l/{quote(self.resource, safe='')}/{call}"

    def ask(self, wait_s: float) -> Request:
        body = {"ttl": self.ttl_s, "wait": wait_s}
        if wait_s > 0:
            body["keep"] = KEEP_S
        return Request("POST", self._path("borrow"), body, key=self.name, wait_s=wait_s)

    def grant(self, answer: Answer) -> Optional[Grant]:
        body = answer.body
        length_s = _number(body.get("expires_in"))
        if not isinstance(body.get("lease"), str) or not isinstance(body.get("token"), int) or length_s is None:
            return None
        _, name, data = _named(body)
        number = _slot(body.get("position"))
        return Grant(body["lease"], body["token"], number, length_s, _number(body.get("waited_s")), name, data)

    def renew(self, lease_id: str, token: int) -> Request:
        return Request("POST", self._path("renew"), {"lease": lease_id, "ttl": self.ttl_s})

    def release(self, lease_id: str, token: int) -> Request:
        return Request("POST", self._path("return"), {"lease": lease_id})

    def withdraw(self, lease_id: Optional[str]) -> Optional[Request]:
        return Request("DELETE", self._path("borrow"), key=self.name)

    def look(self, lease_id: Optional[str]) -> Optional[Request]:
        return Request("GET", f"/l/{quote(self.resource, safe='')}", key=self.name)


def _number(value: Any) -> Optional[float]:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _slot(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _named(body: Dict[str, Any]) -> Tuple[Optional[int], Optional[str], Any]:
    """Number, name and data of the slot, where slots have names."""
    slot = body.get("slot")
    if not isinstance(slot, dict) or not isinstance(slot.get("name"), str):
        return None, None, None
    return _slot(slot.get("number")), slot["name"], slot.get("data")


def _go(seconds: float) -> str:
    """A Go duration of whole microseconds, rounded up: a shorter ttl than the arithmetic has would make two holders."""
    return f"{-(-round(seconds * 1_000_000_000) // 1000)}us"
