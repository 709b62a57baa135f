"""The synchronous client: `with client.lock("backup") as lease: …`."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import threading
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Type, TypeVar

from ._acquire import Progress
from ._base import (
    DEFAULT_TTL_S,
    BaseClient,
    BaseLease,
    Box,
    Options,
    Wanted,
    attach,
    is_taken,
    plain,
    wants_claim,
    wants_lock,
    wants_slot,
)
from ._errors import Cancelled, NotAcquired
from ._keep import Keeper
from ._lease import LeaseState
from ._wire import Request
from ._worker import Callbacks, Pending, Worker

R = TypeVar("R")


class _Unset:
    pass


_UNSET = _Unset()


class Lease(BaseLease):
    """A lease held by this process. `lost` is an event that is set when it is lost."""

    def __init__(self, worker: Worker, state: LeaseState, keeper: Keeper, lost: threading.Event) -> None:
        super().__init__(worker, state, keeper)
        self.lost = lost

    def release(self) -> str:
        """Gives it back: `released`, `ended_before` (it had ended), or `unknown` (free after its ttl). Raises nothing; can be repeated."""
        self._let_go = True
        if self._state.pid != os.getpid():
            return "ended_before"
        if self._keeper.result is not None:
            return self._keeper.result
        try:
            return self._worker.release(self._keeper).result()
        except (RuntimeError, concurrent.futures.CancelledError):
            return "unknown"


class Cancel:
    """Cancels acquisitions from another thread: `lock.acquire(cancel=c)` raises `Cancelled` after `c.cancel()`."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._pending: List[Pending] = []
        self._is_cancelled = False

    def cancel(self) -> None:
        with self._mutex:
            self._is_cancelled = True
            pending, self._pending = self._pending, []
        for one in pending:
            one.abandon()
            one.future.cancel()

    def _add(self, pending: Pending) -> None:
        with self._mutex:
            if not self._is_cancelled:
                self._pending.append(pending)
                return
        pending.abandon()
        pending.future.cancel()


class Acquirable:
    """Something to acquire: `with` it, call `acquire`, or guard a function with it. It has at most one lease at a time."""

    def __init__(self, client: BaseClient, wanted: Wanted) -> None:
        self._client, self._worker, self._wanted = client, client._worker, wanted
        self._lease: Optional[Lease] = None

    def acquire(self, blocking: bool = True, timeout: Any = _UNSET, *, cancel: Optional[Cancel] = None) -> Optional[Lease]:
        """The lease; None when it is held by others for as long as `timeout` seconds (None: for ever; default: as it was made)."""
        if timeout is _UNSET or timeout == -1:
            timeout = self._wanted.options.timeout if timeout is _UNSET else None
        try:
            return self._acquire(timeout if blocking else 0.0, cancel)
        except Cancelled:
            raise
        except NotAcquired:
            return None

    def release(self) -> str:
        """Gives back the lease that this object acquired last."""
        if self._lease is None:
            raise RuntimeError("nothing is acquired")
        lease, self._lease = self._lease, None
        return lease.release()

    def locked(self) -> bool:
        """True if every slot is held, by any client. It can change at any moment."""
        answer = self._worker.submit(plain(self._worker.calls, self._wanted.look, missing_is_none=True)).result()
        return answer is not None and is_taken(answer)

    def guard(self, *, skip: bool = False) -> Callable[[Callable[..., R]], Callable[..., Optional[R]]]:
        """A decorator: each call of the function holds a lease of its own. With `skip`, None when others hold it."""

        def decorate(function: Callable[..., R]) -> Callable[..., Optional[R]]:
            @functools.wraps(function)
            def guarded(*args: Any, **kwargs: Any) -> Optional[R]:
                scope = Acquirable(self._client, self._wanted)
                try:
                    scope.__enter__()
                except NotAcquired:
                    if skip:
                        return None
                    raise
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:
                    scope.__exit__(type(error), error, error.__traceback__)
                    raise
                scope.__exit__(None, None, None)
                return result

            return guarded

        return decorate

    def __enter__(self) -> Lease:
        return self._acquire(self._wanted.options.timeout, None)

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]) -> None:
        lease, self._lease = self._lease, None
        if lease is None or lease._state.pid != os.getpid():
            return
        loss = lease.loss()
        lease.release()
        if loss is not None:
            if error is not None:
                attach(error, loss)
            elif self._wanted.options.raise_on_loss:
                raise loss

    def _acquire(self, timeout: Optional[float], cancel: Optional[Cancel]) -> Lease:
        if self._lease is not None and self._lease.held:
            raise RuntimeError("already acquired: a lease is not re-entrant, make another object for another lease")
        options, callbacks, box, lost = self._wanted.options, Callbacks(), Box(), threading.Event()

        def wrap(state: LeaseState, keeper: Keeper) -> Lease:
            lease = Lease(self._worker, state, keeper, lost)
            box.put(lease)
            return lease

        def at_risk(deadline: float, cause: str) -> None:
            lease = box.get()
            if options.on_at_risk and lease is not None:
                callbacks.tell(options.on_at_risk, lease, deadline, cause)

        def on_lost() -> None:
            lost.set()
            lease = box.get()
            if options.on_lost and lease is not None:
                callbacks.tell(options.on_lost, lease, lease.loss())

        on_progress: Optional[Callable[[Progress], Any]] = None
        if options.on_progress is not None:
            on_progress = functools.partial(callbacks.tell, options.on_progress)
        pending = self._worker.acquire(
            self._wanted.make(),
            timeout,
            wrap=wrap,
            on_progress=on_progress,
            max_hold_s=options.max_hold,
            on_at_risk=at_risk,
            on_lost=on_lost,
        )
        if cancel is not None:
            cancel._add(pending)
        try:
            lease: Lease = pending.future.result()
        except concurrent.futures.CancelledError:
            pending.abandon()
            raise Cancelled("the acquisition was cancelled") from None
        except BaseException:
            # Ctrl-C, among others: a grant that is under way is given back.
            if not pending.future.done():
                pending.abandon()
            raise
        if not pending.taken():
            lease._let_go = True
            raise Cancelled("the acquisition was cancelled")
        self._lease = lease
        return lease


