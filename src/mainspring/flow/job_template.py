"""The jobs of a step: they have a template in common, and ids that follow from the release of the step."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import UNSET
from msgspec.structs import replace

from ..codec import blake2b
from ..ids import JobId
from ..records.flow import FAN_OUT
from ..records.job import NewJob
from ..records.limit import AT_ONCE, limit_key_of
from ..records.plan import StepOptions
from ..records.step import StepRef, StepValue
from .graph import Graph

# The random bits at the end of a UUIDv7, and the bits of its variant.
_TAIL_BITS, _VARIANT_BITS = 0x3FFF_FFFF_FFFF_FFFF, 0x8000_0000_0000_0000


def first_job(graph: Graph, n: int) -> NewJob:
    """A step's job as far as it follows from the plan. Made once for the flows of a shape."""
    if (job := graph.first_jobs.get(n)) is None:
        step = graph.steps[n]
        options = step.options
        job = graph.first_jobs[n] = NewJob(
            id="",
            task=step.task,
            payload="",
            queue=options.queue,
            priority=options.priority,
            timeout=options.timeout,
            max_retries=options.max_retries,
            backoff=options.backoff,
            tags=options.tags,
            metadata=options.metadata,
            fingerprint=options.fingerprint,
            limit_key=options.limit_key,
        )
    return job


def fan_out_job(graph: Graph, n: int) -> NewJob:
    """The job that makes the items of a map: where and when an item would run, with options of its own."""
    return replace(
        first_job(graph, n),
        task=FAN_OUT,
        timeout=UNSET,
        max_retries=None,
        backoff=None,
        fingerprint=None,
        limit_key=None,
    )


def released(job: NewJob, options: StepOptions, refs: Mapping[str, StepValue], now: datetime) -> NewJob:
    """The job, due from its release on."""
    if not refs and not options.delay and options.expires is None:
        return job
    due = now + timedelta(seconds=options.delay) if options.delay else None
    expires_at = None if options.expires is None else (due or now) + timedelta(seconds=options.expires)
    return replace(job, run_at=due, expires_at=expires_at, refs=refs)


class JobTemplate:
    """What the jobs of a step have in common once it is released: they differ in index and payload."""

    def __init__(self, job: NewJob, step: StepRef, now: datetime) -> None:
        if job.limit_key is not None and job.limit_key.startswith(AT_ONCE):
            job = replace(job, limit_key=limit_key_of(job.limit_key, f"{step.flow}/{step.number}"))
        self._job, self._step = job, step
        self.refs = job.refs
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
