"""Many processes on one store."""

import re

import pytest
from crew import Crew

PROCESSES = 4
# On a server a few thousand here, for the sake of the suite's time; all of them with `pytest -m slow`.
CROWDS = [("file", 20_000), ("server", 2000), pytest.param("server", 20_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("ground", "jobs"), CROWDS, indirect=["ground"])
def test_four_processes_run_each_of_thousands_of_jobs_once(crew: Crew, jobs: int) -> None:
    # Default leases: four busy processes on two cores may well be late by a second.
    workers = [crew.up(f"worker{n}", beat=5, lease=20, sweep=5, concurrency=100) for n in range(PROCESSES)]
    for _ in range(jobs // 1000):
        crew.enqueue("effect", times=1000)
    crew.finished(60)
    for worker in workers:
        worker.end()
    audit = crew.audit()
    audit.check(crew.acknowledged, attempts=1)
    assert audit.count("effect") == dict.fromkeys(crew.acknowledged, 1)
    # A worker that is late gives back what it has claimed ahead and not begun.
    endings = {tuple(ending for ending in audit.endings(id) if ending != "released") for id in audit.jobs}
    assert endings == {("completed",)}
    for worker in workers:
        assert not re.search("error|lock|trouble|warn", worker.said(), re.IGNORECASE), worker.said()
        # A few thousand jobs are a fraction of a second, in which a process may not get the processor at all.
        assert len(worker.lines("effect")) >= jobs * 0.05 or jobs < 20_000
