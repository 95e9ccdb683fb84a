"""Durable steps as a task sees them: what suspends its run, and the exceptions of its checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from msgspec import UNSET

from ..errors import BadInput
from ..records.outcome import Discard, Suspend
from ..span import Span, seconds

if TYPE_CHECKING:
    from .task import Task

T = TypeVar("T")
D = TypeVar("D")
P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")


class Suspended(BaseException):
    """Raised inside a task whose run is suspended, so that `except Exception` does not stop it. Let it pass."""


class CheckpointMismatch(Discard):
    """A checkpoint of an earlier run does not fit the type that its step has now."""


class DurableRun(Protocol):
    """The durable steps of one run."""

    suspension: Suspend | None
    """How the run is suspended. None: it is not."""
    has_checkpointed: bool
    """Whether this run has stored a checkpoint."""
    goes_on: bool
    """Whether it has read checkpoints of earlier runs."""

    def step(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None
    ) -> Awaitable[Any]: ...
    def transaction(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None
    ) -> Awaitable[Any]: ...
    def sleep(self, span: Span, name: str | None) -> Awaitable[None]: ...
    def signal(self, name: str, type: Any, timeout: Span | None, default: Any) -> Awaitable[Any]: ...
    def run(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Awaitable[Any]: ...
    def map(
        self, task: Task[..., Any], items: Iterable[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Awaitable[Any]: ...
    def blocking(self) -> BlockingRun: ...


class BlockingRun(Protocol):
    """The durable steps of one run of a plain function."""

    def step(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None) -> Any: ...
    def sleep(self, span: Span, name: str | None) -> None: ...
    def signal(self, name: str, type: Any, timeout: Span | None, default: Any) -> Any: ...
    def run(self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any: ...
    def map(
        self, task: Task[..., Any], items: Iterable[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any: ...


class SyncContext:
    """`ctx.sync`: durable steps of a plain function, with the same parameters as those of the context."""

    def __init__(self, run: Callable[[str], BlockingRun]) -> None:
        """`run` opens the durable steps for the method of that name."""
        self._run = run

    @overload
    def step(
        self, fn: Callable[..., Coroutine[Any, Any, T]], *args: Any, name: str | None = None, **kwargs: Any
    ) -> T: ...
    @overload
    def step(self, fn: Callable[..., T], *args: Any, name: str | None = None, **kwargs: Any) -> T: ...
    def step(self, fn: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any) -> Any:
        return self._blocking("ctx.sync.step()").step(fn, args, kwargs, name)

    def sleep(
        self, span: Span = 0.0, *, days: float = 0, hours: float = 0, minutes: float = 0, name: str | None = None
    ) -> None:
        self._blocking("ctx.sync.sleep()").sleep(total_span(span, days, hours, minutes), name)

    @overload
    def signal(self, name: str, type: type[T], *, timeout: Span | None = None) -> T: ...
    @overload
    def signal(self, name: str, type: type[T], *, timeout: Span, default: D) -> T | D: ...
    @overload
    def signal(self, name: str, type: Any = Any, *, timeout: Span | None = None, default: Any = UNSET) -> Any: ...
    def signal(self, name: str, type: Any = Any, *, timeout: Span | None = None, default: Any = UNSET) -> Any:
        return self._blocking("ctx.sync.signal()").signal(name, type, timeout, default)

    def run(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast("R", self._blocking("ctx.sync.run()").run(task, args, kwargs))

    def map(
        self, task: Task[Concatenate[A, P], R], items: Iterable[A], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[R]:
        return cast("list[R]", self._blocking("ctx.sync.map()").map(task, items, args, kwargs))

    def _blocking(self, what: str) -> BlockingRun:
        if in_event_loop():
            raise BadInput(f"{what} would block the event loop: await the method of ctx itself in an async function")
        return self._run(what)


def total_span(span: Span, days: float, hours: float, minutes: float) -> float:
    """The seconds of a sleep."""
    return seconds(span, "ctx.sleep()") + timedelta(days=days, hours=hours, minutes=minutes).total_seconds()


def in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def suspends(error: BaseException) -> bool:
    """Whether the error only says that the run is suspended; tasks in a group raise it as a group."""
    return isinstance(error, Suspended) or (
        isinstance(error, BaseExceptionGroup) and all(suspends(one) for one in error.exceptions)
    )
