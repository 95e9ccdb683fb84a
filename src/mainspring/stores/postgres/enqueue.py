"""How the PostgreSQL store enqueues jobs: all jobs of a call, or none if one is refused.

Jobs without keys are one INSERT; if they differ in id and payload alone, as a batch of one task does, only these are
sent for each job. One job has a statement of its own, or in a caller's transaction the function mainspring_put.
MIN_COPY_ROWS jobs or more that differ in more are a COPY. These repeat the rule rules.enqueue.enqueue, and test_twin.py
compares them. Large pages of items of maps and batches are copied, too, and counted with their flow. Other jobs of
flows, and jobs with keys, are enqueued by the rule, in a transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, Unpack

import asyncpg
from msgspec.structs import replace

from ...clock import micros
from ...errors import StoreUnavailable
from ...ids import JobId
from ...records.job import Enqueued, NewJob
from ..rows import options_of
from ..rules import enqueue as rules
from ..rules.batch_jobs import number_jobs
from ..rules.finish import older_workers_of_limits_text, older_workers_text
from ..rules.flows import may_add_item
from ..rules.read_sets import KnownValues, Name, of_new_jobs
from .flow_latch import PostgresFlowLatch
from .flow_rows import add_flow_jobs, add_flows
from .handle import PostgresSettings
from .job_groups import FINISHED
from .jobs import array_text, has_keys, need_rule
from .notifier import may_be_due_soon
from .partitions import PostgresPartitions
from .pool import BIGINT_ARRAY, SEPARATOR, Session
from .script import LIMITS_VERSION
from .tables import LockedTables, load, write
from .url import PostgresUrl
from .within import CallerTransactions

_NEW = "id, queue, task, rank, run_at, created_at, expires_at, schedule, tags, options, payload, state"
_INTO = f"INSERT INTO mainspring_jobs ({_NEW})"
# A finished job is not in the table of the insert, and a job may finish meanwhile; so both tables are searched, in one
# snapshot. The array is computed once, and is almost always empty.
_INSERT = f"""{_INTO}
    SELECT id, queue, task, rank, run_at, $11, expires_at, schedule, tags::text[], options, payload, 'pending'
    FROM unnest($1::text[], $2::text[], $3::text[], $4::{BIGINT_ARRAY}, $5::{BIGINT_ARRAY}, $6::{BIGINT_ARRAY},
        $7::text[], $8::text[], $9::text[], $10::text[])
        AS job (id, queue, task, rank, run_at, expires_at, schedule, tags, options, payload)
    WHERE id <> ALL (ARRAY(SELECT id FROM ONLY mainspring_jobs WHERE id = ANY($1)
        UNION ALL SELECT id FROM mainspring_finished WHERE id = ANY($1)))
    ON CONFLICT (id) DO NOTHING"""
# Jobs that differ in id and payload alone. Their ids are sent as one text, and their payloads too: of an array the
# driver examines each item. Ids grow with time, so hardly any other job has an id between the first ($3) and the last
# ($4); only if one has, each id is searched. No job of the batch was there before, so there is no ON CONFLICT, which
# would search the index twice for each row.
_INSERT_ALIKE = f"""{_INTO}
    SELECT id, $5, $6, $7, $8, $9, $10, $11, $12, $13, payload, 'pending'
    FROM unnest(string_to_array($1, '{SEPARATOR}'), string_to_array($2, '{SEPARATOR}')) AS job (id, payload)
    WHERE CASE WHEN EXISTS (SELECT 1 FROM ONLY mainspring_jobs WHERE id >= $3 AND id <= $4)
            OR EXISTS (SELECT 1 FROM mainspring_finished WHERE id >= $3 AND id <= $4)
        THEN id <> ALL (ARRAY(SELECT id FROM ONLY mainspring_jobs WHERE id = ANY(string_to_array($1, '{SEPARATOR}'))
            UNION ALL SELECT id FROM mainspring_finished WHERE id = ANY(string_to_array($1, '{SEPARATOR}'))))
        ELSE true END"""
# One job. The statement, whose plan is kept, takes half as long as the function: its settings and its plan are checked
# at each call. No ON CONFLICT: it writes a second record into the WAL.
_INSERT_ONE = f"""{_INTO}
    SELECT $1::text, $2::text, $3::text, $4::integer, $5::bigint, $6::bigint, $7::bigint, $8::text, $9::text[],
        $10::text, $11::text, 'pending'
    WHERE NOT EXISTS (SELECT 1 FROM ONLY mainspring_jobs WHERE id = $1)
        AND NOT EXISTS (SELECT 1 FROM mainspring_finished WHERE id = $1)"""
_INSERT_AND_NOTIFY = f"WITH job AS ({_INSERT_ONE}) SELECT pg_notify($12, $13)"
# For a caller's connection, which does not keep plans.
_PUT = "SELECT mainspring_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, NULL, NULL)"
# From this many jobs on, COPY is faster.
MIN_COPY_ROWS = 100
# The partition was dropped meanwhile, or the role has rights on the partitioned table alone.
_CLOSED = (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError)


class AlreadyInserted(Exception):
    """One of the jobs exists already."""


class PartitionClosed(Exception):
    """The partition cannot be searched, though it was there."""


@lru_cache(maxsize=32)
def _searching(statement: str, table: str) -> str:
    """The statement, with that table searched for finished jobs: a kept plan locks all partitions at each call."""
    return statement.replace(FINISHED, table)


_Insert = Callable[[Session, str], Awaitable[list[Enqueued]]]


class PostgresEnqueue(PostgresFlowLatch, PostgresPartitions):
    """The verb `enqueue`."""

    def __init__(self, url: PostgresUrl, **settings: Unpack[PostgresSettings]) -> None:
        super().__init__(url, **settings)
        self._within: CallerTransactions | None = None
        self._knows_limits = False

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        self._idle = False
        if within is not None:
            return await self._enqueue_within(within, jobs, now)
        if not jobs:
            self._open()
            return []
        notify = any(may_be_due_soon(job, now) for job in jobs)
        single = notify and len(jobs) == 1 and not need_rule(jobs)
        text = self._notifier.piggyback() if single and self._notifier is not None else None
        answers = await self._enqueue(jobs, now, text)
        if text is not None:
            self._wakeups.wake("new")
        elif notify:
            self._announce("new")
        return answers

    async def _enqueue(self, jobs: Sequence[NewJob], now: datetime, notification: str | None) -> list[Enqueued]:
        if need_rule(jobs):
            if len(jobs) >= MIN_COPY_ROWS and are_plain_items(jobs):
                with suppress(AlreadyInserted):
                    return await self._enqueue_items(jobs, now)
            await self._refuse_older_workers(jobs, now)
            answers, tables = await self._transact(lambda db: _enqueue_by_rule(db, jobs, now))
            self._counted_maps.learn(tables)
            return answers
        if len(jobs) == 1:
            with suppress(AlreadyInserted):
                return await self._insert_searching(
                    [jobs[0].id], now, lambda db, finished: _insert_one(db, jobs[0], now, finished, notification)
                )
            return [Enqueued(jobs[0].id)]
        if are_alike(jobs):
            with suppress(AlreadyInserted):
                return await self._insert_searching(
                    [job.id for job in jobs], now, lambda db, finished: _insert_alike(db, jobs, now, finished)
                )
        elif len(jobs) >= MIN_COPY_ROWS:
            with suppress(AlreadyInserted):
                return await self._transact(lambda db: _copy(db, jobs, now))
        return await self._hot(lambda db: _insert(db, jobs, now))

    async def _enqueue_items(self, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        tables = await self._transact(lambda db: _copy_items(db, jobs, now))
        self._counted_maps.learn(tables)
        return [Enqueued(job.id) for job in jobs]

    async def _insert_searching(self, ids: Sequence[JobId], now: datetime, insert: _Insert) -> list[Enqueued]:
        """Runs an INSERT that searches the finished jobs of the day of these ids; of all days if that is not known."""
        table = await self._finished_table(min(ids), max(ids), now)
        if table != FINISHED:
            with suppress(PartitionClosed):
                return await self._hot(lambda db: _insert_searching_day(db, table, insert))
            self._know_days((), now)
        return await self._hot(lambda db: insert(db, FINISHED))

    async def _enqueue_within(self, within: Any, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        pool = self._open()
        if self._within is None or self._within.pool is not pool:
            self._within = CallerTransactions(pool)
        # On a connection of our own: a caller's transaction may go on for long, and beats would wait for it.
        await self._refuse_older_workers(jobs, now)
        with self._clock.outside():
            return await self._within.run(within, jobs, now, lambda db: _enqueue_in_transaction(db, jobs, now))

    async def _refuse_older_workers(self, jobs: Sequence[NewJob], now: datetime) -> None:
        """Raises StoreUnavailable if a flow or a limited job cannot be stored, because workers that do not know these
        are alive."""
        if any(job.plan is not None for job in jobs) and (alive := await self._older_workers(now)):
            raise StoreUnavailable(older_workers_text(alive))
        if self._knows_limits or all(job.limit_key is None for job in jobs):
            return
        if alive := await self._older_workers(now, LIMITS_VERSION):
            raise StoreUnavailable(older_workers_of_limits_text(alive))
        self._knows_limits = True


def _new_row(job: NewJob, now: int) -> tuple[Any, ...]:
    return (
        job.id,
        job.queue,
        job.task,
        -job.priority,
        now if job.run_at is None else micros(job.run_at),
        now,
        None if job.expires_at is None else micros(job.expires_at),
        job.schedule,
        list(job.tags) or None,
        options_of(job),
        job.payload,
        "pending",
    )


async def _insert_searching_day(db: Session, table: str, insert: _Insert) -> list[Enqueued]:
    try:
        return await insert(db, table)
    except _CLOSED as error:
        raise PartitionClosed from error


async def _insert_one(
    db: Session, job: NewJob, now: datetime, finished: str, notification: str | None
) -> list[Enqueued]:
    """Inserts a job without keys, and sends the notification in the same statement. Raises AlreadyInserted if another
    call inserts the job now."""
    row = _new_row(job, micros(now))[:-1]
    try:
        if notification is None:
            await db.run(_searching(_INSERT_ONE, finished), *row)
        else:
            await db.run(_searching(_INSERT_AND_NOTIFY, finished), *row, db.url.channel, notification)
    except asyncpg.UniqueViolationError as error:
        raise AlreadyInserted from error
    return [Enqueued(job.id)]


async def _insert(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Inserts jobs without keys in one statement, whatever is stored."""
    us = micros(now)
    if len(jobs) == 1:
        await db.run(_PUT, *_new_row(jobs[0], us)[:-1])
    else:
        (ids, queues, tasks, ranks, due, _, expire, schedules, tags, options, payloads, _) = zip(
            *(_new_row(job, us) for job in jobs), strict=True
        )
        texts = [array_text(some) for some in tags]
        ends = [None if at is None else str(at) for at in expire]
        await db.run(
            _INSERT,
            ids,
            queues,
            tasks,
            [*map(str, ranks)],
            [*map(str, due)],
            ends,
            schedules,
            texts,
            options,
            payloads,
            us,
        )
    return [Enqueued(job.id) for job in jobs]


