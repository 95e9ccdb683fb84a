"""The picture of a batch: how far its jobs and callbacks are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from ..flow.graph import Graph
from ..ids import JobId
from ..records.batch import BatchCounts, batch_counts
from ..records.flow import JOBS_STEP, FlowWithPlan
from ..records.job import Job, Shown
from .flow_view import StepState, step_state


class BatchView(Struct, frozen=True, kw_only=True):
    """A batch, as it is now."""

    id: JobId
    name: str
    state: Shown
    """Of its own job: waiting until its jobs and callbacks have ended."""
    open: bool
    """Whether its maker may add further jobs. Closed, its unfinished jobs still may."""
    counts: BatchCounts
    callbacks: Mapping[str, StepState] = {}
    """on_failure, on_success and on_complete, as far as it has them."""
    metadata: Mapping[str, Any] = {}
    reason: str | None = None
    """Why it fails although none of its jobs may be dead, or is being cancelled."""
    created_at: datetime
    ended_at: datetime | None = None
    """When its last job or callback ended."""


def batch_name(job: Job) -> str:
    return str(job.metadata.get("batch", ""))


def batch_view(job: Job, found: FlowWithPlan, now: datetime) -> BatchView:
    row, graph = found.row, Graph(found.plan)
    counts = row.counts[JOBS_STEP]
    callbacks: dict[str, StepState] = {
        graph.steps[n].name: step_state(status, None, now) for n, status in enumerate(row.statuses) if n != JOBS_STEP
    }
    return BatchView(
        id=job.id,
        name=batch_name(job),
        state=job.shown(now),
        open=not counts.closed and row.state == "open",
        counts=batch_counts(counts),
        callbacks=callbacks,
        metadata={name: value for name, value in job.metadata.items() if name != "batch"},
        reason=job.cancel_reason or row.notes.get(JOBS_STEP),
        created_at=job.created_at,
        ended_at=row.ended_at,
    )
