"""claim beside open circuits: nothing, then one probe before all others."""

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
    circuit,
    claim,
    claimed,
    fail,
    later,
    new_job,
    put,
    run_again,
    see,
    settle,
    start,
    suspect,
    trip,
)

GUARDED = Policy(breaker=BREAKER)
BOTH = ("task", "other")


class ProbeContract(Contract):
    # open

    async def test_a_task_whose_circuit_is_open_gives_nothing_until_its_time(self) -> None:
        async with self.opened() as store:
            await trip(store)
            first, _ = await put(store, new_job(), new_job())
            assert await claimed(store, now=later(9.999999)) == []
            assert await claimed(store, now=later(10)) == [first]

    async def test_a_circuit_that_counts_but_is_not_open_holds_nothing_back(self) -> None:
        async with self.opened() as store:
            await fail(store, await start(store))
            ids = await put(store, new_job(), new_job())
            assert await claimed(store) == ids

    async def test_other_tasks_are_given_while_a_circuit_is_open(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await put(store, new_job(priority=9))
            others = await put(store, new_job(task="other"), new_job(task="other"))
            assert await claimed(store, tasks=BOTH) == others

    async def test_jobs_of_an_open_circuit_can_be_enqueued_and_changed(self) -> None:
        async with self.opened() as store:
            await trip(store)
            (job_id,) = await put(store, new_job())
            assert (await act(store, Action.PAUSE, job_id)).done == [job_id]
            assert (await act(store, Action.DELETE, job_id)).done == [job_id]

    async def test_jobs_of_an_open_circuit_expire_in_time(self) -> None:
        async with self.opened() as store:
            await trip(store)
            (job_id,) = await put(store, new_job(expires_at=later(5)))
            await beat(store)
            assert (await claim(store, now=later(5))).expired == [job_id]

    # the probe

    async def test_from_its_time_on_it_gives_one_job_and_no_more_while_that_one_runs(self) -> None:
        async with self.opened() as store:
            await trip(store)
            first, *_ = await put(store, *(new_job() for _ in range(5)))
            assert await claimed(store, now=later(10)) == [first]
            assert await store.circuits() == [Circuit("task", 3, later(10), first)]
            assert await claimed(store, now=later(50)) == []
            assert await claimed(store, "bob", now=later(50)) == []

    async def test_of_many_workers_one_gets_the_probe(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await put(store, *(new_job() for _ in range(20)))
            names = [f"worker-{n}" for n in range(8)]
            taken = await asyncio.gather(*(claimed(store, name, now=later(10)) for name in names))
            assert len([job_id for ids in taken for job_id in ids]) == 1

    async def test_the_probe_is_the_first_in_the_order_of_its_task(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await put(store, new_job(queue="a"), new_job(queue="b", run_at=later(-5)))
            await put(store, new_job(queue="c", priority=8, run_at=later(20)))
            (first,) = await put(store, new_job(queue="b", priority=7))
            assert await claimed(store, now=later(10)) == [first]

    async def test_the_probe_comes_before_all_others_whatever_their_priority(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await put(store, *(new_job(task="other", priority=9) for _ in range(3)))
            (probe,) = await put(store, new_job(priority=-9))
            assert await claimed(store, tasks=BOTH, limit=1, now=later(10)) == [probe]

    async def test_beside_the_probe_other_tasks_fill_the_claim_in_order(self) -> None:
        async with self.opened() as store:
            await trip(store)
            high, low = await put(store, new_job(task="other", priority=9), new_job(task="other", priority=-1))
            probe, _ = await put(store, new_job(), new_job())
            assert await claimed(store, tasks=BOTH, limit=2, now=later(10)) == [high, probe]
            assert await claimed(store, tasks=BOTH, limit=2, now=later(10)) == [low]

    async def test_each_half_open_circuit_has_a_probe_of_its_own(self) -> None:
        async with self.opened() as store:
            for task in BOTH:
                await trip(store, task)
            ids = await put(store, *(new_job(task=task) for task in (*BOTH, *BOTH)))
            assert sorted(await claimed(store, tasks=BOTH, now=later(10))) == sorted(ids[:2])
            probes = {found.task: found.probe for found in await store.circuits()}
            assert probes == dict(zip(BOTH, ids, strict=False))

    async def test_a_claim_takes_no_more_probes_than_its_limit(self) -> None:
        async with self.opened() as store:
            for task in BOTH:
                await trip(store, task)
            mine, other = await put(store, *(new_job(task=task) for task in BOTH))
            assert await claimed(store, tasks=BOTH, limit=1, now=later(10)) == [other]
            found = await circuit(store)
            assert found is not None
            assert found.probe is None
            assert await claimed(store, tasks=BOTH, limit=1, now=later(10)) == [mine]

    async def test_a_job_that_is_not_due_is_no_probe(self) -> None:
        async with self.opened() as store:
            await trip(store)
            (job_id,) = await put(store, new_job(run_at=later(20)))
            assert await claimed(store, now=later(10)) == []
            assert await claimed(store, now=later(20)) == [job_id]

    @pytest.mark.parametrize("asked", [{"queues": ["other"]}, {"tasks": ["other"]}], ids=str)
    async def test_a_claim_that_leaves_the_job_alone_makes_no_probe_of_it(self, asked: dict[str, Any]) -> None:
        async with self.opened() as store:
            await trip(store)
            (job_id,) = await put(store, new_job())
            assert await claimed(store, now=later(10), **asked) == []
            assert await claimed(store, now=later(10)) == [job_id]

    async def test_a_paused_queue_gives_no_probe_and_another_queue_does(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await store.pause_queue("paused", True)
            held, free = await put(store, new_job(queue="paused", priority=9), new_job(queue="free"))
            assert await claimed(store, now=later(10)) == [free]
            await settle(store, await see(store, free), Done(), now=later(11))
            await store.pause_queue("paused", False)
            assert await claimed(store, now=later(11)) == [held]

    async def test_a_silent_worker_is_given_no_probe(self) -> None:
        async with self.opened() as store:
            await trip(store)
            (job_id,) = await put(store, new_job())
            await beat(store, "bob", until=later(10))
            assert (await claim(store, "bob", now=later(10))).jobs == []
            assert await claimed(store, now=later(10)) == [job_id]

    async def test_a_job_past_its_expires_at_is_no_probe(self) -> None:
        async with self.opened() as store:
            await trip(store)
            _, fresh = await put(store, new_job(priority=9, expires_at=later(10)), new_job())
            assert await claimed(store, now=later(10)) == [fresh]

    async def test_a_flood_of_expired_jobs_does_not_use_up_the_probe(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await put(store, *(new_job(priority=9, expires_at=later(5)) for _ in range(1500)))
            (fresh,) = await put(store, new_job())
            await beat(store)
            taken: list[str] = []
            for _ in range(3):
                answer = await claim(store, now=later(10))
                taken += [job.id for job in answer.jobs]
                assert taken or answer.next_at == later(10)
            assert taken == [fresh]

    async def test_a_probe_that_fails_and_has_retries_left_waits_with_the_others(self) -> None:
        async with self.opened() as store:
            await trip(store)
            first, second = await put(store, new_job(), new_job())
            probe = await run_again(store, first, now=later(10))
            await settle(store, probe, Retry(1), now=later(10), policy=GUARDED)
            assert await claimed(store, now=later(19)) == []
            assert await claimed(store, now=later(20)) == [second]

    # suspects

    async def test_a_suspect_may_be_the_probe(self) -> None:
        async with self.opened() as store:
            job_id = await suspect(store)
            await trip(store)
            assert await claimed(store, now=later(9)) == []
            assert await claimed(store, now=later(10)) == [job_id]
            found = await circuit(store)
            assert found is not None
            assert found.probe == job_id

    async def test_a_suspect_is_the_probe_only_in_its_turn(self) -> None:
        async with self.opened() as store:
            job_id = await suspect(store)
            await trip(store)
            (first,) = await put(store, new_job(priority=1))
            assert await claimed(store, now=later(10)) == [first]
            assert (await see(store, job_id)).worker is None

    async def test_a_worker_that_holds_a_suspect_gets_no_other_as_probe(self) -> None:
        async with self.opened() as store:
            held, tried = await suspect(store, task="other"), await suspect(store)
            await trip(store)
            assert await claimed(store, tasks=["other"]) == [held]
            assert await claimed(store, tasks=BOTH, now=later(10)) == []
            assert await claimed(store, "bob", tasks=BOTH, now=later(10)) == [tried]

    async def test_a_suspect_that_is_the_probe_is_the_only_one_of_its_claim(self) -> None:
        async with self.opened() as store:
            tried, left = await suspect(store), await suspect(store, task="other")
            await trip(store)
            (plain,) = await put(store, new_job(task="other"))
            assert sorted(await claimed(store, tasks=BOTH, now=later(10))) == sorted([tried, plain])
            assert await claimed(store, "bob", tasks=BOTH, now=later(10)) == [left]

    async def test_a_probe_comes_before_a_suspect_of_another_task(self) -> None:
        async with self.opened() as store:
            held = await suspect(store, task="other")
            await trip(store)
            (probe,) = await put(store, new_job(priority=-9))
            assert await claimed(store, tasks=BOTH, limit=1, now=later(10)) == [probe]
            assert await claimed(store, tasks=BOTH, limit=1, now=later(10)) == [held]

    # next_at

    async def test_next_at_tells_when_the_circuit_is_half_open(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await beat(store)
            await put(store, new_job(), new_job(run_at=later(3)))
            for now in (1, 2):  # a store may take a shorter way when the last claim gave nothing
                assert (await claim(store, now=later(now))).next_at == later(10)

    async def test_next_at_is_the_due_time_if_that_comes_after_the_circuits(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await beat(store)
            await put(store, new_job(run_at=later(20)))
            assert (await claim(store, now=later(1))).next_at == later(20)

    async def test_next_at_is_that_of_another_task_if_it_comes_first(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await beat(store)
            await put(store, new_job(), new_job(task="other", run_at=later(4)))
            assert (await claim(store, tasks=BOTH, now=later(1))).next_at == later(4)

    async def test_next_at_is_none_while_the_probe_runs(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await beat(store)
            await put(store, new_job(), new_job(), new_job(run_at=later(20)))
            for now in (10, 11, 12):
                assert (await claim(store, now=later(now))).next_at is None

    async def test_next_at_still_tells_of_an_expiry_while_the_probe_runs(self) -> None:
        async with self.opened() as store:
            await trip(store)
            await beat(store)
            await put(store, new_job(), new_job(expires_at=later(30)))
            assert (await claim(store, now=later(10))).next_at == later(30)

    async def test_an_idle_worker_gets_the_probe_when_its_time_has_come(self) -> None:
        async with self.opened() as store:
            await trip(store)
            (job_id,) = await put(store, new_job())
            for now in (1, 2, 3):
                assert await claimed(store, now=later(now)) == []
            assert await claimed(store, now=later(10)) == [job_id]