def are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether these jobs without keys differ in id and payload alone, have no metadata, and can be sent as texts."""
    if jobs[0].metadata:  # equal metadata may have different texts: 1 and True
        return False
    # No JSON has the separator, but a caller may make a NewJob of any text.
    if any(SEPARATOR in text for text in ("".join([job.id for job in jobs]), "".join([job.payload for job in jobs]))):
        return False
    shared = [replace(job, id="", payload="") for job in jobs]
    return shared.count(shared[0]) == len(jobs)


async def _insert_alike(db: Session, jobs: Sequence[NewJob], now: datetime, finished: str) -> list[Enqueued]:
    """Inserts jobs that are alike, in one statement. Raises AlreadyInserted if one is inserted by another call now, or
    is given twice."""
    ids = [job.id for job in jobs]
    payloads = SEPARATOR.join([job.payload for job in jobs])
    _, *shared, options, _, _ = _new_row(jobs[0], micros(now))
    statement = _searching(_INSERT_ALIKE, finished)
    try:
        await db.run(statement, SEPARATOR.join(ids), payloads, min(ids), max(ids), *shared, options)
    except asyncpg.UniqueViolationError as error:
        raise AlreadyInserted from error
    return [Enqueued(id) for id in ids]


_FINISHED_IDS = "SELECT id FROM mainspring_finished WHERE id >= $1 AND id <= $2"


async def _copy(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Copies many jobs without keys, inside a transaction. Raises AlreadyInserted if one exists."""
    us = micros(now)
    try:
        await db.copy("mainspring_jobs", _NEW.split(", "), [_new_row(job, us) for job in jobs])
    except asyncpg.UniqueViolationError as error:
        raise AlreadyInserted from error
    # Checked after the COPY: a job that exists has ended by now, or the COPY would have failed. Ids grow with time, so
    # hardly any finished job has an id between the first and the last of these.
    ids = {job.id for job in jobs}
    ended = await db.rows(_FINISHED_IDS, min(ids), max(ids))
    if any(id in ids for (id,) in ended):
        raise AlreadyInserted
    return [Enqueued(job.id) for job in jobs]


