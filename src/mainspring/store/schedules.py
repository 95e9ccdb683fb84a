"""Schedules and leadership in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from ..schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick


class ScheduleStore(Protocol):
    """Schedules and their ticks."""

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        """Schedules whose due_at has come.

        D1. They are ordered by due_at and name.
        D2. `next_at` is `now` if more may be due, else the next instant at which one becomes due.
        D3. Schedules with computed input are ignored unless `computed` names them.
        D4. A schedule is due from its due_at on, that instant included. Without a due_at it is never due.
        """
        ...

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        """Writes each firing in one transaction: its schedule, jobs and ticks, and the cancelling of its `cancel` jobs.

        T1. Firings are written in order, independently of each other.
        T2. A firing is written only if the schedule's stored revision is `revision - 1` (absent for revision 1) and the
            schedules in `reads` are unchanged.
        T3. It is not written if a job key is held or repeated within the firing.
        T4. Cancelling works as in `change`.
        T5. The newest record.MAX_KEPT_TICKS ticks of each schedule are kept.
        T6. A firing that is not written changes nothing. Its answer names every key that was held or repeated; none if
            a revision was wrong. If the store cannot take the jobs at all, its `error` tells why.

        T7. Whenever a job with a counted_schedule becomes final, is revived, or is deleted before it was final, by any
            verb, the same transaction applies job_ended.after_job_ended() or after_job_revived() to that schedule.
        T8. If the job completed and this changed the schedule, it also applies after_dependency_succeeded() to the
            schedules that wait for that schedule.
        """
        ...

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        """DS1. Deletes schedules and their ticks, not their jobs. Returns the names of those that existed, in order."""
        ...

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        """S1. The schedules named, or all of them, in order of name, after the name `after`."""
        ...

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        """TK1. The recorded ticks of a schedule, newest first, below the number `before`."""
        ...


class LeaderStore(Protocol):
    """Leadership by terms."""

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        """Requests leadership until `until`. Returns the current term and its holder.

        L1. A term that has not ended stays with its holder: `holder` extends its own term, or ends it if `until` is not
            after `now`.
        L2. If there is no such term, `holder` begins the next one, unless it asked to end it.
        L3. A term has ended from its `until` on, that instant included.
        L4. Its number is never used again.
        """
        ...

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        """L5. The terms that have not ended, by name."""
        ...
