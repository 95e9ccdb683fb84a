"""What becomes of a schedule: at its ticks, when a run of it ends, when somebody changes it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple, TypeGuard

import msgspec
from msgspec.structs import replace

from .clock import EPOCH
from .job import JobId, State
from .schedule import Firing, Owner, Schedule, Spec, Tick
from .trigger import Every
from .trigger.zone import zone_of

# Ticks that one step fires at most; the rest follow at once, in steps of their own.
STEP = 100
# Of ticks that share a fate so many are counted at most: the worker has other things to do.
COUNTED = 1000
# Of jobs that may overlap, a schedule remembers so many that are not final.
ACTIVE_KEPT = 100
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
        first, since = self.next, _settled(self.old)
        if first is None or first > self.horizon:
            return
        late_until = self.horizon - timedelta(seconds=self.spec.grace)
        if self.spec.after == "finish":
            self._once(first, late_until)
        else:
            self._series(first, late_until)
        for gone in self.timetable.omitted(since, self.reached, limit=COUNTED):
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
        room = len(self.ticks) < STEP and not self.waiting and not self._over()
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
        newest = _newest(self.old, tick, until)
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
        self.last = tick
        self.answered = {name: other.succeeded_at for name, other in self.others.items() if other.succeeded_at}
        self._note("fired", "", tick, job_id=id)

    # what stands in the way

    def _overlaps(self) -> bool:
        return _blocks(self.spec, self.active)

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
        last, count = _counted(self.old, first, until)
        self._record(what, reason, first, last, count)
        return self._after(last)

    def _note(self, what: str, reason: str, tick: datetime, job_id: JobId | None = None) -> None:
        self._record(what, reason, tick, tick, 1, job_id)

    def _record(
        self, what: str, reason: str, first: datetime, last: datetime, count: int, job_id: JobId | None = None
    ) -> None:
        n = self.old.ticks + len(self.ticks) + 1
        self.reached = max(self.reached, last)
        self.ticks.append(tick_of(n, what, reason, first, last, count, self.now, job_id))

    def firing(self) -> Firing:
        old, fired = self.old, [tick for tick in self.ticks if tick.what == "fired"]
        new = replace(
            old, anchor_at=self.anchor, reached_at=self.reached, revision=old.revision + 1,
            next_run_at=self.next, held_at=self.held, waits_on=self.waits_on,
            ticks=old.ticks + len(self.ticks), fired=old.fired + len(fired),
            skipped=old.skipped + _sum(self.ticks, "skipped"), missed=old.missed + _sum(self.ticks, "missed"),
            last_run_at=self.last or old.last_run_at, last_fired_at=self.now if fired else old.last_fired_at,
            last_job_id=fired[-1].job_id if fired else old.last_job_id, answered=self.answered,
        )  # fmt: skip
        new = _listed(replace(new, due_at=None if self.waiting else due(new)), self.active)
        revisions = {name: other.revision for name, other in self.others.items()}
        reads = tuple((name, revisions.get(name, 0)) for name in self.spec.depends_on)
        return Firing(schedule=new, ticks=tuple(self.ticks), cancel=tuple(self.cancel), reads=reads)


def tick_of(
    n: int, what: str, reason: str, first: datetime, last: datetime, count: int, now: datetime, job_id: JobId | None
) -> Tick:
    return Tick(
        n=n, at=first, seen_at=now, what=what, reason=reason, job_id=job_id, count=count,  # type: ignore[arg-type]
        last_at=None if last == first else last,
    )  # fmt: skip


def _sum(ticks: list[Tick], what: str) -> int:
    return sum(tick.count for tick in ticks if tick.what == what)


def _counted(schedule: Schedule, first: datetime, until: datetime) -> tuple[datetime, int]:
    """The last of its ticks from `first` to `until`, and how many there are, of very many at least so many."""
    last = _newest(schedule, first, until)
    return last, 1 + schedule.timetable.count(first, last, limit=COUNTED - 1)


def _newest(schedule: Schedule, first: datetime, until: datetime) -> datetime:
    """The last of its ticks from `first` to `until`."""
    return schedule.timetable.latest(first, until) or first


def _settled(schedule: Schedule) -> datetime:
    """The fate of what its timetable leaves out is on record up to here."""
    reached = schedule.reached_at or schedule.created_at
    # The grid of an interval that counts from a run's end begins there: what lies before has never been a tick.
    return max(reached, schedule.anchor_at) if schedule.spec.after == "finish" else reached


def due(schedule: Schedule) -> datetime | None:
    """When a worker is to look at it by itself."""
    if schedule.paused_at is not None or schedule.next_run_at is None:
        return None
    return schedule.next_run_at + schedule.timetable.offset


def _blocks(spec: Spec, active: Sequence[JobId]) -> bool:
    """Whether these runs keep the next one from beginning."""
    return bool(active) and spec.exclusive


def _listed(schedule: Schedule, active: Sequence[JobId]) -> Schedule:
    """The schedule with these unfinished jobs. Where they may overlap there may be very many, and some are counted."""
    kept = tuple(active) if schedule.spec.exclusive else tuple(active[-ACTIVE_KEPT:])
    return replace(schedule, active=kept, unlisted=schedule.unlisted + len(active) - len(kept))


def _armed(schedule: Schedule, now: datetime) -> Schedule:
    """Due at once if a tick that was held is free to run, else at its next tick."""
    held = schedule.held_at is not None and schedule.waits_on is None and schedule.paused_at is None
    free = held and not _blocks(schedule.spec, schedule.active)
    return replace(schedule, due_at=now if free else due(schedule))


# when one of its jobs ends, or comes back to life


def ended(schedule: Schedule, job_id: JobId, state: State | None, at: datetime, result: str | None = None) -> Schedule:
    """The schedule after one of its jobs became final; None: the job was deleted before it did."""
    listed = job_id in schedule.active
    if not listed and not schedule.unlisted:
        return schedule
    active = tuple(id for id in schedule.active if id != job_id)
    unlisted = schedule.unlisted if listed else schedule.unlisted - 1
    new = replace(schedule, revision=schedule.revision + 1, active=active, unlisted=unlisted)
    if state is not None:
        new = replace(new, last_outcome=state, last_finished_at=at)
    if state is State.COMPLETED:
        new = _adapted(replace(new, completed=new.completed + 1, failures=0, succeeded_at=at), result, at)
    elif state in (State.DEAD, State.EXPIRED):
        new = replace(new, failed=new.failed + 1, failures=new.failures + 1)
        limit = new.spec.pause_after_failures
        if limit is not None and new.failures >= limit and new.paused_at is None:
            new = replace(new, paused_at=at, due_at=None, note=f"paused after {new.failures} failures in a row")
    if new.paused_at is not None or (new.due_at is None and _blocks(new.spec, active)):
        return new
    if new.spec.after == "finish" and new.next_run_at is None:
        new = _begun(replace(new, anchor_at=at), at)
    return _armed(new, at)


def revived(schedule: Schedule, job_id: JobId) -> Schedule:
    """The schedule after a final job of it was put back to work."""
    active = (*(id for id in schedule.active if id != job_id), job_id)
    return _listed(replace(schedule, revision=schedule.revision + 1), active)


def roused(schedule: Schedule, at: datetime) -> Schedule:
    """The schedule after the one it waits on has succeeded."""
    if schedule.paused_at is not None:
        return schedule
    new = replace(schedule, revision=schedule.revision + 1, waits_on=None)
    return new if _blocks(new.spec, new.active) else _armed(new, at)


def _over(schedule: Schedule) -> bool:
    return schedule.spec.max_runs is not None and schedule.fired >= schedule.spec.max_runs


def _adapted(schedule: Schedule, result: str | None, at: datetime) -> Schedule:
    """Its interval doubles while runs return the same, up to the cap, and is itself again when they do not."""
    longest, trigger = schedule.spec.adapt, schedule.spec.trigger
    if longest is None or not isinstance(trigger, Every):
        return schedule
    told = blake2b((result or "").encode(), digest_size=8).hexdigest()
    most = max(1, timedelta(seconds=longest) // trigger.span)
    stretch = min(schedule.stretch * 2, most) if told == schedule.digest else 1
    new = replace(schedule, digest=told, stretch=stretch)
    if stretch == schedule.stretch:
        return new
    if schedule.spec.after == "start":
        # The longer interval counts from the last run, on a tick of its own grid: the phase stays.
        own = trigger.anchored(schedule.anchor_at)
        new = replace(new, anchor_at=own.next((schedule.last_run_at or at) - trigger.span) or schedule.anchor_at)
    next_at = schedule.next_run_at
    # What is due already is met as it is; what somebody has put elsewhere stays there.
    if next_at is None or next_at <= at or schedule.timetable.next(next_at - _MICROSECOND) != next_at:
        return new
    return replace(new, next_run_at=new.timetable.next(at))


# when somebody makes or changes it


def fingerprint(spec: Spec) -> str:
    return blake2b(msgspec.json.encode(spec, order="sorted"), digest_size=16).hexdigest()


def born(
    name: str, spec: Spec, *, owner: Owner, now: datetime, anchor_at: datetime | None = None
) -> Schedule:  # fmt: skip
    """A new schedule: its first tick is the next one, or at once if it is to run on start."""
    new = Schedule(
        name=name, spec=spec, owner=owner, created_at=now, updated_at=now,
        declared=fingerprint(spec) if owner == "code" else "", anchor_at=anchor_at or spec.start_at or now,
    )  # fmt: skip
    first = now if spec.run_on_start and _open(spec, now) else new.timetable.next(now)
    return _armed(replace(new, next_run_at=first), now)


def _open(spec: Spec, now: datetime) -> bool:
    """Whether its start, end, window and excluded dates let it run now."""
    if not (spec.start_at or now) <= now <= (spec.end_at or now):
        return False
    today = now.astimezone(zone_of(spec.trigger.tz)).date()
    return today not in spec.exclude and (spec.window is None or spec.window.zoned(spec.trigger.tz).inside(now))


# What a change of any of these means: the ticks are others.
_WHEN = ("trigger", "window", "exclude", "start_at", "end_at", "after")


def redefined(
    schedule: Schedule, spec: Spec, *, now: datetime, declared: str | None = None, anchor_at: datetime | None = None
) -> Firing:
    """The schedule with another spec. Its next tick stays unless the spec says other instants.

    A new interval is laid through `anchor_at`, or through its start or now.
    """
    new = replace(schedule, spec=spec, revision=schedule.revision + 1, updated_at=now)
    new = _unlearned(schedule, new, now)
    if declared is not None:
        new = replace(new, declared=declared)
    if spec.depends_on != schedule.spec.depends_on:
        new = replace(new, waits_on=None)
    if spec.trigger != schedule.spec.trigger or (spec.start_at != schedule.spec.start_at and not spec.spread):
        new = replace(new, anchor_at=anchor_at or spec.start_at or now)
    others = any(getattr(spec, name) != getattr(schedule.spec, name) for name in _WHEN)
    if others or _over(schedule) != _over(new):
        return _anew(schedule, new, "changed", now)
    return Firing(schedule=_armed(new, now))


# What the results of runs depend on, or what is made of them.
_LEARNED = ("trigger", "task", "payload", "computed", "adapt")


def _unlearned(old: Schedule, new: Schedule, now: datetime) -> Schedule:
    """Its interval is itself again if what its runs returned says nothing about those to come."""
    if all(getattr(new.spec, name) == getattr(old.spec, name) for name in _LEARNED):
        return new
    new = replace(new, stretch=1, digest="")
    if old.stretch == 1 or new.next_run_at is None or new.next_run_at <= now:
        return new
    return replace(new, next_run_at=new.timetable.next(now))


def paused(schedule: Schedule, note: str, *, now: datetime) -> Schedule:
    """It keeps its place and makes no jobs."""
    return replace(
        schedule, revision=schedule.revision + 1, paused_at=schedule.paused_at or now, note=note, due_at=None,
        updated_at=now,
    )  # fmt: skip


def resumed(schedule: Schedule, *, from_now: bool, now: datetime) -> Firing:
    """From now, leaving out what the pause covered, or from where it left, by its catch-up rule."""
    new = replace(schedule, revision=schedule.revision + 1, paused_at=None, note="", failures=0, updated_at=now)
    if from_now and new.next_run_at is not None and new.next_run_at <= now:
        return _anew(schedule, new, "paused", now)
    if new.spec.after == "finish" and new.next_run_at is None:
        new = _begun(replace(new, anchor_at=now), now)
    return Firing(schedule=_armed(new, now))


def rescheduled(schedule: Schedule, at: datetime, *, now: datetime) -> Firing:
    """Its next tick is at `at`, or now if that is past; those after it follow the trigger again."""
    at = max(at, now)
    until = min(now, at - _MICROSECOND)
    reached = max(until, schedule.reached_at or until)
    new = replace(schedule, revision=schedule.revision + 1, next_run_at=at, reached_at=reached, updated_at=now)
    return _recorded(_armed(new, now), _passed(schedule, "changed", until), now)


def triggered(
    schedule: Schedule, ticks: Sequence[datetime], reason: str, *, now: datetime, mint: Callable[[], JobId], joins: bool
) -> Firing:
    """Jobs for these instants at once, beside the series: its next tick, count and policies are left alone.

    Only a job that `joins` is one of its runs: it keeps the next from overlapping, and its failure counts.
    """
    records = [
        Tick(n=schedule.ticks + n, at=tick, seen_at=now, what="fired", reason=reason, job_id=mint())
        for n, tick in enumerate(ticks, 1)
    ]
    ids = [tick.job_id for tick in records if tick.job_id is not None]
    new = replace(
        schedule, revision=schedule.revision + 1, ticks=schedule.ticks + len(records),
        last_job_id=ids[-1] if ids else schedule.last_job_id,
    )  # fmt: skip
    return Firing(schedule=_listed(new, (*new.active, *ids)) if joins else new, ticks=tuple(records))


def _begun(schedule: Schedule, at: datetime) -> Schedule:
    """The schedule with the first tick later than `at` as its next, if there is to be one."""
    if schedule.spec.after == "finish":
        waits = bool(schedule.active) or schedule.held_at is not None
        first = None if waits else schedule.timetable.next(at)
    else:
        first = schedule.timetable.next(at)
    return replace(schedule, next_run_at=None if _over(schedule) else first)


class _Fate(NamedTuple):
    """Why some ticks in a row were not fired."""

    reason: str
    first_at: datetime
    last_at: datetime
    number: int = 1


def _anew(old: Schedule, new: Schedule, reason: str, now: datetime) -> Firing:
    """Its ticks begin anew now; those that were due and are not going to be fired are on record."""
    fates = _passed(old, reason, now)
    if _over(new) and new.held_at is not None:
        fates.append(_Fate(reason, new.held_at, new.held_at))
        new = replace(new, held_at=None, waits_on=None)
    return _recorded(_armed(_begun(replace(new, reached_at=now), now), now), fates, now)


def _passed(schedule: Schedule, reason: str, until: datetime) -> list[_Fate]:
    """The fates of its ticks up to an instant from which others count."""
    first = schedule.next_run_at
    if first is None:
        return []
    gone = schedule.timetable.omitted(_settled(schedule), until, limit=COUNTED)
    fates = [_Fate(one.reason, one.first_at, one.last_at, one.count) for one in gone]
    if first <= until:
        single = schedule.spec.after == "finish"
        fates.append(_Fate(reason, first, *((first, 1) if single else _counted(schedule, first, until))))
    return fates


def _recorded(schedule: Schedule, fates: Sequence[_Fate], now: datetime) -> Firing:
    ticks = tuple(
        tick_of(schedule.ticks + n, "skipped", fate.reason, fate.first_at, fate.last_at, fate.number, now, None)
        for n, fate in enumerate(fates, 1)
    )
    skipped = schedule.skipped + sum(fate.number for fate in fates)
    return Firing(schedule=replace(schedule, ticks=schedule.ticks + len(ticks), skipped=skipped), ticks=ticks)