class Pool:
    """A pool of numbered slots. Its id is its credential: it is in no `repr`, log or error."""

    def __init__(self, client: "Client", pool: str) -> None:
        self._client, self._id = client, pool

    def borrow(
        self,
        ttl: float = DEFAULT_TTL_S,
        wait: Optional[float] = None,
        *,
        on_lost: Optional[Callable[..., Any]] = None,
        on_at_risk: Optional[Callable[..., Any]] = None,
        on_progress: Optional[Callable[[Progress], Any]] = None,
        max_hold: Optional[float] = None,
        raise_on_loss: bool = True,
    ) -> Acquirable:
        """A slot, waited for at most `wait` seconds (None: for ever)."""
        options = Options(wait, on_lost, on_at_risk, on_progress, max_hold, raise_on_loss)
        return Acquirable(self._client, wants_slot(self._id, ttl, options))

    def configure(self, count: int) -> Dict[str, Any]:
        """Creates the pool, or sets how many slots it has. Sent once."""
        return self._client._plain(Request("PUT", f"/l/{self._id}", {"count": count}))

    def show(self) -> Dict[str, Any]:
        """`count`, `in_use`, `available`, `waiting`."""
        return self._client._plain(Request("GET", f"/l/{self._id}"))

    def delete(self) -> bool:
        """Ends the pool and all its leases; whether there was one. Sent once."""
        return bool(self._client._plain(Request("DELETE", f"/l/{self._id}")).get("deleted"))

    def __repr__(self) -> str:
        return "<Pool>"


class Client(BaseClient):
    __doc__ = f"""The synchronous client. One daemon thread renews all its leases.
    {BaseClient.__doc__}"""

    def lock(
        self,
        name: str,
        *,
        ttl: float = DEFAULT_TTL_S,
        timeout: Optional[float] = None,
        blocking_timeout: Optional[float] = None,
        on_lost: Optional[Callable[..., Any]] = None,
        on_at_risk: Optional[Callable[..., Any]] = None,
        on_progress: Optional[Callable[[Progress], Any]] = None,
        max_hold: Optional[float] = None,
        raise_on_loss: bool = True,
    ) -> Acquirable:
        """The lock of that name, waited for at most `timeout` seconds in all (None: for ever; 0: asked once)."""
        timeout = blocking_timeout if timeout is None else timeout
        options = Options(timeout, on_lost, on_at_risk, on_progress, max_hold, raise_on_loss)
        return Acquirable(self, wants_lock(self, name, ttl, options))

    def claim(
        self,
        resource: str,
        *,
        ttl: float = DEFAULT_TTL_S,
        timeout: Optional[float] = None,
        metadata: Any = None,
        on_lost: Optional[Callable[..., Any]] = None,
        on_at_risk: Optional[Callable[..., Any]] = None,
        on_progress: Optional[Callable[[Progress], Any]] = None,
        max_hold: Optional[float] = None,
        raise_on_loss: bool = True,
    ) -> Acquirable:
        """A claim on a named resource; its place in the queue survives reconnects and restarts of the service."""
        options = Options(timeout, on_lost, on_at_risk, on_progress, max_hold, raise_on_loss)
        return Acquirable(self, wants_claim(resource, ttl, metadata, options))

    def pool(self, id: str) -> Pool:
        """The pool of that id, a UUID."""
        return Pool(self, id)

    def close(self) -> None:
        """Releases all leases and ends the thread."""
        self._worker.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plain(self, request: Request) -> Dict[str, Any]:
        answer = self._worker.submit(plain(self._worker.calls, request)).result()
        assert answer is not None
        return answer.body
