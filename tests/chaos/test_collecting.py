"""kill -9 of producers and workers while items are collected: none is lost, and none is in two jobs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import producing
import pytest
from audit import Audit, until
from crew import Crew, Member
from ground import Ground, slow_on_keys

from mainspring.records.job import State

QUICK = {"beat": 0.1, "lease": 0.5, "sweep": 0.1, "max_crashes": 50}
PRODUCERS, KILLS, ITEMS = 2, 3, 40


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, producing)
    try:
        yield crew
    finally:
        crew.close()


def acknowledged(crew: Crew) -> list[str]:
    return [line.id for member in crew.members for line in member.lines("acknowledged")]


def started(crew: Crew) -> list[Member]:
    """A worker and producers, under names of their own."""
    worker = crew.start(f"worker{len(crew.members)}", **QUICK)
    producers = [crew.start(f"producer{len(crew.members)}", produces=f"p{len(crew.members)}") for _ in range(PRODUCERS)]
    return [worker, *producers]


@slow_on_keys
def test_items_of_killed_producers_and_workers_are_in_one_job_each(crew: Crew) -> None:
    seeded = random.Random(20300101)
    for _ in range(KILLS):
        (worker, *producers), before = started(crew), len(acknowledged(crew))
        until(lambda least=before + ITEMS: len(acknowledged(crew)) >= least)
        until(lambda worker=worker: len(worker.lines("start")) > len(worker.lines("end")))
        for member in seeded.sample([worker, *producers], 1 + PRODUCERS):
            member.kill()
    promised = acknowledged(crew)
    crew.up("rescuer", **QUICK)
    crew.finished(30)
    assert crew.ground.complaints() == []  # also of commits of the killed, which the rescuer ends
    check(crew.audit(), promised)


def check(audit: Audit, promised: list[str]) -> None:
    jobs = [job for job in audit.jobs.values() if job.task == "gather"]
    held = [msgspec.json.decode(job.payload)["items"] for job in jobs]
    assert {job.state for job in jobs} == {State.COMPLETED}
    times = Counter(item for items in held for item in items)
    assert not set(promised) - times.keys(), "acknowledged, and in no job"
    assert [item for item, count in times.items() if count > 1] == []
    assert [job.result for job in jobs] == [str(len(items)) for items in held]
    assert max(map(len, held)) == 7
    assert any(len(audit.runs[job.id]) > 1 for job in jobs), "no kill met a run"
