"""Fences that only an unlucky order of events exercises; found with scripts/mutate."""

import asyncio
from pathlib import Path

import pytest

from clusters import RedisCluster
from mainspring.errors import StoreError
from mainspring.records.job import Action, State
from mainspring.records.outcome import Retry
from mainspring.records.query import Filter, Update
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    a_chunk,
    a_line,
    act,
    all_jobs,
    beat,
    claim,
    finish_run,
    job_in_state,
    later,
    make_suspect,
    new_job,
    put,
    read_job,
    send_report,
    start,
)
from servers import Postgres, Redis


class Fences(Contract):
    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE])
    async def test_cancel_or_delete_of_a_former_key_holder_leaves_the_key_with_its_new_holder(
        self, action: Action
    ) -> None:
        async with self.opened() as store:
            former = await job_in_state(store, State.CANCELLED, unique_key="k")
            (holder,) = await put(store, new_job(unique_key="k"))
            await act(store, action, former.id)
            (answer,) = await store.enqueue([new_job(unique_key="k")], now=later(1))
            assert (answer.id, answer.status) == (holder, "duplicate")

    async def test_a_second_cancel_keeps_the_first_reason(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id, reason="the first")
            await act(store, Action.CANCEL, job.id, reason="the second")
            assert (await read_job(store, job.id)).cancel_reason == "the first"
            assert (await beat(store)).cancels == {job.id: "the first"}

    async def test_claim_from_several_queues_takes_only_jobs_that_are_due(self) -> None:
        async with self.opened() as store:
            queues = ("one", "two")
            due = await put(store, *(new_job(queue=queue) for queue in queues))
            await put(store, *(new_job(queue=queue, run_at=later(9)) for queue in queues))
            await beat(store)
            assert [job.id for job in (await claim(store)).jobs] == due

    async def test_claim_by_priority_may_take_all_jobs_from_one_queue(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job(queue=f"queue {n % 3}") for n in range(30)))
            first = await put(store, *(new_job(queue="queue 1", priority=1) for _ in range(40)))
            await beat(store)
            assert [job.id for job in (await claim(store, limit=30)).jobs] == first[:30]

    async def test_running_jobs_of_several_queues_are_not_claimed_again(self) -> None:
        async with self.opened() as store:
            queues = ("one", "two")
            running = await put(store, *(new_job(queue=queue) for queue in queues))
            await beat(store)
            assert [job.id for job in (await claim(store)).jobs] == running
            waiting = await put(store, *(new_job(queue=queue) for queue in queues))
            assert [job.id for job in (await claim(store)).jobs] == waiting

    async def test_a_suspect_job_is_counted_and_listed_once(self) -> None:
        async with self.opened() as store:
            job_id = await make_suspect(store)
            assert (await store.overview(now=NOW)).states == {"retrying": 1}
            assert [job.id for job in await store.jobs(Filter(), now=NOW, limit=9, sort="due")] == [job_id]

    async def test_what_a_job_logged_wrote_and_ran_moves_with_it_to_another_queue(self) -> None:
        async with self.opened() as store:
            failed = await start(store)
            await send_report(store, failed, a_line(1), a_line(2), chunks=(a_chunk(1), a_chunk(2)))
            await finish_run(store, failed, Retry(0))
            runs = await store.executions(failed.id)
            for n in range(5):
                await act(store, Action.UPDATE, failed.id, update=Update(queue=f"queue {n}"))
            assert await store.logs(failed.id, limit=9) == [a_line(1), a_line(2)]
            assert await store.output(failed.id, limit=9) == [a_chunk(1), a_chunk(2)]
            assert await store.executions(failed.id) == runs

    async def test_claim_by_a_clock_that_was_set_back_takes_no_job_before_its_run_at(self) -> None:
        async with self.opened() as store:
            first, second = await put(store, *(new_job(run_at=later(5)) for _ in range(2)))
            await beat(store)
            assert [job.id for job in (await claim(store, limit=1, now=later(6))).jobs] == [first]
            answer = await claim(store, now=later(4))
            assert (answer.jobs, answer.next_at) == ([], later(5))
            assert [job.id for job in (await claim(store, now=later(6))).jobs] == [second]

    @pytest.mark.parametrize("queues", [("one",), ("one", "two")], ids=len)
    async def test_claim_expires_a_flood_of_jobs_past_their_expires_at_and_runs_none_of_them(
        self, queues: tuple[str, ...]
    ) -> None:
        # More than one claim may expire, all due before the job that may still run.
        async with self.opened() as store:
            flood = [new_job(queue=queue, expires_at=later(5)) for queue in queues for _ in range(1500)]
            await put(store, *flood)
            (due,) = await put(store, new_job(queue="one"), now=later(6))
            taken, ended = [], 0
            for second in range(7, 30):
                await beat(store, until=later(60), now=later(second))
                answer = await claim(store, limit=100, now=later(second))
                taken += [job.id for job in answer.jobs]
                ended += len(answer.expired)
                if ended == len(flood) and taken:
                    break
            assert (taken, ended) == ([due], len(flood))


class TestMemoryFences(Fences):
    def make_store(self) -> Store:
        return open_store("memory://")


class TestSqliteFences(Fences):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.tmp = tmp_path

    def make_store(self) -> Store:
        return open_store(f"sqlite:///{self.tmp}/jobs.db")

    async def test_an_enqueue_that_fails_half_way_stores_nothing_and_affects_no_other_call(self) -> None:
        async with self.opened() as store:
            # A job that SQLite cannot store, after one that it can: with keys there is one statement per job.
            half = [new_job(unique_key="good"), new_job(unique_key="bad", payload=object())]
            calls = [put(store, new_job()), store.enqueue(half, now=later(0)), put(store, new_job())]
            first, failed, last = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(failed, Exception)
            assert [job.id for job in await all_jobs(store)] == [*first, *last]


class TestPostgresFences(Fences):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.url = postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)

    async def test_an_enqueue_that_fails_half_way_stores_nothing_and_affects_no_other_call(self) -> None:
        async with self.opened() as store:
            half = [new_job(unique_key="good"), new_job(unique_key="bad", payload="\0")]
            calls = [put(store, new_job()), store.enqueue(half, now=later(0)), put(store, new_job())]
            first, failed, last = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(failed, StoreError)
            assert [job.id for job in await all_jobs(store)] == sorted([*first, *last])


class TestRedisClusterFences(Fences):
    @pytest.fixture(autouse=True)
    def _server(self, redis_cluster: RedisCluster) -> None:
        self.url = redis_cluster.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


class TestRedisFences(Fences):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.url = redis.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)
