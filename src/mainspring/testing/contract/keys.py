"""enqueue: which job holds a key, for how long, and what a second job with that key gets."""

from __future__ import annotations

import asyncio

import pytest

from ...records.job import INTERNAL, Action, Enqueued, State
from ...records.outcome import Retry, Snooze
from .build import (
    NOW,
    Contract,
    act,
    all_jobs,
    beat,
    claim,
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

HOLDING = [State.PENDING, State.RUNNING, State.PAUSED]
FREEING = [State.DEAD, State.CANCELLED, State.EXPIRED]


class KeysContract(Contract):
    # holders

    @proves("E6", "E10")
    @pytest.mark.parametrize("state", HOLDING)
    async def test_an_unfinished_job_holds_its_unique_key(self, state: State) -> None:
        async with self.opened() as store:
            holder = await job_in_state(store, state, unique_key="key")
            answers = await store.enqueue([new_job(unique_key="key")], now=NOW)
            assert answers == [Enqueued(holder.id, "duplicate", "key")]

    @proves("E6")
    @pytest.mark.parametrize("state", [State.COMPLETED, *FREEING])
    async def test_a_unique_key_is_free_once_its_job_is_final(self, state: State) -> None:
        async with self.opened() as store:
            await job_in_state(store, state, unique_key="key")
            job = new_job(unique_key="key", on_conflict="raise")
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]

    @proves("E7")
    @pytest.mark.parametrize("state", [*HOLDING, State.COMPLETED])
    async def test_an_unfinished_or_completed_job_holds_its_idempotency_key(self, state: State) -> None:
        async with self.opened() as store:
            holder = await job_in_state(store, state, idempotency_key="key")
            answers = await store.enqueue([new_job(idempotency_key="key")], now=NOW)
            assert answers == [Enqueued(holder.id, "duplicate", "key")]

    @proves("E6")
    @pytest.mark.parametrize("state", FREEING)
    async def test_an_idempotency_key_is_free_once_its_job_ended_without_doing_the_work(self, state: State) -> None:
        async with self.opened() as store:
            await job_in_state(store, state, idempotency_key="key")
            job = new_job(idempotency_key="key", on_conflict="raise")
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]

    @proves("E8")
    @pytest.mark.parametrize("kind", ["unique_key", "idempotency_key"])
    async def test_a_key_holder_past_its_expires_at_is_expired_when_its_key_is_requested(self, kind: str) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(expires_at=later(5), **{kind: "key"}))
            job = new_job(on_conflict="raise", **{kind: "key"})
            assert await store.enqueue([job], now=later(5)) == [Enqueued(job.id)]
            ended = await read_job(store, holder)
            assert (ended.state, ended.finished_at) == (State.EXPIRED, later(5))

    @proves("E8")
    async def test_two_key_holders_past_their_expires_at_are_expired_when_their_keys_are_requested(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(unique_key="a", expires_at=later(5)))
            await put(store, new_job(idempotency_key="b", expires_at=later(5)))
            job = new_job(unique_key="a", idempotency_key="b")
            assert await store.enqueue([job], now=later(5)) == [Enqueued(job.id)]
            assert (await store.overview(now=later(5))).states == {"expired": 2, "pending": 1}

    @proves("E5", "E8")
    async def test_a_held_key_counts_even_if_the_holder_of_the_other_has_expired(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(unique_key="a", expires_at=later(5)))
            (holder,) = await put(store, new_job(idempotency_key="b"))
            job = new_job(unique_key="a", idempotency_key="b")
            answers = await store.enqueue([job], now=later(5))
            assert answers == [Enqueued(holder, "duplicate", "b")]

    @proves("E8")
    async def test_a_paused_key_holder_past_its_expires_at_holds_its_key(self) -> None:
        async with self.opened() as store:
            holder = await job_in_state(store, State.PAUSED, unique_key="key", expires_at=later(5))
            answers = await store.enqueue([new_job(unique_key="key")], now=later(9))
            assert answers == [Enqueued(holder.id, "duplicate", "key")]

    @proves("E5")
    async def test_a_key_is_free_after_its_job_was_deleted(self) -> None:
        async with self.opened() as store:
            done = await job_in_state(store, State.COMPLETED, idempotency_key="key")
            await act(store, Action.DELETE, done.id)
            job = new_job(idempotency_key="key")
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]

    @proves("E6")
    @pytest.mark.parametrize("steer", [Retry(5), Snooze(5)], ids=["retry", "snooze"])
    async def test_a_job_that_will_run_again_holds_its_key(self, steer: Retry | Snooze) -> None:
        async with self.opened() as store:
            job = await start(store, unique_key="key")
            await finish_run(store, job, steer)
            answers = await store.enqueue([new_job(unique_key="key")], now=later(2))
            assert answers == [Enqueued(job.id, "duplicate", "key")]

    @proves("E6")
    async def test_a_job_retried_by_an_operator_holds_its_key_again(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.DEAD, unique_key="key")
            await act(store, Action.RETRY, job.id)
            answers = await store.enqueue([new_job(unique_key="key")], now=NOW)
            assert answers == [Enqueued(job.id, "duplicate", "key")]

    @proves("E5")
    async def test_a_unique_key_holds_across_queues_and_tasks(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="key", queue="a", task="a"))
            answers = await store.enqueue([new_job(unique_key="key", queue="b", task="b")], now=NOW)
            assert answers == [Enqueued(holder, "duplicate", "key")]

    @proves("E5")
    async def test_a_unique_key_and_an_idempotency_key_of_one_name_are_two_keys(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(unique_key="key"), new_job(idempotency_key="key")]
            assert await store.enqueue(jobs, now=NOW) == [Enqueued(job.id) for job in jobs]

    @proves("E5")
    async def test_either_key_of_a_job_may_be_held(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="a", idempotency_key="b"))
            twins = [new_job(unique_key="a", idempotency_key="c"), new_job(unique_key="c", idempotency_key="b")]
            assert await store.enqueue(twins, now=NOW) == [
                Enqueued(holder, "duplicate", "a"),
                Enqueued(holder, "duplicate", "b"),
            ]

    @proves("E10")
    async def test_a_job_that_was_not_written_holds_no_key(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(unique_key="a"), new_job(unique_key="a", idempotency_key="b"))
            job = new_job(idempotency_key="b")
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]

    # return

    @proves("E10")
    async def test_a_duplicate_does_not_change_the_first_job(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="key", payload='"first"'))
            before = await read_job(store, holder)
            await put(store, new_job(unique_key="key", payload='"second"', priority=9), now=later(1))
            assert await all_jobs(store) == [before]

    @proves("E10", "V1")
    async def test_fifty_concurrent_callers_with_one_key_get_the_same_id(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(unique_key="key") for _ in range(50)]
            answers = await asyncio.gather(*(store.enqueue([job], now=NOW) for job in jobs))
            (only,) = await all_jobs(store)
            assert {answer.id for (answer,) in answers} == {only.id}
            assert sorted(answer.status for (answer,) in answers) == ["duplicate"] * 49 + ["new"]

    # raise

    @proves("E2")
    async def test_a_refused_job_names_the_key_and_its_holder(self) -> None:
        async with self.opened() as store:
            (holder,) = await put(store, new_job(unique_key="key"))
            answers = await store.enqueue([new_job(unique_key="key", on_conflict="raise")], now=NOW)
            assert answers == [Enqueued(holder, "refused", "key")]

    @proves("E2")
    async def test_one_refused_job_refuses_the_whole_batch(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(unique_key="key"))
            before = await all_jobs(store)
            batch = [new_job(), new_job(unique_key="key", on_conflict="raise"), new_job(unique_key="other")]
            answers = await store.enqueue(batch, now=NOW)
            assert (len(answers), answers[1].status) == (3, "refused")
            assert await all_jobs(store) == before

    @proves("E2", "V1")
    async def test_a_refused_job_undoes_the_replacement_of_another_job_in_its_batch(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(unique_key="a"), new_job(unique_key="b"))
            before = await all_jobs(store)
            change = new_job(unique_key="a", on_conflict="replace", payload='"new"')
            await store.enqueue([change, new_job(unique_key="b", on_conflict="raise")], now=NOW)
            assert await all_jobs(store) == before

    @proves("E2")
    async def test_keys_of_a_refused_batch_stay_free(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(unique_key="a"))
            batch = [new_job(unique_key="b"), new_job(unique_key="a", on_conflict="raise")]
            await store.enqueue(batch, now=NOW)
            job = new_job(unique_key="b")
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]

    @proves("E2", "V1")
    async def test_one_of_fifty_concurrent_callers_with_raise_is_accepted(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(unique_key="key", on_conflict="raise") for _ in range(50)]
            answers = await asyncio.gather(*(store.enqueue([job], now=NOW) for job in jobs))
            (only,) = await all_jobs(store)
            assert {answer.id for (answer,) in answers} == {only.id}
            assert sorted(answer.status for (answer,) in answers) == ["new"] + ["refused"] * 49

    # replace and debounce

    @proves("E12")
    @pytest.mark.parametrize("state", [State.PENDING, State.PAUSED])
    async def test_replace_gives_the_new_input_and_keeps_the_time(self, state: State) -> None:
        async with self.opened() as store:
            holder = await job_in_state(store, state, unique_key="key", run_at=later(10), payload='"old"')
            new = new_job(unique_key="key", on_conflict="replace", run_at=later(99), payload='"new"')
            answers = await store.enqueue([new], now=later(1))
            assert answers == [Enqueued(holder.id, "replaced", "key")]
            (job,) = await all_jobs(store)
            assert (job.id, job.payload, job.state) == (holder.id, '"new"', state)
            assert (job.run_at, job.created_at) == (later(10), NOW)

    @proves("E13")
    @pytest.mark.parametrize("state", [State.PENDING, State.PAUSED])
    async def test_debounce_gives_the_new_input_and_moves_the_time(self, state: State) -> None:
        async with self.opened() as store:
            holder = await job_in_state(store, state, unique_key="key", run_at=later(10), payload='"old"')
            new = new_job(unique_key="key", on_conflict="debounce", run_at=later(99), payload='"new"')
            answers = await store.enqueue([new], now=later(1))
            assert answers == [Enqueued(holder.id, "debounced", "key")]
            (job,) = await all_jobs(store)
            assert (job.id, job.payload, job.state) == (holder.id, '"new"', state)
            assert (job.run_at, job.created_at) == (later(99), NOW)

    @proves("E13")
    async def test_debounce_without_a_time_is_due_at_once(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(unique_key="key", run_at=later(10)))
            await put(store, new_job(unique_key="key", on_conflict="debounce"), now=later(1))
            assert (await read_job(store, job_id)).run_at == later(1)

    @proves("E13")
    async def test_debounce_never_moves_past_its_limit_from_creation(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(unique_key="key", run_at=later(10)))
            again = {"unique_key": "key", "on_conflict": "debounce", "debounce_limit": 30.5}
            await put(store, new_job(run_at=later(25), **again), now=later(15))
            assert (await read_job(store, job_id)).run_at == later(25)
            await put(store, new_job(run_at=later(35), **again), now=later(25))
            assert (await read_job(store, job_id)).run_at == later(30.5)

    @proves("E13")
    async def test_a_debounced_job_is_claimed_at_its_new_time(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(unique_key="key", run_at=later(5)))
            await put(store, new_job(unique_key="key", on_conflict="debounce", run_at=later(9)))
            await beat(store)
            assert (await claim(store, now=later(8))).jobs == []
            assert [job.id for job in (await claim(store, now=later(9))).jobs] == [job_id]

    @proves("E11")
    @pytest.mark.parametrize("wish", ["replace", "debounce"])
    async def test_replace_and_debounce_do_not_change_a_running_job(self, wish: str) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.RUNNING, unique_key="key")
            new = new_job(unique_key="key", on_conflict=wish, payload='"new"', run_at=later(9))
            assert await store.enqueue([new], now=NOW) == [Enqueued(before.id, "duplicate", "key")]
            assert await all_jobs(store) == [before]

    @proves("E11")
    @pytest.mark.parametrize("wish", ["replace", "debounce"])
    async def test_replace_and_debounce_do_not_change_a_job_of_an_internal_task(self, wish: str) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.PENDING, task=f"{INTERNAL}task", unique_key="key")
            new = new_job(unique_key="key", on_conflict=wish, payload='"new"', run_at=later(9))
            assert await store.enqueue([new], now=NOW) == [Enqueued(before.id, "duplicate", "key")]
            assert await all_jobs(store) == [before]

    @proves("E11")
    @pytest.mark.parametrize("wish", ["replace", "debounce"])
    async def test_replace_and_debounce_do_not_change_a_completed_job(self, wish: str) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.COMPLETED, idempotency_key="key")
            new = new_job(idempotency_key="key", on_conflict=wish, payload='"new"', run_at=later(9))
            assert await store.enqueue([new], now=NOW) == [Enqueued(before.id, "duplicate", "key")]
            assert await all_jobs(store) == [before]

    @proves("E1")
    @pytest.mark.parametrize("wish", ["return", "raise", "replace", "debounce"])
    async def test_a_free_key_makes_a_new_job_with_every_on_conflict(self, wish: str) -> None:
        async with self.opened() as store:
            job = new_job(unique_key="key", on_conflict=wish, run_at=later(5))
            assert await store.enqueue([job], now=NOW) == [Enqueued(job.id)]
            assert (await read_job(store, job.id)).run_at == later(5)

    @proves("E11", "E12")
    async def test_a_job_waiting_for_its_retry_can_be_replaced(self) -> None:
        async with self.opened() as store:
            job = await start(store, unique_key="key")
            await finish_run(store, job, Retry(5))
            new = new_job(unique_key="key", on_conflict="replace", payload='"new"')
            assert await store.enqueue([new], now=later(2)) == [Enqueued(job.id, "replaced", "key")]
            again = await claim_job(store, job.id, now=later(6))
            assert (again.payload, again.attempt) == ('"new"', 2)

    # within one batch

    @proves("E3")
    async def test_the_second_job_of_a_key_in_one_batch_is_a_duplicate_of_the_first(self) -> None:
        async with self.opened() as store:
            first, second = new_job(unique_key="key", payload='"first"'), new_job(unique_key="key")
            answers = await store.enqueue([first, second], now=NOW)
            assert answers == [Enqueued(first.id), Enqueued(first.id, "duplicate", "key")]
            assert [job.payload for job in await all_jobs(store)] == ['"first"']

    @proves("E3")
    async def test_the_second_job_of_a_key_in_one_batch_may_replace_the_first(self) -> None:
        async with self.opened() as store:
            first = new_job(unique_key="key", payload='"first"')
            second = new_job(unique_key="key", payload='"second"', on_conflict="replace")
            answers = await store.enqueue([first, second], now=NOW)
            assert answers == [Enqueued(first.id), Enqueued(first.id, "replaced", "key")]
            assert [job.payload for job in await all_jobs(store)] == ['"second"']

    @proves("E2", "E3")
    async def test_the_second_job_of_a_key_in_one_batch_may_refuse_the_batch(self) -> None:
        async with self.opened() as store:
            batch = [new_job(unique_key="key"), new_job(unique_key="key", on_conflict="raise")]
            assert (await store.enqueue(batch, now=NOW))[1].status == "refused"
            assert await all_jobs(store) == []

    @proves("E3")
    async def test_the_idempotency_key_counts_within_one_batch_too(self) -> None:
        async with self.opened() as store:
            first, second = new_job(idempotency_key="key"), new_job(idempotency_key="key")
            answers = await store.enqueue([first, second], now=NOW)
            assert answers == [Enqueued(first.id), Enqueued(first.id, "duplicate", "key")]
