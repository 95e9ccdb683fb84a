"""Adaptive batch size: how many whole jobs to read at once, bounded by their bytes."""

from __future__ import annotations

from collections.abc import Iterable

from ..records.job import Job

# A batch above this halves the next one; a batch far below it makes the next one larger.
BATCH_BYTES = 16 << 20
FIRST_JOBS = 16
# Factor by which the next batch is larger.
GROWTH_FACTOR = 4


class BatchSize:
    """Starts with a few jobs, because old records may have metadata of several megabytes."""

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs = max_jobs
        self.jobs = min(FIRST_JOBS, max_jobs)

    def learn(self, jobs: Iterable[Job]) -> None:
        """Adapts the size of the next batch to the jobs read last."""
        size = sum(map(bytes_of, jobs))
        if size > BATCH_BYTES:
            self.jobs = max(1, self.jobs // 2)
        elif GROWTH_FACTOR * size <= BATCH_BYTES:
            self.jobs = min(self._max_jobs, GROWTH_FACTOR * self.jobs)


def bytes_of(job: Job) -> int:
    """Approximate size of the job's record in bytes."""
    metadata = len(str(job.metadata)) if job.metadata else 0  # may be anything: other programs can write it
    return len(job.payload) + len(job.result or "") + metadata
