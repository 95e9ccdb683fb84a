"""Fences that only an unlucky order of events puts to the test; scripts/mutate asked for them."""

import asyncio
from pathlib import Path

import pytest

from mainspring.errors import StoreError
from mainspring.job import Action, State
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.contract.build import (
    Contract,
    act,
    beat,
    bring,
    claim,
    everything,
    later,
    new_job,
    put,
    see,
    start,
)
from servers import Postgres, Redis


class Fences(Contract):
    @pytest.mark.parametrize("action", [Action.CANCEL, Action.DELETE])
    async def test_whatever_is_done_to_the_former_holder_of_a_key_the_new_one_keeps_it(self, action: Action) -> None:
        async with self.opened() as store:
            former = await bring(store, State.CANCELLED, unique_key="k")
            (holder,) = await put(store, new_job(unique_key="k"))
            await act(store, action, former.id)
            (answer,) = await store.enqueue([new_job(unique_key="k")], now=later(1))
            assert (answer.id, answer.status) == (holder, "duplicate")

    async def test_the_first_reason_for_a_cancel_counts(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id, reason="the first")
            await act(store, Action.CANCEL, job.id, reason="the second")
            assert (await see(store, job.id)).cancel_reason == "the first"
            assert (await beat(store)).cancels == {job.id: "the first"}

    async def test_jobs_of_several_queues_wait_for_their_time_behind_those_that_are_due(self) -> None:
        async with self.opened() as store:
            queues = ("one", "two")
            due = await put(store, *(new_job(queue=queue) for queue in queues))
            await put(store, *(new_job(queue=queue, run_at=later(9)) for queue in queues))
            await beat(store)
            assert [job.id for job in (await claim(store)).jobs] == due

    async def test_running_jobs_of_several_queues_are_not_claimed_again(self) -> None:
        async with self.opened() as store:
            queues = ("one", "two")
            running = await put(store, *(new_job(queue=queue) for queue in queues))
            await beat(store)
            assert [job.id for job in (await claim(store)).jobs] == running
            waiting = await put(store, *(new_job(queue=queue) for queue in queues))
            assert [job.id for job in (await claim(store)).jobs] == waiting

    @pytest.mark.parametrize("queues", [("one",), ("one", "two")], ids=len)
    async def test_a_flood_of_jobs_past_their_expires_at_runs_none_of_them(self, queues: tuple[str, ...]) -> None:
        # More than a claim may end at once, all due before the one that may still run.
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

    async def test_a_verb_that_fails_half_way_leaves_nothing_and_harms_no_other(self) -> None:
        async with self.opened() as store:
            # What SQLite cannot hold, behind a job that it can: keys make it one statement a job.
            half = [new_job(unique_key="good"), new_job(unique_key="bad", payload=object())]
            calls = [put(store, new_job()), store.enqueue(half, now=later(0)), put(store, new_job())]
            first, failed, last = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(failed, Exception)
            assert [job.id for job in await everything(store)] == [*first, *last]


class TestPostgresFences(Fences):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.url = postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)

    async def test_a_verb_that_fails_half_way_leaves_nothing_and_harms_no_other(self) -> None:
        async with self.opened() as store:
            half = [new_job(unique_key="good"), new_job(unique_key="bad", payload="\0")]
            calls = [put(store, new_job()), store.enqueue(half, now=later(0)), put(store, new_job())]
            first, failed, last = await asyncio.gather(*calls, return_exceptions=True)
            assert isinstance(failed, StoreError)
            assert [job.id for job in await everything(store)] == sorted([*first, *last])


class TestRedisFences(Fences):
    @pytest.fixture(autouse=True)
    def _server(self, redis: Redis) -> None:
        self.url = redis.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)
