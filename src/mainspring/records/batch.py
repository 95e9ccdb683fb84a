"""How far a batch is, as its callbacks and its maker learn it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..ids import JobId
from .flow import ItemCounts


class BatchCounts(Struct, frozen=True, kw_only=True):
    """The jobs of a batch, counted. Jobs are counted when they are added, and again when they have ended."""

    total: int = 0
    completed: int = 0
    dead: int = 0
    """Expired ones count as dead."""
    cancelled: int = 0
    unfinished: int = 0
    """Those that wait, run, or are to be tried again."""

    def __str__(self) -> str:
        ends = (f"{count:,} {name}" for name, count in self._named() if count)
        jobs = "job" if self.total == 1 else "jobs"
        return f"{self.total:,} {jobs} ({', '.join(ends)})" if self.total else "no jobs"

    def _named(self) -> list[tuple[str, int]]:
        return [(name, getattr(self, name)) for name in ("completed", "dead", "cancelled", "unfinished")]


def batch_counts(items: ItemCounts) -> BatchCounts:
    """The counts of the row of a batch."""
    return BatchCounts(
        total=items.made,
        completed=items.ended - items.dead - items.cancelled,
        dead=items.dead,
        cancelled=items.cancelled,
        unfinished=items.made - items.ended,
    )


class BatchSummary(Struct, frozen=True, kw_only=True):
    """A batch, as a callback receives it that has a parameter of this type: as it was when the callback was due."""

    id: JobId
    name: str
    counts: BatchCounts
    metadata: Mapping[str, Any] = {}
    reason: str | None = None
    """Why the batch fails although none of its jobs may be dead: its maker has gone, or it was cancelled."""
