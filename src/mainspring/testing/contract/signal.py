"""Signals of flows: steps whose values are given from outside, once each, or that are late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ...records.flow import (
    MAX_INBOX_BYTES,
    MAX_SIGNAL_NAMES,
    AwaitedSignal,
    FlowDeadline,
    GivenSignal,
    SkipStep,
    TimeOut,
)
from ...records.job import Action, State
from ...records.outcome import Discard, Done, Suspend
from ...records.plan import Compare, Input, Plan, PlannedStep, SignalStep, ValueOf
from .build import (
    NOW,
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
from .flow import a_step, begin, flows_of, row_of, run, run_step, step_job, steps_of
from .growth import GrowthContract
from .job_signal import YES, answer, claim_later, deadlines, give, time_out, wait
from .sentences import proves


def a_signal(name: str, timeout: float | None = None, default: Input | None = None, **fields: Any) -> PlannedStep:
    return PlannedStep(name, "", signal=SignalStep(timeout, default), **fields)


APPROVAL = Plan(
    (
        a_step("check"),
        a_signal("approval", after=(0,)),
        a_step(
            "charge",
            args={"go": ValueOf(1), "by": ValueOf(1, ("by",))},
            when=Compare("==", ValueOf(1, ("ok",)), Input(0)),
        ),
    ),
    ("true",),
    result=ValueOf(1),
)
LIMITED = Plan(
    (a_step("a"), a_signal("approval", 60.0, after=(0,)), a_step("b", args={"x": ValueOf(1)})), result=ValueOf(2)
)
DEFAULTED = Plan(
    (a_step("a"), a_signal("approval", 60.0, Input(0), after=(0,)), a_step("b", args={"x": ValueOf(1)})), ('"no"',)
)


class SignalContract(GrowthContract):
    # steps that are signals

    @pytest.mark.parametrize("when", ["before the plan", "before what it needs", "while it waits"])
    @proves("FL17", "FL18", "FL19")
    async def test_a_signal_is_the_value_of_its_step_whenever_it_is_given(self, when: str) -> None:
        async with self.opened() as store:
            job = await start(store)
            if when == "before the plan":
                assert await give(store, job.id) is None
            await finish_run(store, job, Suspend(APPROVAL), now=NOW)
            if when == "before what it needs":
                assert await give(store, job.id) is None
            assert (await row_of(store, job.id)).statuses == "rww"
            await run_step(store, job.id, 0, Done())
            if when == "while it waits":
                row = await row_of(store, job.id)
                assert (row.statuses, row.waits, await deadlines(store)) == ("cww", {"approval": None}, [])
                assert await give(store, job.id) is None
            row = await row_of(store, job.id)
            assert (row.statuses, row.waits, row.late, row.planned) == ("ccr", {}, (), True)
            assert row.inbox == {"approval": GivenSignal(YES, "d1", NOW)}
            charge = await step_job(store, job.id, 2)
            assert charge.payload == f'{{"go":{YES},"by":"ada"}}'
            assert [one.task for one in await steps_of(store, job.id)] == ["check", "charge"]
            await run_step(store, job.id, 2, Done())
            assert (await read_job(store, job.id)).state is State.PENDING

    @proves("FL17")
    async def test_conditions_read_signals(self) -> None:
        async with self.opened() as store:
            id = await begin(store, APPROVAL)
            await run_step(store, id, 0, Done())
            assert await give(store, id, value='{"ok":false}') is None
            assert (await row_of(store, id)).statuses == "ccf"
            assert (await read_job(store, id)).state is State.PENDING

    @proves("FL17")
    async def test_the_timeout_of_a_signal_counts_from_the_end_of_what_it_needs(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            assert await deadlines(store) == []
            job = await claim_job(store, (await step_job(store, id, 0)).id, tasks=["a"])
            await finish_run(store, job, Done(), now=later(5))
            (due,) = await deadlines(store)
            assert (due.run_at, due.queue, due.payload) == (later(65), "default", f'{{"flow":"{id}"}}')
            assert (await row_of(store, id)).waits == {"approval": FlowDeadline(later(65), due.id)}

    @proves("FL17")
    async def test_a_signal_that_is_given_in_time_has_no_deadline_any_more(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await run_step(store, id, 0, Done())
            (due,) = await deadlines(store)
            assert await give(store, id) is None
            assert ((await row_of(store, id)).waits, await deadlines(store)) == ({}, [])
            row = await row_of(store, id)
            await flows_of(store).change_flow(id, TimeOut(due.id), now=later(60))
            assert await row_of(store, id) == row

    @proves("FL17", "FL18")
    async def test_a_late_signal_without_a_default_is_dead(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await run_step(store, id, 0, Done())
            await time_out(store, id)
            row = await row_of(store, id)
            assert (row.statuses, row.dead, row.late, row.waits, row.state) == ("cdu", (1,), ("approval",), {}, "over")
            assert (await read_job(store, id)).state is State.PENDING
            assert await answer(store, id) == "late"
            assert await row_of(store, id) == row

    @proves("FL17", "FL18")
    async def test_a_late_signal_has_its_default(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DEFAULTED)
            await run_step(store, id, 0, Done())
            await time_out(store, id)
            row = await row_of(store, id)
            assert (row.statuses, row.late, row.inbox) == ("ccr", ("approval",), {})
            assert (await step_job(store, id, 2)).payload == '{"x":"no"}'
            assert await answer(store, id) == "late"

    @proves("FL17")
    async def test_a_signal_and_its_timeout_at_the_same_time_exclude_each_other(self) -> None:
        async with self.opened() as store:
            id = await begin(store, DEFAULTED)
            await run_step(store, id, 0, Done())
            (due,) = await deadlines(store)
            given, _ = await asyncio.gather(
                give(store, id), flows_of(store).change_flow(id, TimeOut(due.id), now=later(60))
            )
            row = await row_of(store, id)
            assert (row.late == ()) == (given is None)
            assert ("approval" in row.inbox) == (given is None)
            assert (await step_job(store, id, 2)).payload == ('{"x":"no"}' if given is not None else f'{{"x":{YES}}}')

    @proves("FL17", "FL8")
    async def test_a_cancelled_flow_waits_for_no_signal(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await run_step(store, id, 0, Done())
            await act(store, Action.CANCEL, id, reason="no")
            row = await row_of(store, id)
            assert (row.statuses, row.waits, row.state, await deadlines(store)) == ("cxx", {}, "over", [])
            assert await answer(store, id) == "late"

    @proves("FL17", "FL14")
    async def test_a_signal_can_be_skipped(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await run_step(store, id, 0, Done())
            assert await flows_of(store).change_flow(id, SkipStep(1, "by phone"), now=NOW) is None
            row = await row_of(store, id)
            assert (row.statuses, row.waits, row.skipped, await deadlines(store)) == ("col", {}, {1: "by phone"}, [])
            assert await answer(store, id) == "late"

    @proves("FL17", "FL9")
    async def test_a_retried_flow_asks_again_for_the_signal_that_was_late(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await run_step(store, id, 0, Done())
            await time_out(store, id)
            job, revision = await claim_later(store), (await row_of(store, id)).revision
            assert await finish_run(store, job, Discard("late"), now=later(60), concludes=revision) == {id}
            await act(store, Action.RETRY, id, now=later(100))
            row = await row_of(store, id)
            (due,) = await deadlines(store)
            assert (row.statuses, row.late, row.dead) == ("cww", (), ())
            assert row.waits == {"approval": FlowDeadline(later(160), due.id)}
            assert await give(store, id) is None
            await run_step(store, id, 2, Done())
            assert (await row_of(store, id)).statuses == "ccc"

    @proves("FL17", "FL9")
    async def test_a_given_signal_stays_given_when_a_step_before_it_runs_again(self) -> None:
        async with self.opened() as store:
            plan = Plan(
                (a_step("a", optional=True), a_step("b"), a_signal("go", after=(0, 1)), a_step("c", after=(2,)))
            )
            id = await begin(store, plan)
            await run_step(store, id, 0, ValueError("no"))
            await run_step(store, id, 1, Done())
            assert await give(store, id, "go") is None
            await run_step(store, id, 3, ValueError("no"))
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            assert (await row_of(store, id)).statuses == "rcww"
            await run_step(store, id, 0, Done())
            assert (await row_of(store, id)).statuses == "cccr"

    @proves("FL17", "FL9")
    async def test_a_signal_waits_anew_when_a_step_before_it_runs_again(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_step("a", optional=True), a_step("b"), a_signal("go", 60.0, after=(0, 1))))
            id = await begin(store, plan)
            await run_step(store, id, 0, ValueError("no"))
            await run_step(store, id, 1, Done())
            (first,) = await deadlines(store)
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            assert ((await row_of(store, id)).waits, await deadlines(store)) == ({}, [])
            await run_step(store, id, 0, Done())
            (due,) = await deadlines(store)
            assert due.id != first.id

    @proves("FL17", "FL10")
    async def test_deleting_a_flow_deletes_the_jobs_of_its_signals(self) -> None:
        async with self.opened() as store:
            id = await begin(store, LIMITED)
            await run_step(store, id, 0, Done())
            await act(store, Action.DELETE, id)
            assert await all_jobs(store) == []

    # giving

    @proves("FL18")
    async def test_the_first_signal_of_a_name_stands(self) -> None:
        async with self.opened() as store:
            id = await begin(store, APPROVAL)
            assert await give(store, id) is None
            row = await row_of(store, id)
            assert await give(store, id) is None  # the same delivery
            assert await answer(store, id) == "twice"
            assert await row_of(store, id) == row
            await run_step(store, id, 0, Done())
            await run_step(store, id, 2, Done())
            await run(store, id, Done(), concludes=(await row_of(store, id)).revision)
            assert await give(store, id) is None
            assert await answer(store, id) == "twice"

    @pytest.mark.parametrize("planned", [True, False])
    @proves("FL18", "FL19")
    async def test_of_many_signals_at_once_one_is_given(self, planned: bool) -> None:
        async with self.opened() as store:
            id = await begin(store, APPROVAL) if planned else await wait(store, AwaitedSignal("approval"))
            answers = await asyncio.gather(*(give(store, id, value=str(n), delivery=str(n)) for n in range(50)))
            assert [refusal.signal for refusal in answers if refusal is not None] == ["twice"] * 49
            chosen = str(answers.index(None))
            assert (await row_of(store, id)).inbox == {"approval": GivenSignal(chosen, chosen, NOW)}

    @proves("FL18", "FL19")
    async def test_signals_of_names_that_are_not_planned_are_unknown(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await give(store, job.id, "other") is None
            await finish_run(store, job, Suspend(APPROVAL), now=NOW)
            assert [await answer(store, job.id, name) for name in ("check", "typo")] == ["unknown", "unknown"]
            assert await answer(store, new_job().id) == "unknown"
            row = await row_of(store, job.id)
            assert (row.statuses, list(row.inbox)) == ("rww", ["other"])

    @proves("FL19")
    async def test_a_plan_takes_over_the_signals_that_come_at_the_same_time(self) -> None:
        async with self.opened() as store:
            plan = Plan((a_signal("approval"), a_step("b", args={"x": ValueOf(0)})))
            ids = await put(store, *(new_job() for _ in range(20)))
            await beat(store)
            jobs = {job.id: job for job in (await claim(store, limit=20)).jobs}
            answers = await asyncio.gather(
                *(finish_run(store, jobs[id], Suspend(plan), now=NOW) for id in ids),
                *(give(store, id) for id in ids),
            )
            assert answers == [*({id} for id in ids), *([None] * 20)]
            for id in ids:
                row = await row_of(store, id)
                assert (row.statuses, row.planned) == ("cr", True)
                assert (await step_job(store, id, 1)).payload == f'{{"x":{YES}}}'

    @proves("FL18")
    async def test_a_job_keeps_a_bounded_number_of_signals(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, new_job())
            for n in range(MAX_SIGNAL_NAMES):
                assert await give(store, id, f"s{n}") is None
            assert await answer(store, id, "one more") == "full"
            assert await give(store, id, "s0") is None

    @proves("FL18")
    async def test_a_job_keeps_a_bounded_size_of_signals(self) -> None:
        async with self.opened() as store:
            (id,) = await put(store, new_job())
            value = f'"{"x" * (MAX_INBOX_BYTES // 4)}"'
            for n in range(3):
                assert await give(store, id, f"s{n}", value) is None
            refusal = await give(store, id, "one more", value)
            assert refusal is not None
            assert refusal.signal == "full"
            assert len((await row_of(store, id)).inbox) == 3
