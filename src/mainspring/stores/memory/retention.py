"""How the memory store deletes what is no longer kept."""

from __future__ import annotations

from datetime import datetime

from ...clock import EPOCH
from ...records.job import Job, State
from ...records.pruning import Pruning
from ...records.query import Filter
from ...task.retention import Rules
from .audit import MemoryAudit
from .documents import MemoryDocuments


class MemoryRetention(MemoryDocuments, MemoryAudit):
    """The verbs of retention."""

    async def finished_groups(self) -> list[tuple[State, str]]:
        with self._locked():
            finished = self._tables.jobs.in_states([state for state in State if state.final])
            return sorted({(job.state, job.task) for job in finished})

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        with self._locked():
            jobs, which = self._tables.jobs, Filter(states=(state.value,), tasks=(task,))
            found = jobs.page(which, EPOCH, len(jobs.ids()), None, False, "finished")
            old = [job for job in found[: max(0, len(found) - keep)] if (job.finished_at or before) < before]
            flows = self._tables.flows.rows
            return [job for job in old if job.step is None or job.step.flow not in flows][:limit]

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        with self._locked():
            return Pruning(0, self._drop_expired_documents(now) + self._drop_old_entries(audited_since))
