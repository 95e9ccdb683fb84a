"""Flows and operators: cancelling, retrying and deleting a flow, or one of its steps."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ...flow import moves
from ...flow.graph import Graph
from ...ids import JobId
from ...records.flow import CANCEL_STEPS, MAX_CANCELLED_JOBS, FlowWithPlan, ItemCounts
from ...records.job import MAX_PRIORITY, Action, Job, State
from ...records.outcome import Cancel, Discard, Done, RunEnd, Suspend, decide
from ...records.plan import Input, KeptStep, Plan, ValueOf
from ...records.query import Filter, Update
from ...records.step import MAX_POSITION, StepValue, position_of
from .build import (
    NOW,
    a_schedule,
    act,
    all_jobs,
    claim_job,
    finish_run,
    fire,
    later,
    new_job,
    next_revision,
    put,
    read_job,
    read_schedule,
    start,
    tick_job,
)
from .flow import DIAMOND, MAP, a_step, begin, chain, flows_of, row_of, run, run_step, step_job, steps_of
from .flow_cancels import FlowCancelsContract
from .sentences import proves


class FlowActionsContract(FlowCancelsContract):
    @proves("FL2", "F9")
    async def test_a_refused_job_that_follows_another_run_takes_nothing_from_flows(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            first = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            await put(store, new_job(task="held", unique_key="k"))
            other = await start(store)
            refused = new_job(unique_key="k", on_conflict="raise")
            ends = [decide(first, Done("1"), now=NOW), replace(decide(other, Done(), now=NOW), then=(refused,))]
            assert await store.finish(ends) == {first.id, other.id}
            assert (await row_of(store, id)).statuses == "cr"
            assert refused.id not in [job.id for job in await all_jobs(store)]

    @proves("FL8", "FL4", "FL5")
    async def test_cancelling_a_flow_cancels_its_steps_and_then_wakes_it(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_step("a"), a_step("b"), a_step("c", after=(0,)), a_step("d", after=(0,), on="end")))
            id = await begin(store, plan)
            running = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            changed = await act(store, Action.CANCEL, id, reason="customer")
            assert changed.done == [id]
            job, row = await read_job(store, id), await row_of(store, id)
            assert (job.state, job.cancel_reason, row.state) == (State.WAITING, "customer", "cancelling")
            assert (await step_job(store, id, 1)).state is State.CANCELLED
            assert (await read_job(store, running.id)).cancel_reason is not None
            await finish_run(store, running, Cancel("stopped"), now=NOW)
            assert (await row_of(store, id)).statuses == "xxxr"  # on="end" runs
            await run_step(store, id, 3, Done())
            assert ((await row_of(store, id)).state, (await read_job(store, id)).state) == ("over", State.PENDING)

    @proves("FL8")
    async def test_a_second_cancel_stops_the_remaining_steps(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_step("a"), a_step("b", after=(0,), on="end")))
            id = await begin(store, plan)
            await act(store, Action.CANCEL, id, reason="first")
            assert (await step_job(store, id, 1)).state is State.PENDING
            await act(store, Action.CANCEL, id, reason="second")
            assert (await step_job(store, id, 1)).state is State.CANCELLED
            job = await read_job(store, id)
            assert (job.state, job.cancel_reason) == (State.PENDING, "first")

    @proves("FL8")
    async def test_cancelling_a_flow_cancels_the_flows_in_it(self) -> None:
        async with self.opened() as store:
            outer = await begin(store, chain("a", "b"))
            inner = (await step_job(store, outer, 0)).id
            await run(store, inner, Suspend(chain("c", "d")))
            await act(store, Action.CANCEL, outer, reason="no")
            assert (await step_job(store, inner, 0)).state is State.CANCELLED
            assert (await read_job(store, inner)).state is State.PENDING
            await run(store, inner, Cancel("no"))
            assert ((await row_of(store, outer)).statuses, (await row_of(store, outer)).state) == ("xx", "over")

    @proves("FL4", "FL8")
    async def test_a_flow_with_more_jobs_than_one_transaction_cancels_leaves_the_rest_to_a_job(self) -> None:
        async with self.opened() as store:
            id = await begin(store, MAP)
            await run_step(store, id, 0, Done(f"[{','.join(map(str, range(300)))}]"))
            given = (await flows_of(store).flows([id]))[0]
            count = MAX_CANCELLED_JOBS + 5
            page = moves.add_items(Graph(given.plan), given.row, 1, 1, map(str, range(count)), NOW, last=False).jobs
            await put(store, *page)
            await act(store, Action.CANCEL, id, reason="no")
            left = await store.jobs(Filter(tasks=(CANCEL_STEPS,)), now=NOW, limit=2)
            assert [(job.state, job.priority) for job in left] == [(State.PENDING, MAX_PRIORITY)]
            assert left[0].payload == f'{{"flow":"{id}","steps":[1]}}'
            row = await row_of(store, id)
            assert row.counts[1].cancelled in (MAX_CANCELLED_JOBS, MAX_CANCELLED_JOBS - 1)  # its fan-out is one of them

    @proves("FL9")
    async def test_retrying_a_flow_puts_its_dead_and_cancelled_steps_back_to_work(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DIAMOND)
            await run_step(store, id, 0, Done('{"part":1}'))
            await run_step(store, id, 1, ValueError("no"))
            await run_step(store, id, 2, Done("2"))
            assert (await row_of(store, id)).statuses == "cdcu"
            await run(store, id, Discard("dead step"), concludes=(await row_of(store, id)).revision)
            assert (await read_job(store, id)).state is State.DEAD
            assert (await act(store, Action.RETRY, id)).done == [id]
            job = await read_job(store, id)
            assert (job.state, job.finished_at, job.failure and job.failure.type) == (State.WAITING, None, "Discard")
            assert (await row_of(store, id)).statuses == "crcw"
            await run_step(store, id, 1, Done("1"))
            d = await step_job(store, id, 3)
            assert (d.payload, d.refs) == ('{"left":1,"right":null}', {"/right": StepValue(position_of(2))})

    @proves("FL9")
    async def test_retrying_a_cancelled_flow_decides_its_steps_again(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            await act(store, Action.CANCEL, id, reason="no")
            await run(store, id, Cancel("no"), concludes=(await row_of(store, id)).revision)
            assert (await read_job(store, id)).state is State.CANCELLED
            await act(store, Action.RETRY, id)
            assert (await row_of(store, id)).statuses == "rw"
            assert (await step_job(store, id, 0)).state is State.PENDING

    @proves("FL9")
    async def test_retrying_a_flow_without_failed_steps_concludes_it_again(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            await run_step(store, id, 0, Done())
            await run(store, id, Discard("too large"), concludes=(await row_of(store, id)).revision)
            await act(store, Action.RETRY, id)
            assert (await read_job(store, id)).state is State.PENDING

    @proves("FL9")
    async def test_retrying_a_step_reopens_its_flow(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"), unique_key="one")
            await run_step(store, id, 0, ValueError("no"))
            await run(store, id, Discard("dead step"), concludes=(await row_of(store, id)).revision)
            step = (await step_job(store, id, 0)).id
            assert (await act(store, Action.RETRY, step)).done == [step]
            assert ((await read_job(store, id)).state, (await row_of(store, id)).statuses) == (State.WAITING, "rw")
            (answer,) = await store.enqueue([new_job(unique_key="one")], now=NOW)
            assert (answer.status, answer.id) == ("duplicate", id)
            await run(store, step, Done("1"))
            assert (await row_of(store, id)).statuses == "cr"

    @proves("FL9")
    async def test_retrying_a_step_of_a_flow_that_has_completed_runs_only_that_job(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_step("a", optional=True), a_step("m", over=Input(0), item="n", optional=True)), ("[1]",))
            id = await begin(store, plan)
            await run_step(store, id, 0, ValueError("no"))
            dead = [(await step_job(store, id, 0)).id, (await step_job(store, id, 1, index=1)).id]
            await run(store, dead[1], ValueError("no"))
            before = await row_of(store, id)
            await run(store, id, Done(), concludes=before.revision)
            for job in dead:
                for ended in (ValueError("again"), Done("1")):
                    assert (await act(store, Action.RETRY, job)).done == [job]
                    await run(store, job, ended)
                assert (await read_job(store, job)).state is State.COMPLETED
            row = await row_of(store, id)
            assert (row.statuses, row.counts, row.state) == ("dd", before.counts, "over")
            assert (await read_job(store, id)).state is State.COMPLETED

    @proves("FL9")
    async def test_a_flow_that_is_due_to_conclude_waits_for_a_step_that_is_retried(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            await run_step(store, id, 0, ValueError("no"))
            assert (await read_job(store, id)).state is State.PENDING
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            assert (await read_job(store, id)).state is State.WAITING

    @proves("FL9")
    async def test_a_paused_flow_stays_paused_if_a_step_of_it_is_retried(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            await run_step(store, id, 0, ValueError("no"))
            await act(store, Action.PAUSE, id)
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            assert ((await read_job(store, id)).state, (await row_of(store, id)).statuses) == (State.PAUSED, "r")

    @proves("FL9")
    async def test_a_step_is_not_retried_while_another_job_holds_the_key_of_its_flow(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"), unique_key="one")
            await run_step(store, id, 0, ValueError("no"))
            await run(store, id, Discard("dead step"), concludes=(await row_of(store, id)).revision)
            (other,) = await put(store, new_job(unique_key="one"))
            step = (await step_job(store, id, 0)).id
            changed = await act(store, Action.RETRY, step)
            assert (changed.done, changed.refused[step].holder) == ([], other)
            assert (await row_of(store, id)).statuses == "du"

    @proves("FL9", "FL2")
    async def test_a_step_retried_before_its_flow_is_over_goes_on_in_it(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b"), a_step("c", args={"x": ValueOf(0)}))))
            await run_step(store, id, 0, ValueError("no"))
            assert (await row_of(store, id)).statuses == "dru"
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            assert (await row_of(store, id)).statuses == "rrw"

    @proves("FL9")
    async def test_a_job_whose_step_has_another_one_is_not_retried(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="end"))))
            await run_step(store, id, 0, ValueError("no"))
            first = (await run_step(store, id, 1, ValueError("no"))).id
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            await run_step(store, id, 0, Done("1"))
            second = await step_job(store, id, 1, life=1)
            assert (await act(store, Action.RETRY, first)).refused[first].error is not None
            await run(store, second.id, Done())
            assert (await row_of(store, id)).statuses == "cc"

    @proves("FL9")
    async def test_a_step_retried_together_with_one_that_it_needs_goes_on(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="end"))))
            for n in (0, 1):
                await run_step(store, id, n, ValueError("no"))
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id, (await step_job(store, id, 1)).id)
            assert (await row_of(store, id)).statuses == "rr"
            for n in (1, 0):
                await run_step(store, id, n, Done())
            assert ((await row_of(store, id)).statuses, (await read_job(store, id)).state) == ("cc", State.PENDING)

    @proves("FL9")
    async def test_a_flow_retried_together_with_its_steps_waits_for_them(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            await run_step(store, id, 0, ValueError("no"))
            await run(store, id, Discard("dead step"), concludes=(await row_of(store, id)).revision)
            await act(store, Action.RETRY, id, (await step_job(store, id, 0)).id)
            assert ((await row_of(store, id)).statuses, (await read_job(store, id)).state) == ("rw", State.WAITING)

    @proves("FL8")
    async def test_a_schedule_that_replaces_its_run_cancels_its_flow(self) -> None:
        async with self.opened() as store:
            schedule = a_schedule("s")
            job = tick_job(schedule, NOW)
            await fire(store, replace(schedule, active=(job.id,)), jobs=(job,))
            await run(store, job.id, Suspend(chain("a")))
            await fire(store, next_revision(await read_schedule(store, "s")), cancel=(job.id,))
            assert ((await row_of(store, job.id)).state, (await read_job(store, job.id)).state) == (
                "over",
                State.PENDING,
            )

    @proves("FL9")
    async def test_retrying_a_step_of_a_flow_in_a_flow_reopens_both_and_revives_the_run_of_the_schedule(self) -> None:
        async with self.opened() as store:
            schedule = a_schedule("s")
            job = tick_job(schedule, NOW)
            await fire(store, replace(schedule, active=(job.id,)), jobs=(job,))
            await run(store, job.id, Suspend(chain("a")))
            inner = (await step_job(store, job.id, 0)).id
            await run(store, inner, Suspend(chain("b")))
            await run_step(store, inner, 0, ValueError("no"))
            for id in (inner, job.id):
                await run(store, id, Discard("dead step"), concludes=(await row_of(store, id)).revision)
            assert (await read_schedule(store, "s")).active == ()
            await act(store, Action.RETRY, (await step_job(store, inner, 0)).id)
            assert [(await read_job(store, id)).state for id in (inner, job.id)] == [State.WAITING] * 2
            assert (await read_schedule(store, "s")).active == (job.id,)

    @proves("FL2", "FL8")
    async def test_a_step_released_by_the_call_that_cancels_its_flow_is_cancelled(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="failure"))))
            await act(store, Action.CANCEL, id, (await step_job(store, id, 0)).id, reason="no")
            assert "r" not in (await row_of(store, id)).statuses
            assert {job.state for job in await steps_of(store, id)} == {State.CANCELLED}

    @proves("FL9")
    async def test_an_earlier_life_of_a_step_that_goes_on_does_not_move_the_flow(self) -> None:
        async with self.opened() as store:
            outer = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="end"))))
            await run_step(store, outer, 0, ValueError("no"))
            inner = (await step_job(store, outer, 1)).id
            await run(store, inner, Suspend(chain("c")))
            await run_step(store, inner, 0, ValueError("no"))
            await run(store, inner, Discard("dead step"), concludes=(await row_of(store, inner)).revision)
            await act(store, Action.RETRY, (await step_job(store, outer, 0)).id)
            await run_step(store, outer, 0, Done())
            row = await row_of(store, outer)
            assert (row.statuses, row.lives) == ("cr", {1: 1})
            await act(store, Action.RETRY, (await step_job(store, inner, 0)).id)
            assert (await read_job(store, inner)).state is State.WAITING
            assert await row_of(store, outer) == row

    @proves("FL6")
    @pytest.mark.parametrize("ended", [Discard("dead step"), Done("1")], ids=["dead", "completed"])
    async def test_a_flow_that_changed_while_it_was_concluded_waits_again(self, ended: RunEnd) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            await run_step(store, id, 0, ValueError("no"))
            concluding = await claim_job(store, id)
            revision = (await row_of(store, id)).revision
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            assert await finish_run(store, concluding, ended, now=NOW, concludes=revision) == set()
            assert (await read_job(store, id)).state is State.WAITING
            await run_step(store, id, 0, Done("1"))
            await run_step(store, id, 1, Done("1"))
            assert (await read_job(store, id)).state is State.PENDING

    @proves("FL6")
    async def test_a_flow_that_is_over_again_while_it_is_concluded_goes_on_running(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            await run_step(store, id, 0, ValueError("no"))
            concluding = await claim_job(store, id)
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            await run_step(store, id, 0, Done("1"))
            assert (await row_of(store, id)).state == "over"
            assert (await read_job(store, id)).state is State.RUNNING
            assert await finish_run(store, concluding, Discard("dead step"), now=NOW, concludes=2) == set()
            assert (await read_job(store, id)).state is State.PENDING

    @proves("FL1")
    async def test_a_plan_that_comes_late_starts_no_flow_and_a_repeated_one_starts_it_once(self) -> None:
        async with self.opened() as store:
            job, ended = await start(store), await start(store)
            late = decide(replace(job, lease="late"), Suspend(DIAMOND), now=NOW)
            assert await store.finish([late]) == set()
            assert (await read_job(store, job.id)).state is State.RUNNING
            assert await finish_run(store, ended, Done(), now=NOW) == {ended.id}
            assert await store.finish([decide(ended, Suspend(DIAMOND), now=NOW)]) == set()
            assert (await read_job(store, ended.id)).state is State.COMPLETED
            planned = decide(job, Suspend(DIAMOND), now=NOW)
            for _ in range(2):
                assert await store.finish([planned, late]) == {job.id}
            assert (await row_of(store, job.id)).revision == 1
            assert len(await store.executions(job.id)) == 1
            assert await flows_of(store).flows([ended.id]) == []

    @proves("FL10")
    async def test_deleting_a_flow_deletes_its_steps(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DIAMOND)
            await run_step(store, id, 0, Done('{"part":1}'))
            running = await claim_job(store, (await step_job(store, id, 1)).id, tasks=["b"])
            await act(store, Action.DELETE, id)
            assert await flows_of(store).flows([id]) == []
            (left,) = await all_jobs(store)
            assert (left.id, left.state, left.cancel_reason is not None) == (running.id, State.RUNNING, True)
            assert await finish_run(store, running, Done("1"), now=NOW) == {running.id}
            assert len(await all_jobs(store)) == 1

    @proves("FL10")
    async def test_deleting_a_flow_deletes_the_flows_in_it(self) -> None:
        async with self.opened() as store:
            outer = await begin(store, chain("a", "b"))
            inner = (await step_job(store, outer, 0)).id
            await run(store, inner, Suspend(chain("c", "d")))
            await act(store, Action.DELETE, outer)
            assert await all_jobs(store) == []
            assert await flows_of(store).flows([outer, inner]) == []

    @proves("FL11")
    async def test_steps_are_prunable_only_without_their_flow(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b"))
            await run_step(store, id, 0, Done())
            alone = await run(store, (await put(store, new_job(task="a")))[0], Done())

            async def prunable(limit: int) -> list[JobId]:
                found = await store.prunable(State.COMPLETED, "a", keep=0, before=later(60), limit=limit)
                return [job.id for job in found]

            assert await prunable(1) == await prunable(10) == [alone.id]

    @proves("FL2")
    async def test_the_queue_of_a_waiting_flow_stays(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            changed = await act(store, Action.UPDATE, id, update=Update(queue="other"))
            assert changed.refused[id].error is not None
            await act(store, Action.UPDATE, id, update=Update(priority=5))
            assert (await read_job(store, id)).priority == 5

    @proves("FL12", "FL13")
    async def test_unknown_flows_and_steps_are_left_out(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await flows_of(store).flows([job.id, "none"]) == []
            assert await flows_of(store).flows([]) == []
            assert await flows_of(store).step_jobs(job.id, first=0, last=MAX_POSITION, limit=10) == []

    @proves("FL13")
    async def test_step_jobs_are_read_in_pages_by_position(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan(tuple(a_step("a", task="a") for _ in range(5))))
            first = await flows_of(store).step_jobs(id, first=0, last=MAX_POSITION, limit=2)
            assert [job.step and job.step.number for job in first] == [0, 1]
            rest = await flows_of(store).step_jobs(id, first=position_of(2), last=position_of(3), limit=10)
            assert [job.step and job.step.number for job in rest] == [2, 3]
            assert all(isinstance(job, Job) for job in rest)

    @proves("FL1", "FL9")
    async def test_a_flow_begins_behind_the_steps_that_its_plan_takes_over(self) -> None:
        of_map = KeptStep("c", items=((0, "5"),), made=2, dead=1)
        kept = {2: KeptStep("d"), 0: KeptStep("c", '"é"'), 3: of_map}
        steps = (
            a_step("a"),
            a_step("b", args={"x": ValueOf(0)}),
            a_step("c"),
            a_step("item", over=ValueOf(0), item="n"),
            a_step("d", args={"x": ValueOf(1)}),
        )
        async with self.opened() as store:
            new = new_job(plan=(plan := Plan(steps, result=ValueOf(3), kept=kept)))
            await put(store, new)
            (found,) = await flows_of(store).flows([new.id])
            assert found == FlowWithPlan(moves.start(Graph(plan), new.id, new.queue, NOW).flow, plan)
            assert (found.row.statuses, found.row.dead) == ("crdcw", (2,))
            assert found.row.counts == {3: ItemCounts(2, 2, 1)}
            (b,) = await steps_of(store, new.id)
            assert b.payload == '{"x":"é"}'
            await run(store, b.id, Done("1"))
            await run_step(store, new.id, 4, Done("2"))
            await run(store, new.id, Discard("dead"), concludes=(await row_of(store, new.id)).revision)
            await act(store, Action.RETRY, new.id)
            assert (await row_of(store, new.id)).statuses == "ccrcc"
