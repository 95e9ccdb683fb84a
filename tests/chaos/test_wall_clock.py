"""Wrong clocks, and a machine that sleeps: ticks follow the time of the store, and the catch-up rule."""

import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from audit import until
from crew import Crew
from ground import on_a_file, slow_on_a_server

from mainspring import every
from mainspring.schedule.record import Tick
from mainspring.trigger import Every

HOUR = 3600
# What a clock corrected to the store's may still be wrong by, and what a loaded machine may add.
EARLY, LATE = timedelta(seconds=0.15), timedelta(seconds=10)


@slow_on_a_server
@pytest.mark.parametrize("skews", [[HOUR], [-HOUR], [HOUR, -HOUR, 0, HOUR, -HOUR]], ids=["ahead", "behind", "crowd"])
def test_workers_whose_clocks_are_an_hour_wrong_fire_each_tick_once_and_in_time(
    clockwork: Crew, skews: Sequence[int]
) -> None:
    workers = [clockwork.up(f"worker{n}", skew=skew) for n, skew in enumerate(skews)]
    start_at = datetime.now(UTC) + timedelta(seconds=0.3)
    ticks = [start_at + n * timedelta(seconds=0.1) for n in range(30)]
    options = {"overlap": "allow", "start_at": start_at, "end_at": ticks[-1]}
    clockwork.client.sync.schedules.create("beacon", every(0.1).seconds, "quick", **options)
    until(lambda: clockwork.client.sync.schedules.get("beacon").status == "ended", 30)
    clockwork.finished()
    for worker in workers:
        worker.end()
    audit = clockwork.audit()
    audit.check_ticks("beacon", ticks)
    audit.check(audit.jobs, attempts=1)
    assert len(audit.jobs) == 30
    # The lines of the workers carry the time of this machine, not that of their clocks.
    zero = datetime.now(UTC) - timedelta(seconds=time.monotonic())
    for line in audit.lines:
        job = audit.jobs[line.id]
        assert job.scheduled_at is not None
        assert -EARLY <= zero + timedelta(seconds=line.at) - job.scheduled_at <= LATE, line
        assert timedelta(0) <= job.created_at - job.scheduled_at <= LATE
    assert sorted(line.id for line in audit.lines if line.event == "fired") == sorted(audit.jobs)


class Machine:
    """Three workers, and the wall clock of all of them."""

    def __init__(self, crew: Crew) -> None:
        self._clock = crew.folder / "wall"
        self._clock.write_text("0")
        self._crew = crew
        self.workers = [crew.up(f"worker{n}", jump=str(self._clock)) for n in range(3)]

    def sleep(self, seconds: float) -> None:
        """Everything stands still, and on waking it is that much later than it really is."""
        for worker in self.workers:
            self._crew.freeze(worker)
        self._clock.write_text(str(seconds))
        for worker in self.workers:
            worker.process.send_signal(signal.SIGCONT)

    def late(self, name: str) -> bool:
        """Whether the schedule has overdue ticks."""
        row = self._crew.client.sync.schedules.get(name)
        wall = datetime.now(UTC) + timedelta(seconds=float(Path(self._clock).read_text()))
        return row.next_run_at is not None and row.next_run_at <= wall


def told(ticks: Sequence[Tick], start: datetime) -> list[tuple[str, str, int, float]]:
    """The records of ticks, oldest first: what happened, the count, and the minute of the first after the start."""
    return [
        (tick.what, tick.reason, tick.count, (tick.at - start) / timedelta(minutes=1))
        for tick in sorted(ticks, key=lambda tick: tick.n)
    ]


# The ticks while the machine slept: every ten minutes, the last one five minutes before it woke.
MISSED = [5.0, 15.0, 25.0, 35.0, 45.0, 55.0]
EXPECTED = {
    "latest": [("missed", "catch_up", 5, 5.0), ("fired", "", 1, 55.0)],
    "skip": [("missed", "catch_up", 6, 5.0)],
    "all": [("fired", "", 1, minute) for minute in MISSED],
}


@on_a_file
def test_catch_up_rules_apply_after_a_machine_slept_for_an_hour(clockwork: Crew) -> None:
    machine, start = Machine(clockwork), datetime.now(UTC)
    trigger = Every(seconds=600, anchor=start - timedelta(minutes=5))
    for rule in EXPECTED:
        clockwork.client.sync.schedules.create(rule, trigger, "quick", catch_up=rule, overlap="allow")
    machine.sleep(HOUR)
    until(lambda: not any(machine.late(rule) for rule in EXPECTED))
    clockwork.finished()
    rows = {rule: clockwork.client.sync.schedules.get(rule) for rule in EXPECTED}
    audit = clockwork.audit()
    for rule, expected in EXPECTED.items():
        audit.check_ticks(rule, [start + timedelta(minutes=minute) for minute in MISSED])
        assert told(audit.ticks[rule], start) == expected
        assert rows[rule].next_run_at == start + timedelta(minutes=65)
    assert {name: (row.fired, row.missed) for name, row in rows.items()} == {
        "latest": (1, 5), "skip": (0, 6), "all": (6, 0)
    }  # fmt: skip
    assert {audit.count("start")[id] for id in audit.jobs} == {1}
    assert {job.state for job in audit.jobs.values()} == {"completed"}


@on_a_file
@pytest.mark.parametrize("rule", EXPECTED)
def test_a_tick_that_is_due_when_the_machine_wakes_is_on_time(clockwork: Crew, rule: str) -> None:
    machine, start = Machine(clockwork), datetime.now(UTC)
    trigger = Every(seconds=1200, anchor=start - timedelta(seconds=5))
    clockwork.client.sync.schedules.create("beacon", trigger, "quick", catch_up=rule, overlap="allow")
    machine.sleep(HOUR)
    until(lambda: not machine.late("beacon"))
    clockwork.finished()
    audit = clockwork.audit()
    audit.check_ticks("beacon", [start + timedelta(seconds=1200 * n - 5) for n in (1, 2, 3)])
    newest = {tick.at for tick in audit.ticks["beacon"] if tick.what == "fired"}
    on_time = start + timedelta(seconds=HOUR - 5)
    assert (newest == {on_time}) if rule != "all" else (len(newest) == 3)


@on_a_file
def test_a_clock_that_is_set_back_by_an_hour_doubles_no_tick(clockwork: Crew) -> None:
    machine, schedules = Machine(clockwork), clockwork.client.sync.schedules
    start_at = datetime.now(UTC) + timedelta(seconds=0.3)
    ticks = [start_at + n * timedelta(seconds=0.1) for n in range(40)]
    options = {"overlap": "allow", "start_at": start_at, "end_at": ticks[-1]}
    schedules.create("beacon", every(0.1).seconds, "quick", **options)
    until(lambda: schedules.get("beacon").fired >= 10)
    machine.sleep(-HOUR)
    # Their leases ended an hour ago by the new time: they have noticed the jump.
    until(lambda: not clockwork.client.sync.workers.list())
    fired = schedules.get("beacon").fired
    assert fired < len(ticks)
    machine.sleep(0)
    until(lambda: schedules.get("beacon").status == "ended", 30)
    clockwork.finished()
    audit = clockwork.audit()
    audit.check_ticks("beacon", ticks)
    audit.check(audit.jobs, attempts=2)
    assert len(audit.jobs) == len(ticks)
    assert set(audit.count("fired").values()) == {1}
