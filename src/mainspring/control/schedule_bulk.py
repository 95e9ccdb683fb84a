"""app.schedules.many: one change to many schedules, each done or refused by itself."""

from __future__ import annotations

import asyncio
from builtins import list as List
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

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
from ..webhook.record import check_note
from .audit_log import annotate, audited
from .checks import checked_limit
from .job_page import cursor_name
from .schedule_index import SCAN_ROWS, scan, schedule_matcher

if TYPE_CHECKING:
    from ..engine import Engine

# Schedules changed by one call at most.
MAX_ROWS = 1000
# Schedules written per store call.
BATCH_ROWS = 100
# Attempts to change a schedule that others change at the same time.
MAX_TRIES = 10
_MAX_REASON_CHARACTERS = 200


class ScheduleFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedules: all conditions must hold. None means any; an empty filter matches all."""

    names: tuple[str, ...] | None = None
    q: str | None = None
    """A part of the name, case-insensitive."""
    task: str | None = None
    owner: Owner | None = None
    status: Status | None = None


class ScheduleBulkPage(TypedDict, total=False):
    """How much of a bulk change one call does."""

    limit: int
    """Maximum number of schedules, 1 to 1,000 (default 1,000)."""
    after: str | None
    """The `next` of the previous call."""
    dry_run: bool


class ScheduleBulk(Struct, frozen=True, kw_only=True):
    """The result of a bulk change, schedule by schedule."""

    done: list[str]
    refused: dict[str, str]
    """Reasons by name."""
    jobs: dict[str, JobId] = {}
    """For a trigger: the job of each schedule."""
    next: str | None = None
    """Pass it as `after` to continue, even if nothing was done; None: there are no more."""
    dry_run: bool = False


ChangeAction = Literal["pause", "resume", "delete"]
PlanFiring = Callable[[Schedule, datetime], Awaitable[Firing | None]]


class ManySchedules:
    """Changes schedules by name, in batches; each change applies to the row's newest revision."""

    def __init__(
        self,
        engine: Engine,
        store: Callable[[], Awaitable[Store]],
        emit_changed: Callable[..., None],
    ) -> None:
        self._engine = engine
        self._store = store
        self._emit_changed = emit_changed

    @audited("schedules.pause")
    async def pause(self, which: ScheduleFilter, reason: str = "", **part: Unpack[ScheduleBulkPage]) -> ScheduleBulk:
        """They make no jobs until they are resumed. A paused one stays as it is, with its note."""
        check_note(reason)

        async def plan(row: Schedule, now: datetime) -> Firing | None:
            return None if row.paused_at is not None else Firing(schedule=pause(row, reason, now=now))

        return await self._change_each(which, plan, "pause", **part)

    @audited("schedules.resume")
    async def resume(
        self, which: ScheduleFilter, *, catch_up: bool = False, **part: Unpack[ScheduleBulkPage]
    ) -> ScheduleBulk:
        """Resumes from now on, or with `catch_up` from where each stopped. One that is not paused stays as it is."""

        async def plan(row: Schedule, now: datetime) -> Firing | None:
            return None if row.paused_at is None else resume(row, from_now=not catch_up, now=now)

        return await self._change_each(which, plan, "resume", **part)

    @audited("schedules.trigger")
    async def trigger(self, which: ScheduleFilter, **part: Unpack[ScheduleBulkPage]) -> ScheduleBulk:
        """Enqueues one job of each at once, with its own input, paused or not; next ticks are unchanged."""
        scheduler = self._engine.scheduler()

        async def plan(row: Schedule, now: datetime) -> Firing | None:
            payload, fingerprint = await scheduler.payload(row, now), scheduler.fingerprint(row)
            firing = trigger_now(row, [now], BY_HAND, now=now, new_job_id=lambda: new_id(now), joins=True)
            return replace(
                firing,
                jobs=tuple(scheduler.job_for_tick(row, tick, payload, now, fingerprint) for tick in firing.ticks),
            )

        return await self._change_each(which, plan, None, **part)

    @audited("schedules.delete")
    async def delete(self, which: ScheduleFilter, **part: Unpack[ScheduleBulkPage]) -> ScheduleBulk:
        """Deletes schedules; their jobs are left alone. What code declares comes back with the next worker."""
        return await self._change_each(which, None, "delete", **part)

    # inside

    async def _change_each(
        self,
        which: ScheduleFilter,
        plan: PlanFiring | None,
        action: ChangeAction | None,
        *,
        limit: int = MAX_ROWS,
        after: str | None = None,
        dry_run: bool = False,
    ) -> ScheduleBulk:
        """Changes each schedule; without a plan it is deleted. The audit entry has what was done before an error."""
        rows, refused, next = await self._choose(which, limit, after)
        done, jobs = List[str](), dict[str, JobId]()
        changed = Changed(done, {name: Refusal(State.PENDING, error=why) for name, why in refused.items()})
        annotate(changed=changed)
        if dry_run:
            return ScheduleBulk(done=[row.name for row in rows], refused=refused, next=next, dry_run=True)
        for n in range(0, len(rows), BATCH_ROWS):
            batch = rows[n : n + BATCH_ROWS]
            failed = await (self._drop(batch) if plan is None else self._fire_planned(batch, plan, jobs))
            done += [row.name for row in batch if row.name not in failed]
            refused |= failed
            changed.refused.update({name: Refusal(State.PENDING, error=why) for name, why in failed.items()})
            if action is not None:
                self._emit_changed(action, *(row.name for row in batch if row.name not in failed))
            await self._engine.dispatcher.flush()
            await asyncio.sleep(0)  # a store that answers without waiting would starve other tasks
        return ScheduleBulk(done=done, refused=refused, jobs=jobs, next=next)

    async def _drop(self, batch: Sequence[Schedule]) -> dict[str, str]:
        names = [row.name for row in batch]
        gone = set(await (await self._store()).drop_schedules(names))
        return {name: "it was gone already" for name in names if name not in gone}

    async def _fire_planned(
        self, batch: Sequence[Schedule], plan: PlanFiring, jobs: dict[str, JobId]
    ) -> dict[str, str]:
        """Fires the plans; returns the refusals. Schedules changed by others meanwhile are read and tried again."""
        store, refused = await self._store(), dict[str, str]()
        for _ in range(MAX_TRIES):
            now, firings = self._engine.clock.now(), List[Firing]()
            for row in batch:
                try:
                    firing = await plan(row, now)
                except Exception as error:  # an input function is the application's code
                    prefix = "" if isinstance(error, MainspringError) else f"{type(error).__name__}: "
                    refused[row.name] = clean(f"{prefix}{error}", _MAX_REASON_CHARACTERS)
                else:
                    firings += [] if firing is None else [firing]
            lost = List[str]()
            for firing, fired in zip(firings, await store.fire(firings, now=now) if firings else (), strict=True):
                if fired.stands:
                    self._engine.scheduler().emit_fired(firing)
                    jobs |= {job.schedule or "": job.id for job in firing.jobs}
                elif fired.error:
                    refused[firing.schedule.name] = clean(fired.error, _MAX_REASON_CHARACTERS)
                else:
                    lost.append(firing.schedule.name)
            if not lost:
                return refused
            batch = await store.schedules(lost, limit=len(lost))
            refused |= dict.fromkeys(set(lost) - {row.name for row in batch}, "it was gone already")
            await asyncio.sleep(0)
        return refused | {row.name: f"it was changed by others {MAX_TRIES} times in a row; try again" for row in batch}

    async def _choose(
        self, which: ScheduleFilter, limit: int, after: str | None
    ) -> tuple[List[Schedule], dict[str, str], str | None]:
        """The next matching schedules by name, missing ones of the given names, and where to continue."""
        checked_limit(limit, MAX_ROWS)
        store, after = await self._store(), cursor_name(after)
        matches = schedule_matcher(q=which.q, task=which.task, owner=which.owner, status=which.status)
        if which.names is None:
            rows, next = await scan(store, matches, limit, after, SCAN_ROWS)
            return rows, {}, next
        names = sorted({check_name(name, "schedule name") for name in which.names})
        left = [name for name in names if after is None or name > after]
        some = left[:limit]
        found = await store.schedules(some, limit=len(some)) if some else []
        known = {row.name for row in found}
        refused = {name: f"there is no schedule {name!r}" for name in some if name not in known}
        return [row for row in found if matches(row)], refused, some[-1] if len(left) > limit else None
