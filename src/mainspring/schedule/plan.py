"""What becomes of a schedule at its ticks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TypeGuard

from msgspec.structs import replace

from ..clock import EPOCH
from ..ids import JobId
from .record import Firing, Schedule, Tick
from .status import MAX_COUNTED_TICKS, count_ticks, due_at, is_blocked, last_tick, listed_jobs, new_tick, recorded_until

# Ticks that one step fires at most; the rest follow at once, in steps of their own.
MAX_TICKS_PER_FIRING = 100
_MICROSECOND = timedelta(microseconds=1)


def plan(
    schedule: Schedule,
    *,
    now: datetime,
    mint: Callable[[], JobId],
    others: Mapping[str, Schedule] = {},
    broken: Mapping[datetime, str] = {},
) -> Firing:
    """What is to be done about a due schedule. `others` has the schedules it depends on.

    Ticks that are `broken` cannot have their input made: they are skipped with that reason.
    """
    draft = _Draft(schedule, now, mint, others, broken)
    draft.release()
    draft.go()
    return draft.firing()


class _Draft:
    """A schedule's next revision while it is being worked out."""

    def __init__(
        self,
        schedule: Schedule,
        now: datetime,
        mint: Callable[[], JobId],
        others: Mapping[str, Schedule],
        broken: Mapping[datetime, str],
    ) -> None:
        self.old, self.spec, self.now, self.mint = schedule, schedule.spec, now, mint
        self.others, self.broken = others, broken
        self.timetable = schedule.timetable
        self.horizon = now - self.timetable.offset
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

    # the ticks that are due

    def release(self) -> None:
        """Fires the tick that was held, if nothing is in its way any more."""
        if self.held is None:
            return
        self.waits_on = self._unmet()
        if self.waits_on is None and not self._overlaps():
            tick, self.held = self.held, None
            self._fire(tick)

    def go(self) -> None:
        """Meets every tick that is due, at most STEP of them."""
        if self._over():
            self.next = None
        first, since = self.next, recorded_until(self.old)
        if first is None or first > self.horizon:
            return
        late_until = self.horizon - timedelta(seconds=self.spec.grace)
        if self.spec.after == "finish":
            self._once(first, late_until)
        else:
            self._series(first, late_until)
        for gone in self.timetable.omitted(since, self.reached, limit=MAX_COUNTED_TICKS):
            self._record("skipped", gone.reason, gone.first_at, gone.last_at, gone.count)

    def _series(self, first: datetime, late_until: datetime) -> None:
        tick: datetime | None = first
        if first <= late_until:
            tick = self._late(first, late_until)
        while self._goes_on(tick, self.horizon):
            if self.spec.overlap == "cancel" and self._goes_on(self._after(tick), self.horizon):
                # Its run would be cancelled at once, by the next tick.
                tick = self._pass("skipped", "overlap", tick, tick)
            else:
                tick = self._meet(tick)
        self.next = None if self._over() else tick

    def _goes_on(self, tick: datetime | None, until: datetime) -> TypeGuard[datetime]:
        room = len(self.ticks) < MAX_TICKS_PER_FIRING and not self.waiting and not self._over()
        return room and tick is not None and tick <= until

    def _once(self, tick: datetime, late_until: datetime) -> None:
        """An interval that counts from the end of the last run has one tick at a time."""
        too_old = tick < self.horizon - timedelta(seconds=self.spec.catch_up_window)
        if tick <= late_until and (too_old or self.spec.catch_up == "skip"):
            self._note("missed", "too_old" if too_old else "catch_up", tick)
        else:
            self._meet(tick)
        self.next = None
        if not self.active and self.held is None:
            self.anchor = self.now
            self.next = replace(self.old, anchor_at=self.now).timetable.next(self.now)

    def _late(self, first: datetime, until: datetime) -> datetime | None:
        """Settles the ticks nobody has met in time; returns the first that is to be met now."""
        edge, tick = self.horizon - timedelta(seconds=self.spec.catch_up_window), first
        if tick < edge:
            young = self._pass("missed", "too_old", tick, min(until, edge - _MICROSECOND))
            if young is None or young > until:
                return young
            tick = young
        if self.spec.catch_up == "all":
            return self._one_by_one(tick, until)
        newest = last_tick(self.old, tick, until)
        on_time = self._after(newest)
        if self.spec.catch_up == "skip" or (on_time is not None and on_time <= self.horizon):
            return self._pass("missed", "catch_up", tick, newest)
        if tick < newest:
            self._pass("missed", "catch_up", tick, newest - _MICROSECOND)
        return newest

    def _one_by_one(self, tick: datetime | None, until: datetime) -> datetime | None:
        while self._goes_on(tick, until):
            # Every missed tick is to run, so it waits for the one before instead of being skipped.
            self.waiting = self._overlaps()
            if not self.waiting:
                tick = self._meet(tick)
        return tick

    def _meet(self, tick: datetime) -> datetime | None:
        """Settles what becomes of one tick; returns the one after it."""
        self.reached = max(self.reached, tick)
        unmet = self._unmet()
        if unmet is not None:
            self._hold(tick, "dependency", newest=True)
            self.waits_on = unmet
        elif not self._overlaps():
            self._fire(tick)
        elif self.spec.overlap == "skip":
            self._note("skipped", "overlap", tick)
        else:
            self._hold(tick, "overlap", newest=self.spec.overlap == "cancel")
            self.waits_on = None
            if self.spec.overlap == "cancel":
                self.cancel = list(self.active)
        return self._after(tick)

    def _hold(self, tick: datetime, reason: str, *, newest: bool) -> None:
        """At most one tick waits: the newest or the oldest."""
        if self.held is not None:
            self._note("skipped", reason, self.held if newest else tick)
        if self.held is None or newest:
            self.held = tick

    def _fire(self, tick: datetime) -> None:
        # Somebody may have set the next tick to the instant of the one that was held.
        fault = self.broken.get(tick) or ("made_already" if tick == self.last else None)
        if fault is not None:
            self._note("skipped", fault, tick)
            return
        id = self.mint()
        self.active.append(id)
        self.fired += 1
        self.last, self.last_job_id = tick, id
        self.answered = {name: other.succeeded_at for name, other in self.others.items() if other.succeeded_at}
        self._note("fired", "", tick, job_id=id)

    # what stands in the way

    def _overlaps(self) -> bool:
        return is_blocked(self.spec, self.active)

    def _unmet(self) -> str | None:
        """The first schedule it depends on that has not succeeded since this one ran last."""
        for name in self.spec.depends_on:
            other = self.others.get(name)
            if other is None or other.succeeded_at is None or not self._news(name, other.succeeded_at):
                return name
        return None

    def _news(self, name: str, succeeded_at: datetime) -> bool:
        # Not by its time alone: it was told by another machine's clock, and its run may follow within a millisecond.
        if name in self.answered:
            return succeeded_at != self.answered[name]
        return succeeded_at > (self.old.last_fired_at or EPOCH)

    def _over(self) -> bool:
        limit = self.spec.max_runs
        return limit is not None and self.old.fired + self.fired >= limit

    # the way from tick to tick

    def _after(self, tick: datetime) -> datetime | None:
        return self.timetable.next(tick)

    # the record

    def _pass(self, what: str, reason: str, first: datetime, until: datetime) -> datetime | None:
        """Leaves out the ticks from `first` to `until`; returns the one after them."""
        last, count = count_ticks(self.old, first, until)
        self._record(what, reason, first, last, count)
        return self._after(last)

    def _note(self, what: str, reason: str, tick: datetime, job_id: JobId | None = None) -> None:
        self._record(what, reason, tick, tick, 1, job_id)

    def _record(
        self, what: str, reason: str, first: datetime, last: datetime, count: int, job_id: JobId | None = None
    ) -> None:
        n = self.old.ticks + len(self.ticks) + 1
        self.reached = max(self.reached, last)
        self.ticks.append(new_tick(n, what, reason, first, last, count, self.now, job_id))

    def firing(self) -> Firing:
        old, fired = self.old, self.fired
        unfinished, unlisted = listed_jobs(old, self.active)
        new = replace(
            old, anchor_at=self.anchor, reached_at=self.reached, revision=old.revision + 1,
            next_run_at=self.next, due_at=None if self.waiting else due_at(old, self.next), held_at=self.held,
            waits_on=self.waits_on, active=unfinished, unlisted=unlisted,
            ticks=old.ticks + len(self.ticks), fired=old.fired + fired,
            skipped=old.skipped + _count_ticks(self.ticks, "skipped"), missed=old.missed + _count_ticks(self.ticks, "missed"),
            last_run_at=self.last or old.last_run_at, last_fired_at=self.now if fired else old.last_fired_at,
            last_job_id=self.last_job_id or old.last_job_id, answered=self.answered,
        )
        reads: tuple[tuple[str, int], ...] = ()
        if self.spec.depends_on:
            revisions = {name: other.revision for name, other in self.others.items()}
            reads = tuple((name, revisions.get(name, 0)) for name in self.spec.depends_on)
        return Firing(schedule=new, ticks=tuple(self.ticks), cancel=tuple(self.cancel), reads=reads)


def _count_ticks(ticks: list[Tick], what: str) -> int:
    return sum(tick.count for tick in ticks if tick.what == what)
