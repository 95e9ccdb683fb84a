"""Pages of jobs: their cursors, and how much of each job they contain."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime

import msgspec

from ..clock import is_instant
from ..errors import BadInput
from ..records.job import Job
from ..records.query import Cursor, Filter, Sort
from ..store import Store

# Running jobs that why() considers, and how many of them are read per call.
MAX_RUNNING_JOBS, PAGE_RUNNING_JOBS = 5000, 2500


class Page(list[Job]):
    """Some jobs; `next` is the `after` for the next page, None if this is the last."""

    next: str | None = None
    order: Sort = "created"

    def up_to(self, jobs: Sequence[Job]) -> Page:
        """The page cut to its first `jobs`, with a `next` of its own if some are left out."""
        page = Page(jobs)
        page.order, page.next = self.order, self.next if len(jobs) == len(self) else page_token(jobs[-1], self.order)
        return page


async def whole_page(store: Store, page: Page, room: int, now: datetime) -> Page:
    """The jobs of a brief page in full: the first one, then as many as fit into `room` characters together.

    Large jobs are read one at a time, so that at most one is read for nothing.
    """
    found: list[Job] = []
    for brief in page:
        job = await whole_job(store, brief, now)
        room -= _length(job)
        if found and room < 0:
            break
        found.append(job)
    return page.up_to(found) if found else page


async def whole_job(store: Store, brief: Job, now: datetime) -> Job:
    """A brief job in full, read by itself: together, large ones could exhaust the memory."""
    if brief.is_whole:
        return brief
    return next(iter(await store.jobs(Filter(ids=(brief.id,)), now=now, limit=1)), brief)


def leading_jobs(jobs: Sequence[Job], room: int) -> int:
    """How many of these jobs, from the first one on, fit into `room` characters together; at least one."""
    for n, job in enumerate(jobs):
        room -= _length(job)
        if n and room < 0:
            return n
    return len(jobs)


def _length(job: Job) -> int:
    metadata = len(msgspec.json.encode(job.metadata)) if job.metadata else 0
    return len(job.payload) + len(job.result or "") + metadata


async def running_jobs(store: Store, now: datetime) -> list[Job]:
    """Running jobs up to a maximum, brief and page by page."""
    found: list[Job] = []
    while len(found) < MAX_RUNNING_JOBS:
        after = Cursor(found[-1].id) if found else None
        which = Filter(states=("running",))
        page = await store.jobs(which, now=now, limit=PAGE_RUNNING_JOBS, after=after, brief=True)
        found += page
        if len(page) < PAGE_RUNNING_JOBS:
            break
    return found


def page_token(job: Job, sort: Sort) -> str:
    """The cursor after this job, for callers to pass back: a plain id where that is enough."""
    if sort == "created":
        return job.id
    at = job.run_at if sort == "due" else job.finished_at
    return urlsafe_b64encode(msgspec.json.encode((sort, at, job.id))).decode().rstrip("=")


def page_cursor(token: str, sort: Sort) -> Cursor:
    refusal = f"after={token!r:.80} does not come from a page sorted by {sort!r}; give its `next`"
    if not is_text(token):
        raise BadInput(refusal)
    token = cursor_name(token) or ""
    try:
        text = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        of, at, id = msgspec.json.decode(text, type=tuple[str, datetime, str])
    except (ValueError, msgspec.DecodeError):
        if sort == "created":
            return Cursor(token)
        raise BadInput(refusal) from None
    if of != sort:
        raise BadInput(f"after= comes from a page sorted by {of!r}, this one is sorted by {sort!r}")
    if not is_instant(at) or not id.isprintable():
        raise BadInput(refusal)
    return Cursor(id, at)


def cursor_name(after: str | None) -> str | None:
    """The cursor of a list by name, cut at a NUL: no name has one, and not every store can search for it."""
    return None if after is None else after.partition("\x00")[0]


def is_searchable(text: object) -> bool:
    """Whether every store can search for this text: some cannot represent NUL."""
    return is_text(text) and "\x00" not in str(text)


def is_text(value: object) -> bool:
    """Whether the value is a text that can be encoded: a lone surrogate cannot."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
