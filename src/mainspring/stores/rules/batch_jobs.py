"""New jobs of batches: the store numbers them, and takes none for a batch that has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from ...records.job import Enqueued, NewJob
from ...records.step import StepRef
from .flows import may_add_item
from .tables import Tables


def refusals(tables: Tables, new_jobs: Sequence[NewJob]) -> list[Enqueued] | None:
    """The answers to a call with a new job of a batch that has ended, or that is none: nothing is stored."""
    for new in new_jobs:
        if new.step is None or not new.step.is_unnumbered or tables.job(new.id) is not None:
            continue
        if not may_add_item(tables, new.step):
            return [Enqueued(other.id, "refused") for other in new_jobs]
    return None


def number_jobs(tables: Tables, new_jobs: Iterable[NewJob], now: datetime) -> list[NewJob]:
    """The jobs, those of batches with the next free numbers. None of them is noted as made yet."""
    last, found = dict[tuple[str, int], int](), list[NewJob]()
    for new in new_jobs:
        if (ref := new.step) is not None and ref.is_unnumbered:
            key = ref.flow, ref.number
            last[key] = index = (last[key] if key in last else _made(tables, ref, now)) + 1
            new = replace(new, step=_numbered(ref, index))
        found.append(new)
    return found


def next_number(tables: Tables, ref: StepRef, now: datetime) -> StepRef:
    """The step of a new job of a batch, with the next free number."""
    return _numbered(ref, _made(tables, ref, now) + 1)


def _numbered(ref: StepRef, index: int) -> StepRef:
    return replace(ref, position=ref.position - ref.index + index)


def _made(tables: Tables, ref: StepRef, now: datetime) -> int:
    """How many jobs the batch has, with those that this verb has noted."""
    flow = tables.flow(ref.flow)
    before = 0 if flow is None else flow.counts[ref.number].made
    return before + tables.flow_changes.of(ref.flow, now).made.get(ref.number, 0)
