"""app.audit: the audit trail, and enqueueing with an audit entry."""

from __future__ import annotations

from builtins import list as List
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..actor import current_actor
from ..records.audit import AuditEntry, AuditFilter
from ..records.job import Job, NewJob
from ..records.outcome import clean
from ..records.query import Changed
from ..task.handle import Handle
from .audit_log import MAX_IDS, MAX_WHO_CHARACTERS, annotate, encode_bounded, record_call
from .checks import MAX_PAGE_ROWS, checked_limit
from .job_page import is_searchable

if TYPE_CHECKING:
    from ..engine import Engine

# An entry is written just before its job is created: it is searched this far around the creation.
ENTRY_WINDOW = timedelta(minutes=1)


class Audit:
    """The changes made by named actors: in code inside `with act_as(…)`, and on the command line."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(
        self, which: AuditFilter | None = None, *, limit: int = 100, before: str | None = None
    ) -> Sequence[AuditEntry]:
        """Matching entries, newest first; pass the last one's id as `before` for the next page."""
        checked_limit(limit, MAX_PAGE_ROWS)
        which = which or AuditFilter()
        if any(
            text is not None and not is_searchable(text) for text in (which.who, which.action, which.target, before)
        ):
            return []  # no entry contains that, and not every store can search for it
        return await (await self._engine.connect()).audit(which, limit=limit, before=before)

    async def enqueue(self, jobs: Sequence[NewJob]) -> List[Handle[Any]]:
        """Stores the jobs, with one audit entry for all of them if an actor is named."""
        who = current_actor()
        if who is None or not jobs or self._engine.remote:  # the process that serves an API records it
            return await self._engine.insert(jobs)

        async def act() -> List[Handle[Any]]:
            handles = await self._engine.insert(
                [replace(job, enqueued_by=clean(who, MAX_WHO_CHARACTERS)) for job in jobs]
            )
            annotate(changed=Changed([handle.id for handle in handles], {}))
            return handles

        target = jobs[0].id if len(jobs) == 1 else encode_bounded({"ids": [job.id for job in jobs[:MAX_IDS]]})
        arguments = {
            "task": _common(job.task for job in jobs),
            "queue": _common(job.queue for job in jobs),
            "jobs": len(jobs),
        }
        return await record_call(self._engine, who, "jobs.enqueue", target, encode_bounded(arguments), act)

    async def enqueued_by(self, job: Job) -> str | None:
        """Who enqueued it, by hand or over the API; None if code did, or its entry is no longer kept."""
        if job.enqueued_by is not None:
            return job.enqueued_by
        near = AuditFilter(
            action="jobs.enqueue",
            target=job.id,
            since=job.created_at - ENTRY_WINDOW,
            until=job.created_at + ENTRY_WINDOW,
        )
        found = await self.list(near, limit=1)
        return found[0].who if found else None


def _common(names: Iterable[str]) -> str | List[str]:
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else distinct[:MAX_IDS]
