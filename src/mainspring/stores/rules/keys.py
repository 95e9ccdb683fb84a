"""The keys of jobs: `u` and a unique key, or `i` and an idempotency key. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...records.job import IDEMPOTENT_STATES, UNFINISHED, Job, NewJob


def keys_of(job: NewJob | Job) -> Iterator[str]:
    """The keys that the job asks for, whether it holds them or not."""
    if job.unique_key is not None:
        yield f"u{job.unique_key}"
    if job.idempotency_key is not None:
        yield f"i{job.idempotency_key}"


def keys_held_by(job: Job) -> Iterator[str]:
    """The keys that the job holds in its state: an idempotency key stays with a completed job."""
    if job.unique_key is not None and job.state in UNFINISHED:
        yield f"u{job.unique_key}"
    if job.idempotency_key is not None and job.state in IDEMPOTENT_STATES:
        yield f"i{job.idempotency_key}"
