"""The jobs of a step: they have a template in common, and ids that follow from the release of the step."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from ..codec import blake2b
from ..ids import JobId
from ..records.job import NewJob
from ..records.step import StepRef

# The random bits at the end of a UUIDv7, and the bits of its variant.
_TAIL_BITS, _VARIANT_BITS = 0x3FFF_FFFF_FFFF_FFFF, 0x8000_0000_0000_0000


class JobTemplate:
    """What the jobs of a step have in common: they differ in index and payload."""

    def __init__(self, job: NewJob, step: StepRef, now: datetime) -> None:
        self._job, self._step = job, step
        self.task, self.refs = job.task, job.refs
        self._ids = StepIds(step.flow, step.position, now)

    def job(self, index: int, payload: str) -> NewJob:
        step = self._step
        ref = StepRef(step.flow, step.position + index, step.queue, step.needed)
        return replace(self._job, id=self._ids.id(index), payload=payload, step=ref)


class StepIds:
    """The ids of a step's jobs: UUIDv7 of their release, so that the same release makes the same jobs."""

    def __init__(self, flow: JobId, position: int, now: datetime) -> None:
        digest = int.from_bytes(blake2b(f"{flow}/{position}".encode(), digest_size=10).digest())
        ms = int(now.timestamp() * 1000)
        self._head = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{(digest >> 64) & 0xFFF:03x}"
        self._first = digest & _TAIL_BITS

    def id(self, index: int) -> JobId:
        """Ids of a map's items follow each other."""
        tail = (self._first + index) & _TAIL_BITS | _VARIANT_BITS
        return f"{self._head}-{tail >> 48:04x}-{tail & 0xFFFF_FFFF_FFFF:012x}"


def step_job_id(flow: JobId, position: int, now: datetime) -> JobId:
    """The id of a job that is not an item of a map."""
    return StepIds(flow, position, now).id(0)
