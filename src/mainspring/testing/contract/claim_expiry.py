"""claim: pending jobs whose expires_at has passed are ended as expired."""

from __future__ import annotations

from typing import Any

import pytest

from ...ids import JobId
from ...records.job import Action, State
from ...records.outcome import Done, Retry
from .build import NOW, Contract, act, beat, claim, finish_run, job_in_state, later, new_job, put, read_job, start
from .sentences import proves


class ClaimExpiryContract(Contract):
    @proves("C10")
    async def test_a_job_is_never_claimed_once_its_expires_at_has_come(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(expires_at=later(5)))
            await beat(store)
            taken = await claim(store, now=later(5))
            assert (taken.jobs, taken.expired) == ([], [job_id])

    @proves("C10")
    async def test_a_job_is_claimed_before_its_expires_at(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(expires_at=later(5)))
            await beat(store)
            taken = await claim(store, now=later(4.999999))
            assert ([job.id for job in taken.jobs], taken.expired) == ([job_id], [])

    @proves("C10")
    async def test_an_expired_job_ends_with_no_run(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.EXPIRED)
            assert (job.state, job.finished_at, job.runs) == (State.EXPIRED, NOW, 0)
            assert await store.executions(job.id) == []

    @proves("C10", "C11")
    async def test_many_expired_jobs_are_ended_in_a_few_claims_and_do_not_hide_a_due_job(self) -> None:
        async with self.opened() as store:
            late = await put(store, *(new_job(expires_at=later(-1), priority=5) for _ in range(2500)), now=later(-9))
            (fresh,) = await put(store, new_job())
            expired, taken = list[JobId](), list[JobId]()
            await beat(store)
            for _ in range(5):
                found = await claim(store)
                expired += found.expired
                taken += [job.id for job in found.jobs]
                if found.next_at is None or found.next_at > NOW:
                    break
            assert (sorted(expired), taken) == (sorted(late), [fresh])

    @proves("C10")
    async def test_a_job_expires_once(self) -> None:
        async with self.opened() as store:
            await job_in_state(store, State.EXPIRED)
            assert (await claim(store, now=later(1))).expired == []

    @proves("C10")
    @pytest.mark.parametrize(
        "fields", [{"queue": "other"}, {"queue": "paused"}, {"task": "other"}, {"run_at": later(100)}], ids=str
    )
    async def test_a_claim_expires_jobs_that_it_does_not_serve(self, fields: dict[str, Any]) -> None:
        async with self.opened() as store:
            await store.pause_queue("paused", True)
            (job_id,) = await put(store, new_job(expires_at=later(5), **fields))
            await beat(store)
            assert (await claim(store, queues=["default"], now=later(5))).expired == [job_id]
            assert (await read_job(store, job_id)).state is State.EXPIRED

    @proves("C10")
    async def test_a_claim_expires_some_jobs_and_takes_others(self) -> None:
        async with self.opened() as store:
            expired = await put(store, *(new_job(expires_at=later(n), priority=n) for n in range(1, 5)))
            (due,) = await put(store, new_job())
            await beat(store)
            taken = await claim(store, now=later(9), limit=1)
            assert (sorted(taken.expired), [job.id for job in taken.jobs]) == (sorted(expired), [due])

    @proves("C10")
    async def test_a_claim_returns_every_job_that_it_expires(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(expires_at=later(5)))
            await put(store, new_job(), now=later(6))
            await beat(store)
            assert (await claim(store, now=later(7))).expired == [job_id]

    @proves("C10")
    async def test_a_job_waiting_for_its_retry_expires_too(self) -> None:
        async with self.opened() as store:
            job = await start(store, expires_at=later(5))
            await finish_run(store, job, Retry(1), now=later(1))
            assert (await claim(store, now=later(5))).expired == [job.id]

    @proves("C10")
    async def test_a_running_job_does_not_expire(self) -> None:
        async with self.opened() as store:
            job = await start(store, expires_at=later(5))
            assert (await claim(store, now=later(9))).expired == []
            assert await finish_run(store, job, Done(), now=later(9)) == {job.id}

    @proves("C10")
    async def test_a_paused_job_expires_once_it_is_resumed(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.PAUSED, expires_at=later(5))
            await beat(store)
            assert (await claim(store, now=later(9))).expired == []
            await act(store, Action.RESUME, job.id, now=later(9))
            assert (await claim(store, now=later(9))).expired == [job.id]
