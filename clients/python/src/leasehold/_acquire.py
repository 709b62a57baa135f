"""Acquiring on the worker's loop: asking under one name until it is granted, waiting in rounds, leaving nothing behind when cancelled."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Any, Callable, List, Optional

from ._calls import NOT_EXECUTED, Calls, asking_pause_s, refusal, unavailable
from ._clock import CLOCK
from ._errors import Conflict, DifferentServices, LeaseholdError, NotFound, ServiceUnavailable, Timeout
from ._kinds import KEEP_S, ClaimDialect, Dialect, Grant
from ._lease import LeaseState, attempt_s
from ._wire import Answer, NoAnswer

log = logging.getLogger("leasehold")

SETTLE_S = 5.0
LOOK_S = 10.0
OVERLAP_S = 5.0
#: A call that follows a cut one and is not answered by then waits again, at the back.
FOUND_S = 0.25


@dataclass
class Progress:
    """How an acquisition is getting on. Members are None where the service does not tell."""

    elapsed: float
    #: How often the place in the queue was lost so far.
    place_lost: int = 0
    queue_position: Optional[int] = None
    holders: Optional[List[Any]] = None
    waiting: Optional[int] = None
    eta: Optional[float] = None


class _Ended(Exception):
    """The lease of this name was granted and ended unheard, or its claim is gone: a new name starts afresh."""


class Acquisition:
    """One call of `acquire`, on the worker."""

    def __init__(
        self,
        calls: Calls,
        dialect: Dialect,
        timeout_s: Optional[float],
        round_s: float,
        on_progress: Optional[Callable[[Progress], Any]] = None,
    ) -> None:
        self.calls, self.dialect, self.timeout_s, self.round_s = calls, dialect, timeout_s, round_s
        self.on_progress = on_progress
        self.began = CLOCK.now()
        self.progress = Progress(0.0)
        #: Calls under way, and whether one of unknown outcome may have left something behind.
        self._in_flight = 0
        self._in_doubt = False
        self._claim_id: Optional[str] = None
        self._trouble: Optional[LeaseholdError] = None
        self._told_at = 0.0

    @property
    def asks_once(self) -> bool:
        return self.timeout_s is not None and self.timeout_s <= 0

    async def run(self) -> LeaseState:
        """The lease, confirmed. However this ends otherwise, `settle` is due."""
        work = asyncio.ensure_future(self._run())
        look = asyncio.ensure_future(self._look())
        try:
            limit = None if self.timeout_s is None or self.asks_once else max(0.0, self.timeout_s - (CLOCK.now() - self.began))
            done, _ = await asyncio.wait({work}, timeout=limit)
            if not done:
                if self._trouble is not None:
                    raise self._trouble
                raise Timeout(f"{self.dialect.label} was held by others for {self.timeout_s:.3g} s")
            return work.result()
        finally:
            for task in (work, look):
                task.cancel()
            await asyncio.gather(work, look, return_exceptions=True)

    async def _run(self) -> LeaseState:
        while True:
            try:
                grant, answer = await (self._claim() if self.dialect.polls else self._line())
                state = await self._confirmed(grant, answer)
                if state is not None:
                    return state
            except _Ended:
                pass
            self._lost_place()
            self.dialect = self.dialect.anew()
            self._claim_id, self._in_doubt = None, False

    # Claims: the claim stands in the queue by itself.

    async def _claim(self) -> "tuple[Grant, Answer]":
        dialect = self.dialect
        assert isinstance(dialect, ClaimDialect)
        answer = await self._ask(lambda: dialect.ask(0.0))
        if answer.status == 404:
            raise NotFound(answer.error, url=answer.url, request_id=answer.request_id)
        grant = dialect.grant(answer)
        if grant:
            return grant, answer
        claim_id = answer.body.get("id")
        if answer.status not in (200, 201, 202) or not isinstance(claim_id, str):
            raise _Ended
        self._claim_id = claim_id
        self._saw(answer)
        if self.asks_once:
            raise Conflict(f"{dialect.label} is held", url=answer.url, request_id=answer.request_id)
        while True:
            began = CLOCK.now()
            answer = await self._ask(lambda: dialect.poll(claim_id, self.round_s))
            grant = dialect.grant(answer) if answer.status == 200 else None
            if grant:
                return grant, answer
            if answer.status != 409 or answer.body.get("status") != "waiting":
                raise _Ended
            # A service that cuts waits short must not be asked in a tight loop.
            if CLOCK.now() - began < 0.5:
                await asyncio.sleep(random.uniform(0.2, 0.5))

    async def _ask(self, request: Callable[[], Any]) -> Answer:
        """The first answer that tells something; attempts before it are repeated under the same name."""
        failures = 0
        while True:
            retry_after_s = None
            try:
                answer = await self._once(request())
                error = refusal(answer)
                if error:
                    raise error
                if answer.status not in NOT_EXECUTED and answer.status < 500:
                    self._trouble = None
                    return answer
                failures = 0
                retry_after_s = answer.retry_after_s if answer.status in NOT_EXECUTED else None
                self._had_trouble(ServiceUnavailable(answer.error, url=answer.url, request_id=answer.request_id))
            except NoAnswer as error:
                retry_after_s = error.retry_after_s if error.status in NOT_EXECUTED else None
                self._had_trouble(unavailable(error))
            await asyncio.sleep(asking_pause_s(failures, retry_after_s))
            failures += 1

    async def _once(self, request: Any) -> Answer:
        """One attempt, and what is known after it of what this name has."""
        self._in_flight += 1
        doubt = True
        try:
            answer = await self.calls.once(request)
            # The service keeps the place of a call that waited in vain; a claim is withdrawn by its id.
            is_kept = answer.status == 409 and request.wait_s > 0 and not self.dialect.polls
            if answer.status in (404, 409, 410):
                self._in_doubt = False
            doubt = is_kept or answer.status < 300 or (answer.status >= 500 and answer.status not in (502, 503))
            return answer
        except NoAnswer as error:
            doubt = error.sent
            raise
        except LeaseholdError:
            doubt = False
            raise
        finally:
            self._in_flight -= 1
            self._in_doubt = self._in_doubt or doubt

    # Pools and locks: a place lives as long as one call that joined it and KEEP_S longer, so the next call begins before the last one ends.

    async def _line(self) -> "tuple[Grant, Answer]":
        wait_s = self.round_s
        if self.timeout_s is not None:
            wait_s = max(0.0, min(wait_s, self.timeout_s))
        request = self.dialect.ask(wait_s)
        overlap_s = min(OVERLAP_S, self.round_s / 2)
        parked: List["asyncio.Future[Answer]"] = []
        failures = 0
        launched = 0.0
        was_cut = False
        away_since: Optional[float] = None

        def launch() -> None:
            nonlocal launched
            launched = CLOCK.now()
            parked.append(asyncio.ensure_future(self._once(request)))

        try:
            launch()
            while True:
                left = launched + wait_s - overlap_s - CLOCK.now() if wait_s > overlap_s else None
                if was_cut:
                    left = FOUND_S
                done, _ = await asyncio.wait(parked, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    if was_cut:
                        was_cut, away_since = False, None
                        self._lost_place()
                    else:
                        launch()
                    continue
                call = done.pop()
                parked.remove(call)
                retry_after_s = None
                was_sent = False
                try:
                    answer = call.result()
                    error = refusal(answer)
                    if error:
                        raise error
                    if answer.status == 404:
                        raise NotFound(answer.error, url=answer.url, request_id=answer.request_id)
                    if answer.status == 410:
                        raise _Ended
                    grant = self.dialect.grant(answer) if answer.status in (200, 201) else None
                    if grant:
                        await self._let_run_out(parked)
                        return grant, answer
                    if answer.status == 409:
                        self._trouble = None
                        self._saw(answer)
                        if self.asks_once:
                            holder = answer.body.get("holder")
                            raise Conflict(answer.error, holder=holder, url=answer.url, request_id=answer.request_id)
                        failures = 0
                        if not parked:
                            # A service that cuts waits short must not be asked in a tight loop.
                            if CLOCK.now() - launched < 0.5:
                                await asyncio.sleep(random.uniform(0.2, 0.5))
                            launch()
                        continue
                    failures = 0
                    retry_after_s = answer.retry_after_s if answer.status in NOT_EXECUTED else None
                    trouble: LeaseholdError = ServiceUnavailable(answer.error, url=answer.url, request_id=answer.request_id)
                except NoAnswer as error:
                    retry_after_s = error.retry_after_s if error.status in NOT_EXECUTED else None
                    was_sent = error.sent
                    trouble = unavailable(error)
                if parked:
                    # The place lives on in the other call.
                    continue
                self._had_trouble(trouble)
                # One that was sent and cut off soon may have had a place, too.
                if CLOCK.now() - launched > FOUND_S or (was_sent and away_since is None):
                    away_since = CLOCK.now()
                await asyncio.sleep(asking_pause_s(failures, retry_after_s))
                failures += 1
                # Away for longer than the service keeps a place: the next call may stand at the back.
                was_cut = wait_s > 0 and away_since is not None and CLOCK.now() - away_since > KEEP_S
                launch()
        finally:
            for task in parked:
                task.cancel()
            await asyncio.gather(*parked, return_exceptions=True)

    async def _let_run_out(self, parked: "List[asyncio.Future[Answer]]") -> None:
        """The other call hears of the same lease; closing it before could look like a waiter that left."""
        if parked:
            await asyncio.wait(parked, timeout=0.5)

    # The grant.

    async def _confirmed(self, grant: Grant, answer: Answer) -> Optional[LeaseState]:
        """The lease as it is handed out. One that was waited for is renewed once: `s` of its call is long ago."""
        if answer.heard_at - answer.sent_at <= grant.length_s / 10:
            return LeaseState(self.dialect, grant, answer.sent_at)
        if grant.waited_s is not None:
            # The service says how long it held this call back, so the lease began at least that long after it was sent.
            began_at = answer.sent_at + grant.waited_s
            if answer.heard_at - grant.length_s / 10 <= began_at <= answer.heard_at:
                return LeaseState(self.dialect, grant, began_at)
        request = self.dialect.renew(grant.id, grant.token)
        give_up_at = answer.heard_at + grant.length_s
        while CLOCK.now() < give_up_at:
            try:
                answer = await self.calls.once(request, within_s=attempt_s(grant.length_s), renewal=True, fresh=True)
                renewed = self.dialect.grant(answer) if answer.status == 200 else None
                if renewed:
                    if renewed.token == grant.token and renewed.id == grant.id:
                        return LeaseState(self.dialect, renewed, answer.sent_at)
                    return None
                if answer.status in (404, 409, 410):
                    return None
            except (NoAnswer, LeaseholdError) as error:
                log.debug("%s: confirming failed: %s", self.dialect.label, error)
            await asyncio.sleep(random.uniform(0.0, min(2.0, grant.length_s / 20)))
        return None

    # Telling.

    def _had_trouble(self, error: LeaseholdError) -> None:
        log.info("%s: %s", self.dialect.label, error)
        if self.asks_once or isinstance(error, DifferentServices):
            raise error
        self._trouble = error

    def _lost_place(self) -> None:
        self.progress.place_lost += 1
        log.info("%s: the place in the queue is lost; asking again", self.dialect.label)
        self._tell(always=True)

    def _saw(self, answer: Answer) -> None:
        progress, body = self.progress, answer.body
        if isinstance(body.get("queue_position"), int):
            progress.queue_position = body["queue_position"]
        if isinstance(body.get("waiting"), int):
            progress.waiting = body["waiting"]
        if isinstance(body.get("holders"), list):
            progress.holders = body["holders"]
        elif body.get("holder"):
            progress.holders = [body["holder"]]
        if isinstance(body.get("eta_s"), (int, float)):
            progress.eta = float(body["eta_s"])
        self._tell()

    def _tell(self, always: bool = False) -> None:
        now = CLOCK.now()
        self.progress.elapsed = now - self.began
        if self.on_progress and (always or now - self._told_at >= 1.0):
            self._told_at = now
            self.on_progress(Progress(**vars(self.progress)))

    async def _look(self) -> None:
        """Every ten seconds, how the queue looks."""
        while self.on_progress is not None:
            await asyncio.sleep(LOOK_S)
            request = self.dialect.look(self._claim_id)
            if request is not None:
                try:
                    answer = await self.calls.once(request)
                    if answer.status == 200:
                        self._saw(answer)
                except (NoAnswer, LeaseholdError):
                    pass

    # Leaving nothing behind.

    async def settle(self) -> None:
        """Ends whatever this acquisition has or may have, within five seconds."""
        if not self._in_doubt and self._claim_id is None:
            return
        try:
            await asyncio.wait_for(self._settle(), SETTLE_S)
        except (asyncio.TimeoutError, NoAnswer, LeaseholdError) as error:
            log.warning("%s: what a cancelled acquisition had could not be ended, it is free after its ttl: %s", self.dialect.label, error)

    async def _settle(self) -> None:
        dialect = self.dialect
        if dialect.polls and self._claim_id is None:
            # The claim may have been made: the same request tells its id.
            answer = await self._again(lambda: dialect.ask(0.0))
            if answer.status in (200, 201, 202) and isinstance(answer.body.get("id"), str):
                self._claim_id = answer.body["id"]
        request = dialect.withdraw(self._claim_id)
        if request is None:
            return
        answer = await self._again(lambda: request)
        missing = answer.status in (404, 405) and answer.body.get("code") in (None, "wrong_method", "no_such_path")
        if dialect.kind == "pool" and missing:
            # A service that has no such call.
            await self._settle_by_asking()
        elif dialect.kind == "lock" and answer.status == 403:
            # It holds nothing, but a service that leaves waits alone may grant it in this moment.
            await self._settle_by_asking()
            await self._again(lambda: request)

    async def _settle_by_asking(self) -> None:
        """A service without a call that ends what a key has: the same request for a second more, giving back what it gets."""
        wait_s = max(0.0, min(self.round_s, self.timeout_s)) if self.timeout_s is not None else self.round_s
        try:
            answer = await self.calls.once(self.dialect.ask(wait_s), within_s=1.0, fresh=True)
        except NoAnswer:
            return
        grant = self.dialect.grant(answer) if answer.status in (200, 201) else None
        if grant:
            await self._again(lambda: self.dialect.release(grant.id, grant.token))

    async def _again(self, request: Callable[[], Any]) -> Answer:
        failures = 0
        while True:
            try:
                answer = await self.calls.once(request(), within_s=2.0, fresh=failures > 0)
                if answer.status not in NOT_EXECUTED and answer.status < 500:
                    return answer
            except NoAnswer:
                pass
            await asyncio.sleep(random.uniform(0.0, min(1.0, 0.1 * 2 ** min(failures, 5))))
            failures += 1
