"""The one bridge for code that does not await: the same coroutines, run on a loop of their own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

from .errors import MainspringError
from .job import Job

if TYPE_CHECKING:
    from .handle import Handle
    from .task import JobOptions, Task

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


def run(work: Coroutine[Any, Any, T], *, here: bool = False) -> T:
    """The coroutine's value. Not for use inside an event loop, which it would block.

    `here`: in this very thread, where the caller's own connection belongs.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work) if here else asyncio.run_coroutine_threadsafe(work, _bridge()).result()
    work.close()
    raise MainspringError(".sync was used inside an event loop; await the method without .sync there")


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
        if asyncio.iscoroutinefunction(value):
            return lambda *args, **kwargs: _plain(run(value(*args, **kwargs), here=kwargs.get("within") is not None))
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
        return SyncHandle(run(self._task.enqueue(*args, **kwargs), here=self._task.options.within is not None))


class SyncHandle(Generic[R]):
    """A Handle whose result() waits."""

    def __init__(self, handle: Handle[R]) -> None:
        self._handle = handle
        self.id = handle.id
        self.status = handle.status
        self.duplicate = handle.duplicate

    def job(self) -> Job:
        return run(self._handle.job())

    def result(self, timeout: float | None = None) -> R:
        return run(self._handle.result(timeout))
