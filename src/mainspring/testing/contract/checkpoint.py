"""Checkpoints: the stored values of durable steps, accepted only under the lease, kept as long as their job."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from msgspec.structs import replace

from ...ids import JobId
from ...records.job import Action, Job, OnConflict, State
from ...records.outcome import Crashed, Discard, Done, Released, Retry, RunEnd, Snooze, Suspend
from ...records.query import Update
from ...records.run import Checkpoint, RunReport
from ...store import FlowStore, Store
from .build import (
    NOW,
    Contract,
    act,
    all_jobs,
    beat,
    claim_job,
    finish_run,
    later,
    new_job,
    put,
    read_job,
    send_report,
    start,
)
from .report import ending_name
from .sentences import proves


def a_checkpoint(n: int, name: str = "", value: str = "1") -> Checkpoint:
    return Checkpoint(n, name or f"step{n}", later(0.000001 * n), value)


async def checkpoints(store: Store, job_id: JobId, **page: Any) -> list[Checkpoint]:
    assert store.capabilities.flows
    return await cast(FlowStore, store).checkpoints(job_id, **page)


async def keep(store: Store, job: Job, *kept: Checkpoint) -> bool:
    """Reports checkpoints under the job's own lease."""
    return job.id in await send_report(store, job, checkpoints=kept)


