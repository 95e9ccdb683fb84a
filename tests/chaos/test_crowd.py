"""Many processes on one file."""

import re

from crew import Crew

JOBS, PROCESSES = 20_000, 4


def test_four_processes_run_each_of_twenty_thousand_jobs_once(crew: Crew) -> None:
    # Default leases: four busy processes on two cores may well be late by a second.
    workers = [crew.up(f"worker{n}", beat=5, lease=20, sweep=5, concurrency=100) for n in range(PROCESSES)]
    for _ in range(JOBS // 1000):
        crew.enqueue("effect", times=1000)
    crew.finished(60)
    for worker in workers:
        worker.end()
    audit = crew.audit()
    audit.check(crew.acknowledged, attempts=1)
    assert audit.count("effect") == dict.fromkeys(crew.acknowledged, 1)
    assert {tuple(audit.endings(id)) for id in audit.jobs} == {("completed",)}
    for worker in workers:
        assert not re.search("error|lock|trouble|warn", worker.said(), re.IGNORECASE), worker.said()
        assert len(worker.lines("effect")) >= JOBS * 0.05
