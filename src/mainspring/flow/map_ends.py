"""The ends of a map's items, and of the job that makes them: what they make of the map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..records.flow import ItemCounts, StepEnd, StepStatus
from .graph import Graph
from .yielding import ITEMS_NOT_MADE, ITEMS_STOPPED

if TYPE_CHECKING:
    from .row_edit import RowEdit


def end_of_map(edit: RowEdit, graph: Graph, n: int, index: int, end: StepEnd) -> None:
    """Applies the end of an item, or with index 0 of the job that makes the items."""
    counts = edit.counts.get(n, ItemCounts())
    if index == 0:
        if counts.closed:
            return
        edit.counts[n] = counts = replace(counts, closed=True)
        if end.skipped:  # it maps over null
            edit.set_status(n, StepStatus.SKIPPED_ABSENT)
            return
        if end.state != "completed":
            edit.notes[n] = ITEMS_NOT_MADE if end.state == "dead" else ITEMS_STOPPED
    else:
        dead, cancelled = end.state == "dead", end.state == "cancelled"
        counts = replace(
            counts, ended=counts.ended + 1, dead=counts.dead + dead, cancelled=counts.cancelled + cancelled
        )
        if dead and n in graph.open_steps:  # a callback waits for the first death
            edit.look_at(graph.decided_after[n])
    edit.counts[n] = counts
    judge_map(edit, graph, n)


def judge_map(edit: RowEdit, graph: Graph, n: int) -> None:
    """Ends the map if all of its items have ended, or if too many are dead."""
    if edit.statuses[n] != StepStatus.RELEASED:
        return
    counts, step = edit.counts[n], graph.steps[n]
    was_stopped = edit.notes.get(n) == ITEMS_STOPPED
    failed = (n in edit.notes and not was_stopped) or counts.dead > step.failed_ratio * counts.made
    if counts.done:
        stopped = was_stopped or counts.dead + counts.cancelled > step.failed_ratio * counts.made
        status = StepStatus.DEAD if failed else StepStatus.CANCELLED if stopped else StepStatus.COMPLETED
        edit.set_status(n, status)
    elif failed and (counts.closed or not step.failed_ratio) and graph.plan.fail_fast:
        edit.cancelled.add(n)
        edit.set_status(n, StepStatus.DEAD)