class CheckpointContract(Contract):
    @proves("R5", "CP1")
    async def test_checkpoints_are_returned_as_they_were_reported(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            texts = ["null", '"é 🕰"', '{"a": [1, 2.5]}', '"it\'s \\"quoted\\" %s\\n"', f'"{"x" * 100_000}"']
            kept = [a_checkpoint(n, f"name#{n} é", text) for n, text in enumerate(texts, 1)]
            assert await keep(store, job, *kept)
            assert await checkpoints(store, job.id) == kept

    @proves("R5", "V10")
    async def test_checkpoints_are_visible_during_the_run_and_change_nothing_else(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            before = await all_jobs(store)
            await keep(store, job, a_checkpoint(1))
            assert await all_jobs(store) == before
            assert await checkpoints(store, job.id) == [a_checkpoint(1)]

    @proves("CP1")
    async def test_checkpoints_are_paged_by_number_in_whatever_order_they_came(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            for n in (11, 2, 1, 10):
                await keep(store, job, a_checkpoint(n))
            assert [one.n for one in await checkpoints(store, job.id)] == [1, 2, 10, 11]
            assert [one.n for one in await checkpoints(store, job.id, after=1, limit=2)] == [2, 10]
            assert [one.n for one in await checkpoints(store, job.id, after=10)] == [11]

    @proves("R5")
    async def test_of_a_checkpoint_that_is_reported_twice_the_first_version_is_kept(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await keep(store, job, a_checkpoint(1, "a", "1"))
            assert await keep(store, job, a_checkpoint(2, "a", "2"), a_checkpoint(3, "b", "3"))
            assert await keep(store, job, a_checkpoint(4, "c", "4"), a_checkpoint(5, "c", "5"))
            values = [(one.name, one.value) for one in await checkpoints(store, job.id)]
            assert values == [("a", "1"), ("b", "3"), ("c", "4")]

    @proves("R5")
    async def test_equal_names_of_two_jobs_are_two_checkpoints(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await keep(store, first, a_checkpoint(1, "a", "1"))
            await keep(store, second, a_checkpoint(1, "a", "2"))
            assert [one.value for one in await checkpoints(store, first.id)] == ["1"]
            assert [one.value for one in await checkpoints(store, second.id)] == ["2"]

    @proves("V11")
    async def test_an_unknown_job_has_no_checkpoints(self) -> None:
        async with self.opened() as store:
            assert await checkpoints(store, new_job().id) == []

    # the fence

    async def _refuses_checkpoint(self, store: Store, job: Job) -> None:
        assert not await keep(store, job, a_checkpoint(9, "late"))
        assert [one.name for one in await checkpoints(store, job.id)] == []

    @proves("R1")
    async def test_a_checkpoint_under_another_lease_is_refused(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await self._refuses_checkpoint(store, replace(first, lease="another"))
            await self._refuses_checkpoint(store, replace(second, lease=first.lease))

    @proves("R1")
    @pytest.mark.parametrize("ended", [Done(), Retry(5), Snooze(5), Released(), Discard()], ids=ending_name)
    async def test_a_checkpoint_of_a_run_that_has_ended_is_refused(self, ended: RunEnd) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, ended, now=NOW)
            await self._refuses_checkpoint(store, job)

    @proves("R1")
    async def test_a_checkpoint_of_a_lost_lease_is_refused_though_the_job_runs_again(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 3), now=NOW)
            again = await claim_job(store, job.id, worker="bob")
            await self._refuses_checkpoint(store, job)
            assert await keep(store, again, a_checkpoint(1))

    @proves("R1")
    async def test_each_report_of_a_batch_is_accepted_under_its_own_lease(self) -> None:
        async with self.opened() as store:
            first, second, ended = [await start(store) for _ in range(3)]
            await finish_run(store, ended, Done())
            sent = (first, replace(second, lease=first.lease), ended)
            kept = (a_checkpoint(1),)
            reports = [RunReport(id=job.id, lease=job.lease or "", checkpoints=kept) for job in sent]
            assert await store.report(reports) == {first.id}
            assert [len(await checkpoints(store, job.id)) for job in sent] == [1, 0, 0]

    @proves("R1")
    async def test_a_checkpoint_beside_the_rescue_of_its_run_is_stored_before_that_or_never(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(10)]
            await beat(store, until=NOW)

            async def rescue(job: Job) -> list[Checkpoint]:
                await finish_run(store, job, Crashed("ada", 3), now=NOW)
                return await checkpoints(store, job.id)

            for job in jobs:
                accepted, found = await asyncio.gather(keep(store, job, a_checkpoint(1)), rescue(job))
                assert found == await checkpoints(store, job.id) == [a_checkpoint(1)] * accepted

    # how long they stay

    @proves("E23")
    @pytest.mark.parametrize("wish", ["replace", "debounce"])
    async def test_a_job_that_gets_other_input_while_it_sleeps_has_no_checkpoints(self, wish: OnConflict) -> None:
        async with self.opened() as store:
            job = await start(store, unique_key="key")
            other = await start(store)
            for one in (job, other):
                await keep(store, one, a_checkpoint(1, "old"))
                await finish_run(store, one, Suspend(until=later(5)), now=NOW)
            request = new_job(unique_key="key", on_conflict=wish, payload='"new"')
            (answer,) = await store.enqueue([request], now=later(1))
            assert answer.id == job.id
            assert await checkpoints(store, job.id) == []
            assert len(await checkpoints(store, other.id)) == 1
            again = await claim_job(store, job.id, now=later(5))
            assert await keep(store, again, a_checkpoint(1, "old", "2"))
            assert [one.value for one in await checkpoints(store, job.id)] == ["2"]

    @proves("E2", "E23")
    async def test_a_refused_replacement_leaves_the_checkpoints(self) -> None:
        async with self.opened() as store:
            job = await start(store, unique_key="key")
            await put(store, new_job(unique_key="held"))
            await keep(store, job, a_checkpoint(1))
            await finish_run(store, job, Suspend(until=later(5)), now=NOW)
            request = new_job(unique_key="key", on_conflict="replace", payload='"new"')
            await store.enqueue([request, new_job(unique_key="held", on_conflict="raise")], now=later(1))
            assert await checkpoints(store, job.id) == [a_checkpoint(1)]

    @proves("R5")
    @pytest.mark.parametrize("ended", [Retry(0), Snooze(0), Released()], ids=ending_name)
    async def test_checkpoints_stay_through_further_runs(self, ended: RunEnd) -> None:
        async with self.opened() as store:
            job = await start(store)
            await keep(store, job, a_checkpoint(1))
            await finish_run(store, job, ended, now=NOW)
            again = await claim_job(store, job.id)
            assert await checkpoints(store, job.id) == [a_checkpoint(1)]
            await keep(store, again, a_checkpoint(2))
            assert await checkpoints(store, job.id) == [a_checkpoint(1), a_checkpoint(2)]

    @proves("R5")
    async def test_checkpoints_stay_after_the_end_and_through_a_retry_by_an_operator(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await keep(store, job, a_checkpoint(1))
            await finish_run(store, job, Discard())
            assert await checkpoints(store, job.id) == [a_checkpoint(1)]
            await act(store, Action.RETRY, job.id)
            assert await checkpoints(store, job.id) == [a_checkpoint(1)]

    @proves("R5")
    async def test_checkpoints_go_along_to_another_queue(self) -> None:
        async with self.opened() as store:
            job = await start(store, queue="from")
            await keep(store, job, a_checkpoint(1), a_checkpoint(2))
            await finish_run(store, job, Snooze(5), now=NOW)
            for queue in ("to", "q1", "q2", "q3"):
                update = Update(queue=queue)
                assert (await act(store, Action.UPDATE, job.id, update=update)).done == [job.id]
                assert await checkpoints(store, job.id) == [a_checkpoint(1), a_checkpoint(2)]

    @proves("A7")
    async def test_deleting_a_job_deletes_only_its_own_checkpoints(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store)
            for running in (job, other):
                await keep(store, running, a_checkpoint(1))
            await finish_run(store, job, Done())
            await act(store, Action.DELETE, job.id)
            assert await checkpoints(store, job.id) == []
            assert await checkpoints(store, other.id) == [a_checkpoint(1)]

    @proves("A7")
    async def test_a_job_with_the_id_of_a_deleted_one_has_no_checkpoints(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await keep(store, job, a_checkpoint(1))
            await finish_run(store, job, Done())
            await act(store, Action.DELETE, job.id)
            await put(store, new_job(id=job.id))
            assert await checkpoints(store, job.id) == []

    # attempts

    @proves("F4")
    async def test_attempts_and_crashes_are_counted_from_a_run_that_asks_for_it(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            for _ in range(2):
                await finish_run(store, job, Retry(0), now=NOW, crash=True)
                job = await claim_job(store, job.id)
            assert (job.attempt, job.crashes) == (3, 2)
            await finish_run(store, job, Retry(0), now=NOW, reset_attempts=True)
            job = await read_job(store, job.id)
            assert (job.attempt, job.crashes) == (1, 0)

    @proves("F4")
    async def test_a_refund_comes_after_attempts_are_reset(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Snooze(0), now=NOW, reset_attempts=True, crash=True)
            job = await read_job(store, job.id)
            assert (job.state, job.attempt, job.crashes) == (State.PENDING, 0, 1)
