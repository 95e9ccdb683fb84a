"""kill -9 after each durable step: what is stored does not run again, and the job goes on behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import walking
from audit import read_log, until
from crew import Crew
from ground import Ground

from mainspring import Filter

QUICK = {"beat": 0.1, "lease": 0.5, "sweep": 0.1, "max_crashes": 50}
EVERYWHERE = pytest.mark.parametrize("ground", ["file", "server", "keys", "cluster"], indirect=True)


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, walking)
    try:
        yield crew
    finally:
        crew.close()


def taken(crew: Crew, names: list[str]) -> Counter[str]:
    """How often each step was called, in all processes."""
    events = [line.event for name in names for line in read_log(crew.folder / name)]
    return Counter(event for event in events if event.startswith("step"))


@EVERYWHERE
@pytest.mark.parametrize("task", ["walk", "walk_plainly"])
def test_no_stored_step_runs_again_though_the_process_is_killed_behind_each(crew: Crew, task: str) -> None:
    (id,) = crew.enqueue(task)
    for n in range(walking.STEPS):
        # Each process is killed once it has stored one step more than the one before.
        victim = crew.start(f"victim{n}", failpoints="step.stored=kill:1", **QUICK)
        victim.died()
    crew.start("last", **QUICK)
    until(lambda: crew.jobs([id])[0].state.final, 30)
    assert crew.jobs([id])[0].result == str(sum(range(walking.STEPS)))
    assert taken(crew, members(crew)) == {f"step{n}": 1 for n in range(walking.STEPS)}


@pytest.mark.parametrize("ground", ["file"], indirect=True)
@pytest.mark.parametrize("killed", ["worker", "child"])
def test_no_stored_step_of_a_child_process_runs_again_though_one_of_them_is_killed_behind_each(
    crew: Crew, killed: str
) -> None:
    (id,) = crew.enqueue("walk_in_child", str(crew.folder / "child.log"), killed == "child")
    for n in range(3 if killed == "worker" else 0):
        crew.start(f"victim{n}", failpoints="step.stored=kill:1", **QUICK).died()
    crew.start("last", **QUICK)
    until(lambda: crew.jobs([id])[0].state.final, 30)
    assert crew.jobs([id])[0].result == str(sum(range(walking.STEPS)))
    assert taken(crew, members(crew)) == {f"step{n}": 1 for n in range(walking.STEPS)}


@EVERYWHERE
def test_a_step_that_was_not_stored_runs_again(crew: Crew) -> None:
    (id,) = crew.enqueue("walk")
    crew.start("victim", failpoints="step.returned=kill:3", **QUICK).died()
    crew.start("last", **QUICK)
    until(lambda: crew.jobs([id])[0].state.final, 30)
    assert crew.jobs([id])[0].result == str(sum(range(walking.STEPS)))
    assert taken(crew, members(crew)) == {f"step{n}": 2 if n == 2 else 1 for n in range(walking.STEPS)}


@pytest.mark.parametrize("ground", ["file", "server", "keys"], indirect=True)
def test_each_child_is_started_once_though_the_process_is_killed_around_each_end_of_a_run(crew: Crew) -> None:
    (id,) = crew.enqueue("lead")
    for n, at in enumerate(("finish.mid_batch", "finish.after_commit")):
        crew.start(f"victim{n}", failpoints=f"{at}=kill:2", **QUICK).died()
    crew.start("last", **QUICK)
    until(lambda: crew.jobs([id])[0].state.final, 30)
    assert crew.jobs([id])[0].result == str(2 * sum(range(walking.STEPS)))
    assert len(crew.client.sync.jobs.list(Filter(tasks=("follow",)), limit=100)) == 2 * walking.STEPS


def members(crew: Crew) -> list[str]:
    return [path.name for path in crew.folder.iterdir() if path.suffix == ".log"]
