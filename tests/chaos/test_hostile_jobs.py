"""A job whose outcome cannot be decided is dead, with the reason, after a few runs; its worker goes on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import hostile
import pytest
from audit import until
from crew import Crew
from ground import Ground, everywhere, slow_on_a_server

from mainspring import Backoff
from mainspring.records.job import Job, NewJob

EXECUTORS = ("async", "thread", "process")
MAX_RUNS = 3


@pytest.fixture
def hostiles(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground, hostile)
    try:
        yield crew
    finally:
        crew.close()


def reason(job: Job) -> str:
    return "" if job.failure is None else f"{job.failure.type}: {job.failure.message}"


# The worker decides, before any store sees the outcome.
@slow_on_a_server
def test_jobs_whose_outcome_cannot_be_decided_are_dead_with_the_reason(hostiles: Crew) -> None:
    crew = hostiles
    poisons = {
        f"{poison.__name__}-{executor}": crew.enqueue(f"{poison.__name__}-{executor}")[0]
        for poison in hostile.POISONS
        for executor in EXECUTORS
    }
    poisons["fails"] = crew.enqueue("fails")[0]
    results = [crew.enqueue(f"unkept-{executor}")[0] for executor in EXECUTORS]
    innocent = crew.enqueue("quick", times=20)
    worker = crew.up("worker", concurrency=4)
    crew.finished(60)
    worker.end()
    ended = {job.id: job for job in crew.jobs(crew.acknowledged)}
    for name, id in poisons.items():
        job = ended[id]
        assert (job.state, 1 <= job.runs <= MAX_RUNS, bool(reason(job))) == ("dead", True, True), (name, job)
    assert "NotJudged: the run ended with ValueError: as always, and judging that raised SystemExit" in reason(
        ended[poisons["fails"]]
    )
    assert [ended[id].state.value for id in innocent] == ["completed"] * 20
    # These jobs are completed: the failure of the job records that its result could not be kept.
    assert {(ended[id].state, (failure := ended[id].failure) and failure.type) for id in results} == {
        ("completed", "ResultLost")
    }


@everywhere
def test_a_stored_backoff_beyond_the_calendar_waits_no_longer_than_a_year(hostiles: Crew) -> None:
    crew, forever = hostiles, Backoff(initial=1e12, max=1e12, jitter=0.5)
    asked = crew.job("backs-off")
    job = NewJob(id=asked.id, task=asked.task, payload=asked.payload, backoff=forever, max_retries=1)
    crew.client.sync.enqueue_many([job])  # as an earlier release accepted it
    worker = crew.up("worker")
    until(lambda: crew.jobs([job.id])[0].attempt == 1 and crew.jobs([job.id])[0].state == "pending", 20)
    worker.end()
    (ended,) = crew.jobs([job.id])
    assert (ended.runs, ended.attempt) == (1, 1)
    assert timedelta(days=180) < ended.run_at - ended.created_at <= timedelta(days=367)
