"""The schedule log: every write about schedules, checked against the rules as it happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct, field

from mainspring.ids import JobId
from mainspring.records.job import IDEMPOTENT_STATES, Job, State
from mainspring.schedule.record import Schedule, Spec, Tick

from . import reference_ticks
from .loop import TrueClock
from .watch import Watch

# Reasons of ticks that an operator fired; they do not count for the schedule.
DETACHED_REASONS = ("by_hand", "backfill")
# Error of the clock of a process that reads the store's time over a slow link.
EARLY_SECONDS = 30.0
# A healthy process fires due ticks within its polling interval and this time.
SLACK_SECONDS = 3.0
_SOON = timedelta(seconds=1)
_WHEN = ("trigger", "window", "exclude", "start_at", "end_at", "after")


class TimetablePeriod(Struct):
    """A period in which a schedule has one timetable."""

    spec: Spec
    anchor: datetime
    since: datetime
    """Its ticks are later than this."""
    until: datetime | None = None
    """Its ticks are not later than this; None if it goes on."""
    extra: set[datetime] = field(default_factory=set)
    """Additional ticks: the first run at the start, and ticks that an operator moved."""
    over: bool = False
    """Whether it has had its last run, and so has no further ticks."""
    omits_since: datetime | None = None
    """Its omitted ticks are later than this, if an operator has moved its first tick: those before that tick, too."""
    complete: bool = False
    """Whether its omitted ticks are recorded up to its end: it had a next tick when it ended."""


class ScheduleLife(Struct):
    """A schedule from its creation to its deletion."""

    row: Schedule
    written_at: float
    periods: list[TimetablePeriod]
    records: list[Tick] = field(default_factory=list)
    active: set[JobId] = field(default_factory=set)
    """Its jobs that are not final, according to the jobs."""
    held: set[datetime] = field(default_factory=set)
    """Ticks that were held."""
    bases: set[datetime] = field(default_factory=set)
    """Instants from which an interval with `after="finish"` may be counted."""
    completed: int = 0
    failed: int = 0
    failures: int = 0
    gone: bool = False


class ScheduleLog:
    """Receives every write about schedules in order. Rules that only the end shows are checked in tick_audit.py."""

    def __init__(self, clock: TrueClock, watch: Watch, fail: Callable[..., None], note: Callable[..., None]) -> None:
        self._clock = clock
        self._watch = watch
        self._fail = fail
        self._note = note
        self.lives: dict[str, list[ScheduleLife]] = {}
        self.jobs: dict[JobId, Job] = {}
        """Every job of a schedule, as it was first written."""
        self.rescheduled: set[datetime] = set()
        """Instants to which an operator has moved a next tick."""
        self.poll = 0.0
        self._single: dict[JobId, ScheduleLife] = {}
        self._running: dict[str, set[JobId]] = {}
        self._holders: dict[tuple[str, datetime | None], set[JobId]] = {}

    def _life(self, name: str) -> ScheduleLife | None:
        lives = self.lives.get(name)
        return lives[-1] if lives and not lives[-1].gone else None

    # rows

    def row_written(self, new: Schedule, who: str) -> None:
        life = self._life(new.name)
        if life is None:
            self._create(new)
            self._note(who, new.name, f"is created: {_describe(new)}")
            return
        old = life.row
        self._check_overdue(life)
        self._change(life, old, new)
        life.row, life.written_at = new, self._clock.monotonic()
        if new.held_at is not None:
            life.held.add(new.held_at)
        self._note(who, new.name, _describe(new))

    def _create(self, row: Schedule) -> None:
        at = row.created_at
        period = TimetablePeriod(row.spec, row.spec.start_at or at, at)
        if row.spec.run_on_start and reference_ticks.is_open(row.spec, at):
            period.extra.add(at)
        life = ScheduleLife(row, self._clock.monotonic(), [period], bases={at})
        self.lives.setdefault(row.name, []).append(life)

    def _change(self, life: ScheduleLife, old: Schedule, new: Schedule) -> None:
        at, period = new.updated_at, life.periods[-1]
        if any(getattr(old.spec, name) != getattr(new.spec, name) for name in _WHEN):
            moved = any(getattr(old.spec, name) != getattr(new.spec, name) for name in ("trigger", "start_at"))
            # The end of its last run, if its interval was counted from there.
            kept = period.anchor if period.spec.after == "start" else old.anchor_at
            self._begin_period(life, TimetablePeriod(new.spec, new.spec.start_at or at if moved else kept, at))
        elif new.next_run_at and new.next_run_at != old.next_run_at and self._is_rescheduled(new.next_run_at, new):
            self._begin_period(
                life, TimetablePeriod(new.spec, period.anchor, new.next_run_at, extra={new.next_run_at}), at
            )
        elif new.spec.after == "start" and old.next_run_at is None and new.next_run_at is not None:
            self._begin_period(life, TimetablePeriod(new.spec, period.anchor, at))
        elif new.spec != old.spec:
            period.spec = new.spec
        if new.updated_at != old.updated_at:
            life.bases.add(at)
        if new.next_run_at is None and new.spec.max_runs is not None and new.fired >= new.spec.max_runs:
            life.periods[-1].over = True
        if old.paused_at is not None and new.paused_at is None:
            life.failures = 0

    def _is_rescheduled(self, at: datetime, row: Schedule) -> bool:
        """Whether an operator has moved the next tick there; an instant in the past is moved to the present."""
        return at in self.rescheduled or (at == row.updated_at and bool(self.rescheduled))

    def _begin_period(self, life: ScheduleLife, period: TimetablePeriod, at: datetime | None = None) -> None:
        """Begins a new timetable at `at`. Ticks that a fast clock has handled early belong to the old one."""
        handled = [tick.last_at or tick.at for tick in life.records if tick.reason not in DETACHED_REASONS] + list(
            life.held
        )
        before = life.periods[-1]
        before.complete = life.row.next_run_at is not None
        before.until = max([life.row.created_at if before.over else at or period.since, *handled])
        period.since = max(period.since, before.until)
        period.omits_since = None if at is None else max(at, before.until)
        life.periods.append(period)

    def _check_overdue(self, life: ScheduleLife) -> None:
        """Fails if a due tick was not handled although a process was healthy for long enough."""
        row = life.row
        if row.due_at is None:
            return
        due = (row.due_at - self._clock.now()).total_seconds() + self._clock.monotonic()
        waited = self._watch.longest_healthy(max(due, life.written_at), row.name if row.spec.computed else None)
        if waited > self.poll + SLACK_SECONDS:
            self._fail("I6", row.name, f"was due for {waited:.1f} s, and no process fired it")

    def schedule_deleted(self, name: str, who: str) -> None:
        life = self._life(name)
        if life is not None:
            self._check_overdue(life)
            life.gone = True
            self._note(who, name, "is deleted")

    # ticks

    def ticks_recorded(self, name: str, ticks: list[Tick], who: str) -> None:
        life = self._life(name)
        if life is None:
            self._fail("I6", name, "has recorded ticks, but does not exist")
            return
        life.records += ticks
        for tick in ticks:
            self._note(who, name, " ".join(filter(None, (tick.what, _span(tick), tick.reason, tick.job_id))))
            life.bases.add(tick.seen_at)
            if tick.reason not in DETACHED_REASONS:
                self._check_punctual(life, tick)
        fired = [tick for tick in ticks if tick.what == "fired"]
        self._check_overlap(life, [tick for tick in fired if tick.reason not in DETACHED_REASONS])
        life.active |= {tick.job_id for tick in fired if tick.reason != "backfill" and tick.job_id}

    def _check_overlap(self, life: ScheduleLife, series: list[Tick]) -> None:
        """Fails if a tick is fired while the schedule is paused, or beside a run that must end first."""
        name, spec = life.row.name, life.row.spec
        if series and life.row.paused_at is not None:
            self._fail("I6", name, f"{_at(series[0].at)} is fired while it is paused")
        if series and (spec.overlap != "allow" or spec.after == "finish"):
            if life.active or len(series) > 1:
                others = ", ".join(sorted(life.active)) or "one another"
                self._fail("I6", name, f"{series[0].job_id} was created beside {others}")
            self._single.update({tick.job_id: life for tick in series if tick.job_id})

    def _check_punctual(self, life: ScheduleLife, tick: Tick) -> None:
        """Fails if a tick is missed within its grace, fired before its time, or fired later than its options allow."""
        spec, last = life.row.spec, tick.last_at or tick.at
        late = (tick.seen_at - last).total_seconds()
        limit_seconds = spec.grace if spec.catch_up == "skip" else max(spec.grace, spec.catch_up_window)
        if tick.what == "missed" and late < spec.grace:
            self._fail("I6", life.row.name, f"{_at(last)} is missed after {late:.3f} s, within its grace")
        elif tick.what == "fired" and last - self._clock.now() > timedelta(seconds=EARLY_SECONDS):
            self._fail("I6", life.row.name, f"{_at(last)} is fired early, at {_at(self._clock.now())}")
        elif tick.what == "fired" and late > limit_seconds + spec.jitter and last not in life.held:
            self._fail("I6", life.row.name, f"{_at(last)} is fired {late:.3f} s late")

    # jobs

    def job_written(self, old: Job | None, job: Job) -> None:
        """Called for every write of a schedule's job."""
        name = job.schedule or ""
        life = None if job.detached else self._life(name)
        self._check_holders(name, job)
        if old is None:
            self.jobs[job.id] = job
        elif old.state.final and not job.state.final:
            self._single.pop(job.id, None)  # an operator's retry ignores the overlap rule
            if life is not None:
                life.active.add(job.id)
        elif job.state.final and not old.state.final:
            self._job_ended(life, job.id, job.state, job.finished_at or job.run_at)
        self._check_running(name, job)

    def _check_holders(self, name: str, job: Job) -> None:
        """Fails if more than one job of a tick is unfinished or completed."""
        holders = self._holders.setdefault((name, job.scheduled_at), set())
        (holders.add if job.state in IDEMPOTENT_STATES else holders.discard)(job.id)
        if len(holders) > 1:
            self._fail("I6", name, f"{_at(job.scheduled_at)} has the jobs {', '.join(sorted(holders))}")

    def _check_running(self, name: str, job: Job) -> None:
        running = self._running.setdefault(name, set())
        if job.state is not State.RUNNING or job.id not in self._single:
            running.discard(job.id)
        elif job.id not in running:
            mine = [id for id in running if self._single.get(id) is self._single[job.id]]
            if mine:
                self._fail("I6", name, f"{job.id} runs beside {', '.join(sorted(mine))}")
            running.add(job.id)

    def job_deleted(self, job: Job, at: datetime) -> None:
        self._holders[job.schedule or "", job.scheduled_at].discard(job.id)
        if not job.state.final:
            self._job_ended(self._life(job.schedule or ""), job.id, None, at)

    def _job_ended(self, life: ScheduleLife | None, id: JobId, state: State | None, at: datetime) -> None:
        if life is None or id not in life.active:
            return
        life.active.discard(id)
        life.bases.add(at)
        if state is State.COMPLETED:
            life.completed, life.failures = life.completed + 1, 0
        elif state in (State.DEAD, State.EXPIRED):
            life.failed, life.failures = life.failed + 1, life.failures + 1
            limit = life.row.spec.pause_after_failures
            if limit is not None and life.failures >= limit and life.row.paused_at is None:
                self._fail("I6", life.row.name, f"goes on after {life.failures} failures in a row")

    # after the faults

    def check_calm(self) -> None:
        """Fails if a schedule is stuck after a time without faults."""
        for life in [lives[-1] for _, lives in sorted(self.lives.items()) if not lives[-1].gone]:
            self._check_overdue(life)
            listed = set(life.row.active)
            if not listed <= life.active or len(life.active) != len(listed) + life.row.unlisted:
                listed_ids, real_ids = ", ".join(sorted(life.row.active)), ", ".join(sorted(life.active))
                self._fail("I6", life.row.name, f"lists [{listed_ids}] as unfinished jobs; they are [{real_ids}]")
            if life.row.status == "active" and self._stuck(life.row, bool(life.active)):
                self._fail("I6", life.row.name, f"waits for nothing: {_describe(life.row)}")

    def _stuck(self, row: Schedule, busy: bool) -> bool:
        """Whether its next or held tick will not be fired soon, although nothing blocks it."""
        if row.waits_on is not None:
            other = self._life(row.waits_on)
            succeeded = None if other is None else other.row.succeeded_at
            return succeeded is not None and (row.last_fired_at is None or succeeded > row.last_fired_at)
        late = row.due_at is None or (row.held_at is not None and row.due_at > self._clock.now() + _SOON)
        return late and not busy


def _at(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%H:%M:%S.%f}"[:-3]


def _span(tick: Tick) -> str:
    return _at(tick.at) if tick.last_at is None else f"{_at(tick.at)} to {_at(tick.last_at)}, {tick.count},"


def _describe(row: Schedule) -> str:
    paused = f", paused: {row.note or 'so'}" if row.paused_at is not None else ""
    held = "" if row.held_at is None else f", {_at(row.held_at)} held for {row.waits_on or 'its runs'}"
    return f"revision {row.revision}, next {_at(row.next_run_at)}, due {_at(row.due_at)}{held}{paused}"
