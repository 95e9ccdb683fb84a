"""If-Match on a job: of several who edit from the same ETag, one does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from ..app import Mainspring
from ..records.document import Document
from ..records.job import Job
from .etag import etag
from .problem import Problem

KIND = "edit"
# An edit takes milliseconds: one that has not ended by then died with its server.
LASTS = timedelta(minutes=1)


@asynccontextmanager
async def unchanged(
    spring: Mainspring, job: Job, if_match: str, part: Callable[[Job], bytes]
) -> AsyncIterator[Job]:  # fmt: skip
    """Yields the job, unchanged since it was read. Raises Problem(412) if it was edited in between.

    `part` returns what the ETag is made from. The store has one claim for each job and ETag: the request that gets it
    reads the job again and edits it; other requests with the same ETag are refused. An edit without If-Match takes no
    claim: where two edits overlap, the later one stands.
    """
    wanted = [one.strip().removeprefix("W/").strip('"') for one in if_match.split(",")]
    if "*" in wanted:
        yield job
        return
    tag = await etag(spring, part(job))
    name, store, now = f"{job.id}:{tag}", await spring.opened(), spring.clock.now()
    claim = Document(kind=KIND, name=name, text="", expires_at=now + LASTS)
    if tag not in wanted or not (await store.put_documents([claim], now=now))[0]:
        raise _edited(job)
    try:
        job = await spring.jobs.get(job.id)
        if await etag(spring, part(job)) != tag:
            raise _edited(job)
        yield job
    finally:
        await store.drop_documents(KIND, [name])


def _edited(job: Job) -> Problem:
    return Problem(412, "changed", f"job {job.id} was edited since it was read; read it again", job_id=job.id)
