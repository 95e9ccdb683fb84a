"""change and pause_queue: which actions on jobs and queues are allowed, and what they change."""

from __future__ import annotations

import pytest

from ...records.job import ALLOWED, Action, State
from ...records.outcome import Crashed, Done, Retry
from ...records.query import Changed, Filter, Refusal
from .build import (
    NOW,
    REACHABLE,
    Contract,
    act,
    all_jobs,
    beat,
    claim,
    claim_ids,
    claim_job,
    finish_run,
    job_in_state,
    later,
    new_job,
    put,
    read_job,
    start,
)
from .sentences import proves

TARGET = {
    Action.CANCEL: State.CANCELLED,
    Action.RETRY: State.PENDING,
    Action.PAUSE: State.PAUSED,
    Action.RESUME: State.PENDING,
}
INPUT = ("id", "task", "payload", "queue", "priority", "created_at", "tags", "metadata", "unique_key", "runs")


class ChangeContract(Contract):
    # the state machine

    @proves("A1")
    @pytest.mark.parametrize("state", REACHABLE)
    @pytest.mark.parametrize("action", Action)
    async def test_an_action_is_allowed_or_refused_as_the_state_machine_says(
        self, action: Action, state: State
    ) -> None:
        async with self.opened() as store:
            before, bystander = await job_in_state(store, state, tags=("x",)), await job_in_state(store, state)
            changed = await act(store, action, before.id, now=later(1))
            if state not in ALLOWED[action]:
                assert changed == Changed(done=[], refused={before.id: Refusal(state)})
                assert await all_jobs(store) == [before, bystander]
            elif action is Action.DELETE:
                assert changed == Changed(done=[before.id], refused={})
                assert await all_jobs(store) == [bystander]
            else:
                assert changed == Changed(done=[before.id], refused={})
                after, other = await all_jobs(store)
                assert other == bystander
                stays = state is State.RUNNING or action is Action.UPDATE
                assert after.state is (state if stays else TARGET[action])
                assert [getattr(after, name) for name in INPUT] == [getattr(before, name) for name in INPUT]

    @proves("A5")
    @pytest.mark.parametrize(
        ("action", "state"),
        [(Action.CANCEL, State.CANCELLED), (Action.PAUSE, State.PAUSED), (Action.RESUME, State.PENDING)],
    )
    async def test_a_repeated_action_changes_nothing(self, action: Action, state: State) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, state)
            assert (await act(store, action, before.id, now=later(1))).done == [before.id]
            assert await read_job(store, before.id) == before

    # cancel

    @proves("A5")
    @pytest.mark.parametrize("state", [State.PENDING, State.PAUSED])
    async def test_cancelling_a_job_that_does_not_run_ends_it_now(self, state: State) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, state)
            await act(store, Action.CANCEL, job.id, now=later(1), reason="enough")
            ended = await read_job(store, job.id)
            assert (ended.state, ended.finished_at) == (State.CANCELLED, later(1))
            assert ended.cancel_reason == "enough"
            assert await claim_ids(store, now=later(2)) == []
            assert await store.executions(job.id) == []

    @proves("A6")
    async def test_cancelling_a_running_job_leaves_it_running_with_its_reason(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id, reason="stop")
            changed = await read_job(store, job.id)
            assert (changed.state, changed.cancel_reason, changed.lease) == (State.RUNNING, "stop", job.lease)
            assert changed.finished_at is None

    @proves("A5")
    async def test_a_job_waiting_for_its_retry_can_be_cancelled(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(5))
            await act(store, Action.CANCEL, job.id, now=later(2))
            assert (await read_job(store, job.id)).state is State.CANCELLED
            assert await claim_ids(store, now=later(9)) == []

    # retry

    @proves("A8")
    @pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_a_retried_job_has_no_attempts_and_can_be_claimed_at_once(self, state: State) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, state)
            await act(store, Action.RETRY, before.id, now=later(1))
            job = await read_job(store, before.id)
            assert (job.attempt, job.crashes, job.runs) == (0, 0, before.runs)
            assert (job.created_at, job.expires_at) == (before.created_at, None)
            assert (job.finished_at, job.cancel_reason, job.lease) == (None, None, None)
            assert await claim_ids(store, now=later(1)) == [job.id]

    @proves("A8")
    async def test_a_retry_resets_the_crashes(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await beat(store, until=NOW)
            await finish_run(store, job, Crashed("ada", 1), now=NOW)
            await act(store, Action.RETRY, job.id)
            again = await claim_job(store, job.id)
            assert (again.crashes, again.attempt, again.runs) == (0, 1, 2)

    @proves("A8")
    async def test_a_retry_clears_the_cancel_of_a_job_that_was_cancelled_while_running(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await act(store, Action.CANCEL, job.id)
            await finish_run(store, job, Retry(0), now=NOW)
            await act(store, Action.RETRY, job.id)
            await finish_run(store, await claim_job(store, job.id), Retry(5), now=NOW)
            assert (await read_job(store, job.id)).state is State.PENDING

    @proves("A9")
    @pytest.mark.parametrize("kind", ["unique_key", "idempotency_key"])
    async def test_a_retry_is_refused_while_another_job_holds_its_key(self, kind: str) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.DEAD, **{kind: "key"})
            holder = await job_in_state(store, State.RUNNING, **{kind: "key"})
            changed = await act(store, Action.RETRY, before.id)
            assert changed == Changed(done=[], refused={before.id: Refusal(State.DEAD, "key", holder.id)})
            assert await read_job(store, before.id) == before

    @proves("A9", "E7")
    async def test_a_retry_is_refused_after_another_job_completed_with_its_idempotency_key(self) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.DEAD, idempotency_key="key")
            holder = await job_in_state(store, State.COMPLETED, idempotency_key="key")
            changed = await act(store, Action.RETRY, before.id)
            assert changed.refused == {before.id: Refusal(State.DEAD, "key", holder.id)}

    @proves("A9", "E6")
    async def test_a_retry_is_accepted_once_its_unique_key_is_free_again(self) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.DEAD, unique_key="key")
            await job_in_state(store, State.COMPLETED, unique_key="key")
            assert (await act(store, Action.RETRY, before.id)).done == [before.id]

    @proves("A9")
    async def test_the_first_of_two_jobs_retried_together_gets_their_shared_key(self) -> None:
        async with self.opened() as store:
            first = await job_in_state(store, State.DEAD, unique_key="key")
            second = await job_in_state(store, State.DEAD, unique_key="key")
            changed = await act(store, Action.RETRY, first.id, second.id)
            assert changed.done == [first.id]
            assert changed.refused == {second.id: Refusal(State.DEAD, "key", first.id)}

    # pause, resume, delete

    @proves("A5")
    async def test_a_paused_job_keeps_its_run_at_and_is_claimed_after_resume(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(run_at=later(5)))
            before = await read_job(store, job_id)
            await act(store, Action.PAUSE, job_id)
            assert await claim_ids(store, now=later(6)) == []
            await act(store, Action.RESUME, job_id, now=later(7))
            assert await read_job(store, job_id) == before
            assert await claim_ids(store, now=later(7)) == [job_id]

    @proves("A5")
    async def test_a_paused_job_keeps_the_count_of_its_attempts(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(5))
            await act(store, Action.PAUSE, job.id)
            await act(store, Action.RESUME, job.id)
            assert (await claim_job(store, job.id, now=later(9))).attempt == 2

    @proves("A7")
    async def test_a_deleted_job_leaves_no_history(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.COMPLETED)
            await act(store, Action.DELETE, job.id)
            assert await all_jobs(store) == []
            assert await store.executions(job.id) == []

    # filters and limits

    @proves("J2")
    async def test_a_change_applies_only_to_matching_jobs(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(queue="a", tags=("x",)), new_job(queue="a"), new_job(queue="b", tags=("x",))]
            await put(store, *jobs)
            which = Filter(queues=("a",), tags=("x",))
            assert (await store.change(Action.CANCEL, which, now=NOW, limit=10)).done == [jobs[0].id]
            assert [job.state for job in await all_jobs(store)].count(State.CANCELLED) == 1

    @proves("A4")
    async def test_a_change_is_limited_and_in_order_of_id(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(priority=n) for n in range(5)]
            ids = await put(store, *reversed(jobs))
            changed = await store.change(Action.PAUSE, Filter(), now=NOW, limit=3)
            assert changed == Changed(done=sorted(ids)[:3], refused={}, next=sorted(ids)[2])
            assert (await store.overview(now=NOW)).states == {"paused": 3, "pending": 2}

    @proves("A1")
    async def test_change_returns_the_jobs_done_and_the_jobs_refused(self) -> None:
        async with self.opened() as store:
            done, dead = await job_in_state(store, State.COMPLETED), await job_in_state(store, State.DEAD)
            pending = await job_in_state(store, State.PENDING)
            changed = await act(store, Action.RETRY, done.id, dead.id, pending.id)
            assert changed.done == [dead.id]
            assert changed.refused == {
                done.id: Refusal(State.COMPLETED),
                pending.id: Refusal(State.PENDING),
            }

    @proves("J3")
    async def test_a_change_can_be_filtered_by_shown_state(self) -> None:
        async with self.opened() as store:
            (due, future) = await put(store, new_job(), new_job(run_at=later(5)))
            which = Filter(states=("scheduled",))
            assert (await store.change(Action.CANCEL, which, now=NOW, limit=10)).done == [future]
            assert (await read_job(store, due)).state is State.PENDING

    @proves("A2", "A8")
    async def test_a_job_past_its_expires_at_is_changed_as_an_expired_one(self) -> None:
        async with self.opened() as store:
            await put(store, late := new_job(expires_at=later(1), unique_key="k"))
            refused = await act(store, Action.PAUSE, late.id, now=later(2))
            assert refused.refused == {late.id: Refusal(State.EXPIRED)}
            assert (await act(store, Action.RETRY, late.id, now=later(2))).done == [late.id]
            job = await read_job(store, late.id)
            assert (job.state, job.run_at, job.expires_at) == (State.PENDING, later(2), None)

    @proves("V11")
    async def test_a_change_of_an_unknown_id_is_neither_done_nor_refused(self) -> None:
        async with self.opened() as store:
            assert await act(store, Action.DELETE, new_job().id) == Changed(done=[], refused={})

    @proves("J2", "V11")
    async def test_a_change_with_an_empty_list_of_ids_changes_nothing(self) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            assert await act(store, Action.DELETE) == Changed(done=[], refused={})
            assert len(await all_jobs(store)) == 1

    # queues

    @proves("PQ2")
    async def test_pausing_a_queue_leaves_its_running_jobs_alone(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await store.pause_queue("default", True)
            assert (await beat(store)).cancels == {}
            assert await finish_run(store, job, Done()) == {job.id}

    @proves("PQ2")
    async def test_pausing_and_resuming_a_queue_twice_is_no_error(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job())
            for paused in (True, True, False, False):
                await store.pause_queue("default", paused)
            await beat(store)
            assert [job.id for job in (await claim(store)).jobs] == [job_id]
