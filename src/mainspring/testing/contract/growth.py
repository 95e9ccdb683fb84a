"""Durable jobs whose plans grow: each of their runs adds the steps that it waits for."""

from __future__ import annotations

from ...ids import JobId
from ...records.flow import AwaitedSignal
from ...records.job import Action, Job, State
from ...records.outcome import Discard, Done, Suspend
from ...records.plan import Input, Plan, PlannedStep
from ...store import Store
from .build import NOW, act, claim, claim_job, finish_run, later, read_job, start
from .flow import a_step, begin, flows_of, row_of, run, run_step, step_job, steps_of
from .job_signal import JobSignalContract, answer, deadlines, give, time_out
from .sentences import proves


def growing(*steps: str | PlannedStep, values: tuple[int, ...] = ()) -> Plan:
    """A plan that grows; each step gets the input of its number."""
    made = (
        a_step(one, args={"x": Input(n)} if values else {}) if isinstance(one, str) else one
        for n, one in enumerate(steps)
    )
    return Plan(tuple(made), tuple(map(str, values)), grows=True)


async def payloads(store: Store, id: JobId) -> dict[str, str]:
    return {job.task: job.payload for job in await steps_of(store, id)}


async def waits_again(store: Store, id: JobId, suspend: Suspend) -> Job:
    """The job after its next run, which is suspended."""
    await run(store, id, suspend)
    return await read_job(store, id)


