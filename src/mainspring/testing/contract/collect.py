"""enqueue: jobs that collect the items of several requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from ...records.job import Action, Collecting, Enqueued, Job, NewJob, State
from ...records.outcome import Discard, Done, Retry
from ...records.query import Update
from ...store import Store
from .build import (
    NOW,
    Contract,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    job_in_state,
    later,
    new_job,
    put,
    read_job,
    start,
)
from .sentences import proves

KEY = "task:collect"
BOUNDS: dict[str, Any] = {"size": 3, "delay": 10.0, "grace": 4.0, "max_bytes": 1000}


def items(*values: Any, run_at: float = 4, fields: Mapping[str, Any] | None = None, **bounds: Any) -> NewJob:
    """A request that adds these items."""
    collect = Collecting(count=len(values), **{**BOUNDS, **bounds})
    payload = msgspec.json.encode({"items": values}).decode()
    return new_job(
        payload=payload,
        collect=collect,
        run_at=later(run_at),
        **{"unique_key": KEY, "fingerprint": "0011223344", **(fields or {})},
    )


def held(job: Job) -> Any:
    """The items of a job."""
    return msgspec.json.decode(job.payload)["items"]


async def all_items(store: Store) -> list[Any]:
    return [held(job) for job in await all_jobs(store)]


class CollectContract(Contract):
    @proves("E18")
    async def test_items_are_added_to_the_job_that_collects_under_their_key(self) -> None:
        async with self.opened() as store:
            first, second = items("a", "ü ]}"), items({"b": [1]}, run_at=5)
            assert await store.enqueue([first], now=NOW) == [Enqueued(first.id)]
            assert await store.enqueue([second], now=later(1)) == [Enqueued(first.id, "collected", KEY)]
            (job,) = await all_jobs(store)
            assert (held(job), job.state, job.created_at) == (["a", "ü ]}", {"b": [1]}], State.PENDING, NOW)
            assert job.collect == Collecting(count=3, **BOUNDS)

    @proves("E18")
    async def test_items_of_other_keys_are_in_jobs_of_their_own(self) -> None:
        async with self.opened() as store:
            await put(store, items(1), items(2, fields={"unique_key": "other"}), items(3))
            assert sorted(await all_items(store)) == [[1, 3], [2]]

    @proves("E18", "E19")
    async def test_a_paused_job_collects_and_stays_paused(self) -> None:
        async with self.opened() as store:
            first = items(1)
            await put(store, first)
            await act(store, Action.PAUSE, first.id)
            assert (await store.enqueue([items(2)], now=later(1)))[0].status == "collected"
            assert (await store.enqueue([items(3)], now=later(1)))[0].status == "collected"
            job = await read_job(store, first.id)
            assert (held(job), job.state, job.unique_key) == ([1, 2, 3], State.PAUSED, None)

    @proves("E9")
    async def test_a_repeated_first_request_adds_nothing(self) -> None:
        async with self.opened() as store:
            first = items(1)
            await put(store, first)
            assert await store.enqueue([first], now=later(1)) == [Enqueued(first.id)]
            assert await all_items(store) == [[1]]

    @proves("E19")
    async def test_each_item_moves_the_time_up_to_the_delay_after_the_first(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, items(1, size=9))
            assert (await read_job(store, id)).run_at == later(4)
            await put(store, items(2, size=9), now=later(3))
            assert (await read_job(store, id)).run_at == later(7)
            await put(store, items(3, size=9), now=later(6.5))
            assert (await read_job(store, id)).run_at == later(10)
            await beat(store)
            assert (await claim(store, now=later(9.9))).jobs == []
            assert [job.id for job in (await claim(store, now=later(10))).jobs] == [id]

    @proves("E19")
    async def test_without_grace_only_the_first_item_counts(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, items(1, run_at=10, grace=None))
            await put(store, items(2, run_at=17, grace=None), now=later(7))
            assert (await read_job(store, id)).run_at == later(10)

    @proves("E19")
    async def test_a_full_job_is_due_at_once_and_the_next_item_begins_another(self) -> None:
        async with self.opened() as store:
            first, fourth = items(1), items(4)
            await put(store, first, items(2))
            assert (await store.enqueue([items(3)], now=later(1)))[0].status == "collected"
            full = await read_job(store, first.id)
            assert (full.run_at, full.unique_key, held(full)) == (later(1), None, [1, 2, 3])
            assert await store.enqueue([fourth], now=later(1)) == [Enqueued(fourth.id)]
            assert (await read_job(store, fourth.id)).unique_key == KEY
            await beat(store)
            assert [held(job) for job in (await claim(store, now=later(1))).jobs] == [[1, 2, 3]]

    @proves("E3", "E19")
    async def test_a_batch_fills_one_job_after_the_other(self) -> None:
        async with self.opened() as store:
            batch = [items(n) for n in range(8)]
            answers = await store.enqueue(batch, now=NOW)
            assert [answer.status for answer in answers] == ["new", "collected", "collected"] * 2 + ["new", "collected"]
            assert [answer.id for answer in answers] == [batch[n // 3 * 3].id for n in range(8)]
            assert await all_items(store) == [[0, 1, 2], [3, 4, 5], [6, 7]]

    @proves("E20")
    @pytest.mark.parametrize(
        "change", [{"max_bytes": 30}, {"fields": {"fingerprint": "other"}, "size": 9}, {"size": 2}], ids=str
    )
    async def test_items_that_do_not_go_into_a_job_begin_another(self, change: Any) -> None:
        async with self.opened() as store:
            first, second = items("0123456789"), items("abc", "def", **change)
            await put(store, first)
            assert await store.enqueue([second], now=later(1)) == [Enqueued(second.id)]
            one, other = await read_job(store, first.id), await read_job(store, second.id)
            assert (held(one), one.run_at, one.unique_key) == (["0123456789"], later(1), None)
            assert (held(other), other.run_at, other.unique_key) == (["abc", "def"], later(4), KEY)

    @proves("E20")
    async def test_the_bound_is_in_bytes_and_may_be_reached(self) -> None:
        async with self.opened() as store:
            umlauts = "ü" * 10  # three of them have fewer characters than two have bytes
            size = len(f'{{"items":["{umlauts}","{umlauts}"]}}'.encode())
            await put(store, *(items(umlauts, size=9, max_bytes=size) for _ in range(3)))
            assert await all_items(store) == [[umlauts] * 2, [umlauts]]
            for _ in range(3):
                await put(store, items(umlauts, size=9, max_bytes=size, fields={"unique_key": "other"}))
            assert (await all_items(store))[2:] == [[umlauts] * 2, [umlauts]]

    @proves("E21")
    @pytest.mark.parametrize("end", [None, Retry(5), Done(), Discard("bad")], ids=str)
    async def test_a_job_that_was_claimed_takes_no_more_items_and_keeps_its_own(self, end: Any) -> None:
        async with self.opened() as store:
            first, second, third = items(1), items(2), items(3)
            await put(store, first)
            running = await claim_job(store, first.id, now=later(4))
            assert (held(running), running.collect) == ([1], Collecting(count=1, **BOUNDS))
            if end is not None:
                await finish_run(store, running, end, now=later(5))
            assert await store.enqueue([second], now=later(5)) == [Enqueued(second.id)]
            assert await store.enqueue([third], now=later(5)) == [Enqueued(second.id, "collected", KEY)]
            if end is None:
                assert await finish_run(store, running, Done(), now=later(6)) == {first.id}
            assert await all_items(store) == [[1], [2, 3]]
            assert (await store.enqueue([items(4)], now=later(7)))[0].status == "collected"

    @proves("E21")
    async def test_a_claimed_job_takes_no_more_items_of_a_caller_whose_clock_is_behind(self) -> None:
        async with self.opened() as store:
            first, second = (items(n, run_at=10, size=9, grace=None) for n in (1, 2))
            await put(store, first)
            await claim_job(store, first.id, now=later(10))
            assert await store.enqueue([second], now=later(9)) == [Enqueued(second.id)]
            assert await all_items(store) == [[1], [2]]

    @proves("E21")
    async def test_a_retry_keeps_the_items(self) -> None:
        async with self.opened() as store:
            first = items(1, 2)
            await put(store, first)
            await finish_run(store, await claim_job(store, first.id, now=later(4)), Retry(5), now=later(5))
            await put(store, items(3, run_at=10.5), now=later(6))
            again = await claim_job(store, first.id, now=later(10))
            assert (held(again), again.attempt) == ([1, 2], 2)

    @proves("E21")
    @pytest.mark.parametrize("state", [State.PENDING, State.RUNNING, State.PAUSED])
    async def test_the_key_of_a_job_that_does_not_collect_stays_its_own(self, state: State) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, state, unique_key=KEY)
            new = items(1)
            assert await store.enqueue([new], now=NOW) == [Enqueued(new.id)]
            assert await read_job(store, before.id) == before
            assert (await read_job(store, new.id)).unique_key is None

    @proves("E22")
    @pytest.mark.parametrize("update", [{"run_at": later(60)}, {"payload": '{"items":[9]}'}, {"priority": 5}], ids=str)
    async def test_a_job_that_was_updated_takes_no_more_items(self, update: Any) -> None:
        async with self.opened() as store:
            first, second = items(1), items(2)
            await put(store, first)
            await act(store, Action.UPDATE, first.id, update=Update(**update))
            assert await store.enqueue([second], now=NOW) == [Enqueued(second.id)]
            job = await read_job(store, first.id)
            assert {name: getattr(job, name) for name in update} == update
            assert (await read_job(store, second.id)).unique_key == KEY

    @proves("E22")
    async def test_a_dead_job_is_retried_with_its_items_while_another_one_collects(self) -> None:
        async with self.opened() as store:
            first, second = items(1, 2), items(3, run_at=10)
            await put(store, first)
            await finish_run(store, await claim_job(store, first.id, now=later(4)), Discard("bad"), now=later(5))
            await put(store, second, now=later(6))
            assert (await act(store, Action.RETRY, first.id, now=later(6))).done == [first.id]
            assert held(await claim_job(store, first.id, now=later(6))) == [1, 2]
            assert await store.enqueue([items(4)], now=later(7)) == [Enqueued(second.id, "collected", KEY)]

    @proves("E18")
    async def test_of_concurrent_requests_none_is_lost_and_none_is_there_twice(self) -> None:
        async with self.opened() as store:
            await asyncio.gather(*(store.enqueue([items(n, size=7)], now=NOW) for n in range(60)))
            found = await all_items(store)
            assert sorted(n for some in found for n in some) == list(range(60))
            assert sorted(map(len, found)) == [4] + [7] * 8

    @proves("E18", "E21")
    async def test_requests_and_claims_at_once_lose_no_item(self) -> None:
        async with self.opened() as store:
            await beat(store)
            ran = list[Any]()

            async def run_all() -> None:
                for job in (await claim(store, now=later(9), limit=100)).jobs:
                    ran.append(held(job))
                    await finish_run(store, job, Done(), now=later(9))

            for start_at in range(0, 60, 10):
                batch = [store.enqueue([items(n, size=4, run_at=0)], now=NOW) for n in range(start_at, start_at + 10)]
                await asyncio.gather(*batch, run_all(), run_all())
            while sum(map(len, ran)) < 60:
                before = len(ran)
                await run_all()
                assert len(ran) > before
            assert sorted(n for some in ran for n in some) == list(range(60))

    @proves("E18", "E6")
    async def test_a_cancelled_job_takes_no_more_items(self) -> None:
        async with self.opened() as store:
            first, second = items(1), items(2)
            await put(store, first)
            await act(store, Action.CANCEL, first.id)
            assert await store.enqueue([second], now=NOW) == [Enqueued(second.id)]

    @proves("E21")
    async def test_other_jobs_run_beside_one_that_collects(self) -> None:
        async with self.opened() as store:
            await put(store, items(1))
            job = await start(store)
            await finish_run(store, job, Done())
            assert (await read_job(store, job.id)).state is State.COMPLETED
