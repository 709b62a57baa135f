"""Keeping a lease on the worker's loop: renewal, at risk, loss at the deadline, release. One keeper a lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import Any, Callable, Optional

from ._calls import NOT_EXECUTED, Calls
from ._clock import CLOCK
from ._errors import LeaseholdError
from ._kinds import ClaimDialect
from ._lease import LeaseState, attempt_s
from ._wire import Answer, NoAnswer

log = logging.getLogger("leasehold")

RELEASE_S = 5.0
#: No timer sleeps longer while a lease is held: timers stop in suspend, the lease clock does not.
SLEEP_MAX_S = 1.0


class Keeper:
    def __init__(
        self,
        calls: Calls,
        state: LeaseState,
        *,
        max_hold_s: Optional[float],
        on_at_risk: Callable[[float, str], Any],
        on_lost: Callable[[], Any],
        on_gone: Callable[["Keeper"], Any],
    ) -> None:
        self.calls, self.state, self.max_hold_s = calls, state, max_hold_s
        self.on_at_risk, self.on_lost, self.on_gone = on_at_risk, on_lost, on_gone
        self._loop = asyncio.get_running_loop()
        self._renewing: Optional["asyncio.Task[Any]"] = None
        self._release: Optional["asyncio.Task[str]"] = None
        #: How the release ended, once it has.
        self.result: Optional[str] = None
        state.when_lost = self._noticed
        self._tasks = [asyncio.ensure_future(self._watch()), asyncio.ensure_future(self._renew())]

    # Held.

    async def _watch(self) -> None:
        """Tells the user at R, and loses the lease at D."""
        state, told = self.state, False
        while state.held:
            now = CLOCK.now()
            if now < state.at_risk_at:
                told = False
                until = state.at_risk_at
            else:
                if not told:
                    told = True
                    log.warning("%s: not renewed; it is lost in %.3g s: %s", state.dialect.label, state.deadline - now, state.last_error)
                    self.on_at_risk(state.deadline, state.last_error or "no renewal was answered yet")
                until = state.deadline
            await asyncio.sleep(min(SLEEP_MAX_S, max(until - CLOCK.now(), 0.0)) + 0.0005)

    async def _renew(self) -> None:
        state, failures, due = self.state, 0, self.state.renewal_due()
        while state.held:
            left = due - CLOCK.now()
            if left > 0:
                await asyncio.sleep(min(left, SLEEP_MAX_S) + 0.0005)
                continue
            if self.max_hold_s is not None and CLOCK.now() - state.granted_at >= self.max_hold_s:
                state.last_error = f"max_hold of {self.max_hold_s:.3g} s is over"
                return
            self._renewing = asyncio.ensure_future(self._attempt(fresh=failures > 0))
            try:
                pause_s = await self._renewing
            finally:
                self._renewing = None
            if pause_s is None:
                failures, due = 0, state.renewal_due()
            else:
                if pause_s < 0:
                    pause_s = random.uniform(0.0, min(2.0, state.length_s / 20, 0.1 * 2 ** min(failures, 10)))
                failures += 1
                due = CLOCK.now() + pause_s

    async def _attempt(self, fresh: bool) -> Optional[float]:
        """One renewal. None when it is renewed or lost; else the pause before the next, below zero for the usual one."""
        state = self.state
        try:
            # `once` compares nothing: what leaves past the deadline could renew a lease that the user was told is lost.
            if not state.held:
                return None
            request = state.dialect.renew(state.id, state.token)
            answer = await self.calls.once(request, within_s=attempt_s(state.length_s), renewal=True, fresh=fresh)
        except NoAnswer as error:
            self._failed(f"{error.url}: {error.why}")
            return self._unhurried(error.retry_after_s) if error.status in NOT_EXECUTED else -1.0
        except LeaseholdError as error:
            self._failed(str(error))
            return -1.0
        grant = state.dialect.grant(answer) if answer.status == 200 else None
        if grant is not None and grant.id == state.id:
            if grant.token != state.token:
                # The lock was free in between and is now ours again, under a token that no caller knows of.
                await self._give_back_quietly(grant.id, grant.token)
                state.lose("expired")
                return None
            if state.renewed(grant, answer.sent_at):
                log.debug("%s: renewed for %.3g s", state.dialect.label, grant.length_s)
            return None
        if answer.status in (404, 409, 410):
            self._failed(answer.error)
            state.lose(_cause(answer, state))
            return None
        self._failed(f"HTTP {answer.status}: {answer.error}")
        return self._unhurried(answer.retry_after_s) if answer.status in NOT_EXECUTED else -1.0

    def _unhurried(self, retry_after_s: Optional[float]) -> float:
        left = max(0.0, (self.state.deadline - CLOCK.now()) / 4)
        return left if retry_after_s is None else min(retry_after_s, left)

    def _failed(self, why: str) -> None:
        log.info("%s: renewal failed: %s", self.state.dialect.label, why)
        self.state.last_error = why

    # Lost.

    def _noticed(self) -> None:
        """Called by whichever thread noticed first."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lost)

    def _lost(self) -> None:
        log.error("%s", self.state.loss())
        self._stop()
        self.on_lost()
        if self._release is None:
            self._release = asyncio.ensure_future(self._after_loss())

    async def _after_loss(self) -> str:
        """One release is still sent, best effort: the id or name of this acquisition cannot touch a successor."""
        await self._wait_for_renewal()
        await self._give_back()
        self.result = "ended_before"
        self.on_gone(self)
        return self.result

    # Released.

    async def release(self) -> str:
        """`released`, `ended_before`, or `unknown`. A second call waits for the first."""
        if self._release is None:
            self.state.give_back()
            if self._release is None:
                self._release = asyncio.ensure_future(self._let_go())
        return await asyncio.shield(self._release)

    async def _let_go(self) -> str:
        self._stop()
        await self._wait_for_renewal()
        self.result = await self._give_back()
        log.debug("%s: %s", self.state.dialect.label, self.result)
        self.on_gone(self)
        return self.result

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _wait_for_renewal(self) -> None:
        """No renewal outlives its release. Those of pools and claims are by id and can be abandoned; a lock's would take the lock anew."""
        renewing = self._renewing
        if renewing is not None:
            if self.state.dialect.kind == "lock" and not self.state.lost:
                await asyncio.wait({renewing}, timeout=attempt_s(self.state.length_s))
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    async def _give_back(self) -> str:
        began, failures, unheard = CLOCK.now(), 0, False
        state = self.state
        request = state.dialect.release(state.id, state.token)
        while True:
            left = RELEASE_S - (CLOCK.now() - began)
            if left <= 0:
                log.warning("%s: no answer to the release; it is free after its ttl", state.dialect.label)
                return "unknown"
            pause_s = None
            try:
                answer = await self.calls.once(request, within_s=min(2.0, left), fresh=failures > 0)
                if answer.status in (200, 204) and answer.body.get("returned", True) is not False:
                    return "released"
                if answer.status == 409 and answer.body.get("status") == "waiting" and isinstance(state.dialect, ClaimDialect):
                    withdraw = state.dialect.withdraw(state.id)
                    assert withdraw is not None
                    request = withdraw
                    continue
                if answer.status in (200, 404, 409, 410) or (answer.status == 403 and _is_not_holder(answer)):
                    return "released" if unheard else "ended_before"
                if answer.status not in NOT_EXECUTED and answer.status < 500:
                    log.warning("%s: the release was refused: %s", state.dialect.label, answer.error)
                    return "unknown"
                pause_s = answer.retry_after_s
            except NoAnswer as error:
                unheard = unheard or error.sent
            except LeaseholdError as error:
                log.warning("%s: the release failed: %s", state.dialect.label, error)
            if pause_s is None:
                pause_s = random.uniform(0.0, min(1.0, 0.1 * 2 ** min(failures, 5)))
            failures += 1
            await asyncio.sleep(min(pause_s, max(0.0, RELEASE_S - (CLOCK.now() - began))))

    async def _give_back_quietly(self, lease_id: str, token: int) -> None:
        with contextlib.suppress(NoAnswer, LeaseholdError):
            await self.calls.once(self.state.dialect.release(lease_id, token), within_s=2.0)


def _cause(answer: Answer, state: LeaseState) -> str:
    for member in ("ended", "status"):
        value = answer.body.get(member)
        if isinstance(value, str):
            return value
    if answer.status == 404:
        return "deleted"
    return "expired"


def _is_not_holder(answer: Answer) -> bool:
    code = answer.body.get("code")
    if isinstance(code, str):
        return code in ("not_holder", "not-holder", "not_the_holder", "lock_not_held")
    return "hold" in answer.error