class GrowthContract(JobSignalContract):
    @proves("FL22")
    async def test_a_later_plan_adds_its_steps_behind_those_that_are_stored(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a", "b", values=(1, 2)))
            await run_step(store, id, 0, Done("10"))
            assert (await read_job(store, id)).state is State.WAITING
            await run_step(store, id, 1, Done("20"))
            assert ((await read_job(store, id)).state, (await row_of(store, id)).state) == (State.PENDING, "over")
            job = await waits_again(store, id, Suspend(growing("c", "d", values=(3, 4))))
            assert (job.state, job.attempt) == (State.WAITING, 0)
            (found,) = await flows_of(store).flows([id])
            assert ([step.name for step in found.plan.steps], found.row.statuses) == (["a", "b", "c", "d"], "ccrr")
            assert (found.row.state, found.row.ended_at) == ("open", None)
            assert await payloads(store, id) == {"a": '{"x":1}', "b": '{"x":2}', "c": '{"x":3}', "d": '{"x":4}'}
            assert all(job.step is not None and job.step.needed for job in await steps_of(store, id))
            await run_step(store, id, 3, Done())
            await run_step(store, id, 2, Discard("no"))
            row = await row_of(store, id)
            assert ((await read_job(store, id)).state, row.statuses, row.dead) == (State.PENDING, "ccdc", (2,))

    @proves("FL22")
    async def test_steps_whose_names_are_stored_are_not_made_again(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a", "b", values=(1, 2)))
            await run_step(store, id, 0, Done())
            await run_step(store, id, 1, Done())
            again = growing("b", "c", values=(7, 8))
            assert (await waits_again(store, id, Suspend(again))).state is State.WAITING
            assert await payloads(store, id) == {"a": '{"x":1}', "b": '{"x":2}', "c": '{"x":8}'}
            await run_step(store, id, 2, Done())
            # Everything has ended before the run did: the job is due at once.
            assert (await waits_again(store, id, Suspend(again))).state is State.PENDING

    @proves("FL22")
    async def test_a_plan_of_a_run_that_has_lost_its_job_adds_nothing(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a"))
            await run_step(store, id, 0, Done())
            job = await claim_job(store, id)
            stale = Suspend(growing("late"))
            assert await finish_run(store, job, Suspend(growing("b")), now=NOW) == {id}
            # The reply was lost, and the outcome is sent again: it stands, and changes nothing.
            assert await finish_run(store, job, Suspend(growing("b")), now=NOW) == {id}
            await run_step(store, id, 1, Done())
            await claim_job(store, id)
            assert await finish_run(store, job, stale, now=later(1)) in ({id}, set())
            assert [job.task for job in await steps_of(store, id)] == ["a", "b"]

    @proves("FL22", "FL1")
    async def test_a_plan_does_not_grow_unless_both_say_so(self) -> None:
        async with self.opened() as store:
            for first, second in ((growing("a"), Plan((a_step("b"),))), (Plan((a_step("a"),)), growing("b"))):
                id = await begin(store, first)
                await run_step(store, id, 0, Done())
                assert (await waits_again(store, id, Suspend(second))).state is State.PENDING
                assert len((await flows_of(store).flows([id]))[0].plan.steps) == 1
                await run(store, id, Done())

    @proves("FL22", "FL1")
    async def test_a_flow_whose_plan_does_not_grow_waits_for_no_signal(self) -> None:
        async with self.opened() as store:
            id = await begin(store, Plan((a_step("a"),)))
            await run_step(store, id, 0, Done())
            job = await waits_again(store, id, Suspend(awaits=(AwaitedSignal("go", later(60)),)))
            assert (job.state, await deadlines(store)) == (State.PENDING, [])

    @proves("FL22")
    async def test_items_of_added_maps_are_counted(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a"))
            await run_step(store, id, 0, Done())
            mapped = a_step("item", over=Input(0), item="n")
            plan = Plan((mapped, a_step("none", over=Input(1), item="n")), ("[5,6]", "[]"), grows=True)
            await run(store, id, Suspend(plan))
            assert (await row_of(store, id)).statuses == "crc"
            for item in (await claim(store, tasks=["item"], limit=2)).jobs:
                assert (await read_job(store, id)).state is State.WAITING
                await finish_run(store, item, Done("1"), now=NOW)
            assert ((await row_of(store, id)).statuses, (await read_job(store, id)).state) == ("ccc", State.PENDING)

    @proves("FL22")
    async def test_a_value_given_with_finish_ends_only_its_step(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a", "b"))
            await run_step(store, id, 0, Done("1", finish=True))
            row = await row_of(store, id)
            assert (row.statuses, row.finish) == ("cr", None)

    # signals beside steps

    @proves("FL22", "FL20")
    async def test_a_signal_beside_steps_wakes_the_job(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            assert await give(store, job.id, "early") is None
            both = Suspend(growing("a"), (AwaitedSignal("go", later(60)),))
            await finish_run(store, job, both, now=NOW)
            assert (await read_job(store, job.id)).state is State.WAITING
            assert await give(store, job.id, "go") is None
            assert (await read_job(store, job.id)).state is State.PENDING
            assert list((await row_of(store, job.id)).inbox) == ["early", "go"]
            assert (await deadlines(store), await answer(store, job.id, "go")) == ([], "twice")
            # The next run waits for the step alone.
            assert (await waits_again(store, job.id, Suspend(growing()))).state is State.WAITING
            await run_step(store, job.id, 0, Done())
            assert (await read_job(store, job.id)).state is State.PENDING

    @proves("FL22", "FL20")
    async def test_a_job_that_waits_for_a_signal_alone_is_not_due_because_its_steps_have_ended(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a"))
            await run_step(store, id, 0, Done())
            job = await waits_again(store, id, Suspend(awaits=(AwaitedSignal("go", later(60)),)))
            assert job.state is State.WAITING
            await time_out(store, id)
            assert ((await read_job(store, id)).state, (await row_of(store, id)).late) == (State.PENDING, ("go",))

    @proves("FL22", "FL19")
    async def test_a_first_plan_keeps_the_waits_for_signals(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            waits = (AwaitedSignal("go", later(60)), AwaitedSignal("stay", later(90)))
            await finish_run(store, job, Suspend(awaits=waits), now=NOW)
            assert await give(store, job.id, "go") is None
            assert (await waits_again(store, job.id, Suspend(growing("a")))).state is State.WAITING
            row = await row_of(store, job.id)
            assert (list(row.waits), list(row.inbox), len(await deadlines(store))) == (["stay"], ["go"], 1)

    # actions

    @proves("FL23", "FL8")
    async def test_a_cancel_of_a_job_that_waits_for_its_steps_cancels_these(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a", "b"))
            running = await claim_job(store, (await step_job(store, id, 1)).id, tasks=["b"])
            await act(store, Action.CANCEL, id, reason="no")
            job = await read_job(store, id)
            assert (job.state, job.cancel_reason) == (State.WAITING, "no")
            assert ((await row_of(store, id)).statuses, (await read_job(store, running.id)).cancel_reason) == (
                "xr",
                "its flow has stopped",
            )
            await finish_run(store, running, Done(), now=NOW)
            job = await read_job(store, id)
            assert (job.state, job.cancel_reason) == (State.PENDING, "no")

    @proves("FL23", "FL21")
    async def test_a_cancel_of_a_job_whose_steps_have_ended_ends_it(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a"))
            await run_step(store, id, 0, Done())
            await run(store, id, Suspend(awaits=(AwaitedSignal("go", later(60)),)))
            await act(store, Action.CANCEL, id, reason="no")
            assert ((await read_job(store, id)).state, await deadlines(store)) == (State.CANCELLED, [])

    @proves("FL23")
    async def test_a_cancel_of_a_job_that_does_not_wait_cancels_its_steps(self) -> None:
        async with self.opened() as store:
            for runs in (True, False):
                job = await start(store)
                both = Suspend(growing("a"), (AwaitedSignal("go"),))
                await finish_run(store, job, both, now=NOW)
                assert await give(store, job.id, "go") is None
                if runs:
                    await claim_job(store, job.id)
                await act(store, Action.CANCEL, job.id, reason="no")
                step = await step_job(store, job.id, 0)
                assert (step.state, (await row_of(store, job.id)).state) == (State.CANCELLED, "over")
                assert (await read_job(store, job.id)).state is (State.RUNNING if runs else State.CANCELLED)

    @proves("FL22", "FL9")
    async def test_a_retry_puts_dead_steps_back_to_work(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a"))
            await run_step(store, id, 0, Discard("no"))
            await run(store, id, Discard("its step is dead"))
            await act(store, Action.RETRY, id)
            assert ((await read_job(store, id)).state, (await row_of(store, id)).statuses) == (State.WAITING, "r")
            await run_step(store, id, 0, Done())
            assert (await read_job(store, id)).state is State.PENDING
            assert (await waits_again(store, id, Suspend(growing("b")))).state is State.WAITING

    @proves("FL22", "FL10")
    async def test_deleting_a_job_deletes_the_steps_of_all_its_plans(self) -> None:
        async with self.opened() as store:
            id = await begin(store, growing("a"))
            await run_step(store, id, 0, Done())
            await run(store, id, Suspend(growing("b")))
            await act(store, Action.DELETE, id)
            assert (await steps_of(store, id), await flows_of(store).flows([id])) == ([], [])
