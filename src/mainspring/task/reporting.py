"""What the context of a run calls: the worker's side of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..records.job import Job
from ..records.run import Items, RunReport

if TYPE_CHECKING:
    from ..records.outcome import Outcome
    from .batch import Batch
    from .context import Context
    from .durable import DurableRun


class Reports(Protocol):
    """The log lines, output, progress, items and notes of one run."""

    counted: Items | None
    metadata: dict[str, Any]

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]: ...
    def progress(self, done: float, total: float | None, note: str) -> None: ...
    def write(self, data: bytes, resumed: bool = False) -> Awaitable[None]: ...
    def items(self, success: int, failed: int, skipped: int) -> None: ...
    def note(self, metadata: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...
    def hold_back(self) -> AbstractContextManager[None]: ...
    def drain(self) -> RunReport: ...
    def restore(self, report: RunReport) -> None: ...
    async def number(self, store: Any) -> None: ...
    def sent(self, report: RunReport, accepted: bool) -> None: ...


class Reporting(Protocol):
    """The worker's side of a context: it collects reports, opens transactions, keeps checkpoints and finds batches."""

    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    def open(self, job: Job) -> Reports: ...
    def transaction(self, ctx: Context) -> AbstractAsyncContextManager[Any]: ...
    def durable(self, ctx: Context) -> DurableRun: ...
    def batch(self, job: Job) -> Batch: ...


class Commit(Protocol):
    """The completion of a run that is committed together with its effects."""

    outcome: Outcome | None
    """The committed outcome. None before the commit."""

    def set_result(self, result: Any) -> None: ...

    @property
    def irrevocable(self) -> bool:
        """Whether it is too late to end the run in another way."""
        ...


class Yielded(Protocol):
    """What a task yields, in one run."""

    def asked_made(self) -> int: ...
