"""A batch: a flow whose first step has jobs of any task as items. They are added from outside, until it is closed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from ..ids import JobId
from ..records.batch import batch_counts
from ..records.flow import CLOSE_BATCH, JOBS_STEP, Flow, ItemCounts, StepStatus
from ..records.job import MAX_PRIORITY, NewJob
from ..records.step import MAX_POSITION
from .job_template import step_job_id
from .json_text import encode_text, object_text
from .yielding import ITEMS_STOPPED

if TYPE_CHECKING:
    from .graph import Graph
    from .row_edit import RowEdit

NEVER_CLOSED = "it was never closed: its maker has gone"


def closing_job_id(flow: JobId, opened_at: datetime) -> JobId:
    """The id of the job that looks whether the maker of a batch has gone."""
    return step_job_id(flow, MAX_POSITION, opened_at)


def open_batch(edit: RowEdit, graph: Graph, flow: Flow, n: int) -> None:
    """Releases the step that has the jobs of a batch. If its maker never closes it, a job does."""
    seconds = graph.steps[n].open_seconds or 0.0
    edit.counts[n] = ItemCounts(closed=False, released_at=edit.now)
    edit.add_internal_job(
        NewJob(
            id=closing_job_id(flow.id, edit.now),
            task=CLOSE_BATCH,
            payload=f'{{"flow":"{flow.id}"}}',
            queue=flow.queue,
            priority=MAX_PRIORITY,
            run_at=edit.now + timedelta(seconds=seconds),
        )
    )
    edit.set_status(n, StepStatus.RELEASED)


def close_batch(edit: RowEdit, graph: Graph, n: int, note: str | None = None) -> None:
    """No more jobs come from outside. `note` says why it does not complete. Closed again, it stays as it is."""
    counts = edit.counts[n]
    if counts.closed:
        return
    edit.counts[n] = replace(counts, closed=True)
    if note is not None:
        edit.notes[n] = note
    edit.look_at(graph.decided_after[n])
    edit.judge_map(n)


def reopen_batch(edit: RowEdit, n: int) -> None:
    """Puts a batch back to work that was stopped or never closed: the jobs that it has are all."""
    edit.notes.pop(n, None)
    edit.statuses[n] = StepStatus.RELEASED
    edit.judge_map(n)


def has_failed(edit: RowEdit, n: int) -> bool:
    """Whether one of the jobs is dead, or the batch was never closed."""
    return edit.counts[n].dead > 0 or edit.notes.get(n, ITEMS_STOPPED) != ITEMS_STOPPED


def has_told(graph: Graph, flow: Flow, n: int) -> bool:
    """Whether the step is a callback that was told that a batch has failed: that happens once, also if its dead jobs
    are put back to work."""
    called = graph.steps[n].on == "failure" and flow.statuses[n] in (StepStatus.COMPLETED, StepStatus.DEAD)
    return called and any(need in graph.open_steps for need in graph.needs[n])


def summary_text(edit: RowEdit, graph: Graph, flow: Flow) -> str:
    """How far the batch is, as JSON: a records.batch.BatchSummary."""
    (name, metadata), items = graph.plan.inputs, edit.counts[JOBS_STEP]
    return object_text(
        {
            "id": encode_text(flow.id),
            "name": name,
            "counts": encode_text(asdict(batch_counts(items))),
            "metadata": metadata,
            "reason": encode_text(edit.notes.get(JOBS_STEP)),
        }
    )
