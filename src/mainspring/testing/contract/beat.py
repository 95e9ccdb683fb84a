"""beat, workers and orphaned: which workers are alive, what they hold, and whose runs are lost."""

from __future__ import annotations

from datetime import datetime

import pytest

from ...records.job import Action, State
from ...records.outcome import Crashed, Done, Retry
from ...records.worker import WorkerCommands, WorkerRow
from .build import (
    NOW,
    Contract,
    a_worker,
    act,
    beat,
    claim,
    claim_ids,
    finish_run,
    later,
    new_job,
    put,
    read_job,
    start,
)
from .sentences import proves


class BeatContract(Contract):
    @proves("B5", "WR1")
    async def test_a_worker_that_beats_is_listed_with_its_info(self) -> None:
        async with self.opened() as store:
            info = a_worker("ada", queues=("a", "b"), tasks=("x", "y"), host="hôst", pid=7, running=3)
            await store.beat(info, until=later(20.000001), now=NOW)
            assert await store.workers(now=NOW) == [WorkerRow(info, later(20.000001))]

    @proves("B5")
    async def test_a_worker_has_one_row_with_its_latest_beat(self) -> None:
        async with self.opened() as store:
            await beat(store, until=later(20))
            info = a_worker(running=5)
            await store.beat(info, until=later(25), now=later(5))
            assert await store.workers(now=later(5)) == [WorkerRow(info, later(25))]

    @proves("B2")
    async def test_a_beat_that_arrives_late_does_not_shorten_the_lease(self) -> None:
        async with self.opened() as store:
            info = a_worker(running=5, beats=12)
            await store.beat(info, until=later(25), now=later(5))
            await store.beat(a_worker(running=1, beats=9), until=later(20), now=NOW)
            assert await store.workers(now=later(24)) == [WorkerRow(info, later(25))]

    @proves("B5")
    async def test_a_later_beat_may_shorten_the_lease(self) -> None:
        async with self.opened() as store:
            await store.beat(a_worker(beats=1), until=later(3600), now=NOW)
            await store.beat(a_worker(beats=2), until=later(20), now=NOW)
            assert await store.workers(now=later(20)) == []

    @proves("WR1")
    async def test_workers_are_listed_by_id(self) -> None:
        async with self.opened() as store:
            for name in ("cyd", "ada", "bob"):
                await beat(store, name)
            assert [worker.info.id for worker in await store.workers(now=NOW)] == ["ada", "bob", "cyd"]

    @proves("WR1")
    async def test_a_worker_whose_lease_has_lapsed_is_not_listed(self) -> None:
        async with self.opened() as store:
            await beat(store, until=later(20))
            assert len(await store.workers(now=later(19.999999))) == 1
            assert await store.workers(now=later(20)) == []

    @proves("B3", "OR1")
    @pytest.mark.parametrize("until", [NOW, later(-1)], ids=["now", "past"])
    async def test_a_beat_that_does_not_reach_past_now_removes_the_worker(self, until: datetime) -> None:
        async with self.opened() as store:
            job = await start(store)
            await store.beat(a_worker(), until=until, now=NOW)
            assert await store.workers(now=later(-5)) == []
            assert [lost.id for lost in await store.orphaned(now=NOW, limit=10)] == [job.id]

    @proves("B6", "OR1")
    async def test_a_worker_silent_for_a_day_is_removed_and_its_runs_are_still_found(self) -> None:
        async with self.opened() as store:
            job = await start(store, worker="ada")
            await beat(store, "ada", until=later(20))
            await store.command_workers(["ada"], WorkerCommands(drained=True), now=NOW)
            await beat(store, "bob", until=later(90_000), now=later(86_420))
            assert [lost.id for lost in await store.orphaned(now=later(86_420), limit=10)] == [job.id]
            reply = await store.beat(a_worker("ada"), until=later(90_000), now=later(86_420))
            assert reply.orders == WorkerCommands()

    @proves("B3", "C5")
    async def test_a_worker_that_left_claims_nothing(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            await beat(store)
            await beat(store, until=NOW)
            assert (await claim(store)).jobs == []

    @proves("V11")
    async def test_the_last_beat_of_an_unknown_worker_is_no_error(self) -> None:
        async with self.opened() as store:
            reply = await beat(store, until=NOW)
            assert (reply.holds, reply.cancels) == ({}, {})

    # what a beat returns

    @proves("B1")
    async def test_a_beat_returns_the_jobs_and_leases_of_the_worker(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await start(store, worker="bob")
            assert (await beat(store)).holds == {first.id: first.lease, second.id: second.lease}

    @proves("B1", "V3")
    async def test_a_claim_whose_reply_was_lost_is_returned_by_the_next_beat(self) -> None:
        async with self.opened() as store:
            ids = await put(store, new_job(), new_job())
            await claim_ids(store)
            assert sorted((await beat(store)).holds) == ids

    @proves("B1")
    async def test_a_beat_does_not_return_a_run_that_has_ended(self) -> None:
        async with self.opened() as store:
            first, second = await start(store), await start(store)
            await finish_run(store, first, Done())
            await finish_run(store, second, Retry(5))
            assert (await beat(store)).holds == {}

    @proves("B1")
    async def test_a_beat_does_not_return_a_run_lost_to_another_worker(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 3), now=NOW)
            await claim_ids(store, "bob")
            assert (await beat(store)).holds == {}

    @proves("B1")
    async def test_a_cancel_of_a_running_job_is_returned_by_the_beat_of_its_worker(self) -> None:
        async with self.opened() as store:
            job, other = await start(store), await start(store, worker="bob")
            await act(store, Action.CANCEL, job.id, reason="no longer needed")
            reply = await beat(store)
            assert reply.cancels == {job.id: "no longer needed"}
            assert reply.holds == {job.id: job.lease}
            reply = await beat(store, "bob")
            assert (reply.holds, reply.cancels) == ({other.id: other.lease}, {})

    @proves("B1")
    async def test_a_cancel_without_a_reason_is_returned_by_a_beat(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            assert (await beat(store)).cancels == {job.id: ""}

    @proves("B1")
    async def test_a_cancel_is_returned_by_every_beat_until_the_run_has_ended(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id, reason="stop")
            assert (await beat(store)).cancels == (await beat(store)).cancels == {job.id: "stop"}
            await finish_run(store, job, Done())
            assert (await beat(store)).cancels == {}

    # expired

    @proves("OR1")
    async def test_runs_of_a_silent_worker_are_expired(self) -> None:
        async with self.opened() as store:
            await beat(store, until=later(20))
            ids = await put(store, new_job(), new_job())
            lost = (await claim(store)).jobs
            assert sorted(job.id for job in lost) == ids
            found = await store.orphaned(now=later(21), limit=10)
            assert sorted(found, key=lambda job: job.id) == lost

    @proves("OR1")
    async def test_runs_of_a_living_worker_are_not_expired(self) -> None:
        async with self.opened() as store:
            await start(store)
            await beat(store, until=later(20))
            assert await store.orphaned(now=later(19.999999), limit=10) == []

    @proves("C5", "OR1")
    async def test_a_worker_is_silent_at_the_very_instant_its_lease_lapses(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=later(20))
            assert [lost.id for lost in await store.orphaned(now=later(20), limit=10)] == [job.id]

    @proves("OR1")
    async def test_only_running_jobs_of_the_silent_worker_are_expired(self) -> None:
        async with self.opened() as store:
            done, lost, _ = await start(store), await start(store), await start(store, worker="bob")
            await put(store, new_job())
            await finish_run(store, done, Done())
            await beat(store, until=later(5))
            assert [job.id for job in await store.orphaned(now=later(9), limit=10)] == [lost.id]

    @proves("OR1")
    async def test_expired_returns_no_more_runs_than_its_limit(self) -> None:
        async with self.opened() as store:
            for _ in range(3):
                await start(store)
            await beat(store, until=NOW)
            assert len(await store.orphaned(now=NOW, limit=2)) == 2

    @proves("F2")
    async def test_a_beat_before_the_crash_is_reported_saves_the_run(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=later(20))
            (lost,) = await store.orphaned(now=later(21), limit=10)
            await beat(store, until=later(41), now=later(21.5))
            assert await finish_run(store, lost, Crashed("ada", 3), now=later(21)) == set()
            assert await read_job(store, job.id) == job
            assert await store.orphaned(now=later(22), limit=10) == []
            assert await finish_run(store, job, Done(), now=later(22)) == {job.id}

    @proves("F1")
    async def test_a_silent_worker_may_still_finish_its_run(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=later(20))
            assert await finish_run(store, job, Done(), now=later(30)) == {job.id}
            assert (await read_job(store, job.id)).state is State.COMPLETED
