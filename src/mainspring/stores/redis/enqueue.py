"""Jobs into Redis: plain ones by a script, the others as the memory store takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from ...clock import micros
from ...records.job import Enqueued, NewJob
from ..memory import enqueue as memory
from .attempts import Attempts
from .connection import Word
from .index import Arguments, group, tells
from .reads import of_new_jobs
from .records import new_record, packed, place
from .shard import Shard, Shards
from .tables import Tables
from .transact import transact
from .two_phase import Condition, Unit, commit_one, has, settle

# Jobs that go in one script: others wait for as long. More go in one transaction of several scripts, up to a number for
# which a server may be kept busy; more than that, and those over several homes, are written as a step.
MAX_JOBS, MAX_TRANSACTION = 1_000, 10_000
Pairs = list[str | bytes]
Paired = Sequence[tuple[NewJob, bytes]]


def plain(job: NewJob, id: bytes, now: int) -> bool:
    return (
        job.unique_key is None
        and job.idempotency_key is None
        and job.schedule is None
        and job.expires_at is None
        and not job.tags
        and tells(id, now)
    )


async def enqueue(homes: Shards, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    us, pairs = micros(now), [(job, packed(job.id)) for job in jobs]
    if all(plain(job, id, us) for job, id in pairs):
        shares: dict[Shard, list[tuple[NewJob, bytes]]] = {}
        for pair in pairs:
            shares.setdefault(homes.of(pair[0].queue), []).append(pair)
        await _enqueue(homes, shares, us)
        return [Enqueued(job.id) for job in jobs]

    def rule(tables: Tables, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return memory.enqueue(tables.jobs, jobs, now)

    (answers,) = await transact(homes, "enqueue", [jobs], of_new_jobs, rule, now, "new")
    return answers


async def _enqueue(homes: Shards, shares: dict[Shard, list[tuple[NewJob, bytes]]], now: int) -> None:
    """All of them or none, however many there are and wherever they go."""
    (home, jobs), *others = shares.items()
    if others or len(jobs) > MAX_TRANSACTION:
        await _as_step(homes, shares, now)
    elif len(jobs) <= MAX_JOBS:
        await home.script("enqueue", _words(jobs, now))
    else:
        starts = range(0, len(jobs), MAX_JOBS)
        await home.scripts("enqueue", [_words(jobs[start : start + MAX_JOBS], now) for start in starts])


async def _as_step(homes: Shards, shares: dict[Shard, list[tuple[NewJob, bytes]]], now: int) -> None:
    """Those whose ids are known are left as they are: a call that is repeated finds all of them, or none."""
    attempts = Attempts(homes, "enqueue")
    while not await commit_one(homes, _unit(shares, now), "new"):
        await attempts.again()
        for home, jobs in shares.items():
            known = await _known(homes, home, [id for _, id in jobs])
            shares[home] = [(job, id) for job, id in jobs if id not in known]


async def _known(homes: Shards, home: Shard, ids: Sequence[bytes]) -> set[bytes]:
    """Those that are there, or were; a step that is about to write one of them is settled first."""
    known = set[bytes]()
    for start in range(0, len(ids), MAX_JOBS):
        some = ids[start : start + MAX_JOBS]
        locks = [f"{home.base}:job\0".encode() + id for id in some]
        jobs, moved, steps = await home.many([
            ("HMGET", f"{home.base}:job", *some), ("HMGET", f"{home.base}:moved", *some),
            ("HMGET", f"{home.base}:lock", *locks),
        ])  # fmt: skip
        for step in {step for step in steps if step is not None}:
            await settle(homes, home, step.decode())
        found = zip(some, jobs, moved, strict=True)
        known |= {id for id, job, gone in found if job is not None or gone is not None}
    return known


def _unit(shares: dict[Shard, list[tuple[NewJob, bytes]]], now: int) -> Unit:
    conditions, commands = list[Condition](), list[Arguments]()
    for home, jobs in shares.items():
        for _, id in jobs:
            conditions += (has(f"{home.base}:job", id, None), has(f"{home.base}:moved", id, None))
        for start in range(0, len(jobs), MAX_JOBS):
            commands += _commands(home.base, jobs[start : start + MAX_JOBS], now)
        names = {group(job.queue, job.task) for job, _ in jobs}
        commands += [("GROUP", f"{home.base}:{name}") for name in names]
    return Unit(conditions, commands)


def _commands(base: str, jobs: Paired, now: int) -> Iterator[Arguments]:
    """What enqueue.lua does with new jobs."""
    records, groups = _sorted(jobs, now)
    yield "HSET", f"{base}:job", *records
    for name, made, ready, later in groups:
        yield "SADD", f"{base}:groups", name
        for key, pairs in (("made", made), ("ready", ready), ("later", later)):
            if pairs:
                yield "ZADD", f"{base}:{key}:{name}", *pairs


def _words(jobs: Paired, now: int) -> list[Word]:
    records, groups = _sorted(jobs, now)
    words: list[Word] = ["new", len(jobs), *records]
    for name, made, ready, later in groups:
        words += (name, len(made), len(ready), len(later), *made, *ready, *later)
    return words


def _sorted(jobs: Paired, now: int) -> tuple[list[bytes], Collection[tuple[str, Pairs, Pairs, Pairs]]]:
    """Ids and records in turn; for each group its name, and what is made, ready and for later, as ZADD takes them."""
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
    return records, groups.values()
