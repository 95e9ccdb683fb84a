"""How many whole jobs to read at once, so that a batch fits into memory however large they are."""

from __future__ import annotations

from collections.abc import Iterable

from ..records.job import Job

# A batch grows while it has fewer bytes than this, and shrinks to a half when it has more.
BATCH_BYTES = 16 << 20
FIRST_JOBS, GROWTH = 16, 4


class BatchSize:
    """Begins with a few jobs: old records may have metadata of several megabytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.jobs = min(FIRST_JOBS, most)

    def learn(self, jobs: Iterable[Job]) -> None:
        """What was read last: the next batch has more of them, or fewer."""
        size = sum(map(bytes_of, jobs))
        if size > BATCH_BYTES:
            self.jobs = max(1, self.jobs // 2)
        elif GROWTH * size <= BATCH_BYTES:
            self.jobs = min(self._most, GROWTH * self.jobs)


def bytes_of(job: Job) -> int:
    """About as many as its record has."""
    metadata = len(str(job.metadata)) if job.metadata else 0  # whatever a foreign hand has written there
    return len(job.payload) + len(job.result or "") + metadata
