"""The one daemon thread of a client, with an event loop of its own. Acquiring, renewing and releasing run here, so that a blocked,
cancelled or ended program of the user's does not matter. After a fork the child starts afresh."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any, Awaitable, Callable, Deque, List, Optional, Set, Tuple, TypeVar

from ._acquire import Acquisition, Progress
from ._calls import Calls
from ._errors import Closed
from ._keep import Keeper
from ._kinds import Dialect
from ._lease import LeaseState
from ._wire import Wire

log = logging.getLogger("leasehold")
T = TypeVar("T")

EXIT_S = 2.0

#: Loops of a parent process. Closing them in a child would take the parent's sockets out of the poll set that both share.
_parents: List[Any] = []
#: Those whose thread runs: what they hold or settle is not forgotten with the client that began it.
_workers: "Set[Worker]" = set()


class Callbacks:
    """How the user is told, apart from renewal: each lease in order, on a thread that lives while there is something to tell."""

    def __init__(self) -> None:
        self._todo: Deque[Tuple[Callable[..., Any], Tuple[Any, ...]]] = deque()
        self._mutex = threading.Lock()
        self._running = False

    def tell(self, callback: Callable[..., Any], *args: Any) -> None:
        with self._mutex:
            self._todo.append((callback, args))
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="leasehold-callback", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._mutex:
                if not self._todo:
                    self._running = False
                    return
                callback, args = self._todo.popleft()
            try:
                callback(*args)
            except BaseException:
                log.exception("a callback raised")


class Pending:
    """An acquisition under way, shared by the user's thread and the worker. Exactly one side takes care of the lease it ends with."""

    def __init__(self) -> None:
        self.future: "concurrent.futures.Future[Any]" = concurrent.futures.Future()
        self._mutex = threading.Lock()
        self._abandoned = False
        self._handed_over = False
        self._cancel: Optional[Callable[[], Any]] = None
        self._give_back: Optional[Callable[[], Any]] = None

    def abandon(self) -> None:
        """The user no longer wants it, also when it was granted this moment."""
        with self._mutex:
            if self._abandoned or self._handed_over:
                return
            self._abandoned = True
            undo = self._give_back or self._cancel
        if undo:
            undo()

    def taken(self) -> bool:
        """The user takes the lease; false when it was abandoned before."""
        with self._mutex:
            self._handed_over = not self._abandoned
            return self._handed_over

    def cancels_by(self, cancel: Callable[[], Any]) -> None:
        with self._mutex:
            self._cancel = cancel
            abandoned = self._abandoned
        if abandoned:
            cancel()

    def finish(self, lease: Any, give_back: Callable[[], Any]) -> None:
        """On the worker: the lease is there."""
        with self._mutex:
            self._give_back = give_back
            abandoned = self._abandoned
        if abandoned:
            give_back()
        elif self.future.set_running_or_notify_cancel():
            self.future.set_result(lease)

    def fail(self, error: BaseException) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Worker:
    def __init__(self, make_wire: Callable[[], Wire], round_s: float) -> None:
        self._make_wire, self.round_s = make_wire, round_s
        self._fresh()

    def _fresh(self) -> None:
        self.pid = os.getpid()
        self.closed = False
        self.retired = False
        self.keepers: Set[Keeper] = set()
        self.states: "weakref.WeakSet[LeaseState]" = weakref.WeakSet()
        self._settling: Set["asyncio.Task[Any]"] = set()
        #: How many answers user threads wait for: the loop may not stop before they are told.
        self._awaited = 0
        self._mutex = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._wire: Optional[Wire] = None
        self._calls: Optional[Calls] = None

    # From the user's threads.

    def acquire(
        self,
        dialect: Dialect,
        timeout_s: Optional[float],
        *,
        wrap: Callable[[LeaseState, Keeper], Any],
        on_progress: Optional[Callable[[Progress], Any]],
        max_hold_s: Optional[float],
        on_at_risk: Callable[[float, str], Any],
        on_lost: Callable[[], Any],
    ) -> Pending:
        """Begins to acquire; `wrap` makes what the user gets of the lease."""
        pending = Pending()
        loop = self._running()
        calls = self._calls
        assert calls is not None

        async def run() -> None:
            acquisition = Acquisition(calls, dialect, timeout_s, self.round_s, on_progress)
            try:
                state = await acquisition.run()
            except BaseException as error:
                cancelled = isinstance(error, asyncio.CancelledError)
                pending.fail(concurrent.futures.CancelledError() if cancelled else error)
                await asyncio.shield(self._settle(acquisition))
                return
            keeper = Keeper(calls, state, max_hold_s=max_hold_s, on_at_risk=on_at_risk, on_lost=on_lost, on_gone=self._gone)
            self.keepers.add(keeper)
            self.states.add(state)
            lease = wrap(state, keeper)
            pending.finish(lease, lambda: self.release_later(keeper))

        def begin() -> None:
            task = asyncio.ensure_future(run())
            self._settling.add(task)
            task.add_done_callback(self._settled)
            pending.cancels_by(lambda: self._call(task.cancel))

        loop.call_soon_threadsafe(begin)
        return pending

    def _settle(self, acquisition: Acquisition) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(acquisition.settle())
        self._settling.add(task)
        task.add_done_callback(self._settled)
        return task

    def release(self, keeper: Keeper) -> "concurrent.futures.Future[str]":
        return self.submit(keeper.release())

    def release_later(self, keeper: Keeper) -> None:
        """Never blocks and never raises: for finalizers and abandoned grants."""

        def begin() -> None:
            task = asyncio.ensure_future(keeper.release())
            self._settling.add(task)
            task.add_done_callback(self._settled)

        self._call(begin)

    def submit(self, work: Awaitable[T]) -> "concurrent.futures.Future[T]":
        loop = self._running()
        with self._mutex:
            # Before the work begins: it may be over before this thread goes on.
            self._awaited += 1
        future = asyncio.run_coroutine_threadsafe(_as_coroutine(work), loop)
        future.add_done_callback(self._heard)
        return future

    @property
    def calls(self) -> Calls:
        self._running()
        assert self._calls is not None
        return self._calls

    def close(self, within_s: Optional[float] = None) -> None:
        """Releases all leases in parallel, waits for what is being settled, and ends the thread."""
        with self._mutex:
            if self.closed or self.pid != os.getpid():
                return
            self.closed = True
            loop = self._loop
        if loop is None:
            return
        try:
            done = asyncio.run_coroutine_threadsafe(self._let_all_go(), loop)
            done.result(within_s)
        except (concurrent.futures.TimeoutError, TimeoutError):
            log.warning("not every release was answered within %.3g s; what is left is free after its ttl", within_s or 0.0)
        except RuntimeError:
            return
        self._call(loop.stop)
        _workers.discard(self)

    def retire(self) -> None:
        """The client is gone: the thread ends when nothing is held or settled any more."""
        self.retired = True
        self._call(self._end_if_idle)

    def _gone(self, keeper: Keeper) -> None:
        self.keepers.discard(keeper)
        self._end_if_idle()

    def _heard(self, future: "concurrent.futures.Future[Any]") -> None:
        with self._mutex:
            self._awaited -= 1
        self._call(self._end_if_idle)

    def _settled(self, task: "asyncio.Task[Any]") -> None:
        self._settling.discard(task)
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self.retired and not (self.keepers or self._settling or self._awaited) and self._loop is not None:
            if self._wire is not None:
                self._wire.drop_all()
            self._loop.stop()
            _workers.discard(self)

    async def _let_all_go(self) -> None:
        releases = [keeper.release() for keeper in list(self.keepers)]
        await asyncio.gather(*releases, *list(self._settling), return_exceptions=True)
        if self._wire is not None:
            self._wire.drop_all()

    def _call(self, function: Callable[..., Any]) -> None:
        loop = self._loop
        if loop is not None and self.pid == os.getpid():
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(function)

    # The thread.

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._mutex:
            if self.closed:
                raise Closed("the client is closed")
            if self._loop is None:
                self._wire = self._make_wire()
                self._calls = Calls(self._wire)
                self._loop = _start_loop()
                _workers.add(self)
            return self._loop

    def after_fork_in_child(self) -> None:
        for state in list(self.states):
            state.after_fork()
        if self._wire is not None:
            self._wire.close_descriptors()
        if self._loop is not None:
            _parents.append(self._loop)
        _parents.extend(self.keepers)
        closed, retired = self.closed, self.retired
        self._fresh()
        self.closed, self.retired = closed, retired
        _workers.discard(self)


