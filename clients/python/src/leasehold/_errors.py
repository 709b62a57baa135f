"""The errors of the client, as exceptions. Each has the service's sentence, the URL, and the request id where there was an answer."""

from __future__ import annotations

from typing import Any, Optional


class LeaseholdError(Exception):
    """The base of all errors of this package."""

    #: The same word in every client's errors.
    name = "Error"

    def __init__(self, message: str, *, url: Optional[str] = None, request_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.url = url
        self.request_id = request_id

    def __str__(self) -> str:
        details = [f"{what} {value}" for what, value in (("url", self.url), ("request id", self.request_id)) if value]
        return f"{self.message} ({', '.join(details)})" if details else self.message


class NotAcquired(LeaseholdError):
    """Another holds it; nothing is wrong."""


class Conflict(NotAcquired):
    """It is held and the caller did not want to wait. `holder` is who has it, where the service says so."""

    name = "Conflict"

    def __init__(self, message: str, *, holder: Optional[str] = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.holder = holder


class Timeout(NotAcquired, TimeoutError):
    """It was held by others for as long as the caller wanted to wait."""

    name = "Timeout"


class Cancelled(NotAcquired):
    """The acquisition was cancelled through its `Cancel`."""

    name = "Cancelled"


class NotFound(LeaseholdError):
    """There is no such pool or resource."""

    name = "NotFound"


class Forbidden(LeaseholdError):
    """The caller may not do this; the message names the action that is missing."""

    name = "Forbidden"


class Unauthenticated(LeaseholdError):
    """The service does not accept the caller's credentials."""

    name = "Unauthenticated"


class ServiceUnavailable(LeaseholdError):
    """No answer of the service was heard in the time there was."""

    name = "Unavailable"


class TlsError(LeaseholdError):
    """The certificate of the service is not accepted, or it does not accept ours."""

    name = "Tls"


class WrongHost(LeaseholdError):
    """Every URL answered that it does not serve this host (421)."""

    name = "WrongHost"


class DifferentServices(LeaseholdError):
    """The URLs name more than one service: two services would make two holders."""

    name = "DifferentServices"


class ProtocolError(LeaseholdError):
    """The service refuses the call as malformed; repeating it would not help."""

    name = "Protocol"


class Closed(LeaseholdError):
    """The client was closed."""

    name = "Closed"


class LeaseLost(LeaseholdError):
    """The lease is no longer held. `cause` is `deadline`, `expired`, `revoked`, `deleted`, `forked`, `released`, …"""

    name = "Lost"

    def __init__(
        self, resource: str, token: int, cause: str, *, last_error: Optional[str] = None, deadline: Optional[float] = None
    ) -> None:
        text = f"the lease of {resource} (token {token}) is lost: {cause}"
        super().__init__(f"{text}; last error: {last_error}" if last_error else text)
        self.resource = resource
        self.token = token
        self.cause = cause
        self.last_error = last_error
        #: On the lease clock.
        self.deadline = deadline
