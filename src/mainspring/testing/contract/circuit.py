"""Circuits: how the ends of a task's runs open and close its circuit."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ...errors import JobTimeout
from ...records.circuit import Breaker, Circuit
from ...records.job import Action, State
from ...records.outcome import (
    Cancel,
    Crashed,
    Discard,
    Done,
    Policy,
    ProcessDied,
    Released,
    Retry,
    Snooze,
    Stopped,
    decide,
)
from ...records.run import Ending
from .build import (
    BREAKER,
    NO_RETRY,
    NOW,
    Contract,
    act,
    beat,
    circuits,
    claim_ids,
    claim_job,
    fail,
    finish_run,
    later,
    new_job,
    open_circuit,
    put,
    read_circuit,
    start,
)
from .sentences import proves

GUARDED = Policy(breaker=BREAKER)
NEUTRAL_ENDS = [Discard(), Cancel(), Stopped("stop"), Snooze(5), Released()]
FAILURES = [ValueError("no"), JobTimeout("late"), Retry(5), ProcessDied("killed", 9)]


def ending_name(ended: Any) -> str:
    return type(ended).__name__


class CircuitContract(Contract):
    # counting failures

    @proves("OV4")
    async def test_a_task_that_has_not_failed_has_no_circuit(self) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), Done(), policy=GUARDED)
            await start(store)
            assert await circuits(store) == []

    @proves("F11")
    @pytest.mark.parametrize("ended", FAILURES, ids=ending_name)
    async def test_a_failed_run_is_a_failure_of_the_circuit(self, ended: Any) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), ended, policy=GUARDED)
            assert await circuits(store) == [Circuit("task", 1)]

    @proves("F11")
    async def test_a_run_of_a_silent_worker_is_a_failure_of_the_circuit(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 3), now=NOW, policy=GUARDED)
            assert await circuits(store) == [Circuit("task", 1)]

    @proves("F11")
    @pytest.mark.parametrize("ended", NEUTRAL_ENDS, ids=ending_name)
    async def test_a_neutral_ending_does_not_change_the_circuit(self, ended: Any) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), ended, policy=GUARDED)
            assert await circuits(store) == []
            await fail(store, await start(store, priority=9))
            await finish_run(store, await start(store, priority=9), ended, policy=GUARDED)
            assert await circuits(store) == [Circuit("task", 1)]

    @proves("F11", "OV4")
    async def test_a_task_without_a_breaker_has_no_circuit(self) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), ValueError("no"))
            assert await circuits(store) == []

    @proves("F12")
    async def test_an_outcome_without_a_task_does_not_change_the_circuit(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await finish_run(store, job, Retry(5), policy=GUARDED, task="") == {job.id}
            assert await circuits(store) == []

    @proves("F12")
    async def test_an_outcome_without_a_task_ends_the_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (job_id,) = await put(store, new_job())
            probe = await claim_job(store, job_id, now=later(10))
            await finish_run(store, probe, Released(), now=later(11), task="", queue="", started_at=None)
            assert await circuits(store) == [Circuit("task", 3, later(10))]
            assert await claim_ids(store, now=later(11)) == [job_id]

    @proves("OV4")
    async def test_circuits_are_listed_by_task(self) -> None:
        async with self.opened() as store:
            for task in ("b", "c", "a"):
                await fail(store, await start(store, task=task))
            assert [found.task for found in await circuits(store)] == ["a", "b", "c"]

    # opening

    @proves("F11")
    async def test_a_circuit_opens_at_the_breakers_number_of_failures_in_a_row(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(3)]
            await fail(store, jobs[0], now=later(1))
            await fail(store, jobs[1], now=later(2))
            assert await circuits(store) == [Circuit("task", 2)]
            await fail(store, jobs[2], now=later(3.000001))
            assert await circuits(store) == [Circuit("task", 3, later(13.000001))]

    @proves("F11")
    async def test_a_breaker_that_allows_one_failure_opens_at_once(self) -> None:
        async with self.opened() as store:
            policy = Policy(breaker=Breaker(1, 0.5))
            await finish_run(store, await start(store), ValueError("no"), now=NOW, policy=policy)
            assert await circuits(store) == [Circuit("task", 1, later(0.5))]

    @proves("F5", "F11")
    async def test_each_failure_of_one_call_counts_for_the_circuit(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(3)]
            await store.finish([decide(job, ValueError("no"), now=NOW, policy=NO_RETRY) for job in jobs])
            assert await circuits(store) == [Circuit("task", 3, later(10))]

    @proves("F11")
    async def test_a_failure_of_an_open_circuit_does_not_extend_it(self) -> None:
        async with self.opened() as store:
            late = await start(store)
            await open_circuit(store)
            await fail(store, late, now=later(5))
            assert await circuits(store) == [Circuit("task", 4, later(10))]

    @proves("F11")
    async def test_failures_of_one_task_do_not_count_for_another(self) -> None:
        async with self.opened() as store:
            for task in ("a", "b", "a", "b"):
                await fail(store, await start(store, task=task))
            assert await circuits(store) == [Circuit("a", 2), Circuit("b", 2)]

    @proves("F11")
    async def test_queues_share_the_circuit_of_a_task(self) -> None:
        async with self.opened() as store:
            for queue in ("a", "b", "c"):
                await fail(store, await start(store, queue=queue))
            assert await circuits(store) == [Circuit("task", 3, later(10))]

    # closing

    @proves("F11", "OV4")
    async def test_a_success_resets_the_count_of_failures(self) -> None:
        async with self.opened() as store:
            for _ in range(2):
                await fail(store, await start(store))
            await finish_run(store, await start(store), Done(), policy=GUARDED)
            assert await circuits(store) == []
            await fail(store, await start(store))
            assert await circuits(store) == [Circuit("task", 1)]

    @proves("F11")
    async def test_a_success_closes_the_circuit_even_if_it_began_before(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await open_circuit(store)
            await finish_run(store, job, Done(), now=later(1), policy=GUARDED)
            assert await circuits(store) == []
            (waiting,) = await put(store, new_job())
            assert await claim_ids(store, now=later(1)) == [waiting]

    @proves("F11")
    async def test_a_success_closes_the_circuit_of_a_task_without_a_breaker(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await open_circuit(store)
            await finish_run(store, job, Done(), now=later(1))
            assert await circuits(store) == []

    @proves("F5", "F11")
    @pytest.mark.parametrize(
        ("endings", "left"),
        [
            ([Retry(5), Done()], []),
            ([Done(), Retry(5)], [Circuit("task", 1)]),
            ([Retry(5), Done(), Retry(5), Discard()], [Circuit("task", 1)]),
            ([Retry(5), Retry(5), Done(), Done(), Retry(5), Retry(5)], [Circuit("task", 2)]),
        ],
        ids=["closes last", "fails last", "fails after", "fails twice after"],
    )
    async def test_outcomes_of_one_call_change_the_circuit_in_order(
        self, endings: list[Any], left: list[Circuit]
    ) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in endings]
            pairs = zip(jobs, endings, strict=True)
            await store.finish([decide(job, ended, now=later(1), policy=GUARDED) for job, ended in pairs])
            assert await circuits(store) == left

    # idempotence

    @proves("F1", "F11")
    async def test_a_refused_outcome_does_not_change_the_circuit(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await fail(store, replace(job, lease="another")) == set()
            assert await circuits(store) == []
            await fail(store, job)
            assert await finish_run(store, job, Done(), policy=GUARDED) == set()
            assert await circuits(store) == [Circuit("task", 1)]

    @proves("F3", "F11")
    async def test_a_repeated_outcome_does_not_change_the_circuit_again(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            for _ in range(3):
                assert await fail(store, job) == {job.id}
            assert await circuits(store) == [Circuit("task", 1)]

    @proves("F3", "F11")
    async def test_a_repeated_success_does_not_close_a_circuit_that_opened_since(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            decided = decide(job, Done(), now=NOW, policy=GUARDED)
            await store.finish([decided])
            await open_circuit(store)
            assert await store.finish([decided]) == {job.id}
            assert (await circuits(store))[0].open_until == later(10)

    @proves("F8", "F11")
    async def test_a_failure_whose_job_ends_cancelled_instead_counts(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            await finish_run(store, job, Retry(5), policy=GUARDED)
            assert await circuits(store) == [Circuit("task", 1)]

    # the end of the probe

    @proves("F11")
    async def test_a_successful_probe_closes_the_circuit(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            first, second = await put(store, new_job(), new_job())
            await finish_run(store, await claim_job(store, first, now=later(10)), Done(), now=later(11), policy=GUARDED)
            assert await circuits(store) == []
            assert await claim_ids(store, now=later(11)) == [second]

    @proves("F11")
    async def test_a_failed_probe_opens_the_circuit_again(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            first, second = await put(store, new_job(), new_job())
            await fail(store, await claim_job(store, first, now=later(10)), now=later(12))
            assert await circuits(store) == [Circuit("task", 4, later(22))]
            assert await claim_ids(store, now=later(21.999999)) == []
            assert await claim_ids(store, now=later(22)) == [second]

    @proves("F11")
    @pytest.mark.parametrize("ended", NEUTRAL_ENDS, ids=ending_name)
    async def test_a_probe_with_a_neutral_ending_allows_another_probe(self, ended: Any) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            first, second = await put(store, new_job(), new_job(priority=-1))
            await finish_run(store, await claim_job(store, first, now=later(10)), ended, now=later(11), policy=GUARDED)
            assert await circuits(store) == [Circuit("task", 3, later(10))]
            assert await claim_ids(store, now=later(11)) == [first if isinstance(ended, Released) else second]

    @proves("F11")
    async def test_a_probe_of_a_silent_worker_opens_the_circuit_again(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (first,) = await put(store, new_job())
            probe = await claim_job(store, first, now=later(10))
            await beat(store, until=later(11), now=later(11))
            await finish_run(store, probe, Crashed("ada", 9), now=later(12), policy=GUARDED)
            assert await circuits(store) == [Circuit("task", 4, later(22))]

    @proves("F11")
    async def test_a_probe_that_fails_without_a_breaker_allows_another_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            first, second = await put(store, new_job(), new_job())
            await finish_run(store, await claim_job(store, first, now=later(10)), Discard(), now=later(11))
            await finish_run(store, await claim_job(store, second, now=later(11)), Retry(0), now=later(11))
            assert await circuits(store) == [Circuit("task", 3, later(10))]
            assert await claim_ids(store, now=later(11)) == [second]

    @proves("F3", "F11")
    async def test_a_repeated_outcome_of_a_probe_does_not_end_the_next_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            (first,) = await put(store, new_job())
            decided = decide(await claim_job(store, first, now=later(10)), Released(), now=later(11), policy=GUARDED)
            await store.finish([decided])
            await claim_job(store, first, now=later(11))
            assert await store.finish([decided]) == {first}
            assert await circuits(store) == [Circuit("task", 3, later(10), first)]

    @proves("F11")
    async def test_a_failure_of_another_run_does_not_end_the_probe(self) -> None:
        async with self.opened() as store:
            late = await start(store)
            await open_circuit(store)
            (first,) = await put(store, new_job())
            await claim_job(store, first, now=later(10))
            await fail(store, late, now=later(11))
            assert await read_circuit(store) == Circuit("task", 4, later(10), first)

    @proves("F11")
    async def test_every_ending_of_a_probe_ends_the_probe(self) -> None:
        async with self.opened() as store:
            await open_circuit(store)
            at = 10.0
            for ending in Ending:
                (job_id,) = await put(store, new_job())
                probe = await claim_job(store, job_id, now=later(at))
                await finish_run(
                    store, probe, Discard(), now=later(at), state=State.DEAD, ending=ending, breaker=BREAKER
                )
                found = await read_circuit(store)
                assert found is None or found.probe is None
                if found is None:
                    await open_circuit(store)
                    at = 10.0
                elif found.open_until is not None:
                    at = max(at, (found.open_until - NOW).total_seconds())
