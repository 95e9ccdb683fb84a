"""change with an update: new values for waiting or retried jobs; and pages of changes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from ...records.job import Action, Job, State
from ...records.outcome import Discard, Retry
from ...records.query import Changed, Filter, Refusal, Update
from ...store import Store
from .build import (
    NOW,
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

VALUES: dict[str, Any] = {
    "payload": '{"é": 1e400}',
    "queue": "other",
    "priority": -7,
    "run_at": later(7.000001),
    "expires_at": later(9.000001),
    "timeout": 2.5,
    "max_retries": 0,
    "tags": ("x", "y'"),
    "metadata": {"é": [1, {"a": None}]},
}
FULL: dict[str, Any] = {
    "expires_at": later(50), "timeout": 1.5, "max_retries": 5, "tags": ("a", "b"), "metadata": {"k": 1}
}  # fmt: skip


async def update(store: Store, *jobs: Job, **values: Any) -> Changed:
    return await act(store, Action.UPDATE, *(job.id for job in jobs), update=Update(**values))


async def tagged(store: Store, tag: str) -> list[str]:
    return [job.id for job in await store.jobs(Filter(tags=(tag,)), now=NOW, limit=9)]


class UpdateContract(Contract):
    # the values

    @proves("A10")
    @pytest.mark.parametrize("action", [Action.UPDATE, Action.RETRY])
    async def test_a_change_with_updates_by_id_gives_each_job_its_own_values(self, action: Action) -> None:
        async with self.opened() as store:
            state = State.PENDING if action is Action.UPDATE else State.DEAD
            done = await job_in_state(store, State.COMPLETED, queue="q")
            jobs = [await job_in_state(store, state, queue="q") for _ in range(3)]
            given = {job.id: Update(payload=f'{{"n":{n}}}', queue=f"q{n}") for n, job in enumerate(jobs[:2])}
            ids = tuple(job.id for job in [*jobs, done])
            changed = await store.change(action, Filter(ids=ids), now=NOW, limit=9, update={**given, done.id: Update()})
            assert changed == Changed([job.id for job in jobs], {done.id: Refusal(State.COMPLETED)})
            found = [await read_job(store, job.id) for job in jobs]
            assert [(job.payload, job.queue) for job in found] == [('{"n":0}', "q0"), ('{"n":1}', "q1"), ("{}", "q")]
            assert {job.state for job in found} == {State.PENDING}

    @proves("A10")
    @pytest.mark.parametrize("state", [State.PENDING, State.PAUSED])
    @pytest.mark.parametrize("name", VALUES)
    async def test_an_update_writes_the_value_it_gives_and_no_other(self, name: str, state: State) -> None:
        async with self.opened() as store:
            before, bystander = await job_in_state(store, state, **FULL), await job_in_state(store, state, **FULL)
            assert await update(store, before, **{name: VALUES[name]}) == Changed([before.id], {})
            assert await all_jobs(store) == [replace(before, **{name: VALUES[name]}), bystander]

    @proves("A10")
    @pytest.mark.parametrize("name", ["expires_at", "timeout", "max_retries"])
    async def test_an_update_can_remove_a_value(self, name: str) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.PENDING, **FULL)
            await update(store, before, **{name: None})
            assert await read_job(store, before.id) == replace(before, **{name: None})

    @proves("A10", "V10")
    async def test_timeout_none_differs_from_unset_in_an_update(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.PENDING)
            assert job.timeout is UNSET
            await update(store, job, timeout=None)
            assert (await read_job(store, job.id)).timeout is None

    @proves("A10")
    async def test_an_update_may_set_every_value_at_once(self) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.PENDING)
            await update(store, before, **VALUES)
            assert await read_job(store, before.id) == replace(before, **VALUES)

    @proves("A10")
    @pytest.mark.parametrize("given", [None, Update()], ids=["none", "empty"])
    async def test_an_update_without_values_changes_nothing(self, given: Update | None) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.PENDING, **FULL)
            assert (await act(store, Action.UPDATE, before.id, update=given)).done == [before.id]
            assert await read_job(store, before.id) == before

    @proves("A1")
    @pytest.mark.parametrize("state", [State.RUNNING, State.COMPLETED, State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_a_job_that_does_not_wait_is_not_updated(self, state: State) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, state)
            assert await update(store, before, **VALUES) == Changed([], {before.id: Refusal(state)})
            assert await read_job(store, before.id) == before

    @proves("A10")
    async def test_an_update_keeps_the_job_retrying_with_its_failure_and_history(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(5, "böse"))
            before = await read_job(store, job.id)
            await update(store, before, payload='"new"')
            assert await read_job(store, job.id) == replace(before, payload='"new"')
            assert [run.job_id for run in await store.executions(job.id)] == [job.id]

    @proves("V9")
    async def test_changing_the_given_values_later_does_not_change_the_store(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.PENDING)
            metadata: dict[str, Any] = {"a": [1]}
            await update(store, job, metadata=metadata)
            metadata["a"].append(2)
            assert (await read_job(store, job.id)).metadata == {"a": [1]}

    # effects of new values

    @proves("A10", "C6")
    async def test_an_update_of_priority_changes_the_claim_order(self) -> None:
        async with self.opened() as store:
            jobs = [await job_in_state(store, State.PENDING) for _ in range(3)]
            await update(store, jobs[2], priority=9)
            await update(store, jobs[0], priority=-9)
            assert await claim_ids(store) == [jobs[2].id, jobs[1].id, jobs[0].id]

    @proves("A10", "C11")
    async def test_an_update_of_run_at_changes_when_the_job_is_due(self) -> None:
        async with self.opened() as store:
            sooner, later_on = [await job_in_state(store, State.PENDING, run_at=later(5)) for _ in range(2)]
            await update(store, sooner, run_at=later(1))
            await update(store, later_on, run_at=later(9))
            await beat(store)
            first = await claim(store, now=later(5))
            assert ([job.id for job in first.jobs], first.next_at) == ([sooner.id], later(9))
            assert await claim_ids(store, now=later(9)) == [later_on.id]

    @proves("A10")
    async def test_an_update_of_queue_changes_where_the_job_is_claimed_and_counted(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.PENDING)
            await update(store, job, queue="other")
            assert [queue.name for queue in (await store.overview(now=NOW)).queues] == ["other"]
            assert await claim_ids(store, queues=["default"]) == []
            assert await claim_ids(store, queues=["other"]) == [job.id]

    @proves("A10", "C10")
    async def test_an_update_of_expires_at_changes_when_the_job_expires(self) -> None:
        async with self.opened() as store:
            kept, ended = [await job_in_state(store, State.PENDING, expires_at=later(5)) for _ in range(2)]
            await update(store, kept, expires_at=None)
            await update(store, ended, expires_at=later(3))
            await beat(store)
            assert (await claim(store, tasks=[], now=later(3))).expired == [ended.id]
            assert await claim_ids(store, now=later(50)) == [kept.id]

    @proves("A10", "J2")
    async def test_an_update_of_tags_changes_which_tags_find_the_job(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.PENDING, tags=("old", "both"))
            await update(store, job, tags=("both", "new"))
            assert [await tagged(store, tag) for tag in ("old", "both", "new")] == [[], [job.id], [job.id]]

    @proves("A10")
    async def test_an_update_of_payload_changes_what_the_worker_gets(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.PAUSED)
            await update(store, job, payload='"new"', max_retries=9)
            await act(store, Action.RESUME, job.id)
            again = await claim_job(store, job.id)
            assert (again.payload, again.max_retries) == ('"new"', 9)

    # retries with new values

    @proves("A10")
    @pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, State.EXPIRED])
    async def test_a_retry_with_an_update_gives_the_job_new_values(self, state: State) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, state, tags=("old",))
            given = Update(payload='"mended"', queue="other", priority=3, tags=("new",))
            assert (await act(store, Action.RETRY, before.id, now=later(1), update=given)).done == [before.id]
            assert (await tagged(store, "old"), await tagged(store, "new")) == ([], [before.id])
            again = await claim_job(store, before.id, now=later(1))
            assert (again.payload, again.queue, again.priority) == ('"mended"', "other", 3)
            assert (again.run_at, again.attempt, again.created_at) == (later(1), 1, before.created_at)

    @proves("A10")
    async def test_a_retry_with_an_update_sets_run_at_and_expires_at(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.DEAD)
            given = Update(run_at=later(5), expires_at=later(8))
            await act(store, Action.RETRY, job.id, now=later(1), update=given)
            after = await read_job(store, job.id)
            assert (after.run_at, after.expires_at) == (later(5), later(8))

    @proves("A9", "A10")
    async def test_a_refused_retry_does_not_write_its_update(self) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.DEAD, unique_key="key")
            (holder,) = await put(store, new_job(unique_key="key"))
            changed = await act(store, Action.RETRY, before.id, update=Update(payload='"new"'))
            assert changed == Changed([], {before.id: Refusal(State.DEAD, "key", holder)})
            assert await read_job(store, before.id) == before

    @proves("A10")
    @pytest.mark.parametrize("action", [Action.CANCEL, Action.PAUSE])
    async def test_cancel_and_pause_ignore_an_update(self, action: Action) -> None:
        async with self.opened() as store:
            before = await job_in_state(store, State.PENDING)
            await act(store, action, before.id, update=Update(payload='"new"'))
            assert (await read_job(store, before.id)).payload == before.payload

    # pages

    @proves("A1", "A3", "A4")
    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
    @pytest.mark.parametrize("state", [State.PENDING, State.COMPLETED], ids=["done", "refused"])
    async def test_pages_of_a_change_reach_every_job_once(self, state: State, limit: int) -> None:
        async with self.opened() as store:
            jobs = [await job_in_state(store, state) for _ in range(5)]
            pages = [await store.change(Action.PAUSE, Filter(), now=NOW, limit=limit)]
            while pages[-1].next is not None:
                assert len(pages) < 9, "it stalls"
                pages.append(await store.change(Action.PAUSE, Filter(), now=NOW, limit=limit, after=pages[-1].next))
            assert [job_id for page in pages for job_id in (*page.done, *page.refused)] == [job.id for job in jobs]
            assert len(pages) == 5 // limit + 1

    @proves("A4")
    async def test_next_of_a_change_is_the_last_job_considered_even_if_refused(self) -> None:
        async with self.opened() as store:
            first = await job_in_state(store, State.PENDING)
            second = await job_in_state(store, State.COMPLETED)
            page = await store.change(Action.CANCEL, Filter(), now=NOW, limit=2)
            assert page == Changed([first.id], {second.id: Refusal(State.COMPLETED)}, next=second.id)

    @proves("A3", "A4")
    async def test_pages_of_a_change_continue_if_changed_jobs_leave_the_filter(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(5)))
            which, after, pages = Filter(states=("pending",)), None, []
            for _ in range(3):
                pages.append(await store.change(Action.DELETE, which, now=NOW, limit=2, after=after))
                after = pages[-1].next
            assert [page.done for page in pages] == [ids[:2], ids[2:4], ids[4:]]
            assert (after, await all_jobs(store)) == (None, [])

    @proves("A4")
    async def test_a_change_skips_jobs_up_to_after(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(tags=("x",)) for _ in range(4)))
            page = await store.change(Action.PAUSE, Filter(tags=("x",)), now=NOW, limit=9, after=ids[1])
            assert page == Changed(ids[2:], {})

    @proves("A10", "J2")
    async def test_an_update_by_filter_changes_all_matching_jobs(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(queue="ab"[n % 2]) for n in range(6)))
            given = Update(queue="c")
            changed = await store.change(Action.UPDATE, Filter(queues=("a",)), now=NOW, limit=9, update=given)
            assert changed.done == ids[::2]
            assert [job.queue for job in await all_jobs(store)] == ["c", "b"] * 3

    @proves("F7")
    async def test_a_dead_job_keeps_its_failure_when_it_is_retried_with_an_update(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Discard("böse"))
            await act(store, Action.RETRY, job.id, update=Update(payload='"new"'))
            failure = (await read_job(store, job.id)).failure
            assert failure is not None
            assert await store.jobs(Filter(errors=(failure.kind,)), now=NOW, limit=9) == [await read_job(store, job.id)]