def _start_loop() -> asyncio.AbstractEventLoop:
    """An event loop that runs on an OS thread of its own."""
    made: "List[asyncio.AbstractEventLoop]" = []
    native = _native_start()
    is_made = threading.Event() if native is None else None

    def run() -> None:
        # Made on its own thread: gevent ties sockets to the thread that makes them.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        made.append(loop)
        if is_made is not None:
            is_made.set()
        loop.run_forever()

    if is_made is not None:
        threading.Thread(target=run, name="leasehold", daemon=True).start()
        is_made.wait()
    elif native is not None:
        native(run, ())
        while not made:
            # An event of theirs cannot be set from an OS thread; this yields to other greenlets.
            time.sleep(0.001)
    return made[0]


def _native_start() -> Optional[Callable[..., Any]]:
    """Starts an OS thread where gevent or eventlet have replaced `threading` by greenlets, which a busy program would starve."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        return gevent.get_original("_thread", "start_new_thread")  # type: ignore[no-any-return]
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return eventlet.original("_thread").start_new_thread  # type: ignore[no-any-return]
    return None


async def _as_coroutine(work: Awaitable[T]) -> T:
    return await work


def _after_fork_in_child() -> None:
    for worker in list(_workers):
        worker.after_fork_in_child()


def _at_exit() -> None:
    busy = [worker for worker in list(_workers) if worker.keepers or worker._settling]
    threads = [threading.Thread(target=worker.close, args=(EXIT_S,), daemon=True) for worker in busy]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:
        # No threads any more: one after the other.
        for worker in busy:
            worker.close(EXIT_S)
        return
    for thread in threads:
        thread.join(EXIT_S)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
