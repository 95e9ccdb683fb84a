"""app.schedules.many: one change to many schedules; each is done or refused by itself."""

from __future__ import annotations

import asyncio
from builtins import list as List
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Literal, TypedDict, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ..errors import MainspringError
from ..ids import JobId, new_id
from ..records.job import State
from ..records.outcome import clean
from ..records.query import Changed, Refusal
from ..schedule.edit import pause, resume, trigger_now
from ..schedule.record import BY_HAND, Firing, Owner, Schedule, Status
from ..store import Store
from ..task.options import check_name
from ..webhook.record import noted
from ..worker.scheduler import Scheduler, job_of
from .audit_log import annotate, audited
from .ground import Ground
from .job_page import cursor_name
from .jobs import checked_limit
from .schedule_index import SCAN_ROWS, fits, scanned

# Schedules that one call changes at most, and that are written together.
MOST_ROWS, LOT_ROWS = 1000, 100
# How often a schedule is tried again that others change meanwhile.
MAX_TRIES = 10
_REASON_LIMIT = 200


class ScheduleFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedules: conjunctive. None means any; what is empty means all of them."""

    names: tuple[str, ...] | None = None
    q: str | None = None
    """A part of the name, in any case."""
    task: str | None = None
    owner: Owner | None = None
    status: Status | None = None


class BulkPart(TypedDict, total=False):
    """How much of a bulk change one call does."""

    limit: int
    """At most this number of schedules: 1 to 1,000, which is the default."""
    after: str | None
    """The `next` of the call before."""
    dry_run: bool


class ScheduleBulk(Struct, frozen=True, kw_only=True):
    """What a bulk change did, schedule by schedule."""

    done: list[str]
    refused: dict[str, str]
    """By name, with the reason."""
    jobs: dict[str, JobId] = {}
    """What was triggered: the job of each schedule."""
    next: str | None = None
    """Give it as `after` to go on, also if nothing was done; None: there is no more."""
    dry_run: bool = False


Deed = Literal["pause", "resume", "delete"]
Planned = Callable[[Schedule, datetime], Awaitable[Firing | None]]


class ManySchedules:
    """Schedules are taken by name, in lots; each change is one step on the row's newest revision."""

    def __init__(
        self,
        ground: Ground,
        store: Callable[[], Awaitable[Store]],
        scheduler: Callable[[], Scheduler],
        tell: Callable[..., None],
    ) -> None:
        self._ground = ground
        self._store = store
        self._scheduler = scheduler
        self._tell = tell

    @audited("schedules.pause")
    async def pause(self, which: ScheduleFilter, reason: str = "", **part: Unpack[BulkPart]) -> ScheduleBulk:
        """They make no jobs until they are resumed. One that is paused already stays as it is, with its note."""
        noted(reason)

        async def plan(row: Schedule, now: datetime) -> Firing | None:
            return None if row.paused_at is not None else Firing(schedule=pause(row, reason, now=now))

        return await self._each(which, plan, "pause", **part)

    @audited("schedules.resume")
    async def resume(self, which: ScheduleFilter, *, catch_up: bool = False, **part: Unpack[BulkPart]) -> ScheduleBulk:
        """From now on, or with `catch_up` from where each left. One that is not paused stays as it is."""

        async def plan(row: Schedule, now: datetime) -> Firing | None:
            return None if row.paused_at is None else resume(row, from_now=not catch_up, now=now)

        return await self._each(which, plan, "resume", **part)

    @audited("schedules.trigger")
    async def trigger(self, which: ScheduleFilter, **part: Unpack[BulkPart]) -> ScheduleBulk:
        """One job of each at once, with its own input, paused or not; next ticks are left alone."""
        scheduler = self._scheduler()

        async def plan(row: Schedule, now: datetime) -> Firing | None:
            payload, fingerprint = await scheduler.payload(row, now), scheduler.fingerprint(row)
            firing = trigger_now(row, [now], BY_HAND, now=now, mint=lambda: new_id(now), joins=True)
            return replace(firing, jobs=tuple(job_of(row, tick, payload, now, fingerprint) for tick in firing.ticks))

        return await self._each(which, plan, None, **part)

    @audited("schedules.delete")
    async def delete(self, which: ScheduleFilter, **part: Unpack[BulkPart]) -> ScheduleBulk:
        """Jobs already made are left alone. What code declares comes back with the next worker that starts."""
        return await self._each(which, None, "delete", **part)

    # inside

    async def _each(
        self,
        which: ScheduleFilter,
        plan: Planned | None,
        deed: Deed | None,
        *,
        limit: int = MOST_ROWS,
        after: str | None = None,
        dry_run: bool = False,
    ) -> ScheduleBulk:
        """Without a plan they are dropped. What was done before an error is in the audit trail, too."""
        rows, refused, next = await self._chosen(which, limit, after)
        done, jobs = List[str](), dict[str, JobId]()
        changed = Changed(done, {name: Refusal(State.PENDING, error=why) for name, why in refused.items()})
        annotate(changed=changed)
        if dry_run:
            return ScheduleBulk(done=[row.name for row in rows], refused=refused, next=next, dry_run=True)
        for n in range(0, len(rows), LOT_ROWS):
            lot = rows[n : n + LOT_ROWS]
            met = await (self._dropped(lot) if plan is None else self._planned(lot, plan, jobs))
            done += [row.name for row in lot if row.name not in met]
            refused |= met
            changed.refused.update({name: Refusal(State.PENDING, error=why) for name, why in met.items()})
            if deed is not None:
                self._tell(deed, *(row.name for row in lot if row.name not in met))
            await self._ground.crier.flush()
            await asyncio.sleep(0)  # a store that answers without waiting gives other tasks no turn
        return ScheduleBulk(done=done, refused=refused, jobs=jobs, next=next)

    async def _dropped(self, lot: Sequence[Schedule]) -> dict[str, str]:
        names = [row.name for row in lot]
        gone = set(await (await self._store()).drop_schedules(names))
        return {name: "it was gone already" for name in names if name not in gone}

    async def _planned(self, lot: Sequence[Schedule], plan: Planned, jobs: dict[str, JobId]) -> dict[str, str]:
        """Why some of them were left alone. Those that others have changed meanwhile are read and tried again."""
        store, refused = await self._store(), dict[str, str]()
        for _ in range(MAX_TRIES):
            now, firings = self._ground.clock.now(), List[Firing]()
            for row in lot:
                try:
                    firing = await plan(row, now)
                except Exception as error:  # an input function is anybody's code
                    known = isinstance(error, MainspringError)
                    refused[row.name] = clean(f"{'' if known else f'{type(error).__name__}: '}{error}", _REASON_LIMIT)
                else:
                    firings += [] if firing is None else [firing]
            lost = List[str]()
            for firing, fired in zip(firings, await store.fire(firings, now=now) if firings else (), strict=True):
                if fired.stands:
                    self._scheduler().tell(firing)
                    jobs |= {job.schedule or "": job.id for job in firing.jobs}
                else:
                    lost.append(firing.schedule.name)
            if not lost:
                return refused
            lot = await store.schedules(lost, limit=len(lost))
            refused |= dict.fromkeys(set(lost) - {row.name for row in lot}, "it was gone already")
            await asyncio.sleep(0)
        return refused | {row.name: f"it was changed by others {MAX_TRIES} times in a row; try again" for row in lot}

    async def _chosen(
        self, which: ScheduleFilter, limit: int, after: str | None
    ) -> tuple[List[Schedule], dict[str, str], str | None]:
        """The next of them by name, those of the names given that are not there, and where to go on."""
        checked_limit(limit, MOST_ROWS)
        store, after = await self._store(), cursor_name(after)
        fitting = fits(q=which.q, task=which.task, owner=which.owner, status=which.status)
        if which.names is None:
            rows, next = await scanned(store, fitting, limit, after, SCAN_ROWS)
            return rows, {}, next
        names = sorted({check_name(name, "schedule name") for name in which.names})
        left = [name for name in names if after is None or name > after]
        some = left[:limit]
        found = await store.schedules(some, limit=len(some)) if some else []
        known = {row.name for row in found}
        refused = {name: f"there is no schedule {name!r}" for name in some if name not in known}
        return [row for row in found if fitting(row)], refused, some[-1] if len(left) > limit else None
