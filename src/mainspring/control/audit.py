"""app.audit: who did what."""

from __future__ import annotations

from builtins import list as List
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from ..actor import current_actor
from ..records.audit import AuditEntry, AuditFilter
from ..records.job import Job, NewJob
from ..records.outcome import clean
from ..records.query import Changed
from ..task.handle import Handle
from .audit_log import IDS, WHO, annotate, fitted, recorded
from .ground import Ground
from .job_page import is_askable
from .jobs import PAGE, checked_limit

HandOver = Callable[[Sequence[NewJob]], Awaitable[List[Handle[Any]]]]
# An entry is written just before its job: this far from the job's creation it is looked for.
NEAR = timedelta(minutes=1)


class Audit:
    """The changes of those who are named: in code by `with acting(…)`, and by the command line."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def list(
        self, which: AuditFilter | None = None, *, limit: int = 100, before: str | None = None
    ) -> Sequence[AuditEntry]:
        """Matching entries, newest first; give the last one's id as `before` for the next page."""
        checked_limit(limit, PAGE)
        which = which or AuditFilter()
        if any(text is not None and not is_askable(text) for text in (which.who, which.action, which.target, before)):
            return []  # no entry has that in it, and not every store can be asked for it
        return await (await self._ground.opened()).audit(which, limit=limit, before=before)

    async def enqueue(self, jobs: Sequence[NewJob], hand_over: HandOver) -> List[Handle[Any]]:
        """Stores them, as one act of the current actor."""
        who = current_actor()
        if who is None or not jobs:
            return await hand_over(jobs)

        async def act() -> List[Handle[Any]]:
            handles = await hand_over([replace(job, enqueued_by=clean(who, WHO)) for job in jobs])
            annotate(changed=Changed([handle.id for handle in handles], {}))
            return handles

        target = jobs[0].id if len(jobs) == 1 else fitted({"ids": [job.id for job in jobs[:IDS]]})
        asked = {"task": _one(job.task for job in jobs), "queue": _one(job.queue for job in jobs), "jobs": len(jobs)}
        return await recorded(self._ground, who, "jobs.enqueue", target, fitted(asked), act)

    async def enqueued_by(self, job: Job) -> str | None:
        """Who enqueued it: by hand, or over the API; None: code did, or its entry is no longer kept."""
        if job.enqueued_by is not None:
            return job.enqueued_by
        near = AuditFilter(
            action="jobs.enqueue", target=job.id, since=job.created_at - NEAR, until=job.created_at + NEAR
        )  # fmt: skip
        found = await self.list(near, limit=1)
        return found[0].who if found else None


def _one(names: Iterable[str]) -> str | List[str]:
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else distinct[:IDS]
