"""Plan of a due schedule: which ticks fire, wait, are skipped or missed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeGuard

from msgspec.structs import replace

from ..clock import EPOCH
from ..ids import JobId
from .record import Firing, Schedule, Tick
from .status import MAX_COUNTED_TICKS, count_ticks, due_at, is_blocked, last_tick, listed_jobs, new_tick, recorded_until

# Ticks in one firing; the rest follow at once, in further firings.
MAX_TICKS_PER_FIRING = 100
_MICROSECOND = timedelta(microseconds=1)


def plan(
    schedule: Schedule,
    *,
    now: datetime,
    new_job_id: Callable[[], JobId],
    dependencies: Mapping[str, Schedule] = {},
    skip_reasons: Mapping[datetime, str] = {},
) -> Firing:
    """Plans the next firing of a due schedule.

    `dependencies` has the schedules it depends on, by name. `skip_reasons` has ticks that cannot fire, with the
    reason that is recorded: their input function raised, or their job exists already.
    """
    draft = _Draft(schedule, now, new_job_id, dependencies, skip_reasons)
    draft.fire_held()
    draft.decide_due()
    return draft.firing()


class _Draft:
    """A schedule's next revision while it is planned."""

    def __init__(
        self,
        schedule: Schedule,
        now: datetime,
        new_job_id: Callable[[], JobId],
        dependencies: Mapping[str, Schedule],
        skip_reasons: Mapping[datetime, str],
    ) -> None:
        self.old, self.spec, self.now, self.new_job_id = schedule, schedule.spec, now, new_job_id
        self.dependencies, self.skip_reasons = dependencies, skip_reasons
        self.timetable = schedule.timetable
        self.horizon = now - self.timetable.offset
        """Ticks up to here are due; jitter delays them."""
        self.next: datetime | None = schedule.next_run_at
        self.held, self.waits_on = schedule.held_at, schedule.waits_on
        self.active = list(schedule.active)
        self.anchor = schedule.anchor_at
        self.waiting = False
        self.fired = 0
        self.last: datetime | None = None
        self.last_job_id: JobId | None = None
        self.answered = schedule.answered
        self.reached = schedule.reached_at or schedule.created_at
        self.ticks: list[Tick] = []
        self.cancel: list[JobId] = []

    # due ticks

    def fire_held(self) -> None:
        """Fires the held tick if neither a dependency nor a run blocks it any longer."""
        if self.held is None:
            return
        self.waits_on = self._unmet_dependency()
        if self.waits_on is None and not self._overlaps():
            tick, self.held = self.held, None
            self._fire(tick)

    def decide_due(self) -> None:
        """Decides on every due tick, at most MAX_TICKS_PER_FIRING of them."""
        if self._reached_max_runs():
            self.next = None
        first, since = self.next, recorded_until(self.old)
        if first is None or first > self.horizon:
            return
        late_until = self.horizon - timedelta(seconds=self.spec.grace)
        if self.spec.after == "finish":
            self._decide_single(first, late_until)
        else:
            self._decide_many(first, late_until)
        for gone in self.timetable.omitted(since, self.reached, limit=MAX_COUNTED_TICKS):
            self._record("skipped", gone.reason, gone.first_at, gone.last_at, gone.count)

    def _decide_many(self, first: datetime, late_until: datetime) -> None:
        tick: datetime | None = first
        if first <= late_until:
            tick = self._late(first, late_until)
        while self._continues(tick, self.horizon):
            if self.spec.overlap == "cancel" and self._continues(self._after(tick), self.horizon):
                # The next tick is due too, and would cancel this run at once.
                tick = self._skip_range("skipped", "overlap", tick, tick)
            else:
                tick = self._decide(tick)
        self.next = None if self._reached_max_runs() else tick

    def _continues(self, tick: datetime | None, until: datetime) -> TypeGuard[datetime]:
        room = len(self.ticks) < MAX_TICKS_PER_FIRING and not self.waiting and not self._reached_max_runs()
        return room and tick is not None and tick <= until

    def _decide_single(self, tick: datetime, late_until: datetime) -> None:
        """Decides on the only tick of an interval that is measured from the finish of the last run."""
        too_old = tick < self.horizon - timedelta(seconds=self.spec.catch_up_window)
        if tick <= late_until and (too_old or self.spec.catch_up == "skip"):
            self._record_one("missed", "too_old" if too_old else "catch_up", tick)
        else:
            self._decide(tick)
        self.next = None
        if not self.active and self.held is None:
            self.anchor = self.now
            self.next = replace(self.old, anchor_at=self.now).timetable.next(self.now)

    def _late(self, first: datetime, until: datetime) -> datetime | None:
        """Applies the catch-up policy to late ticks; returns the first tick that is left to decide on."""
        oldest, tick = self.horizon - timedelta(seconds=self.spec.catch_up_window), first
        if tick < oldest:
            first_in_window = self._skip_range("missed", "too_old", tick, min(until, oldest - _MICROSECOND))
            if first_in_window is None or first_in_window > until:
                return first_in_window
            tick = first_in_window
        if self.spec.catch_up == "all":
            return self._catch_up_all(tick, until)
        newest = last_tick(self.old, tick, until)
        on_time = self._after(newest)
        if self.spec.catch_up == "skip" or (on_time is not None and on_time <= self.horizon):
            return self._skip_range("missed", "catch_up", tick, newest)
        if tick < newest:
            self._skip_range("missed", "catch_up", tick, newest - _MICROSECOND)
        return newest

    def _catch_up_all(self, tick: datetime | None, until: datetime) -> datetime | None:
        while self._continues(tick, until):
            # With catch_up='all' every tick runs: it waits for the run before it instead of being skipped.
            self.waiting = self._overlaps()
            if not self.waiting:
                tick = self._decide(tick)
        return tick

    def _decide(self, tick: datetime) -> datetime | None:
        """Fires, holds or skips one tick; returns the next one."""
        self.reached = max(self.reached, tick)
        unmet = self._unmet_dependency()
        if unmet is not None:
            self._hold(tick, "dependency", newest=True)
            self.waits_on = unmet
        elif not self._overlaps():
            self._fire(tick)
        elif self.spec.overlap == "skip":
            self._record_one("skipped", "overlap", tick)
        else:
            self._hold(tick, "overlap", newest=self.spec.overlap == "cancel")
            self.waits_on = None
            if self.spec.overlap == "cancel":
                self.cancel = list(self.active)
        return self._after(tick)

    def _hold(self, tick: datetime, reason: str, *, newest: bool) -> None:
        """Holds the tick. At most one is held, the newest or the oldest; the other one is skipped."""
        if self.held is not None:
            self._record_one("skipped", reason, self.held if newest else tick)
        if self.held is None or newest:
            self.held = tick

    def _fire(self, tick: datetime) -> None:
        # The next tick may have been rescheduled to the instant of the held one.
        fault = self.skip_reasons.get(tick) or ("made_already" if tick == self.last else None)
        if fault is not None:
            self._record_one("skipped", fault, tick)
            return
        id = self.new_job_id()
        self.active.append(id)
        self.fired += 1
        self.last, self.last_job_id = tick, id
        self.answered = {name: other.succeeded_at for name, other in self.dependencies.items() if other.succeeded_at}
        self._record_one("fired", "", tick, job_id=id)

    # what blocks a tick

    def _overlaps(self) -> bool:
        return is_blocked(self.spec, self.active)

    def _unmet_dependency(self) -> str | None:
        """The first dependency that has not succeeded since this schedule last ran; None if all have."""
        for name in self.spec.depends_on:
            other = self.dependencies.get(name)
            if other is None or other.succeeded_at is None or not self._succeeded_since(name, other.succeeded_at):
                return name
        return None

    def _succeeded_since(self, name: str, succeeded_at: datetime) -> bool:
        # Not by time alone: it comes from another machine's clock, and the run may follow within a millisecond.
        if name in self.answered:
            return succeeded_at != self.answered[name]
        return succeeded_at > (self.old.last_fired_at or EPOCH)

    def _reached_max_runs(self) -> bool:
        limit = self.spec.max_runs
        return limit is not None and self.old.fired + self.fired >= limit

    def _after(self, tick: datetime) -> datetime | None:
        return self.timetable.next(tick)

    # recording

    def _skip_range(self, what: str, reason: str, first: datetime, until: datetime) -> datetime | None:
        """Records the ticks from `first` to `until` without firing them; returns the next one."""
        last, count = count_ticks(self.old, first, until)
        self._record(what, reason, first, last, count)
        return self._after(last)

    def _record_one(self, what: str, reason: str, tick: datetime, job_id: JobId | None = None) -> None:
        self._record(what, reason, tick, tick, 1, job_id)

    def _record(
        self, what: str, reason: str, first: datetime, last: datetime, count: int, job_id: JobId | None = None
    ) -> None:
        n = self.old.ticks + len(self.ticks) + 1
        self.reached = max(self.reached, last)
        self.ticks.append(new_tick(n, what, reason, first, last, count, self.now, job_id))

    def firing(self) -> Firing:
        """The planned firing, without jobs."""
        old, fired = self.old, self.fired
        unfinished, unlisted = listed_jobs(old, self.active)
        new = replace(
            old,
            anchor_at=self.anchor,
            reached_at=self.reached,
            revision=old.revision + 1,
            next_run_at=self.next,
            due_at=None if self.waiting else due_at(old, self.next),
            held_at=self.held,
            waits_on=self.waits_on,
            active=unfinished,
            unlisted=unlisted,
            ticks=old.ticks + len(self.ticks),
            fired=old.fired + fired,
            skipped=old.skipped + _count_ticks(self.ticks, "skipped"),
            missed=old.missed + _count_ticks(self.ticks, "missed"),
            last_run_at=self.last or old.last_run_at,
            last_fired_at=self.now if fired else old.last_fired_at,
            last_job_id=self.last_job_id or old.last_job_id,
            answered=self.answered,
        )
        reads: tuple[tuple[str, int], ...] = ()
        if self.spec.depends_on:
            revisions = {name: other.revision for name, other in self.dependencies.items()}
            reads = tuple((name, revisions.get(name, 0)) for name in self.spec.depends_on)
        return Firing(schedule=new, ticks=tuple(self.ticks), cancel=tuple(self.cancel), reads=reads)


def _count_ticks(ticks: list[Tick], what: str) -> int:
    return sum(tick.count for tick in ticks if tick.what == what)
