"""jobs, queues and counts: filters, pages and shown states."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ...ids import JobId
from ...records.job import SHOWN, Action, Shown, State
from ...records.outcome import Retry
from ...records.query import Cursor, Filter
from ...records.queue import Queue
from ...store import Store
from .build import NOW, Contract, act, all_jobs, claim_ids, finish_run, job_in_state, later, new_job, put, start
from .sentences import proves


async def one_of_each(store: Store) -> dict[Shown, JobId]:
    """One job in every shown state that can be reached, as of NOW."""
    retrying = await start(store)
    await finish_run(store, retrying, Retry(5), now=NOW)
    ids: dict[Shown, JobId] = {"retrying": retrying.id}
    for state in (State.RUNNING, State.COMPLETED, State.DEAD, State.CANCELLED, State.EXPIRED, State.PAUSED):
        ids[cast(Shown, state.value)] = (await job_in_state(store, state)).id
    ids["scheduled"], ids["pending"] = await put(store, new_job(run_at=later(5)), new_job())
    return ids


async def find_ids(store: Store, **query: Any) -> list[JobId]:
    paging = {name: query.pop(name) for name in ("limit", "after", "newest", "sort") if name in query}
    if isinstance(paging.get("after"), str):
        paging["after"] = Cursor(paging["after"])
    return [job.id for job in await store.jobs(Filter(**query), now=NOW, **{"limit": 100, **paging})]


class ReadContract(Contract):
    # filters

    @proves("J2", "J4")
    async def test_an_empty_filter_matches_every_job_in_order_of_id(self) -> None:
        async with self.opened() as store:
            jobs = [new_job(priority=n) for n in range(5)]
            await put(store, *reversed(jobs))
            assert await find_ids(store) == [job.id for job in jobs]

    @proves("J2", "J4")
    async def test_jobs_are_found_by_id_in_order_of_id(self) -> None:
        async with self.opened() as store:
            first, _, third = await put(store, new_job(), new_job(), new_job())
            assert await find_ids(store, ids=(third, "unknown", first, third)) == [first, third]

    @proves("J3")
    @pytest.mark.parametrize("shown", [name for name in SHOWN if name != "waiting"])
    async def test_jobs_are_found_by_shown_state(self, shown: Shown) -> None:
        async with self.opened() as store:
            ids = await one_of_each(store)
            (job,) = await store.jobs(Filter(states=(shown,)), now=NOW, limit=100)
            assert (job.id, job.shown(NOW)) == (ids[shown], shown)

    @proves("J2", "J3")
    async def test_jobs_are_found_by_any_of_several_shown_states(self) -> None:
        async with self.opened() as store:
            ids = await one_of_each(store)
            expected = sorted([ids["scheduled"], ids["dead"], ids["running"]])
            assert await find_ids(store, states=("scheduled", "dead", "running")) == expected

    @proves("J3")
    async def test_a_scheduled_job_is_shown_as_pending_once_its_time_has_come(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(run_at=later(5)))
            pending, scheduled = Filter(states=("pending",)), Filter(states=("scheduled",))
            assert [job.id for job in await store.jobs(pending, now=later(5), limit=9)] == [job_id]
            assert await store.jobs(scheduled, now=later(5), limit=9) == []

    @proves("J3")
    async def test_a_pending_job_is_shown_as_expired_once_its_expires_at_has_come(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(expires_at=later(5)))
            expired, pending = Filter(states=("expired",)), Filter(states=("pending", "scheduled", "retrying"))
            assert await store.jobs(expired, now=later(4), limit=9) == []
            assert [job.id for job in await store.jobs(expired, now=later(5), limit=9)] == [job_id]
            assert await store.jobs(pending, now=later(5), limit=9) == []

    @proves("J2")
    async def test_jobs_are_found_by_queue(self) -> None:
        async with self.opened() as store:
            a, b, _ = await put(store, *(new_job(queue=name) for name in "abc"))
            assert await find_ids(store, queues=("a", "b", "none")) == [a, b]

    @proves("J2")
    async def test_jobs_are_found_by_task(self) -> None:
        async with self.opened() as store:
            a, b, _ = await put(store, *(new_job(task=name) for name in "abc"))
            assert await find_ids(store, tasks=("b", "a")) == [a, b]

    @proves("J2")
    async def test_jobs_are_found_by_all_tags_of_a_filter(self) -> None:
        async with self.opened() as store:
            tagged = [("x", "y", "z"), ("x",), ("y", "x"), (), ("xy",), ("x'", 'y"')]
            ids = await put(store, *(new_job(tags=tags) for tags in tagged))
            assert await find_ids(store, tags=("x", "y")) == [ids[0], ids[2]]
            assert await find_ids(store, tags=("x",)) == ids[:3]
            assert await find_ids(store, tags=('y"', "x'")) == [ids[5]]
            assert await find_ids(store, tags=()) == ids

    @proves("J2")
    async def test_every_part_of_a_filter_must_match(self) -> None:
        async with self.opened() as store:
            fields: dict[str, Any] = {"queue": "q", "task": "t", "tags": ("x",), "run_at": later(5)}
            (whole,) = await put(store, new_job(**fields))
            others = await put(
                store,
                *(
                    new_job(**{**fields, name: other})
                    for name, other in [("queue", "-"), ("task", "-"), ("tags", ()), ("run_at", NOW)]
                ),
            )
            query = {"queues": ("q",), "tasks": ("t",), "tags": ("x",), "states": ("scheduled",)}
            assert await find_ids(store, ids=(whole, *others), **query) == [whole]

    @proves("J2")
    @pytest.mark.parametrize("part", ["ids", "states", "queues", "tasks"])
    async def test_an_empty_list_in_a_filter_matches_nothing(self, part: str) -> None:
        async with self.opened() as store:
            await put(store, new_job())
            assert await find_ids(store, **{part: ()}) == []

    # pages

    @proves("J1")
    async def test_jobs_are_paged_oldest_first(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(5)))
            assert await find_ids(store, limit=2) == ids[:2]
            assert await find_ids(store, limit=2, after=ids[1]) == ids[2:4]
            assert await find_ids(store, limit=2, after=ids[3]) == ids[4:]
            assert await find_ids(store, limit=2, after=ids[4]) == []

    @proves("J1")
    async def test_jobs_are_paged_newest_first(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(5)))
            assert await find_ids(store, limit=2, newest=True) == [ids[4], ids[3]]
            assert await find_ids(store, limit=2, newest=True, after=ids[3]) == [ids[2], ids[1]]
            assert await find_ids(store, limit=2, newest=True, after=ids[0]) == []

    @proves("J1")
    async def test_a_page_continues_after_a_job_that_does_not_match(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(queue="ab"[n % 2]) for n in range(6)))
            assert await find_ids(store, queues=("a",), after=ids[1]) == [ids[2], ids[4]]

    @proves("J1")
    async def test_a_page_continues_after_a_deleted_job(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job() for _ in range(3)))
            await act(store, Action.DELETE, ids[1])
            assert await find_ids(store, after=ids[1]) == [ids[2]]

    # counts

    @proves("OV1", "OV5")
    async def test_jobs_are_counted_by_shown_state(self) -> None:
        async with self.opened() as store:
            ids = await one_of_each(store)
            await put(store, new_job())
            assert (await store.overview(now=NOW)).states == {shown: 1 + (shown == "pending") for shown in ids}

    @proves("OV5")
    async def test_counts_depend_on_now(self) -> None:
        async with self.opened() as store:
            await put(store, new_job(run_at=later(5), expires_at=later(9)))
            seen = [(await store.overview(now=later(at))).states for at in (4.999999, 5, 9)]
            assert seen == [{"scheduled": 1}, {"pending": 1}, {"expired": 1}]

    @proves("OV6")
    async def test_an_overview_without_finished_jobs_has_the_same_queues_and_unfinished_states(self) -> None:
        async with self.opened() as store:
            await one_of_each(store)
            whole, part = await store.overview(now=NOW), await store.overview(now=NOW, finished=False)
            assert (part.queues, part.circuits) == (whole.queues, whole.circuits)
            final = {state.value for state in State if state.final}
            assert {shown: n for shown, n in whole.states.items() if shown not in final} == {
                shown: n for shown, n in part.states.items() if shown not in final
            }

    # queues

    @proves("OV2", "OV5")
    async def test_a_queue_counts_its_unfinished_jobs(self) -> None:
        async with self.opened() as store:
            await one_of_each(store)
            await put(store, new_job())
            queue = Queue(name="default", pending=2, scheduled=1, retrying=1, running=1)
            assert (await store.overview(now=NOW)).queues == [queue]

    @proves("OV2")
    async def test_queues_are_listed_by_name_each_with_its_own_counts(self) -> None:
        async with self.opened() as store:
            await put(store, *(new_job(queue=name) for name in ["b", "c", "a", "b"]))
            expected = [Queue(name=name, pending=count) for name, count in [("a", 1), ("b", 2), ("c", 1)]]
            assert (await store.overview(now=NOW)).queues == expected

    @proves("OV2")
    async def test_a_queue_whose_jobs_are_all_final_is_not_listed(self) -> None:
        async with self.opened() as store:
            for state in (State.COMPLETED, State.DEAD, State.CANCELLED, State.EXPIRED):
                await job_in_state(store, state)
            assert (await store.overview(now=NOW)).queues == []

    @proves("OV2")
    async def test_a_queue_that_holds_only_paused_jobs_is_listed(self) -> None:
        async with self.opened() as store:
            await job_in_state(store, State.PAUSED)
            assert (await store.overview(now=NOW)).queues == [Queue(name="default")]

    @proves("OV2")
    async def test_a_paused_queue_is_listed_though_it_is_empty(self) -> None:
        async with self.opened() as store:
            await store.pause_queue("mail", True)
            assert (await store.overview(now=NOW)).queues == [Queue(name="mail", paused=True)]
            await store.pause_queue("mail", False)
            assert (await store.overview(now=NOW)).queues == []

    @proves("OV2", "PQ1")
    async def test_a_paused_queue_counts_the_jobs_it_took(self) -> None:
        async with self.opened() as store:
            await store.pause_queue("mail", True)
            await put(store, new_job(queue="mail"), new_job(queue="mail", run_at=later(5)))
            assert (await store.overview(now=NOW)).queues == [Queue(name="mail", paused=True, pending=1, scheduled=1)]

    @proves("V12")
    async def test_reading_changes_nothing(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(expires_at=later(5)))
            before = await all_jobs(store)
            await store.overview(now=later(9))
            await store.jobs(Filter(states=("expired",)), now=later(9), limit=9)
            assert await all_jobs(store) == before
            assert await claim_ids(store) == [job_id]
