"""kill -9 of workers and makers of batches, and of workers whose jobs wait for signals."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import batching
import msgspec
import pytest
from audit import until
from crew import Crew
from ground import Ground, everywhere, slow_on_a_server, slow_on_keys

from mainspring.errors import SignalTwice
from mainspring.insight.batch_view import BatchView
from mainspring.records.job import Job, State

QUICK = {"beat": 0.1, "lease": 0.5, "sweep": 0.1, "max_crashes": 50, "concurrency": 5}
KILLS, WAITING = 2, 12


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, batching)
    try:
        yield crew
    finally:
        crew.close()


def begun(crew: Crew) -> str:
    (maker,) = [member for member in crew.members if member.lines("begun")]
    return maker.lines("begun")[0].id


def ended(crew: Crew, id: str) -> bool:
    return crew.jobs([id])[0].state.final


def shown(crew: Crew, id: str) -> BatchView:
    return asyncio.run(batch_of(crew, id))


async def batch_of(crew: Crew, id: str) -> BatchView:
    async with batching.make(crew.ground.url) as app:
        return await app.batches.show(id)


def calls(crew: Crew, id: str) -> Counter[str]:
    """The jobs of callbacks by the numbers of their steps."""
    found = [job for job in crew.client.sync.jobs.list(limit=1000) if job.step is not None and job.step.flow == id]
    assert all(job.state.final for job in found)
    return Counter(str(job.step.number) for job in found if job.step is not None and job.step.number)


@everywhere
def test_callbacks_of_a_batch_are_called_once_though_workers_are_killed(crew: Crew) -> None:
    crew.start("maker", closes=True)
    for n in range(KILLS):
        victim = crew.start(f"victim{n}", **QUICK)
        until(lambda victim=victim: len(victim.lines("start")) > len(victim.lines("end")), 30)
        victim.kill()
    crew.start("last", **QUICK)
    until(lambda: ended(crew, begun(crew)), 30)
    id = begun(crew)
    view = shown(crew, id)
    assert (view.counts.total, view.counts.completed, view.counts.dead) == (batching.JOBS, batching.JOBS - 1, 1)
    assert calls(crew, id) == {"1": 1, "3": 1}  # on_failure and on_complete
    assert crew.ground.complaints() == []


@slow_on_keys
def test_batch_of_a_killed_maker_is_closed_as_dead_with_the_jobs_that_it_has(crew: Crew) -> None:
    maker = crew.start("maker", closes=False)
    crew.start("worker", **QUICK)
    until(lambda: len(maker.lines("page")) > 1, 30)
    maker.kill()
    id = begun(crew)
    until(lambda: ended(crew, id), 30)
    job, view = crew.jobs([id])[0], shown(crew, id)
    assert job.state is State.DEAD
    assert view.reason == "it was never closed: its maker has gone"
    assert view.counts.total >= batching.PAGE_JOBS * len(maker.lines("page"))
    assert view.counts.unfinished == 0
    assert calls(crew, id) == {"1": 1, "3": 1}


@slow_on_a_server
def test_no_acknowledged_signal_is_lost_though_workers_are_killed(crew: Crew) -> None:
    ids = crew.enqueue("approved", times=WAITING)
    given: dict[str, int] = {}
    for n in range(KILLS):
        victim = crew.start(f"victim{n}", **QUICK)
        first, *others = ids[n * WAITING // KILLS : (n + 1) * WAITING // KILLS]
        # Makes a job due: the victim before may have left none.
        given[first] = give(crew, first, n)
        until(lambda victim=victim: len(victim.lines("start")) > 0, 30)
        for id in others:
            given[id] = give(crew, id, n)
        victim.kill()
    crew.start("last", **QUICK)
    until(lambda: all(job.state.final for job in crew.jobs(ids)), 30)
    assert {job.id: result_of(job) for job in crew.jobs(ids)} == given


def give(crew: Crew, id: str, n: int) -> int:
    """Gives both signals, each twice by other deliveries; returns their sum."""
    flows = crew.client.sync.flows
    for name, value in (("second", n), ("first", 10 * n)):
        flows.signal(id, name, value, delivery="one")
        flows.signal(id, name, value, delivery="one")
        with pytest.raises(SignalTwice):
            flows.signal(id, name, 999, delivery="two")
    return 11 * n


def result_of(job: Job) -> int:
    assert job.state is State.COMPLETED, job
    return int(msgspec.json.decode(job.result or "null"))
