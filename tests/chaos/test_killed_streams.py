"""kill -9 while tasks yield the items of maps: each index is exactly one job, with the item of that index."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import streaming
from audit import until
from crew import Crew
from ground import Ground

from flow_audit import steps_of
from mainspring import BadInput
from mainspring.records.job import Job
from mainspring.records.step import StepRef
from mainspring.stores import open_store

ITEMS = 2500
KILLS = 5
MAX_CRASHES = 50
QUICK = {"beat": 0.1, "lease": 0.5, "sweep": 0.1, "max_crashes": MAX_CRASHES}


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, streaming)
    try:
        yield crew
    finally:
        crew.close()


def made(crew: Crew, id: str) -> int:
    try:
        items = crew.client.sync.flows.get(id).step("square").items
    except BadInput:  # it is not planned yet
        return 0
    return 0 if items is None else items.made


async def steps_in(url: str, id: str) -> list[Job]:
    store = open_store(url)
    await store.open()
    try:
        return await steps_of(store, id)
    finally:
        await store.close()


@pytest.mark.parametrize("ground", ["file", "server", "keys", "cluster"], indirect=True)
def test_each_item_is_one_job_although_workers_are_killed_while_tasks_yield(crew: Crew) -> None:
    seeded = random.Random(20301119)
    ids = [*crew.enqueue("stream", ITEMS, False), *crew.enqueue("stream", ITEMS, True)]
    for n in range(KILLS):
        victim = crew.start(f"victim{n}", **QUICK)
        wanted = seeded.randint(1, ITEMS)
        until(lambda: victim.dead() or made(crew, ids[n % 2]) >= wanted)  # noqa: B023
        assert not victim.dead(), victim.said()
        victim.kill()
    crew.start("last", **QUICK)
    until(lambda: all(job.state.final for job in crew.jobs(ids)), 60)
    for id in ids:
        assert crew.client.sync.jobs.get(id).result == str(sum(n * n for n in range(ITEMS)))
        refs: list[tuple[StepRef, str]] = [
            (job.step, job.payload) for job in asyncio.run(steps_in(crew.ground.url, id)) if job.step is not None
        ]
        assert [ref.life for ref, _ in refs] == [0] * (ITEMS + 2)
        items = [(ref.index, payload) for ref, payload in refs if ref.index]
        assert items == [(n + 1, f'{{"n":{n}}}') for n in range(ITEMS)]
