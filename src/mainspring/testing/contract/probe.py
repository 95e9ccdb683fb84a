"""claim and open circuits: no job of an open circuit, then one probe before all other jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ...records.circuit import Circuit
from ...records.job import Action
from ...records.outcome import Done, Policy, Retry
from .build import (
    BREAKER,
    Contract,
    act,
    beat,
    circuits,
    claim,
    claim_ids,
    claim_job,
    fail,
    finish_run,
    later,
    make_suspect,
    new_job,
    open_circuit,
    put,
    read_circuit,
    read_job,
    start,
)
from .sentences import proves

GUARDED = Policy(breaker=BREAKER)
BOTH = ("task", "other")


class ProbeContract(Contract):
    # open

    @proves("C7")
    async def test_no_job_of_an_open_circuit_is_claimed(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            first, _ = await put(store, new_job(), new_job())
            assert await claim_ids(store, now=later(9.999999)) == []
            assert await claim_ids(store, now=later(10)) == [first]

    @proves("C7")
    async def test_a_closed_circuit_with_failures_does_not_stop_claims(self) -> None:
        async with self.opened() as store:
            await fail(store, await start(store))
            ids = await put(store, new_job(), new_job())
            assert await claim_ids(store) == ids

    @proves("C7")
    async def test_jobs_of_other_tasks_are_claimed_while_a_circuit_is_open(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await put(store, new_job(priority=9))
            others = await put(store, new_job(task="other"), new_job(task="other"))
            assert await claim_ids(store, tasks=BOTH) == others

    @proves("C7")
    async def test_jobs_of_an_open_circuit_can_be_enqueued_and_changed(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (job_id,) = await put(store, new_job())
            assert (await act(store, Action.PAUSE, job_id)).done == [job_id]
            assert (await act(store, Action.DELETE, job_id)).done == [job_id]

    @proves("C10")
    async def test_jobs_of_an_open_circuit_expire_in_time(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (job_id,) = await put(store, new_job(expires_at=later(5)))
            await beat(store)
            assert (await claim(store, now=later(5))).expired == [job_id]

    # the probe

    @proves("C7")
    async def test_a_half_open_circuit_gives_one_probe_at_a_time(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            first, *_ = await put(store, *(new_job() for _ in range(5)))
            assert await claim_ids(store, now=later(10)) == [first]
            assert await circuits(store) == [Circuit("task", 3, later(10), first)]
            assert await claim_ids(store, now=later(50)) == []
            assert await claim_ids(store, "bob", now=later(50)) == []

    @proves("C7", "V1")
    async def test_one_of_many_workers_gets_the_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await put(store, *(new_job() for _ in range(20)))
            names = [f"worker-{n}" for n in range(8)]
            taken = await asyncio.gather(*(claim_ids(store, name, now=later(10)) for name in names))
            assert len([job_id for ids in taken for job_id in ids]) == 1

    @proves("C6", "C7")
    async def test_the_probe_is_the_first_in_the_order_of_its_task(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await put(store, new_job(queue="a"), new_job(queue="b", run_at=later(-5)))
            await put(store, new_job(queue="c", priority=8, run_at=later(20)))
            (first,) = await put(store, new_job(queue="b", priority=7))
            assert await claim_ids(store, now=later(10)) == [first]

    @proves("C7")
    async def test_the_probe_is_claimed_before_jobs_of_any_priority(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await put(store, *(new_job(task="other", priority=9) for _ in range(3)))
            (probe,) = await put(store, new_job(priority=-9))
            assert await claim_ids(store, tasks=BOTH, limit=1, now=later(10)) == [probe]

    @proves("C6", "C7")
    async def test_a_claim_with_a_probe_is_filled_with_other_tasks_in_order(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            high, low = await put(store, new_job(task="other", priority=9), new_job(task="other", priority=-1))
            probe, _ = await put(store, new_job(), new_job())
            assert await claim_ids(store, tasks=BOTH, limit=2, now=later(10)) == [high, probe]
            assert await claim_ids(store, tasks=BOTH, limit=2, now=later(10)) == [low]

    @proves("C7")
    async def test_each_half_open_circuit_has_a_probe_of_its_own(self) -> None:
        async with self.opened() as store:
            for task in BOTH:
                await open_circuit(store, task)
            ids = await put(store, *(new_job(task=task) for task in (*BOTH, *BOTH)))
            assert sorted(await claim_ids(store, tasks=BOTH, now=later(10))) == sorted(ids[:2])
            probes = {found.task: found.probe for found in await circuits(store)}
            assert probes == dict(zip(BOTH, ids, strict=False))

    @proves("C2", "C7")
    async def test_a_claim_takes_no_more_probes_than_its_limit(self) -> None:
        async with self.opened() as store:
            for task in BOTH:
                await open_circuit(store, task)
            mine, other = await put(store, *(new_job(task=task) for task in BOTH))
            assert await claim_ids(store, tasks=BOTH, limit=1, now=later(10)) == [other]
            found = await read_circuit(store)
            assert found is not None
            assert found.probe is None
            assert await claim_ids(store, tasks=BOTH, limit=1, now=later(10)) == [mine]

    @proves("C2", "C7")
    async def test_a_job_that_is_not_due_is_no_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (job_id,) = await put(store, new_job(run_at=later(20)))
            assert await claim_ids(store, now=later(10)) == []
            assert await claim_ids(store, now=later(20)) == [job_id]

    @proves("C4", "C7")
    @pytest.mark.parametrize("served", [{"queues": ["other"]}, {"tasks": ["other"]}], ids=str)
    async def test_a_job_that_a_claim_does_not_take_is_no_probe(self, served: dict[str, Any]) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (job_id,) = await put(store, new_job())
            assert await claim_ids(store, now=later(10), **served) == []
            assert await claim_ids(store, now=later(10)) == [job_id]

    @proves("C4", "C7")
    async def test_the_probe_is_not_claimed_from_a_paused_queue_but_from_another(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await store.pause_queue("paused", True)
            held, free = await put(store, new_job(queue="paused", priority=9), new_job(queue="free"))
            assert await claim_ids(store, now=later(10)) == [free]
            await finish_run(store, await read_job(store, free), Done(), now=later(11))
            await store.pause_queue("paused", False)
            assert await claim_ids(store, now=later(11)) == [held]

    @proves("C5", "C7")
    async def test_a_silent_worker_gets_no_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (job_id,) = await put(store, new_job())
            await beat(store, "bob", until=later(10))
            assert (await claim(store, "bob", now=later(10))).jobs == []
            assert await claim_ids(store, now=later(10)) == [job_id]

    @proves("C7", "C10")
    async def test_a_job_past_its_expires_at_is_no_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            _, fresh = await put(store, new_job(priority=9, expires_at=later(10)), new_job())
            assert await claim_ids(store, now=later(10)) == [fresh]

    @proves("C7", "C10")
    async def test_many_expired_jobs_do_not_use_up_the_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await put(store, *(new_job(priority=9, expires_at=later(5)) for _ in range(1500)))
            (fresh,) = await put(store, new_job())
            await beat(store)
            taken: list[str] = []
            for _ in range(3):
                answer = await claim(store, now=later(10))
                taken += [job.id for job in answer.jobs]
                assert taken or answer.next_at == later(10)
            assert taken == [fresh]

    @proves("C7", "F11")
    async def test_a_failed_probe_with_retries_left_waits_for_the_circuit(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            first, second = await put(store, new_job(), new_job())
            probe = await claim_job(store, first, now=later(10))
            await finish_run(store, probe, Retry(1), now=later(10), policy=GUARDED)
            assert await claim_ids(store, now=later(19)) == []
            assert await claim_ids(store, now=later(20)) == [second]

    # suspects

    @proves("C7", "C8")
    async def test_a_suspect_may_be_the_probe(self) -> None:
        async with self.opened() as store:
            job_id = await make_suspect(store)
            await open_circuit(store)
            assert await claim_ids(store, now=later(9)) == []
            assert await claim_ids(store, now=later(10)) == [job_id]
            found = await read_circuit(store)
            assert found is not None
            assert found.probe == job_id

    @proves("C6", "C7")
    async def test_a_suspect_is_the_probe_only_in_its_turn(self) -> None:
        async with self.opened() as store:
            job_id = await make_suspect(store)
            await open_circuit(store)
            (first,) = await put(store, new_job(priority=1))
            assert await claim_ids(store, now=later(10)) == [first]
            assert (await read_job(store, job_id)).worker is None

    @proves("C7", "C8")
    async def test_a_worker_that_runs_a_suspect_gets_no_suspect_as_probe(self) -> None:
        async with self.opened() as store:
            held, tried = await make_suspect(store, task="other"), await make_suspect(store)
            await open_circuit(store)
            assert await claim_ids(store, tasks=["other"]) == [held]
            assert await claim_ids(store, tasks=BOTH, now=later(10)) == []
            assert await claim_ids(store, "bob", tasks=BOTH, now=later(10)) == [tried]

    @proves("C7", "C8")
    async def test_a_suspect_that_is_the_probe_is_the_only_suspect_of_its_claim(self) -> None:
        async with self.opened() as store:
            tried, left = await make_suspect(store), await make_suspect(store, task="other")
            await open_circuit(store)
            (plain,) = await put(store, new_job(task="other"))
            assert sorted(await claim_ids(store, tasks=BOTH, now=later(10))) == sorted([tried, plain])
            assert await claim_ids(store, "bob", tasks=BOTH, now=later(10)) == [left]

    @proves("C7")
    async def test_a_probe_comes_before_a_suspect_of_another_task(self) -> None:
        async with self.opened() as store:
            held = await make_suspect(store, task="other")
            await open_circuit(store)
            (probe,) = await put(store, new_job(priority=-9))
            assert await claim_ids(store, tasks=BOTH, limit=1, now=later(10)) == [probe]
            assert await claim_ids(store, tasks=BOTH, limit=1, now=later(10)) == [held]

    # next_at

    @proves("C11")
    async def test_next_at_is_when_the_circuit_becomes_half_open(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await beat(store)
            await put(store, new_job(), new_job(run_at=later(3)))
            for now in (1, 2):  # a store may take a shortcut when the last claim took nothing
                assert (await claim(store, now=later(now))).next_at == later(10)

    @proves("C11")
    async def test_next_at_is_the_due_time_if_it_is_after_the_circuit_becomes_half_open(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await beat(store)
            await put(store, new_job(run_at=later(20)))
            assert (await claim(store, now=later(1))).next_at == later(20)

    @proves("C11")
    async def test_next_at_is_the_due_time_of_another_task_if_it_comes_first(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await beat(store)
            await put(store, new_job(), new_job(task="other", run_at=later(4)))
            assert (await claim(store, tasks=BOTH, now=later(1))).next_at == later(4)

    @proves("C7", "C11")
    async def test_next_at_is_none_while_the_probe_runs(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await beat(store)
            await put(store, new_job(), new_job(), new_job(run_at=later(20)))
            for now in (10, 11, 12):
                assert (await claim(store, now=later(now))).next_at is None

    @proves("C11")
    async def test_next_at_includes_an_expiry_while_the_probe_runs(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            await beat(store)
            await put(store, new_job(), new_job(expires_at=later(30)))
            assert (await claim(store, now=later(10))).next_at == later(30)

    @proves("C7")
    async def test_an_idle_worker_gets_the_probe_when_the_circuit_is_half_open(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (job_id,) = await put(store, new_job())
            for now in (1, 2, 3):
                assert await claim_ids(store, now=later(now)) == []
            assert await claim_ids(store, now=later(10)) == [job_id]
