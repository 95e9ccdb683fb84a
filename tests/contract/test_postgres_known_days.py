"""An enqueue into PostgreSQL searches finished jobs in the partition of their day, and in all if that is not known."""

from datetime import timedelta
from typing import cast

import pytest
from test_postgres_partitions import (
    DAY,
    LONG_AGO,
    NOW,
    OLDEST,
    THEN,
    TODAY,
    Dated,
    Then,
    an_id,
    ended,
    names,
    pruned_in_bulk,
)

from mainspring.records.job import NewJob, State
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres.partitions import CHECK_EVERY
from mainspring.stores.postgres.store import PostgresStore
from mainspring.testing.contract.build import all_jobs, new_job, put

FINISHED = "mainspring_finished"


async def table_for(store: Store, first: str, last: str) -> str:
    return await cast(PostgresStore, store)._finished_table(first, last, NOW)


async def enqueue_again(store: Store, *jobs: NewJob) -> None:
    """Each job alone, then all of them with a new one in one batch."""
    for job in jobs:
        assert await put(store, job) == [job.id]
    await put(store, *jobs, new_job(id=an_id(NOW, 999)))


async def check_ended_once(store: Store, *jobs: NewJob) -> None:
    stored = {job.id: job.state for job in await all_jobs(store)}
    assert stored == {**{job.id: State.COMPLETED for job in jobs}, an_id(NOW, 999): State.PENDING}


class TestKnownDays(Dated):
    async def test_partition_of_the_ids_is_searched(self) -> None:
        async with self.opened() as store:
            assert await table_for(store, an_id(NOW, 1), an_id(NOW, 2)) == TODAY.table
            assert await table_for(store, an_id(NOW, 1), an_id(NOW + DAY, 2)) == FINISHED
            assert await table_for(store, an_id(LONG_AGO, 1), an_id(LONG_AGO, 1)) == FINISHED
            assert await table_for(store, "zzz", "zzz") == FINISHED

    @pytest.mark.parametrize(
        "ids",
        [
            [an_id(NOW, 1), an_id(NOW, 2)],
            [an_id(NOW - timedelta(days=1), 1), an_id(NOW, 2)],
            [an_id(NOW, 1), an_id(NOW + timedelta(days=1), 2)],
            [an_id(LONG_AGO, 1)],
            ["0", "zzz"],
        ],
        ids=["today", "yesterday and today", "today and tomorrow", "a day without a partition", "other ids"],
    )
    async def test_finished_jobs_are_not_enqueued_again(self, ids: list[str]) -> None:
        jobs = [new_job(id=id) for id in ids]
        async with self.opened(NOW - DAY) as store:
            await ended(store, jobs, NOW)
            await enqueue_again(store, *jobs)
            await check_ended_once(store, *jobs)

    async def test_finished_job_is_found_after_its_partition_is_dropped(self) -> None:
        kept, gone = new_job(id=an_id(THEN, 2)), new_job(id=an_id(THEN, 1))
        async with self.opened(THEN) as store, self.opened(THEN) as other:
            await ended(store, [gone], THEN)
            await ended(store, [kept], THEN + timedelta(seconds=1))
            await put(store, gone)
            assert await pruned_in_bulk(other, {(State.COMPLETED, "task"): (1, NOW - DAY)}, now=NOW) == 1
            assert names([OLDEST])[0] not in self.parts()
            assert self.lies_in(kept.id) == ["rest"]
            await enqueue_again(store, kept)
            await check_ended_once(store, kept)

    async def test_role_with_rights_on_the_partitioned_table_alone_searches_all_partitions(self) -> None:
        async with self.opened() as store:
            job = new_job(id=an_id(NOW, 1))
            await ended(store, [job], NOW)
        self.server.run("DROP ROLE IF EXISTS producer")
        self.server.run("CREATE ROLE producer LOGIN")
        self.server.run("GRANT USAGE ON SCHEMA dated TO producer")
        self.server.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dated TO producer")
        self.server.run(f"REVOKE ALL ON dated.{TODAY.table} FROM producer")
        try:
            store = open_store(self.url.replace("tests@", "producer@"), clock=Then())
            await store.open()
            await enqueue_again(store, job)
            await store.close()
        finally:
            self.server.run("DROP OWNED BY producer")
            self.server.run("DROP ROLE producer")
        async with self.opened() as store:
            await check_ended_once(store, job)

    async def test_process_without_beats_learns_of_new_partitions(self) -> None:
        before = NOW - 30 * DAY
        async with self.opened(before) as store:
            id = an_id(NOW, 1)
            asked = cast(PostgresStore, store)._finished_table
            assert await asked(id, id, before) == FINISHED
            async with self.opened():
                pass
            assert await asked(id, id, before + CHECK_EVERY / 2) == FINISHED
            assert await asked(id, id, before + CHECK_EVERY) == TODAY.table
