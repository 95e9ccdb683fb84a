"""plan() over whole lives of schedules: every tick is recorded once, and nothing runs that must not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.ids import JobId
from mainspring.records.job import State
from mainspring.schedule.edit import create, pause, redefine, reschedule, resume, trigger_now
from mainspring.schedule.job_ended import after_dependency_succeeded, after_job_ended
from mainspring.schedule.plan import MAX_TICKS_PER_FIRING, plan
from mainspring.schedule.record import Firing, Schedule, Spec, Tick
from mainspring.schedule.status import MAX_COUNTED_TICKS, next_due
from mainspring.trigger import Every, Timetable, Window

START = datetime(2030, 1, 1, 20, 59, 30, tzinfo=UTC)
MINUTE, MICROSECOND = timedelta(minutes=1), timedelta(microseconds=1)
OTHER = create("other", Spec(trigger=Every(seconds=60), task="task"), owner="user", now=START)

_said: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "overlap": st.sampled_from(["skip", "queue", "allow", "cancel"]),
        "catch_up": st.sampled_from(["latest", "skip", "all"]),
    },
    optional={
        "grace": st.sampled_from([1.0, 60.0, 200.0]),
        "catch_up_window": st.sampled_from([0.0, 30.0, 300.0, 1500.0]),
        "jitter": st.sampled_from([1.0, 45.0, 200.0]),
        "window": st.sampled_from([Window("21:10", "23:30"), Window("21:05", "21:20", None, None, "move")]),
        "exclude": st.just((date(2030, 1, 1),)),
        "end_at": st.just(START + 40 * MINUTE),
        "max_runs": st.integers(1, 4),
        "run_on_start": st.booleans(),
        "depends_on": st.just(("other",)),
        "pause_after_failures": st.integers(1, 2),
    },
)
_steps = st.tuples(
    st.sampled_from([0, 1, 30, 59, 60, 61, 150, 600, 4000, 12_000]),
    st.sampled_from(
        ["look"] * 8 + ["complete"] * 3 + ["die", "cancel", "delete", "succeed"] * 2
        + ["pause", "resume", "resume_from_now", "trigger", "reschedule", "amend", "look_in_vain"]
    ),
)  # fmt: skip


class Life:
    """One schedule, the jobs it makes, and the records of its ticks."""

    def __init__(self, said: dict[str, Any], **spec: Any) -> None:
        self.now, self.ids = START, count()
        whole = Spec(**{"trigger": Every(seconds=60), "task": "task", **said, **spec})
        self.row = create("minutely", whole, owner="user", now=START)
        self.needed = OTHER
        self.records: list[Tick] = []
        self.by_hand: set[JobId] = set()
        self.successes = self.answered = 0

    def mint(self) -> JobId:
        return f"job {next(self.ids)}"

    def play(self, seconds: float, what: str) -> None:
        self.now += timedelta(seconds=seconds)
        before = self.row
        getattr(self, what)()
        self.check(before)

    # actions

    def look(self) -> None:
        steps = 0
        while self.row.due_at is not None and self.row.due_at <= self.now:
            self._plan({})
            steps += 1
            assert steps < 200, "it is due again and again"

    def _plan(self, broken: dict[datetime, str]) -> None:
        old = self.row
        firing = plan(old, now=self.now, new_job_id=self.mint, dependencies={"other": self.needed}, skip_reasons=broken)
        again = firing.schedule
        moves = (again.next_run_at, again.held_at, again.ticks, again.waits_on) != (
            old.next_run_at, old.held_at, old.ticks, old.waits_on,
        )  # fmt: skip
        assert moves or again.due_at is None or again.due_at > self.now
        assert sum(tick.what == "fired" for tick in firing.ticks) <= MAX_TICKS_PER_FIRING
        if old.next_run_at is not None and again.next_run_at is not None:
            assert again.next_run_at >= old.next_run_at
        assert set(firing.cancel) <= set(again.active)
        self._write(firing)
        if self.row.spec.depends_on:
            fired = [tick for tick in firing.ticks if tick.what == "fired"]
            assert len(fired) <= 1
            assert not fired or self.successes > self.answered
            self.answered = self.successes if fired else self.answered
        for job_id in firing.cancel:
            self._end(State.CANCELLED, job_id)

    def look_in_vain(self) -> None:
        """Plans due ticks whose input cannot be made."""
        if self.row.due_at is not None and self.row.due_at <= self.now:
            ticks = {tick.at: "input: no" for tick in plan(self.row, now=self.now, new_job_id=self.mint).ticks}
            for _ in range(300):
                wanted = plan(
                    self.row,
                    now=self.now,
                    new_job_id=lambda: "x",
                    dependencies={"other": self.needed},
                    skip_reasons=ticks,
                )
                fired = {tick.at: "input: no" for tick in wanted.ticks if tick.what == "fired"}
                if not fired:
                    break
                assert not fired.keys() & ticks.keys()
                ticks |= fired
            self._plan(ticks)

    def complete(self) -> None:
        self._end(State.COMPLETED)

    def die(self) -> None:
        self._end(State.DEAD)

    def cancel(self) -> None:
        self._end(State.CANCELLED)

    def delete(self) -> None:
        self._end(None)

    def _end(self, state: State | None, job_id: JobId | None = None) -> None:
        if self.row.active:
            self.row = after_job_ended(self.row, job_id or self.row.active[0], state, self.now, '"x"')

    def succeed(self) -> None:
        """The dependency succeeds."""
        self.successes += 1
        self.needed = replace(self.needed, revision=self.needed.revision + 1, succeeded_at=self.now)
        if self.row.waits_on == "other":
            self.row = after_dependency_succeeded(self.row, self.now)

    def pause(self) -> None:
        self.row = pause(self.row, "why", now=self.now)

    def resume(self) -> None:
        self._write(resume(self.row, from_now=False, now=self.now))

    def resume_from_now(self) -> None:
        self._write(resume(self.row, from_now=True, now=self.now))

    def trigger(self) -> None:
        firing = trigger_now(self.row, [self.now], "by_hand", now=self.now, new_job_id=self.mint, joins=True)
        self.by_hand |= {tick.job_id or "" for tick in firing.ticks}
        self._write(firing)

    def reschedule(self) -> None:
        self._write(reschedule(self.row, self.now + timedelta(seconds=95), now=self.now))

    def amend(self) -> None:
        spec = replace(self.row.spec, priority=self.row.spec.priority + 1, overlap="queue", jitter=5.0)
        self._write(redefine(self.row, spec, now=self.now))

    def _write(self, firing: Firing) -> None:
        assert firing.schedule.revision == self.row.revision + 1
        assert [tick.n for tick in firing.ticks] == list(range(self.row.ticks + 1, firing.schedule.ticks + 1))
        self.row = firing.schedule
        self.records += firing.ticks

    # invariants

    def check(self, before: Schedule) -> None:
        row = self.row
        own = [job_id for job_id in row.active if job_id not in self.by_hand]
        if row.spec.overlap != "allow":
            assert len(own) <= max(1, len(before.active))
        assert row.spec.max_runs is None or row.fired <= row.spec.max_runs
        if row.paused_at is not None:
            assert row.due_at is None
        for what, counted in (("skipped", row.skipped), ("missed", row.missed)):
            assert counted == sum(tick.count for tick in self.records if tick.what == what)
        fired = [tick for tick in self.records if tick.what == "fired" and tick.reason != "by_hand"]
        assert row.fired == len(fired)
        assert self.owes_nothing_it_forgot()

    def owes_nothing_it_forgot(self) -> bool:
        """Whether a tick that can still fire will be planned: when due, or after a run or a dependency."""
        row = self.row
        if row.paused_at is not None or row.due_at is not None:
            return True
        blocked = bool(row.active) and row.spec.overlap != "allow"
        return (row.next_run_at is None and row.held_at is None) or blocked or row.waits_on is not None

    def accounted(self) -> Counter[datetime]:
        found: Counter[datetime] = Counter()
        timetable = self.row.timetable
        for tick in self.records:
            if tick.reason == "by_hand":
                continue
            ticks = list(_between(timetable, tick)) if tick.last_at is not None else [tick.at]
            assert len(ticks) == tick.count or tick.count == MAX_COUNTED_TICKS < len(ticks)
            found.update(ticks)
        return found


def lived(said: dict[str, Any], steps: list[tuple[int, str]], **spec: Any) -> Life:
    life = Life(said, **spec)
    for seconds, what in steps:
        life.play(seconds, what)
    return life


def _between(timetable: Timetable, tick: Tick) -> Iterator[datetime]:
    last = tick.last_at or tick.at
    if tick.reason in ("window", "excluded"):
        at = tick.at
        while at <= last:
            if _reason(timetable, at) == tick.reason:
                yield at
            at += MINUTE
    else:
        at_: datetime | None = tick.at
        while at_ is not None and at_ <= last:
            yield at_
            at_ = timetable.next(at_)


def _reason(timetable: Timetable, at: datetime) -> str:
    if at.date() in timetable.exclude:
        return "excluded"
    window = timetable.window
    return "window" if window and window.outside == "skip" and not window.zoned("UTC").inside(at) else ""


def _ideal(row: Schedule, until: datetime) -> list[datetime]:
    """The ticks of its timetable before an instant."""
    first = START - MICROSECOND if row.spec.run_on_start else START
    found, tick = [], row.timetable.next(first)
    while tick is not None and tick < until:
        found.append(tick)
        tick = row.timetable.next(tick)
    return found


@settings(max_examples=150, deadline=None)
@given(_said, st.lists(_steps, max_size=25))
def test_a_schedule_loses_no_tick_and_fires_no_forbidden_tick(
    said: dict[str, Any], steps: list[tuple[int, str]]
) -> None:
    lived(said, steps)


@settings(max_examples=150, deadline=None)
@given(_said, st.lists(_steps.filter(lambda step: step[1] not in ("reschedule", "trigger")), max_size=25))
def test_every_passed_tick_is_recorded_once(said: dict[str, Any], steps: list[tuple[int, str]]) -> None:
    life = lived(said, steps, run_on_start=False)
    found, row = life.accounted(), life.row
    assert all(times == 1 for times in found.values())
    if row.next_run_at is not None:
        owed = {row.held_at} if row.held_at is not None else set()
        ideal = set(_ideal(row, row.next_run_at))
        kept = {at for at in found if not _reason(row.timetable, at)}
        assert kept | owed == ideal
        assert not kept & owed
        if row.reached_at is not None and row.spec.window is not None and row.spec.window.outside == "skip":
            taken = {at for at in found if _reason(row.timetable, at)}
            grid = (START + n * MINUTE for n in range(1, 1 + int((row.reached_at - START) / MINUTE)))
            assert taken == {at for at in grid if _reason(row.timetable, at)} or len(taken) >= 1000


@settings(max_examples=100, deadline=None)
@given(_said, st.lists(_steps, max_size=25))
def test_after_finish_never_runs_sooner_than_its_interval(said: dict[str, Any], steps: list[tuple[int, str]]) -> None:
    life = Life({**said, "window": None, "run_on_start": False}, after="finish")
    ends = [START]
    for seconds, what in steps:
        if what in ("succeed", "reschedule", "trigger", "amend"):
            continue
        active, fired = life.row.active, life.row.fired
        life.play(seconds, what)
        if active and not life.row.active and life.row.fired == fired:
            ends.append(life.now)
        for tick in life.records:
            if tick.what == "fired" and tick.seen_at == life.now and life.row.fired > fired and what == "look":
                assert tick.at - ends[-1] >= MINUTE or tick.at == life.row.held_at or "depends_on" in said


def test_due_at_is_the_tick_plus_its_jitter_offset() -> None:
    row = create("x", Spec(trigger=Every(seconds=60), task="task", jitter=30.0), owner="user", now=START)
    assert row.next_run_at is not None
    assert next_due(row) == row.due_at == row.next_run_at + row.timetable.offset
