"""kill -9 while flows plan, fan out, fan in and conclude, and crashes of servers: each flow ends as its ideal."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import assembly
import pytest
from assembly import ITEMS, OWN, STEPS
from audit import Audit, until
from crew import Crew, Member
from ground import Ground, each, on_a_server
from trouble import pause

from flow_audit import audit_flows
from mainspring.failpoint import POINTS
from mainspring.records.flow import FAN_OUT
from mainspring.records.job import State
from servers import Postgres, Redis

# A job may crash as often as there are kills: another test checks poison pills.
MAX_CRASHES = 50
# A job of a killed worker is claimed again soon: there are many kills.
QUICK = {"beat": 0.1, "lease": 0.5, "sweep": 0.1, "max_crashes": MAX_CRASHES}
RUNNING = [point for point in POINTS if not point.startswith(("fire.", "transaction.", "step."))]
STORED = ["claim.after_commit", "finish.mid_batch", "finish.after_commit"]


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, assembly)
    try:
        yield crew
    finally:
        crew.close()


def worker(crew: Crew, *queues: str, failpoints: str = "", lease: float = QUICK["lease"]) -> Member:
    served = {"queues": queues} if queues else {}
    return crew.start(f"worker{len(crew.members)}", failpoints=failpoints, **{**QUICK, "lease": lease}, **served)


def state_of(crew: Crew, id: str) -> State:
    return crew.jobs([id])[0].state


def all_ended(crew: Crew) -> bool:
    return all(job.state.final for job in crew.jobs(crew.acknowledged))


def audited(crew: Crew) -> Audit:
    """The audit of all jobs and flows, after its checks."""
    # While workers live that end the commits of the killed, and their own last ones.
    assert crew.ground.complaints() == []
    audit = crew.audit()
    audit.check(audit.jobs.keys(), attempts=MAX_CRASHES)
    assert asyncio.run(audit_flows(crew.ground.url, audit.jobs)) >= len(crew.acknowledged)
    return audit


@each("point", RUNNING, STORED)
def test_a_flow_ends_as_its_ideal_if_each_part_of_it_kills_its_worker(crew: Crew, point: str) -> None:
    """The plan, the job that makes the items, the items, the fan-in and the conclusion are each alone in their queue
    when a worker with a failpoint comes."""
    (id,) = crew.enqueue("large", 4)
    accepted = point == "finish.after_commit"

    def dies(queue: str, number: int = 1) -> None:
        # The rescue of a run of its own, whose lease lapsed on a busy machine, would be an end that is accepted, too.
        lease = 2.0 if accepted else QUICK["lease"]
        worker(crew, queue, failpoints=f"{point}=kill:{number}", lease=lease).died()

    dies(OWN)
    planner = worker(crew, OWN)
    until(lambda: state_of(crew, id) is State.WAITING)
    planner.kill()
    dies(ITEMS)
    dies(ITEMS, 2)
    worker(crew, ITEMS)
    dies(STEPS)
    worker(crew, STEPS)
    until(lambda: state_of(crew, id) is State.PENDING)
    concludes = point in STORED  # it calls no code of the user's
    if concludes:
        dies(OWN)
    worker(crew, OWN)
    until(lambda: all_ended(crew))
    audit = audited(crew)
    assert crew.reached() == [point] * (4 + concludes)
    died = [] if accepted else ["crashed"]
    assert audit.endings(id) == [*died, "suspended", *(died if concludes else []), "completed"]
    (fan_out,) = [job.id for job in audit.jobs.values() if job.task == FAN_OUT]
    assert audit.endings(fan_out)[0] == ("completed" if accepted else "crashed")


@pytest.mark.parametrize("ground", ["file", "server", "keys", "cluster"], indirect=True)
def test_flows_of_workers_killed_at_random_moments_end_as_their_ideal(crew: Crew) -> None:
    seeded = random.Random(20300101)
    for n in range(6):
        crew.enqueue("assembly", n)
    crew.enqueue("large", 7)
    for _ in range(5):
        victim = worker(crew)
        wanted = seeded.randint(1, 60)
        until(lambda: victim.dead() or len(victim.lines()) >= wanted or all_ended(crew))  # noqa: B023
        kill_at = time.monotonic() + seeded.random() * 0.02
        until(lambda: time.monotonic() >= kill_at)  # noqa: B023
        assert not victim.dead(), victim.said()
        victim.kill()
    worker(crew)
    worker(crew)
    until(lambda: all_ended(crew), 30)
    audited(crew)


@on_a_server
def test_flows_end_as_their_ideal_although_postgres_crashes(crew: Crew, postgres: Postgres) -> None:
    _through_crashes(crew, postgres)


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    """A server that has written to disk what it has acknowledged."""
    server = Redis(appendonly=True, appendfsync="always")
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("ground", ["keys"], indirect=True)
def test_flows_end_as_their_ideal_although_redis_crashes(crew: Crew, redis: Redis) -> None:
    _through_crashes(crew, redis)


def _through_crashes(crew: Crew, server: Postgres | Redis) -> None:
    """Three crashes of the server while two workers run flows."""
    for n in range(8):
        crew.enqueue("assembly", n)
        crew.enqueue("large", n)
    workers = [worker(crew), worker(crew)]
    for round in range(3):
        until(lambda: sum(len(one.lines()) for one in workers) >= 200 * (round + 1))  # noqa: B023
        server.crash()
        pause(0.3)
        server.start()
    until(lambda: all_ended(crew), 30)
    audited(crew)
