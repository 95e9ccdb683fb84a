"""The almanac: the life of every schedule as it was written, and what must never be in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct, field

from mainspring.ids import JobId
from mainspring.records.job import IDEMPOTENT, Job, State
from mainspring.schedule.record import Schedule, Spec, Tick

from . import reference_ticks
from .loop import TrueClock
from .watch import Watch

# Fired beside the series, because somebody asked for it.
ASIDE = ("by_hand", "backfill")
# A process that first hears the store's time over a slow link may be wrong by so many seconds.
EARLY = 30.0
# In so many seconds, and its polling interval, a process that is well meets what is due.
SLACK = 3.0
_SOON = timedelta(seconds=1)
_WHEN = ("trigger", "window", "exclude", "start_at", "end_at", "after")


class Era(Struct):
    """A time in which a schedule has one timetable."""

    spec: Spec
    anchor: datetime
    since: datetime
    """Its ticks are later than that."""
    until: datetime | None = None
    """Its ticks are not later than that; None: it goes on."""
    extra: set[datetime] = field(default_factory=set)
    """Ticks that somebody named."""
    over: bool = False
    """It has had its last run: ticks that follow are none."""
    told: bool = False
    """It was left with a next tick, so that what it leaves out is on record to its end."""


class Life(Struct):
    """A schedule from its making to its deletion."""

    row: Schedule
    written_at: float
    eras: list[Era]
    records: list[Tick] = field(default_factory=list)
    active: set[JobId] = field(default_factory=set)
    """Its jobs that are not final, as jobs tell."""
    held: set[datetime] = field(default_factory=set)
    """Ticks that have waited."""
    bases: set[datetime] = field(default_factory=set)
    """Instants from which an interval may be counted that begins when a run ends."""
    completed: int = 0
    failed: int = 0
    failures: int = 0
    gone: bool = False


class Almanac:
    """Hears every write about schedules, in order. What only the end can show is in reckoning.py."""

    def __init__(self, clock: TrueClock, watch: Watch, fail: Callable[..., None], note: Callable[..., None]) -> None:
        self._clock = clock
        self._watch = watch
        self._fail = fail
        self._note = note
        self.lives: dict[str, list[Life]] = {}
        self.jobs: dict[JobId, Job] = {}
        """Every job that a schedule has made, as it was first written."""
        self.wished: set[datetime] = set()
        """Instants to which somebody has moved a next tick."""
        self.poll = 0.0
        self._single: dict[JobId, Life] = {}
        self._running: dict[str, set[JobId]] = {}
        self._holders: dict[tuple[str, datetime | None], set[JobId]] = {}

    def _life(self, name: str) -> Life | None:
        lives = self.lives.get(name)
        return lives[-1] if lives and not lives[-1].gone else None

    # rows

    def wrote(self, new: Schedule, who: str) -> None:
        life = self._life(new.name)
        if life is None:
            self._born(new)
            self._note(who, new.name, f"is made: {_said(new)}")
            return
        old = life.row
        self._overdue(life)
        self._change(life, old, new)
        life.row, life.written_at = new, self._clock.monotonic()
        if new.held_at is not None:
            life.held.add(new.held_at)
        self._note(who, new.name, _said(new))

    def _born(self, row: Schedule) -> None:
        at = row.created_at
        era = Era(row.spec, row.spec.start_at or at, at)
        if row.spec.run_on_start and reference_ticks.open(row.spec, at):
            era.extra.add(at)
        life = Life(row, self._clock.monotonic(), [era], bases={at})
        self.lives.setdefault(row.name, []).append(life)

    def _change(self, life: Life, old: Schedule, new: Schedule) -> None:
        at, era = new.updated_at, life.eras[-1]
        if any(getattr(old.spec, name) != getattr(new.spec, name) for name in _WHEN):
            moved = any(getattr(old.spec, name) != getattr(new.spec, name) for name in ("trigger", "start_at"))
            # Where its last run has ended, if its interval was counted from there.
            kept = era.anchor if era.spec.after == "start" else old.anchor_at
            self._turn(life, Era(new.spec, new.spec.start_at or at if moved else kept, at))
        elif new.next_run_at and new.next_run_at != old.next_run_at and self._wished(new.next_run_at, new):
            self._turn(life, Era(new.spec, era.anchor, new.next_run_at, extra={new.next_run_at}), at)
        elif new.spec.after == "start" and old.next_run_at is None and new.next_run_at is not None:
            self._turn(life, Era(new.spec, era.anchor, at))
        elif new.spec != old.spec:
            era.spec = new.spec
        if new.updated_at != old.updated_at:
            life.bases.add(at)
        if new.next_run_at is None and new.spec.max_runs is not None and new.fired >= new.spec.max_runs:
            life.eras[-1].over = True
        if old.paused_at is not None and new.paused_at is None:
            life.failures = 0

    def _wished(self, at: datetime, row: Schedule) -> bool:
        """Whether an operator has moved the next tick there; what is past by then is moved to the present."""
        return at in self.wished or (at == row.updated_at and bool(self.wished))

    def _turn(self, life: Life, era: Era, at: datetime | None = None) -> None:
        """Another timetable from `at` on; a tick that was met early, by a clock that is ahead, was met."""
        met = [tick.last_at or tick.at for tick in life.records if tick.reason not in ASIDE] + list(life.held)
        before = life.eras[-1]
        before.told = life.row.next_run_at is not None
        before.until = max([life.row.created_at if before.over else at or era.since, *met])
        era.since = max(era.since, before.until)
        life.eras.append(era)

    def _overdue(self, life: Life) -> None:
        """Nobody has met what was due, although somebody could have."""
        row = life.row
        if row.due_at is None:
            return
        due = (row.due_at - self._clock.now()).total_seconds() + self._clock.monotonic()
        waited = self._watch.longest(max(due, life.written_at), row.name if row.spec.computed else None)
        if waited > self.poll + SLACK:
            self._fail("I6", row.name, f"was due for {waited:.1f} s, and nobody met it")

    def dropped(self, name: str, who: str) -> None:
        life = self._life(name)
        if life is not None:
            self._overdue(life)
            life.gone = True
            self._note(who, name, "is deleted")

    # ticks

    def recorded(self, name: str, ticks: list[Tick], who: str) -> None:
        life = self._life(name)
        if life is None:
            self._fail("I6", name, "has ticks on record, and is not there")
            return
        life.records += ticks
        for tick in ticks:
            self._note(who, name, " ".join(filter(None, (tick.what, _span(tick), tick.reason, tick.job_id))))
            life.bases.add(tick.seen_at)
            if tick.reason not in ASIDE:
                self._punctual(life, tick)
        fired = [tick for tick in ticks if tick.what == "fired"]
        self._beside(life, [tick for tick in fired if tick.reason not in ASIDE])
        life.active |= {tick.job_id for tick in fired if tick.reason != "backfill" and tick.job_id}

    def _beside(self, life: Life, series: list[Tick]) -> None:
        """Nothing is fired while it is paused, or while a run is under way that must end first."""
        name, spec = life.row.name, life.row.spec
        if series and life.row.paused_at is not None:
            self._fail("I6", name, f"{_at(series[0].at)} is fired while it is paused")
        if series and (spec.overlap != "allow" or spec.after == "finish"):
            if life.active or len(series) > 1:
                others = ", ".join(sorted(life.active)) or "one another"
                self._fail("I6", name, f"{series[0].job_id} was made beside {others}")
            self._single.update({tick.job_id: life for tick in series if tick.job_id})

    def _punctual(self, life: Life, tick: Tick) -> None:
        """A tick is missed only if it is late; it is fired not before its time, and late only where that is wanted."""
        spec, last = life.row.spec, tick.last_at or tick.at
        late = (tick.seen_at - last).total_seconds()
        most = spec.grace if spec.catch_up == "skip" else max(spec.grace, spec.catch_up_window)
        if tick.what == "missed" and late < spec.grace:
            self._fail("I6", life.row.name, f"{_at(last)} is missed after {late:.3f} s, within its grace")
        elif tick.what == "fired" and last - self._clock.now() > timedelta(seconds=EARLY):
            self._fail("I6", life.row.name, f"{_at(last)} is fired at {_at(self._clock.now())} already")
        elif tick.what == "fired" and late > most + spec.jitter and last not in life.held:
            self._fail("I6", life.row.name, f"{_at(last)} is fired {late:.3f} s late")

    # jobs

    def moved(self, old: Job | None, job: Job) -> None:
        """A job of a schedule was written."""
        name = job.schedule or ""
        life = None if job.beside else self._life(name)
        self._hold(name, job)
        if old is None:
            self.jobs[job.id] = job
        elif old.state.final and not job.state.final:
            self._single.pop(job.id, None)  # an operator's retry does not ask
            if life is not None:
                life.active.add(job.id)
        elif job.state.final and not old.state.final:
            self._ended(life, job.id, job.state, job.finished_at or job.run_at)
        self._runs(name, job)

    def _hold(self, name: str, job: Job) -> None:
        """At most one job of a tick is unfinished or completed."""
        holders = self._holders.setdefault((name, job.scheduled_at), set())
        (holders.add if job.state in IDEMPOTENT else holders.discard)(job.id)
        if len(holders) > 1:
            self._fail("I6", name, f"{_at(job.scheduled_at)} has the jobs {', '.join(sorted(holders))}")

    def _runs(self, name: str, job: Job) -> None:
        running = self._running.setdefault(name, set())
        if job.state is not State.RUNNING or job.id not in self._single:
            running.discard(job.id)
        elif job.id not in running:
            mine = [id for id in running if self._single.get(id) is self._single[job.id]]
            if mine:
                self._fail("I6", name, f"{job.id} runs beside {', '.join(sorted(mine))}")
            running.add(job.id)

    def deleted(self, job: Job, at: datetime) -> None:
        self._holders[job.schedule or "", job.scheduled_at].discard(job.id)
        if not job.state.final:
            self._ended(self._life(job.schedule or ""), job.id, None, at)

    def _ended(self, life: Life | None, id: JobId, state: State | None, at: datetime) -> None:
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

    # a calm time

    def calm(self) -> None:
        """After a time without faults nothing may be stuck."""
        for life in [lives[-1] for _, lives in sorted(self.lives.items()) if not lives[-1].gone]:
            self._overdue(life)
            listed = set(life.row.active)
            if not listed <= life.active or len(life.active) != len(listed) + life.row.unlisted:
                told, true = ", ".join(sorted(life.row.active)), ", ".join(sorted(life.active))
                self._fail("I6", life.row.name, f"takes [{told}] for its unfinished jobs; they are [{true}]")
            if life.row.status == "active" and self._stuck(life.row, bool(life.active)):
                self._fail("I6", life.row.name, f"waits for nothing: {_said(life.row)}")

    def _stuck(self, row: Schedule, busy: bool) -> bool:
        """Whether nothing will come of its next or held tick, or not at once, although nothing is in its way."""
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


def _said(row: Schedule) -> str:
    paused = f", paused: {row.note or 'so'}" if row.paused_at is not None else ""
    held = "" if row.held_at is None else f", {_at(row.held_at)} held for {row.waits_on or 'its runs'}"
    return f"revision {row.revision}, next {_at(row.next_run_at)}, due {_at(row.due_at)}{held}{paused}"
