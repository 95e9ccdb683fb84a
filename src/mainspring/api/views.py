"""Views of records, built in a thread if they are large: masking their texts takes time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from ..app import Mainspring
from ..control.computation import Computation
from ..control.schedule_history import ScheduleRun
from ..records.audit import AuditEntry
from ..records.job import Job
from ..records.run import Checkpoint, Execution, Failure, LogLine, OutputChunk
from ..schedule.record import Schedule
from ..webhook.inbound import InboundTrigger

T = TypeVar("T")
V = TypeVar("V")
# Masked in the event loop: about ten milliseconds. More are masked in a thread.
MAX_AT_ONCE_CHARACTERS = 32 << 10


async def build_views(app: Mainspring, rows: Sequence[T], view: Callable[[T], V]) -> list[V]:
    """The view of each row."""
    if sum(map(masked_characters, rows)) <= MAX_AT_ONCE_CHARACTERS:
        return [view(row) for row in rows]
    computation = Computation(app.clock, "masking these records")
    return await computation.run(lambda: [view(row) for row in computation.each(rows)])


async def build_view(app: Mainspring, row: T, view: Callable[[T], V]) -> V:
    (found,) = await build_views(app, [row], view)
    return found


def masked_characters(row: object) -> int:
    """The approximate number of characters of a row that have to be masked."""
    match row:
        case Job():
            note = row.progress.note if row.progress else ""
            texts = len(row.payload) + len(row.result or "") + len(note) + len(row.cancel_reason or "")
            return texts + _failure_characters(row.failure) + _encoded_bytes(row.metadata)
        case Execution():
            return _failure_characters(row.failure) + _encoded_bytes(row.metadata)
        case LogLine() | OutputChunk():
            return len(row.text)
        case Checkpoint():
            return len(row.value)
        case ScheduleRun():
            return masked_characters(row.execution)
        case InboundTrigger():
            return len(row.note) + _encoded_bytes(row.kwargs)
        case AuditEntry():
            return len(row.target) + len(row.asked) + len(row.outcome or "")
        case Schedule():
            return len(row.spec.payload) + len(row.note) + _encoded_bytes(row.spec.metadata)
    return 0


def _failure_characters(failure: Failure | None) -> int:
    return 0 if failure is None else len(failure.message) + len(failure.stack)


def _encoded_bytes(values: object) -> int:
    return len(msgspec.json.encode(values)) if values else 0
