"""Flows: what happens to the jobs of steps changes their flow in the same transaction, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ...flow import moves
from ...flow.graph import Graph
from ...ids import JobId
from ...records.flow import FAN_OUT, Flow, FlowWithPlan
from ...records.job import Action, Job, State
from ...records.outcome import (
    Cancel,
    Crashed,
    Discard,
    Done,
    Policy,
    Released,
    Retry,
    RunEnd,
    Skip,
    Suspend,
    decide,
)
from ...records.plan import Compare, Input, Plan, PlannedStep, StepOptions, ValueOf
from ...records.run import Ending
from ...records.step import MAX_POSITION, StepRef, StepValue, position_of
from ...store import FlowStore, Store
from .build import (
    NOW,
    Contract,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    later,
    new_job,
    put,
    read_job,
    start,
)
from .sentences import proves

DEAD = Policy(max_retries=0)


def a_step(name: str, /, **fields: Any) -> PlannedStep:
    return PlannedStep(name, fields.pop("task", name), **fields)


def chain(*names: str) -> Plan:
    """Steps that each get the value of the one before."""
    steps = [a_step(name, args={"value": ValueOf(n - 1)} if n else {}) for n, name in enumerate(names)]
    return Plan(tuple(steps), result=ValueOf(len(names) - 1))


DIAMOND = Plan(
    (
        a_step("a", args={"x": Input(0)}),
        a_step("b", args={"value": ValueOf(0)}),
        a_step("c", args={"value": ValueOf(0, ("part",))}, options=StepOptions(queue="other", priority=3, tags=("t",))),
        a_step("d", args={"left": ValueOf(1), "right": ValueOf(2)}),
    ),
    ("7",),
    result=ValueOf(3),
)
LARGE = f"[{','.join(map(str, range(300)))}]"
YIELDING = Plan(
    (
        a_step("rows", yields=True),
        a_step("here", over=ValueOf(0), item="n"),
        a_step("there", over=ValueOf(0), item="n", options=StepOptions(queue="other")),
        a_step("sum", args={"first": ValueOf(1), "second": ValueOf(2)}),
    )
)
MAP = Plan(
    (
        a_step("a"),
        a_step("item", over=ValueOf(0), item="n"),
        a_step("b", args={"all": ValueOf(1)}),
    ),
    result=ValueOf(2),
)


def flows_of(store: Store) -> FlowStore:
    assert store.capabilities.flows
    return store  # type: ignore[return-value]


async def begin(store: Store, plan: Plan, **fields: Any) -> JobId:
    """A flow whose first run has planned it."""
    job = await start(store, **fields)
    assert await finish_run(store, job, Suspend(plan), now=NOW) == {job.id}
    return job.id


async def row_of(store: Store, id: JobId) -> Flow:
    (found,) = await flows_of(store).flows([id])
    return found.row


async def steps_of(store: Store, id: JobId) -> list[Job]:
    return await flows_of(store).step_jobs(id, first=0, last=MAX_POSITION, limit=1000)


async def step_job(store: Store, id: JobId, number: int, index: int = 0, life: int = 0) -> Job:
    position = position_of(number, index, life)
    (found,) = await flows_of(store).step_jobs(id, first=position, last=position, limit=2)
    return found


async def run(store: Store, id: JobId, ended: RunEnd, *, policy: Policy = DEAD, **fields: Any) -> Job:
    """Claims the job and ends its run."""
    job = await claim_job(store, id, tasks=[(await read_job(store, id)).task])
    assert await finish_run(store, job, ended, now=NOW, policy=policy, **fields) == {id}
    return job


async def run_step(store: Store, id: JobId, number: int, ended: RunEnd, **fields: Any) -> Job:
    return await run(store, (await step_job(store, id, number)).id, ended, **fields)


class FlowContract(Contract):
    # a flow begins

    @proves("FL1", "FL3", "FL12", "FL13")
    async def test_an_outcome_with_a_plan_starts_the_flow_and_its_first_steps(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DIAMOND, queue="default", priority=1)
            job = await read_job(store, id)
            assert (job.state, job.attempt, job.runs, job.lease) == (State.WAITING, 0, 1, None)
            expected = moves.start(Graph(DIAMOND), id, "default", NOW)
            assert await flows_of(store).flows([id]) == [FlowWithPlan(expected.flow, DIAMOND)]
            (step,) = await steps_of(store, id)
            (new,) = expected.jobs
            assert (step.id, step.task, step.payload, step.state) == (new.id, "a", '{"x":7}', State.PENDING)
            assert (step.step, step.run_at, step.created_at) == (StepRef(id, 0, "default", True), NOW, NOW)
            (run,) = await store.executions(id)
            assert (run.ending, run.attempt) == (Ending.SUSPENDED, 1)

    @proves("FL1")
    async def test_a_second_plan_of_a_flow_is_ignored(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            await run_step(store, id, 0, Done())
            assert (await read_job(store, id)).state is State.PENDING
            await run(store, id, Suspend(DIAMOND))
            assert (await flows_of(store).flows([id]))[0].plan == chain("a")
            assert (await read_job(store, id)).state is State.PENDING  # it is over, so it is due again

    @proves("FL1")
    async def test_a_job_enqueued_with_a_plan_is_waiting_and_has_begun(self) -> None:
        async with self.opened() as store:
            new = new_job(plan=chain("a", "b"), queue="q")
            assert await put(store, new, new) == [new.id, new.id]
            assert (await read_job(store, new.id)).state is State.WAITING
            assert [job.task for job in await steps_of(store, new.id)] == ["a"]
            assert await put(store, new) == [new.id]
            assert (await row_of(store, new.id)).revision == 1

    @proves("FL1")
    async def test_a_flow_whose_steps_are_all_skipped_is_over_at_once(self) -> None:
        async with self.opened() as store:
            never = Plan((a_step("a", when=Compare("==", Input(0), Input(1))),), ("1", "2"))
            id = await begin(store, never)
            assert (await row_of(store, id)).state == "over"
            job = await read_job(store, id)
            assert (job.state, job.run_at) == (State.PENDING, NOW)

    @proves("FL1")
    async def test_a_job_to_be_cancelled_starts_no_flow(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id, reason="no")
            await finish_run(store, job, Suspend(DIAMOND), now=NOW)
            assert (await read_job(store, job.id)).state is State.CANCELLED
            assert await flows_of(store).flows([job.id]) == []
            assert len(await all_jobs(store)) == 1

    @proves("FL1")
    async def test_a_flow_that_has_begun_cannot_expire(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"), expires_at=later(1))
            await run_step(store, id, 0, Done())
            job = await claim_job(store, id, now=later(5))
            assert job.expires_at is None

    # steps end

    @proves("FL2", "FL3", "FL5")
    async def test_steps_release_those_that_need_them_with_their_values(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DIAMOND)
            await run_step(store, id, 0, Done('{"part":"é"}'))
            b, c = await step_job(store, id, 1), await step_job(store, id, 2)
            assert (b.payload, c.payload) == ('{"value":{"part":"é"}}', '{"value":"é"}')
            assert (c.queue, c.priority, c.tags) == ("other", 3, ("t",))
            await run(store, c.id, Done("2"))
            assert len(await steps_of(store, id)) == 3
            await run(store, b.id, Done("1"))
            d = await step_job(store, id, 3)
            assert d.payload == '{"left":1,"right":2}'
            assert (await read_job(store, id)).state is State.WAITING
            await run(store, d.id, Done('"end"'))
            row = await row_of(store, id)
            assert (row.statuses, row.state, row.values) == ("cccc", "over", {3: '"end"'})
            job = await read_job(store, id)
            assert (job.state, job.run_at) == (State.PENDING, NOW)

    @proves("FL2")
    async def test_many_ends_of_one_call_move_the_flow_as_one_by_one(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DIAMOND)
            await run_step(store, id, 0, Done('{"part":1}'))
            await beat(store)
            jobs = (await claim(store, tasks=["b", "c"])).jobs
            ends = [decide(job, Done("5"), now=NOW) for job in jobs]
            assert await store.finish(ends) == {job.id for job in jobs}
            assert (await step_job(store, id, 3)).payload == '{"left":5,"right":5}'

    @proves("FL2")
    @pytest.mark.parametrize(
        ("ended", "status"),
        [
            (Done("1"), "c"),
            (Skip("no"), "s"),
            (Discard("no"), "d"),
            (ValueError("no"), "d"),
            (Cancel("no"), "x"),
        ],
        ids=["done", "skip", "discard", "error", "cancel"],
    )
    async def test_each_end_of_a_job_gives_its_step_a_status(self, ended: RunEnd, status: str) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="end"))))
            await run_step(store, id, 0, ended)
            assert (await row_of(store, id)).statuses == f"{status}r"

    @proves("FL2")
    @pytest.mark.parametrize("ended", [Retry(5), Released(), ValueError("no")], ids=repr)
    async def test_a_run_that_does_not_end_its_job_does_not_move_the_flow(self, ended: RunEnd) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            await run_step(store, id, 0, ended, policy=Policy())
            assert (await row_of(store, id)).statuses == "rw"

    @proves("FL2")
    async def test_an_expired_step_is_dead_and_a_deleted_one_cancelled(self) -> None:
        async with self.opened() as store:
            plan = Plan(
                (a_step("a", options=StepOptions(expires=1.0)), a_step("b"), a_step("c", after=(0, 1), on="end"))
            )
            id = await begin(store, plan)
            await beat(store, until=later(60))
            await claim(store, tasks=["none"], now=later(2))
            assert (await row_of(store, id)).statuses == "drw"
            await act(store, Action.DELETE, (await step_job(store, id, 1)).id)
            assert (await row_of(store, id)).statuses == "dxr"

    @proves("FL2")
    async def test_a_crashed_worker_ends_a_step_once(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 1), now=NOW)
            assert (await row_of(store, id)).statuses == "du"
            assert await finish_run(store, job, Done(), now=NOW) == set()
            assert (await row_of(store, id)).revision == 2

    @proves("FL2")
    async def test_a_repeated_outcome_moves_the_flow_once_and_a_late_one_never(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            job = await run_step(store, id, 0, Done("1"))
            row = await row_of(store, id)
            again = decide(job, Done("1"), now=NOW)
            assert await store.finish([again, again]) == {job.id}
            assert await store.finish([replace(again, lease="late", result="2")]) == set()
            assert await row_of(store, id) == row
            assert [step.task for step in await steps_of(store, id)] == ["a", "b"]

    @proves("FL2")
    async def test_two_last_steps_that_end_at_once_release_the_next_one_once(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DIAMOND)
            await run_step(store, id, 0, Done('{"part":1}'))
            await beat(store)
            b, c = (await claim(store, tasks=["b"])).jobs[0], (await claim(store, tasks=["c"])).jobs[0]
            ends = [[decide(job, Done("1"), now=NOW)] for job in (b, c)]
            assert await asyncio.gather(*map(store.finish, ends)) == [{b.id}, {c.id}]
            assert [job.task for job in await steps_of(store, id)] == ["a", "b", "c", "d"]

    @proves("FL2", "FL4")
    async def test_finish_ends_the_flow_and_cancels_the_other_steps(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b"), a_step("c", after=(1,)))))
            running = await claim_job(store, (await step_job(store, id, 1)).id, tasks=["b"])
            await run_step(store, id, 0, Done('"early"', finish=True))
            row = await row_of(store, id)
            assert (row.statuses, row.finish, row.state) == ("crx", '"early"', "finishing")
            assert (await read_job(store, running.id)).cancel_reason is not None
            await finish_run(store, running, Cancel("stopped"), now=NOW)
            assert (await row_of(store, id)).state == "over"

    @proves("FL2", "FL5")
    async def test_a_flow_in_a_flow_ends_its_step(self) -> None:
        async with self.opened() as store:
            outer = await begin(store, chain("a", "b"))
            inner = (await step_job(store, outer, 0)).id
            await run(store, inner, Suspend(chain("c")))
            assert (await row_of(store, outer)).statuses == "rw"
            await run_step(store, inner, 0, Done("3"))
            await run(store, inner, Done("3"), concludes=(await row_of(store, inner)).revision)
            assert (await row_of(store, outer)).statuses == "cr"
            assert (await step_job(store, outer, 1)).payload == '{"value":3}'

    @proves("FL3")
    async def test_a_large_result_is_referred_to(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            large = f'"{"x" * 100_000}"'
            await run_step(store, id, 0, Done(large))
            b = await step_job(store, id, 1)
            assert (b.payload, b.refs) == ('{"value":null}', {"/value": StepValue(0)})
            assert (await step_job(store, id, 0)).result == large
            assert (await claim_job(store, b.id, tasks=["b"])).refs == b.refs

    # maps

    @proves("FL3")
    async def test_a_small_map_makes_its_items_in_the_move(self) -> None:
        async with self.opened() as store:
            id = await begin(store, MAP)
            await run_step(store, id, 0, Done("[10,20,30]"))
            items = [job for job in await steps_of(store, id) if job.step is not None and job.step.index]
            assert [job.payload for job in items] == ['{"n":10}', '{"n":20}', '{"n":30}']
            for job in (await claim(store, tasks=["item"])).jobs:
                await finish_run(store, job, Done(job.payload), now=NOW)
            b = await step_job(store, id, 2)
            assert b.refs == {"/all": StepValue(position_of(1), many=True)}

    @proves("FL7")
    async def test_items_are_counted_as_they_are_stored_and_a_repeated_page_is_not(self) -> None:
        async with self.opened() as store:
            id = await begin(store, MAP)
            await run_step(store, id, 0, Done(f"[{','.join(map(str, range(300)))}]"))
            spread = await step_job(store, id, 1)
            assert spread.task == FAN_OUT
            given = await flows_of(store).flows([id])
            graph, row = Graph(given[0].plan), given[0].row
            page = moves.add_items(graph, row, 1, 1, map(str, range(300)), NOW, last=False).jobs
            await put(store, *page[:200])
            await put(store, *page[:200])
            await put(store, *page)
            counts = (await row_of(store, id)).counts[1]
            assert (counts.made, counts.ended, counts.closed) == (300, 0, False)
            await run(store, spread.id, Done())
            assert (await row_of(store, id)).counts[1].closed
            for job in (await claim(store, tasks=["item"], limit=300)).jobs:
                await finish_run(store, job, Done("1"), now=NOW)
            assert (await row_of(store, id)).statuses == "ccr"

    @proves("FL2", "FL7")
    async def test_items_that_a_task_yields_are_counted_until_it_ends(self) -> None:
        async with self.opened() as store:
            id = await begin(store, YIELDING)
            assert [job.task for job in await steps_of(store, id)] == ["rows"]
            rows = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["rows"])
            (given,) = await flows_of(store).flows([id])
            for _ in range(2):
                for n in (1, 2):
                    page = moves.add_items(Graph(given.plan), given.row, n, 1, ["1", "2"], NOW, last=False).jobs
                    await put(store, *page)
            for job in (await claim(store, tasks=["here", "there"], queues=["default", "other"])).jobs:
                await finish_run(store, job, Done("1"), now=NOW)
            row = await row_of(store, id)
            assert (row.statuses, [(one.made, one.ended) for one in row.counts.values()]) == ("rrrw", [(2, 2), (2, 2)])
            await finish_run(store, rows, Done("2"), now=NOW)
            assert (await row_of(store, id)).statuses == "cccr"
            late = moves.add_items(Graph(given.plan), given.row, 1, 3, ["3"], NOW, last=False).jobs
            await put(store, *late)
            assert (await read_job(store, late[0].id)).state is State.CANCELLED

    @proves("FL2")
    async def test_a_task_that_yields_goes_on_with_its_items_after_a_retry(self) -> None:
        async with self.opened() as store:
            id = await begin(store, YIELDING)
            rows = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["rows"])
            (given,) = await flows_of(store).flows([id])
            for n in (1, 2):
                page = moves.add_items(Graph(given.plan), given.row, n, 1, ["1", "2"], NOW, last=False).jobs
                await put(store, *page)
            await finish_run(store, rows, Discard("gone"), now=NOW, policy=DEAD)
            for job in (await claim(store, tasks=["here", "there"], queues=["default", "other"])).jobs:
                await finish_run(store, job, Done("1"), now=NOW)
            row = await row_of(store, id)
            assert (row.statuses, row.state) == ("dddu", "over")
            await act(store, Action.RETRY, rows.id)
            row = await row_of(store, id)
            assert (row.statuses, row.state, row.lives) == ("rrrw", "open", {})
            assert [(one.made, one.ended, one.closed) for one in row.counts.values()] == [(2, 2, False)] * 2
            await run_step(store, id, 0, Done("2"))
            assert (await row_of(store, id)).statuses == "cccr"

    @proves("FL7")
    async def test_items_of_a_map_for_the_end_are_stored_after_a_cancel(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_step("a"), a_step("tidy", over=Input(0), item="n", after=(0,), on="end")), (LARGE,))
            id = await begin(store, plan)
            await act(store, Action.CANCEL, id, reason="no")
            (given,) = await flows_of(store).flows([id])
            assert (given.row.state, given.row.statuses) == ("cancelling", "xr")
            page = moves.add_items(Graph(given.plan), given.row, 1, 1, ["0"], NOW, last=False).jobs
            await put(store, *page)
            assert (await read_job(store, page[0].id)).state is State.PENDING
            assert (await row_of(store, id)).counts[1].made == 1

    @proves("FL7")
    async def test_an_item_of_a_stopped_flow_is_stored_as_cancelled(self) -> None:
        async with self.opened() as store:
            id = await begin(store, MAP)
            await run_step(store, id, 0, Done(f"[{','.join(map(str, range(300)))}]"))
            given = (await flows_of(store).flows([id]))[0]
            page = moves.add_items(Graph(given.plan), given.row, 1, 1, ["1"], NOW, last=False).jobs
            await act(store, Action.CANCEL, id, reason="no")
            await put(store, *page)
            assert (await read_job(store, page[0].id)).state is State.CANCELLED
            lost = new_job(step=StepRef("none", position_of(0, 1), "default"))
            await put(store, lost)
            assert (await read_job(store, lost.id)).state is State.CANCELLED
