"""Carrying on: `finish` starts the jobs that its outcomes have made due in flows."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from ...bounds import CLAIM_BYTES
from ...ids import JobId
from ...records.job import State
from ...records.limit import limit_key_of
from ...records.outcome import Done, decide
from ...records.plan import Input, Plan, StepOptions, ValueOf
from ...records.worker import CarryOn, Finished
from ...store import Store
from .build import NOW, Contract, beat, claim, claim_ids, later, new_job, open_circuit, put, read_job
from .flow import MAP, a_step, begin, chain, row_of, steps_of
from .sentences import proves


def fork(**options: Any) -> Plan:
    """A step `a` with two behind it."""
    behind = {"args": {"value": ValueOf(0)}, "options": StepOptions(**options)}
    return Plan((a_step("a"), a_step("b", **behind), a_step("c", **behind)))


async def end_first(
    store: Store,
    plan: Plan,
    *,
    worker: str = "ada",
    queues: Collection[str] | None = None,
    tasks: Collection[str] = ("b", "c"),
    limit: int = 10,
    now: datetime = NOW,
    result: str = "1",
    **own: Any,
) -> tuple[JobId, Finished]:
    """Begins a flow, and ends its step `a` with this request to carry on."""
    flow = await begin(store, plan, **own)
    (first,) = (await claim(store, tasks=["a"])).jobs
    request = CarryOn(worker=worker, queues=queues, tasks=tasks, limit=limit, now=now)
    return flow, await store.finish([decide(first, Done(result), now=NOW)], carry_on=request)


async def started_names(store: Store, plan: Plan, **query: Any) -> list[str]:
    """The tasks of the jobs that are started when `a` has ended."""
    _, finished = await end_first(store, plan, **query)
    return sorted(job.task for job in finished.carried_on)


class CarryOnContract(Contract):
    @proves("CO1")
    async def test_a_released_step_runs_under_a_lease_of_its_own(self) -> None:
        async with self.opened() as store:
            flow, finished = await end_first(store, chain("a", "b"), now=later(2))
            (first, job) = await steps_of(store, flow)
            assert finished == {first.id}
            assert finished.carried_on == [job]
            assert (job.state, job.worker, job.started_at, job.due_at) == (State.RUNNING, "ada", later(2), NOW)
            assert (job.attempt, job.runs, job.crashes) == (1, 1, 0)
            assert job.lease not in (None, first.lease)
            assert (await beat(store)).holds == {job.id: job.lease}

    @proves("CO1")
    async def test_no_worker_claims_a_step_that_was_started_and_it_ends_under_its_lease(self) -> None:
        async with self.opened() as store:
            flow, finished = await end_first(store, chain("a", "b", "c"), tasks=["b"])
            (job,) = finished.carried_on
            assert await claim_ids(store, "bob", tasks=["b"]) == []
            assert await store.finish([decide(job, Done("2"), now=later(1))]) == {job.id}
            assert (await read_job(store, job.id)).state is State.COMPLETED
            assert (await row_of(store, flow)).statuses == "ccr"

    @proves("CO1")
    async def test_no_more_are_started_than_were_asked_for(self) -> None:
        async with self.opened() as store:
            _, finished = await end_first(store, fork(), limit=1)
            assert len(finished.carried_on) == 1
            assert len(await claim_ids(store, tasks=["b", "c"])) == 1

    @proves("CO1")
    async def test_nothing_is_started_without_being_asked_for(self) -> None:
        async with self.opened() as store:
            await begin(store, fork())
            (first,) = (await claim(store, tasks=["a"])).jobs
            assert (await store.finish([decide(first, Done("1"), now=NOW)])).carried_on == []
            assert len(await claim_ids(store, tasks=["b", "c"])) == 2

    @proves("CO1")
    async def test_an_outcome_that_is_refused_starts_nothing(self) -> None:
        async with self.opened() as store:
            await begin(store, chain("a", "b"))
            (first,) = (await claim(store, tasks=["a"])).jobs
            request = CarryOn(worker="ada", queues=None, tasks=["b"], limit=10, now=NOW)
            stranger = replace(first, lease="another")
            finished = await store.finish([decide(stranger, Done("1"), now=NOW)], carry_on=request)
            assert (finished, finished.carried_on) == (set(), [])

    @proves("CO1")
    async def test_the_last_item_of_a_map_starts_what_needs_all_of_them(self) -> None:
        async with self.opened() as store:
            await begin(store, MAP)
            (first,) = (await claim(store, tasks=["a"])).jobs
            request = CarryOn(worker="ada", queues=None, tasks=["item", "b"], limit=10, now=NOW)
            items = (await store.finish([decide(first, Done("[1, 2]"), now=NOW)], carry_on=request)).carried_on
            assert [job.task for job in items] == ["item", "item"]
            (last,) = (
                await store.finish([decide(one, Done("1"), now=NOW) for one in items], carry_on=request)
            ).carried_on
            assert last.task == "b"
            assert last == await read_job(store, last.id)

    @proves("CO2")
    async def test_only_jobs_of_the_worker_s_queues_and_tasks_are_started(self) -> None:
        async with self.opened() as store:
            assert await started_names(store, fork(), tasks=["c"]) == ["c"]
            assert await started_names(store, fork(queue="other"), queues=["default"]) == []
            assert await started_names(store, fork(queue="other"), queues=["default", "other"]) == ["b", "c"]

    @proves("CO2")
    async def test_jobs_of_a_paused_queue_are_not_started(self) -> None:
        async with self.opened() as store:
            await store.pause_queue("other", True)
            assert await started_names(store, fork(queue="other")) == []

    @proves("CO2")
    async def test_a_job_is_started_only_once_it_is_due_and_until_it_expires(self) -> None:
        async with self.opened() as store:
            assert await started_names(store, fork(delay=5.0)) == []
            assert await started_names(store, fork(expires=5.0), now=later(5)) == []
            assert await started_names(store, fork(expires=5.0), now=later(4)) == ["b", "c"]

    @proves("CO2")
    async def test_a_job_of_a_task_with_an_open_circuit_is_not_started(self) -> None:
        async with self.opened() as store:
            await open_circuit(store, "b")
            assert await started_names(store, fork()) == ["c"]

    @proves("CO2")
    async def test_a_worker_whose_lease_has_lapsed_gets_nothing(self) -> None:
        async with self.opened() as store:
            await beat(store, "bob", until=later(3))
            assert await started_names(store, fork(), worker="bob", now=later(3)) == []
            assert await started_names(store, fork(), worker="unknown") == []

    @proves("CO2")
    async def test_no_more_bytes_are_started_than_a_claim_takes(self) -> None:
        async with self.opened() as store:
            text = f'"{"x" * (CLAIM_BYTES // 2 + 1)}"'
            steps = [a_step("a"), *(a_step(name, args={"x": Input(0)}, after=(0,)) for name in "bcd")]
            big = Plan(tuple(steps), (text,))
            assert len(await started_names(store, big, tasks=["b", "c", "d"])) == 2

    @proves("CO3")
    async def test_a_due_job_of_a_higher_priority_goes_first(self) -> None:
        async with self.opened() as store:
            (urgent,) = await put(store, new_job(task="b", priority=1))
            _, finished = await end_first(store, fork())
            assert finished.carried_on == []
            assert (await claim_ids(store, tasks=["b", "c"]))[0] == urgent

    @proves("CO3")
    async def test_a_job_that_the_worker_could_not_claim_holds_nothing_up(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(task="b", priority=1, run_at=later(1)), new_job(task="other", priority=1))
            await put(store, new_job(task="b", priority=0), new_job(task="b", queue="other", priority=1))
            assert await started_names(store, fork(), queues=["default"]) == ["b", "c"]

    @proves("CO4")
    async def test_a_repeated_call_starts_nothing_again(self) -> None:
        async with self.opened() as store:
            await begin(store, chain("a", "b"))
            (first,) = (await claim(store, tasks=["a"])).jobs
            request = CarryOn(worker="ada", queues=None, tasks=["b"], limit=10, now=NOW)
            ends = [decide(first, Done("1"), now=NOW)]
            (job,) = (await store.finish(ends, carry_on=request)).carried_on
            again = await store.finish(ends, carry_on=request)
            assert (again, again.carried_on) == ({first.id}, [])
            assert await read_job(store, job.id) == job
            assert (await beat(store)).holds == {job.id: job.lease}

    @proves("LM12")
    async def test_a_job_with_a_limit_is_left_to_a_claim(self) -> None:
        async with self.opened() as store:
            limit_key = limit_key_of("task:task", "a")
            flow, finished = await end_first(store, chain("a"), tasks=["task"], limit_key=limit_key)
            assert finished.carried_on == []
            assert await claim_ids(store) == [flow]
