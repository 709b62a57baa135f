"""Ways to break the client on purpose. The conformance runner must reject each; if it does not, it cannot tell right from wrong."""

from __future__ import annotations

import secrets
from typing import Any, Callable, Dict

from leasehold import _acquire, _kinds, _lease, _wire
from leasehold._clock import CLOCK


def deadline_from_the_answer() -> None:
    """D counts from the arrival of the answer, as in most lock clients."""
    made, renewed = _lease.LeaseState.__init__, _lease.LeaseState.renewed

    def init(self: Any, dialect: Any, grant: Any, sent_at: float) -> None:
        made(self, dialect, grant, CLOCK.now())

    _lease.LeaseState.__init__ = init  # type: ignore[method-assign]
    _lease.LeaseState.renewed = lambda self, grant, sent_at: renewed(self, grant, CLOCK.now())  # type: ignore[method-assign]


def no_margin() -> None:
    """D is the end of the ttl by the client's clock, to the last moment."""
    _lease.margin_s = lambda length_s: -0.2


def held_is_stored() -> None:
    """Held is what the timers have found out, not what the clock says."""
    _lease.LeaseState._ended_by = lambda self: self._cause or ("released" if self._given_back else None)  # type: ignore[method-assign]


def key_for_every_attempt() -> None:
    """A retry asks under a new name."""
    sent = _wire.Wire._bytes

    def renamed(self: Any, request: Any, where: Any) -> Any:
        if request.key:
            request.key = secrets.token_hex(16)
        return sent(self, request, where)

    _wire.Wire._bytes = renamed  # type: ignore[method-assign]


def cancelled_and_forgotten() -> None:
    """A cancelled acquisition leaves behind what it had."""

    async def settle(self: Any) -> None:
        pass

    _acquire.Acquisition.settle = settle  # type: ignore[method-assign]


def any_answer_counts() -> None:
    """A proxy's 404 is taken for the service's."""
    answered = _wire.Wire._answer

    def believing(self: Any, status: int, headers: Any, body: bytes, *rest: Any) -> Any:
        if headers.get("Leasehold-Position") is None:
            headers["Leasehold-Position"] = "9.9"
            body = b"{}"
        return answered(self, status, headers, body, *rest)

    _wire.Wire._answer = believing  # type: ignore[method-assign,assignment]


def ids_in_the_log() -> None:
    """The label of a pool is its id."""
    _kinds.PoolDialect.label = property(lambda self: f"pool {self.resource}")  # type: ignore[assignment,method-assign]


FLAGS: Dict[str, Callable[[], None]] = {
    "deadline-from-the-answer": deadline_from_the_answer,
    "no-margin": no_margin,
    "held-is-stored": held_is_stored,
    "key-for-every-attempt": key_for_every_attempt,
    "cancelled-and-forgotten": cancelled_and_forgotten,
    "any-answer-counts": any_answer_counts,
    "ids-in-the-log": ids_in_the_log,
}
