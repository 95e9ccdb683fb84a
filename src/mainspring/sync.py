"""The bridge for code that does not await: it runs the same coroutines on an event loop in another thread."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from .bounds import BATCH_PAGE_JOBS
from .errors import MainspringError
from .records.job import Job, NewJob
from .span import Span

if TYPE_CHECKING:
    from types import TracebackType

    from .records.batch import BatchCounts
    from .task.batch import Batch
    from .task.batch_options import BatchOptions
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
    """Runs the coroutine and returns its value. Raises MainspringError inside an event loop, which it would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _wait(work)
    work.close()
    raise MainspringError(".sync was used inside an event loop; await the method without .sync there")


class WaitingThread:
    """Runs functions in the thread that waits for a coroutine, since some objects can only be used there."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def serve(self) -> None:
        """Runs the functions until stop() is called. For the waiting thread."""
        while (call := self._calls.get()) is not None:
            call()

    def stop(self) -> None:
        self._calls.put(None)

    async def call(self, act: Callable[[], T]) -> T:
        """Runs the function in the waiting thread and returns its value."""
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
    """Runs the coroutine in the bridge's thread, and meanwhile the functions it has for this one."""
    thread = WaitingThread()
    token = _caller.set(thread)  # the coroutine gets a copy of this context
    try:
        future = asyncio.run_coroutine_threadsafe(work, _bridge())
    finally:
        _caller.reset(token)
    future.add_done_callback(lambda _: thread.stop())
    try:
        thread.serve()
    except BaseException:
        future.cancel()  # interrupted: its functions can no longer run in this thread
        raise
    return future.result()


_caller: ContextVar[WaitingThread | None] = ContextVar("mainspring_caller", default=None)


def is_sync_caller() -> bool:
    """Whether the current coroutine runs for a caller that does not await."""
    return _caller.get() is not None


async def run_blocking(act: Callable[[], T]) -> T:
    """Runs a blocking function on the caller's objects: in the caller's thread if it does not await, else another."""
    if (caller := _caller.get()) is not None:
        return await caller.call(act)
    work = asyncio.ensure_future(asyncio.to_thread(act))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])  # the caller's connection must be idle when it gets it back
        raise


def _bridge() -> asyncio.AbstractEventLoop:
    """The event loop of the bridge: one for the process, in a daemon thread. A forked process gets its own."""
    global _loop, _pid
    with _lock:
        if _loop is None or _pid != os.getpid():
            _loop, _pid = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="mainspring-sync", daemon=True).start()
        return _loop


class Sync:
    """Wraps an object so that its coroutine methods are plain calls, and its asynchronous generators plain ones."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if inspect.iscoroutinefunction(value):
            return lambda *args, **kwargs: _without_await(run(value(*args, **kwargs)))
        if inspect.isasyncgenfunction(value):
            return lambda *args, **kwargs: _iterate(value(*args, **kwargs))
        return value if callable(value) or isinstance(value, str | int | float | type(None)) else Sync(value)


def _iterate(values: AsyncGenerator[T, None]) -> Iterator[T]:
    """The values of an asynchronous generator, for code that does not await."""

    async def following() -> list[T]:
        async for value in values:
            return [value]
        return []

    try:
        while found := run(following()):
            yield from found
    finally:
        run(values.aclose())


def _without_await(value: Any) -> Any:
    """The value for code that does not await: a handle has a `sync` side, other values are unchanged."""
    return [_without_await(item) for item in value] if isinstance(value, list) else getattr(value, "sync", value)


class SyncTask(Generic[P, R]):
    """A Task whose enqueue() is a plain call."""

    def __init__(self, task: Task[P, R]) -> None:
        self._task = task

    def using(self, **options: Unpack[JobOptions]) -> SyncTask[P, R]:
        return SyncTask(self._task.using(**options))

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> SyncHandle[R]:
        return SyncHandle(run(self._task.enqueue(*args, **kwargs)))


class SyncHandle(Generic[R]):
    """A Handle whose job(), result() and signal() are plain calls."""

    def __init__(self, handle: Handle[R]) -> None:
        self._handle = handle
        self.id = handle.id
        self.status = handle.status
        self.duplicate = handle.duplicate

    def job(self) -> Job:
        return run(self._handle.job())

    def result(self, timeout: Span | None = None) -> R:
        return run(self._handle.result(timeout))

    def signal(self, name: str, value: Any = None, *, delivery: str | None = None) -> None:
        run(self._handle.signal(name, value, delivery=delivery))


class SyncBatch:
    """A Batch whose methods are plain calls: `with app.batch("newsletter").sync as batch:`."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.id = batch.id

    def __enter__(self) -> SyncBatch:
        run(self._batch.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self._batch.__aexit__(kind, error, trace))

    def enqueue(self, job: NewJob) -> SyncHandle[Any]:
        return SyncHandle(run(self._batch.enqueue(job)))

    def enqueue_many(self, jobs: Iterable[NewJob]) -> int:
        """The jobs are made in the calling thread, page by page."""
        source, count = iter(jobs), 0
        while page := list(islice(source, BATCH_PAGE_JOBS)):
            count += run(self._batch.enqueue_many(page))
        return count

    def batch(self, name: str, **options: Unpack[BatchOptions]) -> SyncBatch:
        return SyncBatch(self._batch.batch(name, **options))

    def close(self) -> None:
        run(self._batch.close())

    def cancel(self, reason: str = "its maker has cancelled it") -> None:
        run(self._batch.cancel(reason))

    def counts(self) -> BatchCounts:
        return run(self._batch.counts())

    def result(self, timeout: Span | None = None) -> BatchCounts:
        return run(self._batch.result(timeout))
