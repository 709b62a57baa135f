"""The state of one lease and its arithmetic. Held is computed from the lease clock, never stored, so that a thread that was stopped
sees the loss before any timer runs. Used from the worker's thread and the user's."""

from __future__ import annotations

import os
import random
import threading
from typing import Any, Callable, Optional

from ._clock import CLOCK
from ._errors import LeaseLost
from ._kinds import Dialect, Grant


def margin_s(length_s: float) -> float:
    return max(length_s / 50, 0.05)


def attempt_s(length_s: float) -> float:
    """A: how long one renewal may take, connecting included."""
    return min(max(length_s / 10, 0.25), 5.0)


class LeaseState:
    def __init__(self, dialect: Dialect, grant: Grant, sent_at: float) -> None:
        self.dialect = dialect
        self.id = grant.id
        self.token = grant.token
        self.slot = grant.slot
        self.slot_name = grant.slot_name
        self.slot_data = grant.slot_data
        self.pid = os.getpid()
        self.granted_at = CLOCK.now()
        self.sent_at = sent_at
        self.length_s = grant.length_s
        self.deadline = sent_at + grant.length_s - margin_s(grant.length_s)
        self.last_error: Optional[str] = None
        #: Called once, by whichever thread notices the loss.
        self.when_lost: Callable[[], Any] = lambda: None
        self._cause: Optional[str] = None
        self._given_back = False
        self._mutex = threading.Lock()

    # The results of the arithmetic.

    def renewal_due(self) -> float:
        return self.sent_at + self.length_s / 3 * random.uniform(0.85, 1.0)

    @property
    def at_risk_at(self) -> float:
        return self.deadline - min(10.0, self.length_s / 3)

    def renewed(self, grant: Grant, sent_at: float) -> bool:
        """A renewal was answered; false when it was heard too late, as lost is final."""
        with self._mutex:
            if self._cause is not None or self._given_back or CLOCK.now() >= self.deadline:
                return False
            self.sent_at, self.length_s = sent_at, grant.length_s
            self.deadline = max(self.deadline, sent_at + grant.length_s - margin_s(grant.length_s))
            self.last_error = None
            return True

    # The user's view.

    @property
    def held(self) -> bool:
        return self._ended_by() is None

    def remaining_s(self) -> float:
        return max(0.0, self.deadline - CLOCK.now()) if self.held else 0.0

    def check(self) -> None:
        if self._ended_by() is not None:
            raise self.loss()

    def loss(self) -> LeaseLost:
        cause = self._ended_by() or "deadline"
        return LeaseLost(self.dialect.label, self.token, cause, last_error=self.last_error, deadline=self.deadline)

    @property
    def lost(self) -> bool:
        """Ended by something else than the user's own release."""
        return self._ended_by() not in (None, "released")

    def lose(self, cause: str) -> bool:
        """True for the caller that made it lost."""
        with self._mutex:
            if self._cause is not None or self._given_back:
                return False
            self._cause = cause
        self.when_lost()
        return True

    def give_back(self) -> bool:
        """The user releases it: from now on it is not held, and no renewal counts. False when it was lost before."""
        with self._mutex:
            if self._cause is None and CLOCK.now() < self.deadline and self.pid == os.getpid():
                self._given_back = True
                return True
        self._ended_by()
        return self._given_back

    def _ended_by(self) -> Optional[str]:
        if self.pid != os.getpid():
            return "forked"
        if self._cause is not None:
            return self._cause
        if self._given_back:
            return "released"
        if CLOCK.now() >= self.deadline:
            self.lose("deadline")
            return self._cause or "released"
        return None

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._cause = self._cause or "forked"
