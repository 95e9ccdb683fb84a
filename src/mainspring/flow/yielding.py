"""Maps over a task that yields: their items are made while it runs, page by page, and no more once it has ended."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..records.flow import Flow, FlowState, ItemCounts, StepEnd, StepStatus
from ..records.plan import PlannedStep
from ..records.step import MAX_LIVES
from .graph import Graph

if TYPE_CHECKING:
    from .row_edit import RowEdit

# Why a map ended although none of its items failed: what became of the job that makes them.
ITEMS_NOT_MADE = "its items could not be made"
ITEMS_STOPPED = "it was stopped before all of its items were made"
# The result of a source, as JSON, that no map took items of when it ran.
NO_MAPS = '"no map takes its items now"'


def open_map(edit: RowEdit, n: int, source: int) -> None:
    """Releases a map. If its source has ended before, for the other maps over it, it begins again."""
    edit.counts[n] = ItemCounts(closed=False, released_at=edit.now)
    edit.set_status(n, StepStatus.RELEASED)
    if not _release_again(edit, source):
        edit.counts[n], edit.notes[n] = ItemCounts(), ITEMS_NOT_MADE
        edit.judge_map(n)


def _release_again(edit: RowEdit, source: int) -> bool:
    """Whether the source runs again, or still. It can be put back to work so often, as any step."""
    if edit.statuses[source] == StepStatus.RELEASED:
        return True
    if edit.lives.get(source, 0) >= MAX_LIVES:
        return False
    edit.release_again(source)
    return True


def close_maps(edit: RowEdit, maps: Collection[int], source: int, end: StepEnd) -> None:
    """Ends the making of items after the job of their source has ended. What was made ends as it does."""
    yielded = _count(end)
    for n in maps:
        counts = edit.counts.get(n)
        if counts is None or counts.closed:
            continue
        if end.skipped and not counts.made:
            edit.counts[n] = replace(counts, closed=True)
            edit.set_status(n, StepStatus.SKIPPED_ABSENT)
            continue
        incomplete = yielded is not None and counts.made < yielded
        # It may have been put back to work while the source ran for other maps.
        if incomplete and edit.statuses[n] == StepStatus.RELEASED and edit.may_run(n) and _release_again(edit, source):
            continue
        edit.counts[n] = replace(counts, closed=True)
        if incomplete or end.state == "cancelled":
            edit.notes[n] = ITEMS_STOPPED
        elif yielded is None and not end.skipped:
            edit.notes[n] = ITEMS_NOT_MADE
        edit.judge_map(n)


def stop_making_items(edit: RowEdit, n: int) -> None:
    """Ends the making of a map's items, while the job of its source goes on for other maps."""
    edit.counts[n] = replace(edit.counts[n], closed=True)
    edit.notes[n] = ITEMS_STOPPED
    edit.judge_map(n)


def may_run(step: PlannedStep, state: FlowState) -> bool:
    """Whether jobs of the step may run while the flow is in this state."""
    match state:
        case "open":
            return True
        case "failing":
            return step.on != "success"
        case "finishing" | "cancelling":
            return step.on == "end"
    return False


def takes_items(graph: Graph, flow: Flow, n: int) -> bool:
    """Whether further items of the map may be made."""
    released = flow.statuses[n] == StepStatus.RELEASED and n in flow.counts
    # The unfinished jobs of a batch may add to it, also once it is closed.
    released = released and (n in graph.open_steps or not flow.counts[n].closed)
    return released and n not in flow.skipped and may_run(graph.steps[n], flow.state)


def _count(end: StepEnd) -> float | None:
    """How many items the source has in all; None if it has not come to its end."""
    if end.state != "completed" or end.skipped or end.finish or end.result is None:
        return None
    if end.result == NO_MAPS:
        return inf  # it is not known how many: no map has all
    return int(end.result) if end.result.isdecimal() else None
