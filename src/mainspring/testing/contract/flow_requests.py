"""What is asked of flows: an operator skips a step, or a deadline has come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ...flow import moves
from ...flow.graph import Graph
from ...ids import JobId
from ...records.flow import FLOW_DEADLINE, MAX_CANCELLED_JOBS, FlowDeadline, SkipStep, TimeOut
from ...records.job import Action, Job, NewJob, State
from ...records.outcome import Cancel, Discard, Done, RunEnd, Suspend
from ...records.plan import Compare, Input, Plan, ValueOf
from ...records.query import Refusal
from ...store import Store
from .batch import BatchContract
from .build import NOW, act, all_jobs, beat, claim, claim_job, finish_run, later, new_job, put, read_job
from .flow import MAP, a_step, begin, chain, flows_of, row_of, run, run_step, step_job, steps_of
from .sentences import proves

LIMITED = Plan((a_step("a"), a_step("b", args={"x": ValueOf(0)})), result=ValueOf(1), timeout=60.0)
BOTH = Plan((a_step("a"), a_step("b", after=(0,)), a_step("c", after=(0,), on="end")))


async def skip(store: Store, id: JobId, step: int, reason: str = "not today") -> Refusal | None:
    return await flows_of(store).change_flow(id, SkipStep(step, reason), now=NOW)


async def conclude(store: Store, id: JobId, ended: RunEnd) -> None:
    await run(store, id, ended, concludes=(await row_of(store, id)).revision)


async def deadlines(store: Store) -> list[Job]:
    return [job for job in await all_jobs(store) if job.task == FLOW_DEADLINE and not job.state.final]


async def time_out(store: Store, id: JobId) -> None:
    """Runs the job of the flow's deadline."""
    job = await claim_due(store)
    assert await flows_of(store).change_flow(id, TimeOut(job.id), now=NOW) is None
    await finish_run(store, job, Done(), now=NOW)


async def claim_due(store: Store) -> Job:
    """Claims the job of the only deadline, when that has come."""
    (due,) = await deadlines(store)
    await beat(store, until=later(1000))
    return next(iter((await claim(store, tasks=[FLOW_DEADLINE], now=due.run_at)).jobs))


async def a_page(store: Store, id: JobId, count: int) -> Sequence[NewJob]:
    """The first items of MAP's map."""
    (found,) = await flows_of(store).flows([id])
    return moves.add_items(Graph(found.plan), found.row, 1, 1, map(str, range(count)), NOW, last=False).jobs


