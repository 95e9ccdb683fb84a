"""The options of a batch, and the job that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec.structs import replace

from ..errors import BadInput
from ..flow.batch_plan import batch_plan
from ..flow.builder import with_plan
from ..records.flow import BATCH
from ..records.job import NewJob
from ..span import Span, seconds
from ..suggest import unexpected_keyword

if TYPE_CHECKING:
    from ..engine import Engine
    from .task import Task

# So long after its last job a batch is closed as dead.
OPEN_SECONDS = 600.0
_CALLBACKS = ("on_success", "on_failure", "on_complete")


class BatchOptions(TypedDict, total=False):
    """The options of app.batch()."""

    on_success: Task[..., Any] | None
    """Called when all jobs have completed."""
    on_failure: Task[..., Any] | None
    """Called when the first job is dead, or when the batch is closed as dead."""
    on_complete: Task[..., Any] | None
    """Called when all jobs have ended, in whatever way."""
    metadata: Mapping[str, Any]
    """What callbacks receive, and lists show."""
    open_for: Span
    """If it is not closed so long after its last job, its maker has gone. Default: 10 minutes."""
    queue: str
    """Of its own job and of the engine's for it; its jobs and callbacks have their own."""
    priority: int
    tags: Sequence[str]
    timeout: Span | None
    """What has not ended so long after its begin is cancelled."""
    within: Any


def new_batch_job(engine: Engine, name: str, options: Mapping[str, Any]) -> tuple[NewJob, Any]:
    """The job of a batch with its plan, and the transaction that it is part of."""
    given = dict(options)
    if unknown := [one for one in given if one not in BatchOptions.__annotations__]:
        raise unexpected_keyword("batch", unknown[0], BatchOptions.__annotations__)
    callbacks = {option: given.pop(option, None) for option in _CALLBACKS}
    open_seconds = seconds(given.pop("open_for", OPEN_SECONDS), "app.batch(open_for=…)")
    if open_seconds <= 0:
        raise BadInput(f"open_for= is the time in which a maker adds further jobs, got {open_seconds:g} s")
    job, within = engine.flow_job(name, given, task=BATCH)
    metadata = {key: value for key, value in job.metadata.items() if key != "batch"}
    plan = batch_plan(engine.registry.app, name, callbacks, metadata, open_seconds)
    return with_plan(replace(job, metadata={**metadata, "batch": name}), plan), within