def are_plain_items(jobs: Sequence[NewJob]) -> bool:
    """Whether all jobs are items of maps or of batches, without keys, plans and limits."""
    if any(job.limit_key is not None for job in jobs) or has_keys(jobs):
        return False
    return all(job.step is not None and job.step.index and job.plan is None for job in jobs)


async def _copy_items(db: Session, jobs: Sequence[NewJob], now: datetime) -> LockedTables:
    """Copies many items of maps or batches, and counts them with their flows, inside a transaction. Raises
    AlreadyInserted if one exists, or if that is for the rule: a flow takes no more of them, or one is given twice."""
    tables, refs = LockedTables(), [job.step for job in jobs if job.step is not None]
    tables.only_makes_items = True
    await add_flows(db, tables, {ref.flow: None for ref in refs})
    maps = {(ref.flow, ref.position - ref.index): ref for ref in refs}
    if len({job.id for job in jobs}) < len(jobs) or not all(may_add_item(tables, ref) for ref in maps.values()):
        raise AlreadyInserted
    jobs = number_jobs(tables, jobs, now)
    await _copy(db, jobs, now)
    await add_flow_jobs(db, jobs)
    for which, count in Counter((ref.flow, ref.position - ref.index) for ref in refs).items():
        tables.flow_changes.note_made_item(maps[which], now, count)
    await write(db, tables)
    return tables


async def _enqueue_in_transaction(db: Session, jobs: Sequence[NewJob], now: datetime) -> list[Enqueued]:
    """Enqueues jobs with or without keys, inside a transaction."""
    if not jobs or not need_rule(jobs):
        return await _insert(db, jobs, now) if jobs else []
    return (await _enqueue_by_rule(db, jobs, now))[0]


async def _enqueue_by_rule(db: Session, jobs: Sequence[NewJob], now: datetime) -> tuple[list[Enqueued], LockedTables]:
    def needs(jobs: Sequence[NewJob], known: KnownValues) -> Iterator[Name]:
        return of_new_jobs(jobs, known, now)

    tables = LockedTables()
    tables.only_makes_items = all(job.step is not None and job.plan is None for job in jobs) and not has_keys(jobs)
    await load(db, [jobs], needs, tables)
    answers = rules.enqueue(tables, jobs, now)
    await write(db, tables)
    return answers, tables
