"""Jobs into Redis: plain ones by a script, the others as the memory store takes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...clock import micros
from ...job import Enqueued, NewJob
from ..memory import enqueue as memory
from .home import Home, Homes
from .index import group, tells
from .line import Word
from .reads import of_new_jobs
from .records import new_record, packed, place
from .tables import Tables
from .transact import transact

# So many go in one script: others wait for as long. Whoever repeats a call that was cut off in between writes the rest.
MOST = 1_000
Pairs = list[str | bytes]


def plain(job: NewJob, id: bytes, now: int) -> bool:
    return (
        job.unique_key is None
        and job.idempotency_key is None
        and job.schedule is None
        and job.expires_at is None
        and not job.tags
        and tells(id, now)
    )


async def enqueue(homes: Homes, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    us, pairs = micros(now), [(job, packed(job.id)) for job in jobs]
    if all(plain(job, id, us) for job, id in pairs):
        shares: dict[Home, list[tuple[NewJob, bytes]]] = {}
        for pair in pairs:
            shares.setdefault(homes.of(pair[0].queue), []).append(pair)
        await homes.each(lambda home: _enqueue(home, shares[home], us), shares)
        return [Enqueued(job.id) for job in jobs]

    def rule(tables: Tables, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return memory.enqueue(tables.jobs, jobs, now)

    (answers,) = await transact(homes, "enqueue", [jobs], of_new_jobs, rule, now, "new")
    return answers


async def _enqueue(home: Home, jobs: Sequence[tuple[NewJob, bytes]], now: int) -> None:
    for start in range(0, len(jobs), MOST):
        await home.script("enqueue", _words(jobs[start : start + MOST], now))


def _words(jobs: Sequence[tuple[NewJob, bytes]], now: int) -> list[Word]:
    records: list[bytes] = []
    groups: dict[tuple[str, str], tuple[str, Pairs, Pairs, Pairs]] = {}
    for job, id in jobs:
        run_at = now if job.run_at is None else micros(job.run_at)
        records += (id, new_record(job, now))
        its = job.queue, job.task
        if (lists := groups.get(its)) is None:
            lists = groups[its] = (group(*its), [], [], [])
        _, made, ready, later = lists
        made += ("0", id)
        if run_at > now:
            later += (str(run_at), place(job.priority, run_at, id))
        else:
            ready += ("0", place(job.priority, run_at, id))
    words: list[Word] = ["new", len(jobs), *records]
    for name, made, ready, later in groups.values():
        words += (name, len(made), len(ready), len(later), *made, *ready, *later)
    return words
