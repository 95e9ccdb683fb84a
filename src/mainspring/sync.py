"""The one bridge for code that does not await: the same coroutines, run on a loop of their own."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from .errors import MainspringError
from .records.job import Job
from .span import Span

if TYPE_CHECKING:
    from .task.handle import Handle
    from .task.options import JobOptions
    from .task.task import Task

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_pid = 0


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run(work: Coroutine[Any, Any, T]) -> T:
    """The coroutine's value. Not for use inside an event loop, which it would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _wait(work)
    work.close()
    raise MainspringError(".sync was used inside an event loop; await the method without .sync there")


class CallerThread:
    """What a thread that waits does meanwhile, piece by piece, because only it may or can."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def serve(self) -> None:
        """In that thread, until the end."""
        while (call := self._calls.get()) is not None:
            call()

    def end(self) -> None:
        self._calls.put(None)

    async def do(self, act: Callable[[], T]) -> T:
        """Its value, from there."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def call() -> None:
            try:
                settle = partial(answer.set_result, act())
            except Exception as error:
                settle = partial(answer.set_exception, error)
            answer.get_loop().call_soon_threadsafe(lambda: answer.done() or settle())

        self._calls.put(call)
        return await answer


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """For the coroutine, which runs in the bridge's thread and may have errands for this one."""
    errands = CallerThread()
    token = _caller.set(errands)  # the coroutine gets a copy of what is set here
    try:
        future = asyncio.run_coroutine_threadsafe(work, _bridge())
    finally:
        _caller.reset(token)
    future.add_done_callback(lambda _: errands.end())
    try:
        errands.serve()
    except BaseException:
        future.cancel()  # interrupted: nobody is here any more to do its part
        raise
    return future.result()


_caller: ContextVar[CallerThread | None] = ContextVar("mainspring_caller", default=None)


def is_sync_caller() -> bool:
    """Whether this runs for a caller that does not await."""
    return _caller.get() is not None


async def run_blocking(act: Callable[[], T]) -> T:
    """Blocking work on what is the caller's: in its own thread if it does not await, else beside the event loop."""
    if (caller := _caller.get()) is not None:
        return await caller.do(act)
    work = asyncio.ensure_future(asyncio.to_thread(act))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])  # the caller gets back a connection that is at rest
        raise


def _bridge() -> asyncio.AbstractEventLoop:
    """One loop in one daemon thread for the process, and another one after a fork."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="mainspring-sync", daemon=True).start()
        return _loop


class Sync:
    """Any of our objects, with each coroutine method made a plain call."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if inspect.iscoroutinefunction(value):
            return lambda *args, **kwargs: _plain(run(value(*args, **kwargs)))
        return value if callable(value) or isinstance(value, str | int | float | type(None)) else Sync(value)


def _plain(value: Any) -> Any:
    """Handles have a plain side; everything else is plain already."""
    return [_plain(item) for item in value] if isinstance(value, list) else getattr(value, "sync", value)


class SyncTask(Generic[P, R]):
    """A Task whose enqueue returns when the job is stored."""

    def __init__(self, task: Task[P, R]) -> None:
        self._task = task

    def using(self, **options: Unpack[JobOptions]) -> SyncTask[P, R]:
        return SyncTask(self._task.using(**options))

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]:
        return SyncHandle(run(self._task.enqueue(*args, **kwargs)))


class SyncHandle(Generic[R]):
    """A Handle whose result() waits."""

    def __init__(self, handle: Handle[R]) -> None:
        self._handle = handle
        self.id = handle.id
        self.status = handle.status
        self.duplicate = handle.duplicate

    def job(self) -> Job:
        return run(self._handle.job())

    def result(self, timeout: Span | None = None) -> R:
        return run(self._handle.result(timeout))
