"""Views of records, built in a thread where they are large: masking their texts takes time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ..app import Mainspring
from ..control.computation import Computation
from ..control.schedule_history import ScheduleRun
from ..records.audit import AuditEntry
from ..records.job import Job
from ..records.run import Execution, Failure, LogLine
from ..schedule.record import Schedule
from ..webhook.inbound import InboundTrigger

T = TypeVar("T")
V = TypeVar("V")
# Characters that are masked in the event loop at most: some ten milliseconds.
MAX_AT_ONCE_CHARACTERS = 32 << 10


async def shown_each(spring: Mainspring, rows: Sequence[T], view: Callable[[T], V]) -> list[V]:
    """A view of each."""
    if sum(map(weight, rows)) <= MAX_AT_ONCE_CHARACTERS:
        return [view(row) for row in rows]
    computation = Computation(spring.clock, "what is to be shown")
    return await computation.run(lambda: [view(row) for row in computation.each(rows)])


async def shown_one(spring: Mainspring, row: T, view: Callable[[T], V]) -> V:
    (found,) = await shown_each(spring, [row], view)
    return found


def weight(row: object) -> int:
    """About how many characters of it have to be masked."""
    match row:
        case Job():
            note = row.progress.note if row.progress else ""
            said = len(row.payload) + len(row.result or "") + len(note) + len(row.cancel_reason or "")
            return said + _of(row.failure) + _size(row.metadata)
        case Execution():
            return _of(row.failure) + _size(row.metadata)
        case LogLine():
            return len(row.text)
        case ScheduleRun():
            return weight(row.execution)
        case InboundTrigger():
            return len(row.note) + _size(row.kwargs)
        case AuditEntry():
            return len(row.target) + len(row.asked) + len(row.outcome or "")
        case Schedule():
            return len(row.spec.payload) + len(row.note) + _size(row.spec.metadata)
    return 0


def _of(failure: Failure | None) -> int:
    return 0 if failure is None else len(failure.message) + len(failure.stack)


def _size(values: object) -> int:
    return len(msgspec.json.encode(values)) if values else 0
