"""claim: jobs come in order, no two claims share a job, and next_at says when to claim again."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from ...bounds import CLAIM_BYTES
from ...records.job import Action, State
from ...records.outcome import Done, Retry
from .build import (
    NOW,
    Contract,
    act,
    beat,
    claim,
    claim_ids,
    claim_job,
    finish_run,
    job_in_state,
    later,
    make_suspect,
    new_job,
    put,
    read_job,
    start,
)
from .sentences import proves


class ClaimContract(Contract):
    # order

    @proves("C6")
    async def test_the_highest_priority_is_claimed_first_and_negative_ones_last(self) -> None:
        async with self.opened() as store:
            given = [0, -32768, 5, -1, 32767, 1]
            await put(store, *(new_job(priority=priority) for priority in given))
            await beat(store)
            assert [job.priority for job in (await claim(store)).jobs] == sorted(given, reverse=True)

    @proves("C6")
    async def test_within_a_priority_the_earliest_run_at_is_claimed_first(self) -> None:
        async with self.opened() as store:
            times = [later(-1), later(-3), later(-2), later(-3.000001)]
            await put(store, *(new_job(run_at=at) for at in times))
            await beat(store)
            assert [job.run_at for job in (await claim(store)).jobs] == sorted(times)

    @proves("C6")
    async def test_within_a_run_at_the_smallest_id_is_claimed_first(self) -> None:
        async with self.opened() as store:
            jobs = [new_job() for _ in range(5)]
            await put(store, *reversed(jobs))
            assert await claim_ids(store) == [job.id for job in jobs]

    @proves("C6")
    async def test_priority_outweighs_run_at_and_run_at_outweighs_id(self) -> None:
        async with self.opened() as store:
            last, third = new_job(run_at=later(-9), priority=-1), new_job(run_at=later(-1))
            second, first = new_job(run_at=later(-2)), new_job(run_at=later(0), priority=1)
            await put(store, last, third, second, first)
            assert await claim_ids(store) == [first.id, second.id, third.id, last.id]

    @proves("C6")
    async def test_claim_order_holds_across_queues_and_tasks(self) -> None:
        async with self.opened() as store:
            where = [("a", "x", 1), ("b", "y", 4), ("a", "y", 3), ("b", "x", 2), ("c", "x", 5)]
            jobs = [new_job(queue=queue, task=task, priority=priority) for queue, task, priority in where]
            await put(store, *jobs)
            expected = [job.id for job in sorted(jobs, key=lambda job: -job.priority)]
            assert await claim_ids(store, queues=["a", "b", "c"], tasks=["x", "y"]) == expected

    @proves("C2", "C6")
    @pytest.mark.parametrize("limit", [1, 3, 8, 30])
    async def test_claim_order_holds_across_more_and_fewer_queues_than_the_limit(self, limit: int) -> None:
        async with self.opened() as store:
            # Queue 0 has most of the jobs, and several queues have jobs of one instant.
            places = [(0 if n % 3 else n % 10, -(n * 7 % 12)) for n in range(40)]
            jobs = [new_job(queue=f"q{queue}", run_at=later(seconds)) for queue, seconds in places]
            await put(store, *jobs)
            await beat(store)
            claimed = [[job.id for job in (await claim(store, limit=limit)).jobs] for _ in range(-(-40 // limit))]
            expected = [job.id for job in sorted(jobs, key=lambda job: (job.run_at, job.id))]
            assert claimed == [expected[first : first + limit] for first in range(0, 40, limit)]

    @proves("C6")
    async def test_claim_order_holds_from_claim_to_claim(self) -> None:
        async with self.opened() as store:
            given = [3, -2, 7, 0, 5]
            await put(store, *(new_job(priority=priority, queue=f"q{priority % 2}") for priority in given))
            await beat(store)
            taken = [(await claim(store, limit=1)).jobs[0].priority for _ in given]
            assert taken == sorted(given, reverse=True)

    # what a claim takes

    @proves("C3")
    async def test_a_claimed_job_is_running_under_its_worker_from_now_on(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            job = await claim_job(store, job_id, now=later(3))
            assert (job.state, job.worker, job.started_at) == (State.RUNNING, "ada", later(3))
            assert (job.attempt, job.runs, job.crashes) == (1, 1, 0)
            assert job.lease
            assert job.finished_at is None
            assert await read_job(store, job_id) == job

    @proves("C3")
    async def test_a_second_run_counts_one_attempt_and_one_run_more(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(5), now=later(1))
            again = await claim_job(store, job.id, worker="bob", now=later(6))
            assert (again.attempt, again.runs, again.worker) == (2, 2, "bob")
            assert again.started_at == later(6)

    @proves("C2")
    async def test_a_claim_takes_no_more_than_its_limit(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(5)))
            assert await claim_ids(store, limit=3) == ids[:3]
            assert await claim_ids(store, limit=3) == ids[3:]

    @proves("C2", "C6")
    async def test_the_claim_limit_counts_across_priorities_queues_and_tasks(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(priority=-(n // 4), queue=f"q{n % 2}", task=f"t{n // 2 % 2}") for n in range(12)]
            ids = await put(store, *jobs)
            for start_at in range(0, 12, 3):
                assert await claim_ids(store, tasks=["t0", "t1"], limit=3) == ids[start_at : start_at + 3]

    @proves("C3")
    async def test_jobs_of_one_claim_share_one_lease(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job() for _ in range(3)))
            await beat(store)
            assert len({job.lease for job in (await claim(store)).jobs}) == 1

    @proves("C3")
    async def test_every_claim_has_a_new_lease(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job() for _ in range(10)))
            await beat(store)
            leases = {(await claim(store, limit=1)).jobs[0].lease for _ in range(10)}
            assert len(leases) == 10

    @proves("C3")
    async def test_a_job_claimed_again_by_the_same_worker_gets_another_lease(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(0), now=NOW)
            assert (await claim_job(store, job.id)).lease != job.lease

    @proves("C1", "V1")
    async def test_concurrent_claims_never_share_a_job(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(40)))
            workers = [f"worker-{n}" for n in range(10)]
            taken = await asyncio.gather(*(claim_ids(store, name, limit=5) for name in workers))
            assert sorted(job_id for batch in taken for job_id in batch) == ids

    @proves("C1")
    async def test_a_running_job_is_not_claimed_again(self) -> None:
        async with self.opened() as store:
            await start(store)
            assert await claim_ids(store, "bob") == []

    @proves("C1")
    async def test_an_id_reused_after_its_job_was_deleted_is_claimed_once(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.PENDING, queue="a")
            await act(store, Action.DELETE, job.id)
            await put(store, new_job(id=job.id, queue="b"))
            assert await claim_ids(store) == [job.id]

    # what a claim does not take

    @proves("C2")
    async def test_a_job_is_not_claimed_before_its_run_at(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(run_at=later(5)))
            assert await claim_ids(store, now=later(4.999999)) == []
            assert await claim_ids(store, now=later(5)) == [job_id]

    @proves("C4")
    async def test_a_job_of_another_task_is_not_claimed(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(task="unknown", priority=9))
            (known,) = await put(store, new_job())
            assert await claim_ids(store, limit=1) == [known]

    @proves("C4")
    async def test_a_claim_without_tasks_takes_nothing(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            assert await claim_ids(store, tasks=[]) == []

    @proves("C4")
    async def test_a_job_of_another_queue_is_not_claimed(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(queue="other", priority=9))
            (named,) = await put(store, new_job(queue="mine"))
            assert await claim_ids(store, queues=["mine", "empty"], limit=1) == [named]

    @proves("C4")
    async def test_a_claim_with_an_empty_list_of_queues_takes_nothing(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            assert await claim_ids(store, queues=[]) == []

    @proves("C4")
    async def test_a_claim_with_queues_none_takes_from_all_queues(self) -> None:
        async with self.opened() as store:
            ids = await put(store, new_job(queue="a"), new_job(queue="b"))
            assert await claim_ids(store, queues=None) == ids

    @proves("C4", "PQ1")
    @pytest.mark.parametrize("queues", [None, ["paused", "open"]])
    async def test_jobs_of_a_paused_queue_are_enqueued_but_not_claimed(self, queues: list[str] | None) -> None:
        async with self.opened() as store:
            await store.pause_queue("paused", True)
            await put(store, new_job(queue="paused", priority=9))
            (other,) = await put(store, new_job(queue="open"))
            assert await claim_ids(store, queues=queues, limit=1) == [other]

    @proves("PQ1")
    async def test_jobs_of_a_resumed_queue_are_claimed(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            await store.pause_queue("default", True)
            await store.pause_queue("default", False)
            assert await claim_ids(store) == [job_id]

    @proves("C2")
    async def test_a_paused_job_is_not_claimed(self) -> None:
        async with self.opened() as store:
            await job_in_state(store, State.PAUSED)
            assert await claim_ids(store) == []

    @proves("C5")
    async def test_a_worker_that_never_beat_claims_nothing(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            assert (await claim(store, "stranger")).jobs == []

    @proves("C5")
    async def test_a_worker_whose_lease_has_lapsed_claims_nothing_until_it_beats(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            await beat(store, until=later(20))
            assert (await claim(store, now=later(21))).jobs == []
            await beat(store, until=later(41), now=later(21))
            assert [job.id for job in (await claim(store, now=later(21))).jobs] == [job_id]

    @proves("C5")
    async def test_a_lease_has_lapsed_at_its_until(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            await beat(store, until=later(20))
            assert (await claim(store, now=later(20))).jobs == []

    # next_at

    async def _next_at(self, *jobs: Any, limit: int = 10, now: datetime = NOW) -> datetime | None:
        async with self.opened() as store:
            await store.pause_queue("paused", True)
            await put(store, *jobs)
            await beat(store)
            return (await claim(store, queues=["default", "paused"], limit=limit, now=now)).next_at

    @proves("C11")
    async def test_next_at_is_none_when_nothing_waits(self) -> None:
        assert await self._next_at() is None

    @proves("C11")
    async def test_next_at_is_none_when_all_jobs_were_claimed(self) -> None:
        assert await self._next_at(new_job(), new_job()) is None

    @proves("C11")
    async def test_next_at_is_the_time_of_the_next_due_job(self) -> None:
        jobs = [new_job(run_at=later(9)), new_job(run_at=later(7.000001)), new_job()]
        assert await self._next_at(*jobs) == later(7.000001)

    @proves("C11")
    async def test_next_at_is_now_when_more_is_due_than_the_limit(self) -> None:
        assert await self._next_at(new_job(run_at=later(-5)), new_job(run_at=later(-4)), limit=1) == NOW

    @proves("C11")
    async def test_next_at_does_not_depend_on_priorities(self) -> None:
        jobs = [new_job(run_at=later(9), priority=5), new_job(run_at=later(7), priority=-5)]
        assert await self._next_at(*jobs) == later(7)

    @proves("C11")
    async def test_next_at_is_the_time_of_the_next_expiry_if_that_comes_first(self) -> None:
        assert await self._next_at(new_job(run_at=later(9), expires_at=later(4))) == later(4)

    @proves("C10", "C11")
    async def test_next_at_is_now_while_many_expired_jobs_hide_a_due_one(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job(expires_at=later(5)) for _ in range(1500)), new_job(run_at=later(6)))
            await beat(store)
            expired_count = 0
            while not (taken := await claim(store, now=later(9))).jobs:
                assert (taken.next_at, bool(taken.expired)) == (later(9), True)
                expired_count += len(taken.expired)
            assert expired_count + len(taken.expired) == 1500

    @proves("C11")
    async def test_next_at_is_the_due_time_if_the_expiry_comes_later(self) -> None:
        assert await self._next_at(new_job(run_at=later(4), expires_at=later(9))) == later(4)

    @proves("C11")
    async def test_next_at_ignores_jobs_that_just_expired(self) -> None:
        assert await self._next_at(new_job(run_at=later(9), expires_at=later(4)), now=later(5)) is None

    @pytest.mark.parametrize(
        "fields", [{"queue": "other"}, {"queue": "paused"}, {"task": "other"}, {"queue": "other", "run_at": later(5)}],
        ids=str,
    )  # fmt: skip
    @proves("C11")
    async def test_next_at_ignores_jobs_that_this_claim_would_not_take(self, fields: dict[str, Any]) -> None:
        assert await self._next_at(new_job(**fields)) is None

    # suspects

    @proves("C8")
    async def test_a_worker_takes_one_suspect_at_a_time_and_before_all_others(self) -> None:
        async with self.opened() as store:
            suspects = [await make_suspect(store) for _ in range(3)]
            clean = await put(store, new_job(priority=9), new_job())
            await beat(store, until=later(900), now=later(100))
            first = await claim(store, limit=2, now=later(100))
            assert [job.id for job in first.jobs] == [clean[0], suspects[0]]
            second = await claim(store, now=later(100))
            assert [job.id for job in second.jobs] == [clean[1]]
            assert second.next_at is None
            await finish_run(store, first.jobs[1], Done(), now=later(101))
            third = await claim(store, now=later(102))
            assert [job.id for job in third.jobs] == [suspects[1]]

    @proves("C8")
    async def test_another_worker_may_take_the_next_suspect(self) -> None:
        async with self.opened() as store:
            suspects = [await make_suspect(store) for _ in range(2)]
            for worker in ("ada", "bob"):
                await beat(store, worker, until=later(900), now=later(100))
            taken = [(await claim(store, worker=worker, now=later(100))).jobs for worker in ("ada", "bob")]
            assert [[job.id for job in jobs] for jobs in taken] == [[suspects[0]], [suspects[1]]]

    @proves("C4", "C8")
    async def test_a_suspect_is_claimed_only_when_due_and_served(self) -> None:
        async with self.opened() as store:
            id = await make_suspect(store)
            await beat(store, until=later(900), now=later(100))
            assert (await claim(store, queues=["other"], now=later(100))).jobs == []
            assert (await claim(store, tasks=["other"], now=later(100))).jobs == []
            await store.pause_queue("default", True)
            assert (await claim(store, now=later(100))).jobs == []
            await store.pause_queue("default", False)
            assert [job.id for job in (await claim(store, now=later(100))).jobs] == [id]

    # size

    @proves("C9")
    async def test_a_claim_ends_when_it_has_claim_bytes(self) -> None:
        async with self.opened() as store:
            large = [new_job(payload=_large(6), priority=5 - n) for n in range(5)]
            small = [new_job(priority=-9) for _ in range(2)]
            ids = await put(store, *small, *reversed(large))
            await beat(store)
            first = await claim(store)
            assert ([job.id for job in first.jobs], first.next_at) == ([job.id for job in large[:3]], NOW)
            second = await claim(store)
            assert [job.id for job in second.jobs] == [job.id for job in large[3:]] + ids[:2]
            assert all(job.payload == large[0].payload for job in (*first.jobs, *second.jobs[:2]))

    @proves("C9")
    async def test_a_job_larger_than_claim_bytes_is_claimed_alone(self) -> None:
        """Older releases accepted metadata of any size."""
        async with self.opened() as store:
            jobs = [new_job(metadata={"note": "x" * (CLAIM_BYTES + 1)}), new_job(), new_job()]
            await put(store, *jobs)
            await beat(store)
            claims = [await claim(store) for _ in range(2)]
            assert [[job.id for job in one.jobs] for one in claims] == [[jobs[0].id], [jobs[1].id, jobs[2].id]]
            assert claims[0].next_at == NOW
            assert claims[0].jobs[0].metadata == jobs[0].metadata

    @proves("C9")
    async def test_claim_bytes_count_across_queues_and_tasks(self) -> None:
        async with self.opened() as store:
            places = [(queue, task) for queue in ("a", "b", "c") for task in ("x", "y")]
            jobs = [new_job(queue=queue, task=task, payload=_large(3)) for queue, task in places]
            jobs += [new_job(queue=queue, task=task, payload=_large(3)) for queue, task in reversed(places)]
            await put(store, *jobs)
            await beat(store)
            found = []
            for _ in range(2):
                found.append([job.id for job in (await claim(store, tasks=["x", "y"])).jobs])
            assert found == [[job.id for job in jobs[:6]], [job.id for job in jobs[6:]]]

    @proves("C8", "C9")
    async def test_claim_bytes_include_a_suspect(self) -> None:
        async with self.opened() as store:
            id = await make_suspect(store, payload=_large(17))
            (other,) = await put(store, new_job())
            assert [await claim_ids(store), await claim_ids(store)] == [[id], [other]]


def _large(mib: int) -> str:
    return f'{{"text":"{"x" * (mib << 20)}"}}'
