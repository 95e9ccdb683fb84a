"""Durable steps as a task sees them: what suspends its run, and the exceptions of its checkpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from ..records.outcome import Discard, Suspend
from ..span import Span


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

    def step(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None
    ) -> Awaitable[Any]: ...
    def sleep(self, span: Span, name: str | None) -> Awaitable[None]: ...


def suspends(error: BaseException) -> bool:
    """Whether the error only says that the run is suspended; tasks in a group raise it as a group."""
    return isinstance(error, Suspended) or (
        isinstance(error, BaseExceptionGroup) and all(suspends(one) for one in error.exceptions)
    )
