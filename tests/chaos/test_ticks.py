"""Schedules fired by many processes, killed and stopped at every dangerous moment: each tick makes one job."""

import random
import signal
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from audit import Audit, until
from crew import Crew
from ground import each, on_a_server, slow_on_a_server

from mainspring import every
from mainspring.failpoint import POINTS
from servers import Postgres

FIRING = [point for point in POINTS if point.startswith("fire.")]
NAME = "beacon"
# The lead of the first tick: the schedule must be stored by then.
LEAD = timedelta(seconds=0.3)


def ideal(first: datetime, span: float, count: int) -> list[datetime]:
    return [first + n * timedelta(seconds=span) for n in range(count)]


def begin(crew: Crew, span: float, count: int, *, task: str = "quick", **options: Any) -> list[datetime]:
    """Makes a schedule with `count` ticks; returns their instants."""
    schedules = crew.client.sync.schedules
    ticks = ideal(datetime.now(UTC) + LEAD, span, count)
    told = {"overlap": "allow", "start_at": ticks[0], "end_at": ticks[-1], **options}
    if schedules.create(NAME, every(span).seconds, task, **told).next_run_at == ticks[0]:
        return ticks
    schedules.delete(NAME)  # the first tick was past when it was made
    return begin(crew, span, count, task=task, **options)


def over(crew: Crew) -> bool:
    return crew.client.sync.schedules.get(NAME).status == "ended"


def settled(crew: Crew, ticks: Sequence[datetime], *, attempts: int = 1) -> Audit:
    """Returns the audit after the last tick; checks that every tick has one job, and that every job has run."""
    until(lambda: over(crew), 60)
    crew.finished(30)
    audit = crew.audit()
    audit.check_ticks(NAME, ticks)
    assert len(audit.jobs) == len(ticks)
    audit.check(audit.jobs, attempts=attempts)
    assert {job.state for job in audit.jobs.values()} == {"completed"}
    return audit


def whole(crew: Crew, ticks: Sequence[datetime]) -> int:
    """Returns how many ticks were fired; checks that each of them is complete."""
    row, records = crew.client.sync.schedules.get(NAME), crew.client.sync.schedules.ticks(NAME)
    jobs = crew.client.sync.jobs.list(limit=100)
    assert row.fired == row.ticks == len(records) == len(jobs)
    assert {job.scheduled_at for job in jobs} == {tick.at for tick in records} == set(ticks[: len(jobs)])
    return len(jobs)


# Twenty ticks a second, to keep the suite short; one a second with `pytest -m slow`.
@slow_on_a_server
@pytest.mark.parametrize("span", [0.05, pytest.param(1.0, marks=pytest.mark.slow)])
def test_ten_processes_make_one_job_for_each_of_a_hundred_ticks(clockwork: Crew, span: float) -> None:
    workers = [clockwork.start(f"worker{n}", beat=5, lease=20, sweep=5) for n in range(10)]
    until(lambda: len(clockwork.client.sync.workers.list()) == len(workers), 40)
    ticks = begin(clockwork, span, 100)
    until(lambda: over(clockwork), 100 * span + 30)
    clockwork.finished()
    for worker in workers:
        worker.end()
    audit = settled(clockwork, ticks)
    assert set(audit.count("start").values()) == {1}
    assert set(audit.count("fired").values()) == {1}
    assert len(audit.count("fired")) == 100
    assert len([worker for worker in workers if worker.lines("fired")]) > 1


@slow_on_a_server
def test_processes_that_start_together_declare_a_schedule_once(clockwork: Crew) -> None:
    names = {"first": 3600, "second": 7200}
    workers = [clockwork.start(f"worker{n}", beat=5, lease=20, declare=names) for n in range(6)]
    until(lambda: len(clockwork.client.sync.workers.list()) == len(workers), 30)
    until(lambda: sum(len(worker.lines("end")) for worker in workers) == 2)
    rows = clockwork.client.sync.schedules.list()
    for worker in workers:
        worker.end()
    audit = clockwork.audit()
    for row in rows:
        audit.check_ticks(row.name, [row.created_at])
    assert [(row.name, row.owner, row.fired) for row in rows] == [("first", "code", 1), ("second", "code", 1)]


