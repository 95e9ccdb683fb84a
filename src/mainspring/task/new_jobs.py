"""New jobs that a caller passes as data: they are checked before any of them is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..bounds import MAX_KEY_CHARACTERS
from ..errors import BadInput
from ..records.job import NewJob
from .options import check_name, check_public, checked_options


def checked_jobs(jobs: Iterable[NewJob], call: str) -> list[NewJob]:
    """The jobs. Raises BadInput for one that task.job(…) could not have made."""
    batch = list(jobs)
    # Jobs made together share their tags, metadata and queue: each of these objects is checked once.
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    queue = ""
    for job in batch:
        if not isinstance(job, NewJob):
            raise BadInput(f"{call} takes what task.job(…) returns, got {type(job).__name__}")
        if not _is_planned_flow(job):
            check_public(job.task, call)
        if job.queue is not queue:
            queue = check_name(job.queue, "queue name")
        if job.tags and job.tags is not tags:
            checked_options({"tags": job.tags}, _named(job))
            tags = job.tags
        if job.metadata and job.metadata is not metadata:
            checked_options({"metadata": job.metadata}, _named(job))
            metadata = job.metadata
        if job.unique_key is not None or job.idempotency_key is not None:
            _check_key(job)
        if job.limit_key is not None:
            _check_limit_key(job)
    return batch


def _is_planned_flow(job: NewJob) -> bool:
    """Whether it is what PlanBuilder.job() makes: the internal task says nothing but that it has a plan."""
    if job.plan is None:
        return False
    from ..records.flow import PLANNED_FLOW

    return job.task == PLANNED_FLOW


def _named(job: NewJob) -> str:
    return f"a job of task {job.task!r:.80}"


def _check_key(job: NewJob) -> None:
    for name in ("unique_key", "idempotency_key"):
        key = getattr(job, name)
        if key is not None and not _is_key(key):
            raise BadInput(f"{name} of {_named(job)} must be 1 to {MAX_KEY_CHARACTERS} printable characters")


def _check_limit_key(job: NewJob) -> None:
    from .limit import check_limit_key

    check_limit_key(job.limit_key, _named(job))


def _is_key(key: object) -> bool:
    return isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARACTERS and key.isprintable()
