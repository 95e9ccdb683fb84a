"""Flows that are cancelled while their own job concludes them, and cancels that a retried step withdraws."""

from __future__ import annotations

import pytest

from ...ids import JobId
from ...records.job import Action, Job, State
from ...records.outcome import NO_REVISION, Crashed, Discard, Done, RunEnd, Stopped, Suspend
from ...records.plan import Plan
from ...store import Store
from .build import NOW, Contract, act, beat, claim_job, finish_run, later, read_job
from .flow import a_step, begin, chain, row_of, run, run_step, step_job, steps_of
from .sentences import proves


class FlowCancelsContract(Contract):
    @proves("FL9")
    @pytest.mark.parametrize("over", [False, True])
    async def test_a_retried_step_withdraws_the_cancel_of_its_flow(self, over: bool) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a", "b") if over else _two_ends())
            if not over:
                await run_step(store, id, 0, ValueError("no"))
            await act(store, Action.CANCEL, id, reason="customer")
            assert ((await row_of(store, id)).state == "over") is over
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            job, row = await read_job(store, id), await row_of(store, id)
            assert (job.state, job.cancel_reason, row.state, row.cancelled) == (State.WAITING, None, "open", False)

    @proves("FL6", "FL9")
    @pytest.mark.parametrize("has_read", [False, True])
    async def test_a_cancel_of_a_conclusion_is_withdrawn_by_a_retried_step(self, has_read: bool) -> None:
        async with self.opened() as store:
            id, concluding, revision = await _concluding(store)
            await act(store, Action.CANCEL, id, reason="customer")
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            read = revision if has_read else NO_REVISION
            assert await finish_run(store, concluding, Stopped("customer"), now=NOW, concludes=read) == set()
            await _ends_completed(store, id)

    @proves("FL6")
    async def test_a_conclusion_that_is_cancelled_before_it_has_read_the_flow_is_accepted(self) -> None:
        async with self.opened() as store:
            id, concluding, _ = await _concluding(store)
            await act(store, Action.CANCEL, id, reason="customer")
            assert await finish_run(store, concluding, Stopped("customer"), now=NOW, concludes=NO_REVISION) == {id}
            assert (await read_job(store, id)).state is State.CANCELLED

    @proves("FL6")
    async def test_a_conclusion_that_crashes_while_a_step_is_retried_waits_again(self) -> None:
        async with self.opened() as store:
            id, concluding, _ = await _concluding(store)
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            await beat(store, until=NOW)
            assert await finish_run(store, concluding, Crashed("ada", 1), now=later(1)) == set()
            job = await read_job(store, id)
            assert (job.state, job.crashes) == (State.WAITING, 0)
            await beat(store, until=later(60))
            await _ends_completed(store, id)

    @proves("FL6")
    async def test_a_conclusion_that_crashes_too_often_ends_a_flow_that_is_over(self) -> None:
        async with self.opened() as store:
            id, concluding, _ = await _concluding(store)
            await beat(store, until=NOW)
            assert await finish_run(store, concluding, Crashed("ada", 1), now=later(1)) == {id}
            assert (await read_job(store, id)).state is State.DEAD

    @proves("FL8")
    @pytest.mark.parametrize("ended", [Suspend(), Discard("dead step")], ids=["suspended", "concluded"])
    async def test_a_cancel_of_a_conclusion_whose_flow_goes_on_cancels_the_flow(self, ended: RunEnd) -> None:
        async with self.opened() as store:
            id, concluding, revision = await _concluding(store)
            await act(store, Action.RETRY, (await step_job(store, id, 0)).id)
            await act(store, Action.CANCEL, id, reason="customer")
            read = None if isinstance(ended, Suspend) else revision
            await finish_run(store, concluding, ended, now=NOW, concludes=read)
            job, row = await read_job(store, id), await row_of(store, id)
            assert (job.state, job.cancel_reason) == (State.PENDING, "customer")
            assert (row.state, row.cancelled) == ("over", True)
            assert {step.state for step in await steps_of(store, id)} == {State.CANCELLED}


def _two_ends() -> Plan:
    """Another step runs at the end, also after a cancel."""
    return Plan((a_step("a"), a_step("last", after=(0,), on="end")))


async def _concluding(store: Store) -> tuple[JobId, Job, int]:
    """A flow whose step is dead, its own job, which concludes it now, and the revision of its row."""
    id = await begin(store, chain("a", "b"))
    await run_step(store, id, 0, ValueError("no"))
    return id, await claim_job(store, id), (await row_of(store, id)).revision


async def _ends_completed(store: Store, id: JobId) -> None:
    """The steps run, and then the flow completes."""
    job = await read_job(store, id)
    assert (job.state, job.cancel_reason) == (State.WAITING, None)
    await run_step(store, id, 0, Done("1"))
    await run_step(store, id, 1, Done("1"))
    await run(store, id, Done("1"), concludes=(await row_of(store, id)).revision)
    assert (await read_job(store, id)).state is State.COMPLETED
