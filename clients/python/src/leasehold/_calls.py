"""Calls with what every call shares: the URLs in turn, a token that is read again after a 401, pauses between attempts."""

from __future__ import annotations

import random
from typing import Optional

from ._errors import (
    DifferentServices,
    Forbidden,
    LeaseholdError,
    ProtocolError,
    ServiceUnavailable,
    TlsError,
    Unauthenticated,
    WrongHost,
)
from ._wire import PLAIN_S, Answer, NoAnswer, Request, Wire

#: Answers that say something about what was asked for; the others are about the call or the service.
TELLING = (200, 201, 202, 204, 404, 409, 410)
NOT_EXECUTED = (429, 503)


class Calls:
    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def once(self, request: Request, *, within_s: Optional[float] = None, renewal: bool = False, fresh: bool = False) -> Answer:
        """One attempt: each URL in turn until one answers or may have carried it out. NoAnswer when none did."""
        if within_s is None:
            within_s = request.wait_s + (10.0 if request.wait_s > 0 else PLAIN_S)
        errors = []
        for place in self.wire.order():
            try:
                return await self._signed(request, place, within_s, renewal, fresh)
            except NoAnswer as error:
                self.wire.skip(place)
                errors.append(error)
                if error.sent and not error.misdirected:
                    raise
        if all(error.misdirected for error in errors):
            raise WrongHost(f"every URL answered that it does not serve this host: {_list(errors)}")
        if all(error.tls for error in errors):
            raise TlsError(f"no TLS connection: {_list(errors)}")
        raise errors[-1]

    async def _signed(self, request: Request, place: int, within_s: float, renewal: bool, fresh: bool) -> Answer:
        answer = await self.wire.call(request, place, within_s=within_s, renewal=renewal, fresh=fresh)
        if answer.status == 401:
            # The token may have been replaced since it was read.
            self.wire.forget_token()
            answer = await self.wire.call(request, place, within_s=within_s, renewal=renewal)
        return answer


def asking_pause_s(failures: int, retry_after_s: Optional[float] = None) -> float:
    """The pause before asking again; `retry_after_s` is what the service asked for."""
    if retry_after_s is not None:
        return retry_after_s + random.uniform(0.0, 1.0)
    return random.uniform(0.0, min(5.0, 0.1 * 2 ** min(failures, 10)))


def refusal(answer: Answer) -> Optional[LeaseholdError]:
    """The error that ends an acquisition at once; None for an answer after which it goes on."""
    if answer.status in TELLING or answer.status in NOT_EXECUTED or answer.status >= 500:
        return None
    if answer.status == 401:
        return Unauthenticated(answer.error, url=answer.url, request_id=answer.request_id)
    if answer.status == 403:
        return Forbidden(answer.error, url=answer.url, request_id=answer.request_id)
    return ProtocolError(f"{answer.error} (HTTP {answer.status})", url=answer.url, request_id=answer.request_id)


def unavailable(error: NoAnswer) -> LeaseholdError:
    if error.other_service:
        return DifferentServices(f"the URLs name different services: {error.why}", url=error.url)
    return ServiceUnavailable(error.why, url=error.url)


def _list(errors: "list[NoAnswer]") -> str:
    return "; ".join(f"{error.url}: {error.why}" for error in errors)