class FlowRequestsContract(BatchContract):
    @proves("FL14")
    async def test_a_dead_step_that_is_skipped_counts_as_optional(self) -> None:
        async with self.opened() as store:
            plan = Plan(
                (a_step("a"), a_step("b"), a_step("c", args={"x": ValueOf(0)}, after=(1,), accepts_none=("x",)))
            )
            id = await begin(store, plan)
            await run_step(store, id, 0, ValueError("no"))
            assert (await row_of(store, id)).statuses == "dru"
            assert await skip(store, id, 0) is None
            row = await row_of(store, id)
            assert (row.statuses, row.skipped, row.dead) == ("orw", {0: "not today"}, ())
            await run_step(store, id, 1, Done())
            assert (await step_job(store, id, 2)).payload == '{"x":null}'
            await run_step(store, id, 2, Done())
            assert ((await row_of(store, id)).statuses, (await read_job(store, id)).state) == ("occ", State.PENDING)

    @proves("FL14")
    async def test_a_step_that_waits_is_skipped_before_it_is_released(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b", "c"))
            assert await skip(store, id, 1) is None
            assert (await row_of(store, id)).statuses == "rol"
            await run_step(store, id, 0, Done())
            assert [job.task for job in await steps_of(store, id)] == ["a"]
            assert ((await row_of(store, id)).state, (await read_job(store, id)).state) == ("over", State.PENDING)

    @proves("FL14")
    async def test_the_pending_job_of_a_skipped_step_is_cancelled(self) -> None:
        async with self.opened() as store:
            id = await begin(store, BOTH)
            assert await skip(store, id, 0) is None
            assert (await step_job(store, id, 0)).state is State.CANCELLED
            assert (await row_of(store, id)).statuses == "olr"
            assert (await step_job(store, id, 2)).state is State.PENDING

    @proves("FL14")
    @pytest.mark.parametrize(
        ("ended", "status"),
        [(Cancel("stopped"), "o"), (ValueError("no"), "o"), (Done(), "c")],
        ids=["stops", "dies", "ends"],
    )
    async def test_a_running_step_is_skipped_when_its_job_has_ended_without_success(
        self, ended: RunEnd, status: str
    ) -> None:
        async with self.opened() as store:
            id = await begin(store, BOTH)
            job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            assert await skip(store, id, 0) is None
            assert (await read_job(store, job.id)).cancel_reason is not None
            assert (await row_of(store, id)).statuses == "rww"
            await finish_run(store, job, ended, now=NOW)
            assert (await row_of(store, id)).statuses[0] == status
            assert (await step_job(store, id, 2)).state is State.PENDING

    @proves("FL14")
    async def test_a_flow_in_a_skipped_step_is_cancelled(self) -> None:
        async with self.opened() as store:
            outer = await begin(store, BOTH)
            inner = (await step_job(store, outer, 0)).id
            await run(store, inner, Suspend(chain("d", "e")))
            assert await skip(store, outer, 0) is None
            assert (await step_job(store, inner, 0)).state is State.CANCELLED
            assert (await row_of(store, outer)).statuses == "rww"
            await conclude(store, inner, Cancel("stopped"))
            assert (await row_of(store, outer)).statuses == "olr"

    @proves("FL14", "FL7")
    async def test_a_map_that_is_skipped_makes_no_more_items(self) -> None:
        async with self.opened() as store:
            id = await begin(store, MAP)
            await run_step(store, id, 0, Done(f"[{','.join(map(str, range(300)))}]"))
            fan_out = await claim_job(store, (await step_job(store, id, 1)).id, tasks=["mainspring.fan_out"])
            page = await a_page(store, id, 2)
            await put(store, page[0])
            assert await skip(store, id, 1) is None
            await put(store, page[1])
            assert (await step_job(store, id, 1, 1)).state is State.CANCELLED
            assert (await step_job(store, id, 1, 2)).state is State.CANCELLED
            assert (await row_of(store, id)).counts[1].made == 1
            await finish_run(store, fan_out, Cancel("stopped"), now=NOW)
            assert (await row_of(store, id)).statuses == "col"

    @proves("FL14", "FL4")
    async def test_the_items_of_a_skipped_map_that_are_too_many_are_left_to_a_job(self) -> None:
        async with self.opened() as store:
            id = await begin(store, MAP)
            await run_step(store, id, 0, Done(f"[{','.join(map(str, range(300)))}]"))
            await put(store, *await a_page(store, id, MAX_CANCELLED_JOBS + 5))
            assert await skip(store, id, 1) is None
            row = await row_of(store, id)
            assert (row.statuses, row.state, row.skipped) == ("crw", "open", {1: "not today"})
            assert row.counts[1].cancelled in (MAX_CANCELLED_JOBS, MAX_CANCELLED_JOBS - 1)

    @proves("FL14")
    async def test_a_repeated_skip_changes_nothing(self) -> None:
        async with self.opened() as store:
            id = await begin(store, BOTH)
            await run_step(store, id, 0, ValueError("no"))
            assert await skip(store, id, 0) is None
            row = await row_of(store, id)
            assert await asyncio.gather(*(skip(store, id, 0, "again") for _ in range(3))) == [None, None, None]
            assert await row_of(store, id) == row

    @proves("FL14")
    async def test_a_step_that_has_ended_well_or_was_not_run_is_not_skipped(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_step("a"), a_step("b"), a_step("c", after=(1,)), a_step("d", on="failure", after=(0,))))
            id = await begin(store, plan)
            await run_step(store, id, 0, Done())
            await run_step(store, id, 1, ValueError("no"))
            row = await row_of(store, id)
            assert row.statuses == "cdun"
            for step, why in [(0, "it has completed"), (2, "skip that"), (3, "skipped already")]:
                refusal = await skip(store, id, step)
                assert refusal is not None
                assert refusal.error is not None
                assert why in refusal.error
                assert repr("abcd"[step]) in refusal.error
            assert await row_of(store, id) == row

    @proves("FL14")
    async def test_a_step_of_a_flow_that_is_being_cancelled_is_not_skipped(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="end"))))
            await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            await act(store, Action.CANCEL, id, reason="no")
            row = await row_of(store, id)
            refusal = await skip(store, id, 1)
            assert refusal is not None
            assert "being stopped" in (refusal.error or "")
            assert await row_of(store, id) == row

    @proves("FL15", "FL9")
    async def test_skipping_the_dead_step_of_a_dead_flow_lets_it_go_on(self) -> None:
        async with self.opened() as store:
            plan = Plan(
                (a_step("a"), a_step("b", args={"x": ValueOf(0)}, accepts_none=("x",)), a_step("c", after=(1,)))
            )
            id = await begin(store, plan, unique_key="one")
            await run_step(store, id, 0, Done("1"))
            await run_step(store, id, 1, ValueError("no"))
            await conclude(store, id, Discard("dead step"))
            assert (await read_job(store, id)).state is State.DEAD
            assert await skip(store, id, 1) is None
            job = await read_job(store, id)
            assert (job.state, job.finished_at, (await row_of(store, id)).statuses) == (State.PENDING, None, "col")
            (answer,) = await store.enqueue([new_job(unique_key="one")], now=NOW)
            assert (answer.status, answer.id) == ("duplicate", id)

    @proves("FL15")
    async def test_skipping_a_step_of_a_dead_flow_releases_what_waited_for_it(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b"), a_step("c", after=(0, 1)))))
            await run_step(store, id, 0, Done())
            await run_step(store, id, 1, ValueError("no"))
            await conclude(store, id, Discard("dead step"))
            assert await skip(store, id, 1) is None
            assert ((await read_job(store, id)).state, (await row_of(store, id)).statuses) == (State.WAITING, "cor")
            await run_step(store, id, 2, Done())
            assert (await read_job(store, id)).state is State.PENDING

    @proves("FL15")
    async def test_a_flow_that_is_concluded_meanwhile_is_concluded_again(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b"))))
            await run_step(store, id, 0, Done())
            await run_step(store, id, 1, ValueError("no"))
            revision = (await row_of(store, id)).revision
            concluding = await claim_job(store, id)
            assert await skip(store, id, 1) is None
            assert await finish_run(store, concluding, Discard("dead step"), now=NOW, concludes=revision) == set()
            assert ((await read_job(store, id)).state, (await row_of(store, id)).statuses) == (State.PENDING, "co")

    @proves("FL15")
    async def test_skipping_a_step_of_a_flow_in_a_flow_reopens_both(self) -> None:
        async with self.opened() as store:
            outer = await begin(store, chain("a", "b"))
            inner = (await step_job(store, outer, 0)).id
            await run(store, inner, Suspend(Plan((a_step("c"), a_step("d")))))
            await run_step(store, inner, 0, ValueError("no"))
            await run_step(store, inner, 1, Done())
            for id in (inner, outer):
                await conclude(store, id, Discard("dead step"))
            assert await skip(store, inner, 0) is None
            assert [(await read_job(store, id)).state for id in (inner, outer)] == [State.PENDING, State.WAITING]
            assert (await row_of(store, outer)).statuses == "rw"
            await conclude(store, inner, Done("5"))
            assert (await step_job(store, outer, 1)).payload == '{"value":5}'

    @proves("FL15")
    async def test_a_step_of_a_completed_flow_is_not_skipped(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a", optional=True),)))
            await run_step(store, id, 0, ValueError("no"))
            await conclude(store, id, Done())
            refusal = await skip(store, id, 0)
            assert refusal is not None
            assert refusal.state is State.COMPLETED
            assert ((await read_job(store, id)).state, (await row_of(store, id)).statuses) == (State.COMPLETED, "d")

    @proves("FL15", "FL9")
    async def test_a_step_is_not_skipped_while_another_job_holds_the_key_of_its_flow(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"), unique_key="one")
            await run_step(store, id, 0, ValueError("no"))
            await conclude(store, id, Discard("dead step"))
            (other,) = await put(store, new_job(unique_key="one"))
            refusal = await skip(store, id, 0)
            assert refusal is not None
            assert refusal.holder == other
            assert (await row_of(store, id)).statuses == "d"

    @proves("FL15", "FL9")
    async def test_a_retried_flow_leaves_skipped_steps_as_they_are(self) -> None:
        async with self.opened() as store:
            plan = Plan(
                (a_step("a"), a_step("b", after=(0,), on="end"), a_step("c", after=(1,), on="end"), a_step("d"))
            )
            id = await begin(store, plan)
            for n in (0, 1, 3):
                await run_step(store, id, n, ValueError("no"))
            await run_step(store, id, 2, Done())
            assert await skip(store, id, 1) is None
            assert (await row_of(store, id)).statuses == "docd"  # what ran behind it does not run again
            await conclude(store, id, Discard("dead step"))
            await act(store, Action.RETRY, id)
            assert (await row_of(store, id)).statuses == "rorr"
            await act(store, Action.RETRY, (await step_job(store, id, 1)).id)  # its own job puts it back to work
            row = await row_of(store, id)
            assert (row.statuses, row.skipped) == ("rrrr", {})

    @proves("FL14")
    async def test_a_job_without_a_flow_has_nothing_to_skip(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, new_job())
            for other in (id, "none"):
                refusal = await skip(store, other, 0)
                assert refusal is not None
                assert refusal.error == f"job {other} has no flow any more"

    # deadlines

    @proves("FL16")
    async def test_a_flow_with_a_timeout_has_a_deadline_and_a_job_for_it(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED, queue="default")
            (job,) = await deadlines(store)
            assert (await row_of(store, id)).deadline == FlowDeadline(later(60), job.id)
            assert (job.run_at, job.created_at, job.queue, job.step) == (later(60), NOW, "default", None)
            assert job.payload == f'{{"flow":"{id}"}}'

    @proves("FL16")
    async def test_a_flow_that_is_over_has_no_deadline_and_no_job_for_it(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await run_step(store, id, 0, Done("1"))
            assert len(await deadlines(store)) == 1
            await run_step(store, id, 1, Done("2"))
            row = await row_of(store, id)
            assert (row.state, row.deadline, await deadlines(store)) == ("over", None, [])
            await conclude(store, id, Done("2"))

    @proves("FL16")
    async def test_a_flow_that_is_over_at_once_has_no_deadline(self) -> None:
        async with self.opened() as store:
            never = Plan((a_step("a", when=Compare("==", Input(0), Input(1))),), ("1", "2"), timeout=60.0)
            id = await begin(store, never)
            assert ((await row_of(store, id)).deadline, await deadlines(store)) == (None, [])

    @proves("FL16")
    async def test_a_flow_is_stopped_at_its_deadline(self) -> None:
        async with self.opened() as store:
            plan = Plan(
                (a_step("a"), a_step("b"), a_step("c", after=(1,)), a_step("d", after=(0,), on="end")), timeout=60.0
            )
            id = await begin(store, plan)
            running = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            await time_out(store, id)
            row, job = await row_of(store, id), await read_job(store, id)
            assert (row.statuses, row.state, row.timed_out) == ("rxxw", "cancelling", True)
            assert (job.state, job.cancel_reason) == (State.WAITING, None)
            assert (await read_job(store, running.id)).cancel_reason is not None
            await finish_run(store, running, Cancel("stopped"), now=NOW)
            await run_step(store, id, 3, Done())  # on="end" runs
            row = await row_of(store, id)
            assert (row.statuses, row.state, row.deadline, row.timed_out) == ("xxxc", "over", None, True)
            await conclude(store, id, Discard("timeout"))

    @proves("FL16")
    async def test_a_deadline_that_is_told_twice_stops_the_flow_once(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="end")), timeout=60.0))
            (due,) = await deadlines(store)
            for _ in range(2):
                await flows_of(store).change_flow(id, TimeOut(due.id), now=NOW)
            assert (await row_of(store, id)).statuses == "xr"
            assert (await row_of(store, id)).state == "cancelling"

    @proves("FL16", "FL8")
    async def test_a_flow_that_is_cancelled_already_does_not_time_out(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b", after=(0,), on="end")), timeout=60.0))
            await act(store, Action.CANCEL, id, reason="customer")
            await time_out(store, id)
            row = await row_of(store, id)
            assert (row.statuses, row.state, row.timed_out) == ("xr", "cancelling", False)

    @proves("FL16")
    async def test_another_deadline_and_that_of_a_flow_that_is_over_change_nothing(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            row = await row_of(store, id)
            await flows_of(store).change_flow(id, TimeOut(new_job().id), now=NOW)
            assert await row_of(store, id) == row
            due = await claim_due(store)
            for n in (0, 1):
                await run_step(store, id, n, Done("1"))
            row = await row_of(store, id)
            assert (row.state, row.deadline) == ("over", None)
            await flows_of(store).change_flow(id, TimeOut(due.id), now=NOW)
            assert await row_of(store, id) == row
            assert await finish_run(store, due, Done(), now=NOW) == {due.id}
            assert await flows_of(store).change_flow("none", TimeOut(due.id), now=NOW) is None

    @proves("FL16", "FL9")
    async def test_a_flow_that_is_retried_has_another_deadline(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            (first,) = await deadlines(store)
            await time_out(store, id)
            await conclude(store, id, Discard("timeout"))
            await act(store, Action.RETRY, id, now=later(100))
            row = await row_of(store, id)
            (due,) = await deadlines(store)
            assert (row.statuses, row.timed_out, row.deadline) == ("rw", False, FlowDeadline(later(160), due.id))
            assert due.id != first.id
            await flows_of(store).change_flow(id, TimeOut(first.id), now=NOW)
            assert await row_of(store, id) == row

    @proves("FL16", "FL9")
    async def test_a_step_retried_while_its_flow_goes_on_leaves_the_deadline(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b")), timeout=60.0))
            await run_step(store, id, 0, ValueError("no"))
            deadline = (await row_of(store, id)).deadline
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id, now=later(9))
            assert (await row_of(store, id)).deadline == deadline
            assert len(await deadlines(store)) == 1

    @proves("FL16", "FL9")
    async def test_a_step_retried_while_its_flow_is_stopped_at_the_deadline_lets_it_go_on(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"), a_step("b")), timeout=60.0))
            await run_step(store, id, 0, ValueError("no"))
            await claim_job(store, (await step_job(store, id, 1)).id, tasks=["b"])
            await time_out(store, id)
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id, now=later(100))
            row = await row_of(store, id)
            (due,) = await deadlines(store)
            assert (row.state, row.timed_out, row.deadline) == ("open", False, FlowDeadline(later(160), due.id))

    @proves("FL16", "FL10")
    async def test_deleting_a_flow_deletes_the_job_of_its_deadline(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await act(store, Action.DELETE, id)
            assert await all_jobs(store) == []
