"""Deleting what retention does not keep."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from ..records.job import Job, State
from ..records.pruning import Pruning
from ..task.retention import Rules


class RetentionStore(Protocol):
    """Deleting what retention does not keep."""

    async def finished_groups(self) -> list[tuple[State, str]]:
        """P1. Each pair of final state and task that has jobs."""
        ...

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        """P2. Jobs in that state and task that finished before `before` and are not among the `keep` that finished
        last, in order of finished_at.
        """
        ...

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        """Deletes what is cheap to delete in bulk.

        P3. Of jobs it deletes only those that `prunable` returns under these rules, each (keep, before), such as whole
            partitions; possibly none of them.
        P4. Expired documents, and audit entries before `audited_since`, are deleted; if document.MIN_PRUNED_ROWS or
            more of these were, there may be more to delete.
        """
        ...
