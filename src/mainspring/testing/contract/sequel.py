"""What an accepted outcome enqueues, in the same step and once."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ...records.job import Action, State
from ...records.outcome import Crashed, Discard, Done, Retry, RunEnd, Snooze, decide
from ...records.query import Filter
from .build import NOW, Contract, act, beat, claimed, everything, later, new_job, put, run_again, see, settle, start


class SequelContract(Contract):
    @pytest.mark.parametrize("ended", [Done(), Retry(5), Snooze(5), Discard()], ids=lambda ended: type(ended).__name__)
    async def test_an_accepted_outcome_enqueues_what_comes_next(self, ended: Any) -> None:
        async with self.opened() as store:
            job, after = await start(store), (new_job(), new_job(run_at=later(5), tags=("x",)))
            assert await settle(store, job, ended, now=later(1), then=after) == {job.id}
            first, second = [await see(store, new.id) for new in after]
            assert (first.state, first.run_at, first.created_at) == (State.PENDING, later(1), later(1))
            assert (second.run_at, second.created_at, second.tags) == (later(5), later(1), ("x",))

    async def test_what_comes_next_can_be_claimed(self) -> None:
        async with self.opened() as store:
            job, after = await start(store), new_job()
            assert await claimed(store) == []
            await settle(store, job, Done(), now=later(1), then=(after,))
            assert await claimed(store, now=later(1)) == [after.id]

    async def test_a_refused_outcome_enqueues_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await settle(store, replace(job, lease="another"), Done(), then=(new_job(),)) == set()
            assert await settle(store, job, Crashed("ada", 3), now=NOW, then=(new_job(),)) == set()
            assert await everything(store) == [job]

    async def test_a_late_outcome_enqueues_nothing(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await settle(store, job, Crashed("ada", 3), now=NOW)
            await settle(store, job, Done(), then=(new_job(),))
            assert [found.id for found in await everything(store)] == [job.id]

    async def test_an_outcome_told_again_enqueues_nothing_again(self) -> None:
        async with self.opened() as store:
            job, after = await start(store), new_job()
            told = replace(decide(job, Done(), now=NOW), then=(after,))
            await store.finish([told])
            await settle(store, await run_again(store, after.id), Done(), now=NOW)
            await act(store, Action.DELETE, after.id)
            assert await store.finish([told]) == await store.finish([told, told]) == {job.id}
            assert [found.id for found in await everything(store)] == [job.id]

    async def test_an_outcome_told_twice_in_one_call_enqueues_once(self) -> None:
        async with self.opened() as store:
            job, after = await start(store), new_job()
            told = [replace(decide(job, Done(), now=NOW), then=(after,)), decide(job, Done(), now=NOW)]
            assert await store.finish(told) == {job.id}
            assert len(await everything(store)) == 2

    async def test_each_outcome_of_a_call_brings_its_own(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(4)]
            after = [new_job() for _ in jobs]
            how: list[RunEnd] = [Done(), Retry(5), Done(), Discard()]
            outcomes = [replace(decide(job, ended, now=NOW), then=(new,))
                        for job, ended, new in zip(jobs, how, after, strict=True)]  # fmt: skip
            outcomes[2] = replace(outcomes[2], lease="another")
            assert await store.finish(outcomes) == {jobs[n].id for n in (0, 1, 3)}
            found = await store.jobs(Filter(ids=tuple(new.id for new in after)), now=NOW, limit=9)
            assert [job.id for job in found] == [after[n].id for n in (0, 1, 3)]

    # keys

    async def test_the_key_of_a_job_that_ends_is_free_for_what_comes_next(self) -> None:
        async with self.opened() as store:
            job, after = await start(store, unique_key="key"), new_job(unique_key="key")
            await settle(store, job, Done(), then=(after,))
            assert (await see(store, after.id)).state is State.PENDING

    async def test_a_key_that_is_held_keeps_its_holder_and_the_outcome_stands(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="key", run_at=later(30)))
            job = await start(store)
            assert await settle(store, job, Done(), then=(new_job(unique_key="key"),)) == {job.id}
            assert [found.id for found in await everything(store)] == [holder, job.id]

    async def test_all_that_comes_next_is_enqueued_or_if_one_is_refused_none_and_the_outcome_stands(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="key", run_at=later(30)))
            job = await start(store)
            after = (new_job(), new_job(unique_key="key", on_conflict="raise"), new_job())
            assert await settle(store, job, Done(), then=after) == {job.id}
            assert [found.id for found in await everything(store)] == [holder, job.id]
            assert (await see(store, job.id)).state is State.COMPLETED

    async def test_outcomes_of_a_call_are_settled_in_order_with_what_comes_next(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store, unique_key="key")
            early, late = new_job(unique_key="key"), new_job(unique_key="key")
            outcomes = [replace(decide(first, Done(), now=NOW), then=(early,)),
                        replace(decide(second, Done(), now=NOW), then=(late,))]  # fmt: skip
            await store.finish(outcomes)
            assert [found.id for found in await everything(store)] == [first.id, second.id, late.id]
