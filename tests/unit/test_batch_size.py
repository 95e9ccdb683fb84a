"""Batches of whole jobs: few at first, more while they are small, fewer when they are large."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.records.job import Job
from mainspring.stores.rules import to_job
from mainspring.testing.contract.build import NOW, new_job
from mainspring.worker.batch_size import BATCH_BYTES, FIRST_JOBS, GROWTH_FACTOR, BatchSize, bytes_of


def job(size: int = 0) -> Job:
    made = to_job(new_job(), NOW)
    return replace(made, metadata={"old": "x" * size}) if size else made


def test_batch_size_of_small_jobs_grows_to_its_maximum() -> None:
    size = BatchSize(500)
    seen = [size.jobs]
    for _ in range(4):
        size.learn([job()] * size.jobs)
        seen.append(size.jobs)
    assert seen == [FIRST_JOBS, GROWTH_FACTOR * FIRST_JOBS, GROWTH_FACTOR**2 * FIRST_JOBS, 500, 500]


def test_batch_size_of_large_jobs_shrinks_to_one() -> None:
    size, large = BatchSize(4), job(BATCH_BYTES)
    for _ in range(4):
        size.learn([large] * size.jobs)
    assert size.jobs == 1
    assert bytes_of(large) > BATCH_BYTES
    assert BatchSize(3).jobs == 3
