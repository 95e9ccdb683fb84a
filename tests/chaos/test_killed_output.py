"""kill -9 while a task writes output: readers keep what they have read, in order, and each run begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import speaking
from audit import until
from crew import Crew
from ground import Ground

from mainspring import OutputChunk

CHUNKS = 400
KILLS = 2
QUICK = {"beat": 0.1, "lease": 0.5, "sweep": 0.1, "max_crashes": 50}


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, speaking)
    try:
        yield crew
    finally:
        crew.close()


def output_of(crew: Crew, id: str) -> list[OutputChunk]:
    return list(crew.client.sync.jobs.output(id))


@pytest.mark.parametrize("ground", ["file", "server", "keys", "cluster"], indirect=True)
def test_what_was_read_before_a_kill_stays_and_the_next_run_begins_behind_it(crew: Crew) -> None:
    (id,) = crew.enqueue("speak", CHUNKS)
    read: list[OutputChunk] = []
    for n in range(KILLS):
        victim = crew.start(f"victim{n}", **QUICK)
        until(lambda: victim.dead() or len(output_of(crew, id)) >= len(read) + 50)  # noqa: B023
        seen = output_of(crew, id)
        victim.kill()
        assert seen[: len(read)] == read
        read = output_of(crew, id)
        assert read[: len(seen)] == seen
    crew.start("last", **QUICK)
    chunks = list(crew.client.sync.jobs.read(id, after=read[-1].n))
    assert [chunk.n for chunk in [*read, *chunks]] == list(range(1, len(read) + CHUNKS + 1))
    assert {chunk.run for chunk in chunks} == {KILLS + 1}
    assert [chunk.value for chunk in chunks] == list(range(CHUNKS))
    for run in range(1, KILLS + 1):
        values = [chunk.value for chunk in read if chunk.run == run]
        assert values == list(range(len(values)))
        assert len(values) >= 50