SLOW_CROWD = pytest.param("server", 10, 100, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("ground", "processes", "count"),
    [*((ground, 4, 40) for ground in ("file", "server", "keys", "cluster")), SLOW_CROWD],
    indirect=["ground"],
)
def test_kills_at_random_moments_neither_lose_nor_double_a_tick(clockwork: Crew, processes: int, count: int) -> None:
    seeded = random.Random(20300101)
    team = [clockwork.start(f"worker{n}", max_crashes=100) for n in range(processes)]
    until(lambda: len(clockwork.client.sync.workers.list()) == processes, 40)
    ticks = begin(clockwork, 0.1, count)
    kills = 0
    while not over(clockwork):
        kill_at = time.monotonic() + 0.2 + seeded.random() * 0.3
        until(lambda: time.monotonic() >= kill_at)  # noqa: B023
        team.pop(seeded.randrange(len(team))).kill()
        kills += 1
        team.append(clockwork.start(f"next{kills}", max_crashes=100))
    audit = settled(clockwork, ticks, attempts=kills + 1)
    assert kills >= 5
    assert len(audit.count("fired")) <= len(ticks)


@each("count", [1, 4])
@pytest.mark.parametrize("point", FIRING)
def test_fire_is_atomic_when_its_worker_is_killed(clockwork: Crew, point: str, count: int) -> None:
    ticks = begin(clockwork, 0.05, 40)
    victim = clockwork.start("victim", failpoints=f"{point}=kill:{count}")
    victim.died()
    assert (victim.process.returncode, clockwork.reached()) == (-signal.SIGKILL, [point])
    assert (whole(clockwork, ticks) > 0) == (count > 1 or point == "fire.after_commit")
    clockwork.start("rescuer")
    settled(clockwork, ticks, attempts=2)


@each("point", FIRING)
def test_other_workers_continue_after_one_is_killed_while_it_fires(clockwork: Crew, point: str) -> None:
    others = [clockwork.up(f"other{n}") for n in range(2)]
    victims = [clockwork.up(f"victim{n}", failpoints=f"{point}=kill:3") for n in range(2)]
    ticks = begin(clockwork, 0.05, 60)
    until(lambda: over(clockwork), 30)
    died = [victim for victim in victims if victim.dead()]
    assert died
    assert clockwork.reached() == [point] * len(died)
    assert not [other for other in others if other.dead()]
    settled(clockwork, ticks, attempts=3)


@slow_on_a_server
def test_a_worker_stopped_between_plan_and_fire_doubles_no_tick_when_it_wakes(clockwork: Crew) -> None:
    # It serves another queue, and so has nothing else to write when it is stopped.
    sleeper = clockwork.up("sleeper", failpoints="fire.planned=stop:3", queues=["elsewhere"], beat=5, lease=20)
    ticks = begin(clockwork, 0.1, 120)  # on a slow machine half of them are over before the others are frozen
    until(clockwork.reached)
    others = [clockwork.up(f"other{n}") for n in range(2)]
    before = clockwork.client.sync.schedules.get(NAME).fired
    until(lambda: clockwork.client.sync.schedules.get(NAME).fired >= before + 10)
    asleep = len(sleeper.lines("fired"))
    for other in others:
        clockwork.freeze(other)
    sleeper.process.send_signal(signal.SIGCONT)
    # Its plan is of another revision now; it makes a new one, and goes on alone.
    until(lambda: len(sleeper.lines("fired")) > asleep)
    for other in others:
        other.process.send_signal(signal.SIGCONT)
    audit = settled(clockwork, ticks, attempts=2)
    assert clockwork.reached() == ["fire.planned"]
    assert set(audit.count("fired").values()) == {1}


@on_a_server
@pytest.mark.parametrize("point", [pytest.param("fire.planned", marks=pytest.mark.slow), *FIRING[1:]])
def test_fire_is_atomic_when_the_server_crashes(clockwork: Crew, postgres: Postgres, point: str) -> None:
    worker = clockwork.up("worker", failpoints=f"{point}=stop:4")
    ticks = begin(clockwork, 0.05, 40)  # one at a time, not those missed while it started together
    until(clockwork.reached)
    postgres.crash()
    postgres.start()
    assert whole(clockwork, ticks) >= 3
    worker.process.send_signal(signal.SIGCONT)
    settled(clockwork, ticks, attempts=2)


@on_a_server
@pytest.mark.slow
def test_a_worker_frozen_during_a_fire_does_not_block_other_workers_for_long(clockwork: Crew) -> None:
    sleeper = clockwork.up("sleeper", failpoints="fire.mid_step=stop:3")
    ticks = begin(clockwork, 0.1, 60)
    until(clockwork.reached)
    assert not clockwork.ground.free()
    clockwork.up("other")
    before = clockwork.client.sync.schedules.get(NAME).fired
    until(lambda: clockwork.client.sync.schedules.get(NAME).fired > before, 10)
    sleeper.process.send_signal(signal.SIGCONT)
    audit = settled(clockwork, ticks, attempts=2)
    assert set(audit.count("fired").values()) == {1}
