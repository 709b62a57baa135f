"""The asynchronous client: `async with client.claim("genome-42") as lease: …`. Its leases are renewed on a thread of their own, so that a
blocked event loop loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
from types import TracebackType
from typing import Any, Awaitable, Callable, Dict, Optional, Type, TypeVar

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
from ._client import _UNSET
from ._errors import Cancelled, NotAcquired
from ._keep import Keeper
from ._lease import LeaseState
from ._wire import Request
from ._worker import Worker

R = TypeVar("R")


class AsyncLease(BaseLease):
    """A lease held by this process. `lost` is an event that is set when it is lost."""

    def __init__(self, worker: Worker, state: LeaseState, keeper: Keeper, lost: asyncio.Event) -> None:
        super().__init__(worker, state, keeper)
        self.lost = lost

    async def release(self) -> str:
        """Gives it back: `released`, `ended_before`, or `unknown`. A cancelled caller does not stop it."""
        self._let_go = True
        if self._state.pid != os.getpid():
            return "ended_before"
        if self._keeper.result is not None:
            return self._keeper.result
        try:
            future = self._worker.release(self._keeper)
        except RuntimeError:
            return "unknown"
        return await asyncio.shield(asyncio.wrap_future(future))


class AsyncAcquirable:
    """Something to acquire: `async with` it, await `acquire`, or guard a coroutine function with it."""

    def __init__(self, client: BaseClient, wanted: Wanted) -> None:
        self._client, self._worker, self._wanted = client, client._worker, wanted
        self._lease: Optional[AsyncLease] = None
        self._body: Optional["asyncio.Task[Any]"] = None
        self._interrupted = False

    async def acquire(self, blocking: bool = True, timeout: Any = _UNSET) -> Optional[AsyncLease]:
        """The lease; None when it is held by others for as long as `timeout` seconds (None: for ever; default: as it was made)."""
        if timeout is _UNSET or timeout == -1:
            timeout = self._wanted.options.timeout if timeout is _UNSET else None
        try:
            return await self._acquire(timeout if blocking else 0.0)
        except Cancelled:
            raise
        except NotAcquired:
            return None

    async def release(self) -> str:
        """Gives back the lease that this object acquired last."""
        if self._lease is None:
            raise RuntimeError("nothing is acquired")
        lease, self._lease = self._lease, None
        return await lease.release()

    async def locked(self) -> bool:
        """True if every slot is held, by any client. It can change at any moment."""
        work = self._worker.submit(plain(self._worker.calls, self._wanted.look, missing_is_none=True))
        answer = await asyncio.wrap_future(work)
        return answer is not None and is_taken(answer)

    def guard(self, *, skip: bool = False) -> Callable[[Callable[..., Awaitable[R]]], Callable[..., Awaitable[Optional[R]]]]:
        """A decorator: each call of the coroutine function holds a lease of its own."""

        def decorate(function: Callable[..., Awaitable[R]]) -> Callable[..., Awaitable[Optional[R]]]:
            @functools.wraps(function)
            async def guarded(*args: Any, **kwargs: Any) -> Optional[R]:
                scope = AsyncAcquirable(self._client, self._wanted)
                try:
                    await scope.__aenter__()
                except NotAcquired:
                    if skip:
                        return None
                    raise
                try:
                    result = await function(*args, **kwargs)
                except BaseException as error:
                    await scope.__aexit__(type(error), error, error.__traceback__)
                    raise
                await scope.__aexit__(None, None, None)
                return result

            return guarded

        return decorate

    async def __aenter__(self) -> AsyncLease:
        self._body = asyncio.current_task()
        self._interrupted = False
        try:
            return await self._acquire(self._wanted.options.timeout)
        except BaseException:
            self._body = None
            raise

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        body, self._body = self._body, None
        lease, self._lease = self._lease, None
        if lease is None or lease._state.pid != os.getpid():
            return
        loss = lease.loss()
        if self._interrupted and body is not None and hasattr(body, "uncancel"):
            body.uncancel()
        try:
            await lease.release()
        except asyncio.CancelledError:
            # Our own interruption can arrive here when the body ended in the same moment.
            if not self._interrupted or isinstance(error, asyncio.CancelledError):
                raise
        if loss is not None:
            if error is not None and not (self._interrupted and isinstance(error, asyncio.CancelledError)):
                attach(error, loss)
            elif self._wanted.options.raise_on_loss:
                raise loss from None

    def _interrupt(self) -> None:
        """The lease is lost: the body is cancelled, and `__aexit__` turns that into `LeaseLost`."""
        if self._body is not None and not self._body.done():
            self._interrupted = True
            self._body.cancel()

    async def _acquire(self, timeout: Optional[float]) -> AsyncLease:
        if self._lease is not None and self._lease.held:
            raise RuntimeError("already acquired: a lease is not re-entrant, make another object for another lease")
        options, box, lost = self._wanted.options, Box(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell(callback: Callable[..., Any], *args: Any) -> None:
            def run() -> None:
                result = callback(*args)
                if inspect.isawaitable(result):
                    task = asyncio.ensure_future(result)
                    _tasks.add(task)
                    task.add_done_callback(_tasks.discard)

            _soon(loop, run)

        def wrap(state: LeaseState, keeper: Keeper) -> AsyncLease:
            lease = AsyncLease(self._worker, state, keeper, lost)
            box.put(lease)
            return lease

        def at_risk(deadline: float, cause: str) -> None:
            lease = box.get()
            if options.on_at_risk and lease is not None:
                tell(options.on_at_risk, lease, deadline, cause)

        def on_lost() -> None:
            _soon(loop, lost.set)
            lease = box.get()
            if options.on_lost and lease is not None:
                tell(options.on_lost, lease, lease.loss())
            _soon(loop, self._interrupt)

        on_progress = functools.partial(tell, options.on_progress) if options.on_progress else None
        pending = self._worker.acquire(
            self._wanted.make(),
            timeout,
            wrap=wrap,
            on_progress=on_progress,
            max_hold_s=options.max_hold,
            on_at_risk=at_risk,
            on_lost=on_lost,
        )
        try:
            lease: AsyncLease = await asyncio.wrap_future(pending.future)
        except BaseException:
            pending.abandon()
            raise
        if not pending.taken():
            lease._let_go = True
            raise Cancelled("the acquisition was cancelled")
        self._lease = lease
        return lease


_tasks: "set[asyncio.Future[Any]]" = set()


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[[], Any]) -> None:
    # A closed loop has no task to be told.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


class AsyncPool:
    """A pool of numbered slots. Its id is its credential: it is in no `repr`, log or error."""

    def __init__(self, client: "AsyncClient", pool: str) -> None:
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
    ) -> AsyncAcquirable:
        """A slot, waited for at most `wait` seconds (None: for ever)."""
        options = Options(wait, on_lost, on_at_risk, on_progress, max_hold, raise_on_loss)
        return AsyncAcquirable(self._client, wants_slot(self._id, ttl, options))

    async def configure(self, count: int) -> Dict[str, Any]:
        """Creates the pool, or sets how many slots it has. Sent once."""
        return await self._client._plain(Request("PUT", f"/l/{self._id}", {"count": count}))

    async def show(self) -> Dict[str, Any]:
        """`count`, `in_use`, `available`, `waiting`."""
        return await self._client._plain(Request("GET", f"/l/{self._id}"))

    async def delete(self) -> bool:
        """Ends the pool and all its leases; whether there was one. Sent once."""
        return bool((await self._client._plain(Request("DELETE", f"/l/{self._id}"))).get("deleted"))

    def __repr__(self) -> str:
        return "<AsyncPool>"


class AsyncClient(BaseClient):
    __doc__ = f"""The asynchronous client. One daemon thread renews all its leases.
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
    ) -> AsyncAcquirable:
        """The lock of that name, waited for at most `timeout` seconds in all (None: for ever; 0: asked once)."""
        timeout = blocking_timeout if timeout is None else timeout
        options = Options(timeout, on_lost, on_at_risk, on_progress, max_hold, raise_on_loss)
        return AsyncAcquirable(self, wants_lock(self, name, ttl, options))

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
    ) -> AsyncAcquirable:
        """A claim on a named resource; its place in the queue survives reconnects and restarts of the service."""
        options = Options(timeout, on_lost, on_at_risk, on_progress, max_hold, raise_on_loss)
        return AsyncAcquirable(self, wants_claim(resource, ttl, metadata, options))

    def pool(self, id: str) -> AsyncPool:
        """The pool of that id, a UUID."""
        return AsyncPool(self, id)

    async def close(self) -> None:
        """Releases all leases and ends the thread."""
        await asyncio.get_running_loop().run_in_executor(None, self._worker.close)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _plain(self, request: Request) -> Dict[str, Any]:
        answer = await asyncio.wrap_future(self._worker.submit(plain(self._worker.calls, request)))
        assert answer is not None
        return answer.body
