"""Pages of jobs: where one ends, and how much of its jobs it has."""

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

# What why() looks at of all that runs, and how much of it at a time.
MAX_RUNNING, MAX_RUNNING_AT_ONCE = 5000, 2500


class Page(list[Job]):
    """Some jobs; `next` is the `after` that goes on from here, None if there are no more."""

    next: str | None = None
    order: Sort = "created"

    def up_to(self, jobs: Sequence[Job]) -> Page:
        """These, which are the first of it, with a `next` of their own if there are more."""
        page = Page(jobs)
        page.order, page.next = self.order, self.next if len(jobs) == len(self) else page_token(jobs[-1], self.order)
        return page


async def whole_page(store: Store, page: Page, room: int, now: datetime) -> Page:
    """The jobs of a brief page as they are: the first of it, then as many as have `room` characters together.

    Large jobs are read one at a time, so that only one that is too much is read in vain.
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
    """A brief job as it is, read by itself: together, large ones would fill the memory."""
    if brief.is_whole:
        return brief
    return next(iter(await store.jobs(Filter(ids=(brief.id,)), now=now, limit=1)), brief)


def _length(job: Job) -> int:
    metadata = len(msgspec.json.encode(job.metadata)) if job.metadata else 0
    return len(job.payload) + len(job.result or "") + metadata


async def running_jobs(store: Store, now: datetime) -> list[Job]:
    """What runs, up to a bound, brief and in parts: of each job a line or two is needed."""
    found: list[Job] = []
    while len(found) < MAX_RUNNING:
        after = Cursor(found[-1].id) if found else None
        which = Filter(states=("running",))
        page = await store.jobs(which, now=now, limit=MAX_RUNNING_AT_ONCE, after=after, brief=True)
        found += page
        if len(page) < MAX_RUNNING_AT_ONCE:
            break
    return found


def page_token(job: Job, sort: Sort) -> str:
    """Where a page ends, for people to hand back: a plain id where that is enough."""
    if sort == "created":
        return job.id
    at = job.run_at if sort == "due" else job.finished_at
    return urlsafe_b64encode(msgspec.json.encode((sort, at, job.id))).decode().rstrip("=")


def page_cursor(token: str, sort: Sort) -> Cursor:
    strange = f"after={token!r:.80} does not come from a page sorted by {sort!r}; give its `next`"
    if not is_text(token):
        raise BadInput(strange)
    token = cursor_name(token) or ""
    try:
        text = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        of, at, id = msgspec.json.decode(text, type=tuple[str, datetime, str])
    except (ValueError, msgspec.DecodeError):
        if sort == "created":
            return Cursor(token)
        raise BadInput(strange) from None
    if of != sort:
        raise BadInput(f"after= comes from a page sorted by {of!r}, this one is sorted by {sort!r}")
    if not is_instant(at) or not id.isprintable():
        raise BadInput(strange)
    return Cursor(id, at)


def cursor_name(after: str | None) -> str | None:
    """Where a list by name goes on: no name has a NUL, and not every store can be asked for one."""
    return None if after is None else after.partition("\x00")[0]


def is_askable(text: object) -> bool:
    """Whether every store can be asked for this text: some have no NUL."""
    return is_text(text) and "\x00" not in str(text)


def is_text(value: object) -> bool:
    """A text that can be asked for: a lone surrogate has no bytes in any store."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
