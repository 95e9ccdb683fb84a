"""jobs with every sort and filter; groups of dead jobs; and counts that agree with the lists."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from ...ids import JobId
from ...records.job import FINAL, Action, Job, State
from ...records.outcome import Cancel, Discard, Done, Released, Retry, RunEnd, Snooze
from ...records.query import SORTS, Cursor, Filter, Sort, Update
from ...records.queue import DeadGroup
from ...records.run import PARTIAL_KIND, Ending, Failure, Items
from ...store import Store
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
    start,
)
from .read import find_ids
from .sentences import proves

KEYS = ["a", "ab", "a%", "a_b", "a'b", 'a"', "A", "é", "éa", "日本", "a\U0010ffff", "a\U0010ffff\U0010ffffb", "b", "%"]


async def read_pages(store: Store, sort: Sort, *, limit: int, newest: bool = False, **filters: Any) -> list[Job]:
    """All jobs, read page by page."""
    seen: list[Job] = []
    after: Cursor | None = None
    while page := await store.jobs(Filter(**filters), now=NOW, limit=limit, after=after, newest=newest, sort=sort):
        assert len(page) <= limit
        seen += page
        assert len(seen) < 100, "it stalls"
        last = page[-1]
        after = Cursor(last.id, {"created": None, "due": last.run_at, "finished": last.finished_at}[sort])
    return seen


async def dead_job(store: Store, message: str, *, at: float = 0, task: str = "task", type: str = "OSError") -> Job:
    job = await start(store, task=task)
    await finish_run(store, job, Discard(), now=later(at), failure=Failure(type, message))
    return job


class ListsContract(Contract):
    # due

    @proves("J4")
    async def test_sort_due_lists_pending_jobs_by_run_at_and_id(self) -> None:
        async with self.opened() as store:
            for state in FINAL | {State.RUNNING, State.PAUSED}:
                await job_in_state(store, state)
            times = [5, -3, 9, 0, 5, 0]
            ids = await put(
                store, *(new_job(run_at=later(at), priority=n, queue="ab"[n % 2]) for n, at in enumerate(times))
            )
            order = [ids[n] for n in (1, 3, 5, 0, 4, 2)]
            assert await find_ids(store, sort="due") == order
            assert await find_ids(store, sort="due", newest=True) == order[::-1]

    @proves("J4")
    async def test_sort_due_lists_a_retrying_job_by_its_next_run_at(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(5), now=NOW)
            first, last = await put(store, new_job(run_at=later(4)), new_job(run_at=later(6)))
            assert await find_ids(store, sort="due") == [first, job.id, last]

    # finished

    @proves("J4")
    async def test_sort_finished_lists_final_jobs_by_finished_at_and_id(self) -> None:
        async with self.opened() as store:
            for state in (State.PENDING, State.RUNNING, State.PAUSED):
                await job_in_state(store, state)
            endings: list[tuple[float, RunEnd]] = [(5, Done()), (1, Discard()), (5, Cancel()), (3, Done()), (1, Done())]
            jobs = [await start(store, task="task", queue="ab"[n % 2]) for n in range(len(endings))]
            for job, (at, ended) in zip(jobs, endings, strict=True):
                await finish_run(store, job, ended, now=later(at))
            order = [jobs[n].id for n in (1, 4, 3, 0, 2)]
            assert await find_ids(store, sort="finished") == order
            assert await find_ids(store, sort="finished", newest=True) == order[::-1]

    @proves("J4")
    async def test_sort_finished_lists_every_final_state(self) -> None:
        async with self.opened() as store:
            ids = {(await job_in_state(store, state)).id for state in FINAL}
            assert set(await find_ids(store, sort="finished")) == ids

    @proves("J4")
    async def test_a_job_that_was_retried_is_listed_as_due_and_not_as_finished(self) -> None:
        async with self.opened() as store:
            job = await job_in_state(store, State.DEAD)
            await act(store, Action.RETRY, job.id)
            assert (await find_ids(store, sort="finished"), await find_ids(store, sort="due")) == ([], [job.id])

    # pages

    @proves("J1", "J4")
    @pytest.mark.parametrize("newest", [False, True], ids=["forward", "backward"])
    @pytest.mark.parametrize("limit", [1, 2, 3, 20])
    @pytest.mark.parametrize("sort", SORTS)
    async def test_sorted_pages_have_no_gap_or_repeat_at_equal_times(
        self, sort: Sort, limit: int, newest: bool
    ) -> None:
        async with self.opened() as store:
            jobs = [await start(store, queue="ab"[n % 2], priority=n % 3) for n in range(10)]
            for n, job in enumerate(jobs):
                over: RunEnd = Discard() if n // 2 % 2 else Done()
                if sort == "finished":
                    await finish_run(store, job, over, now=later(n // 4))
                else:
                    await finish_run(store, job, Retry(n // 4), now=NOW)
            seen = [job.id for job in await read_pages(store, sort, limit=limit, newest=newest)]
            ids = [job.id for job in jobs]
            assert seen == (ids[::-1] if newest else ids)

    @proves("J2", "J4")
    @pytest.mark.parametrize("sort", ["due", "finished"])
    async def test_sorted_jobs_are_narrowed_by_a_filter(self, sort: Sort) -> None:
        async with self.opened() as store:
            jobs = [await start(store, queue="ab"[n % 2], tags=("x",) * (n % 3 == 0)) for n in range(9)]
            for n, job in enumerate(jobs):
                await finish_run(store, job, Done() if sort == "finished" else Retry(9 - n), now=later(9 - n))
            seen = await read_pages(store, sort, limit=2, queues=("a",), tags=("x",))
            assert [job.id for job in seen] == [jobs[6].id, jobs[0].id]
            assert await find_ids(store, sort=sort, states=("running",)) == []

    @proves("J1", "J4")
    async def test_a_sorted_page_continues_after_a_deleted_job(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(run_at=later(1)) for _ in range(3)))
            await act(store, Action.DELETE, ids[1])
            assert await find_ids(store, sort="due", after=Cursor(ids[1], later(1))) == [ids[2]]
            assert await find_ids(store, sort="due", after=Cursor(ids[1], later(1)), newest=True) == [ids[0]]

    @proves("J4")
    async def test_sort_created_ignores_the_instant_of_a_cursor(self) -> None:
        async with self.opened() as store:
            first, second = await put(store, new_job(), new_job())
            assert await find_ids(store, after=Cursor(first, later(99))) == [second]

    # by worker

    @proves("J2")
    async def test_jobs_are_found_by_the_worker_that_runs_them(self) -> None:
        async with self.opened() as store:
            mine, yours = await start(store, worker="ada"), await start(store, worker="bob")
            done = await start(store, worker="ada")
            await finish_run(store, done, Done())
            assert await find_ids(store, workers=("ada",)) == [mine.id]
            assert await find_ids(store, workers=("bob", "ada", "nobody")) == [mine.id, yours.id]
            assert await find_ids(store, workers=("ada",), states=("completed",)) == []
            assert await find_ids(store, workers=()) == []

    @proves("J2")
    async def test_a_job_that_waits_again_is_found_by_no_worker(self) -> None:
        async with self.opened() as store:
            job = await start(store, worker="ada")
            await finish_run(store, job, Released(), now=NOW)
            assert await find_ids(store, workers=("ada",)) == []
            await claim_job(store, job.id, worker="bob")
            assert (await find_ids(store, workers=("ada",)), await find_ids(store, workers=("bob",))) == ([], [job.id])

    # by failure

    @proves("J2")
    async def test_jobs_are_found_by_the_kind_of_their_last_failure(self) -> None:
        async with self.opened() as store:
            first, second = await dead_job(store, "disk 1 is 'full'"), await dead_job(store, "disk 22 is 'empty'")
            await dead_job(store, "gone")
            await job_in_state(store, State.COMPLETED)
            assert await find_ids(store, errors=("OSError: disk … is …",)) == [first.id, second.id]
            assert await find_ids(store, errors=("OSError: gone", "OSError")) != []
            assert await find_ids(store, errors=("OSError: disk 1 is 'full'",)) == []
            assert await find_ids(store, errors=()) == []

    @proves("F7", "J2")
    async def test_a_job_that_will_be_retried_is_found_by_its_failure_too(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(0, "böse"), now=NOW)
            assert await find_ids(store, errors=("Retry: böse",), states=("retrying",)) == [job.id]
            await finish_run(store, await claim_job(store, job.id), Snooze(5), now=NOW)
            assert await find_ids(store, errors=("Retry: böse",)) == [job.id]

    @proves("F7")
    async def test_a_completed_job_is_not_found_by_an_earlier_failure(self) -> None:
        async with self.opened() as store:
            job = await start(store)
            await finish_run(store, job, Retry(0, "böse"), now=NOW)
            await finish_run(store, await claim_job(store, job.id), Done(), now=NOW)
            assert await find_ids(store, errors=("Retry: böse",)) == []

    @proves("F4", "J2")
    async def test_a_partial_job_is_completed_keeps_its_result_and_is_found_by_its_kind(self) -> None:
        async with self.opened() as store:
            whole, part = await start(store), await start(store)
            note = Failure("ResultTooLarge", "by 3 bytes")
            await finish_run(store, whole, Done('"whole"'), now=NOW)
            await finish_run(store, part, Done('"part"', note).partly(Items(success=9, failed=1, skipped=2)), now=NOW)
            assert await find_ids(store, errors=(PARTIAL_KIND,)) == [part.id]
            assert await find_ids(store, errors=(PARTIAL_KIND,), states=("completed",)) == [part.id]
            assert await find_ids(store, errors=(PARTIAL_KIND,), states=("dead",)) == []
            jobs = {job.id: job for job in await store.jobs(Filter(), now=NOW, limit=10)}
            assert (jobs[part.id].outcome(NOW), jobs[part.id].result) == ("partial", '"part"')
            assert jobs[whole.id].outcome(NOW) == "completed"
            (run,) = await store.executions(part.id)
            assert (run.ending, run.outcome) == (Ending.COMPLETED, "partial")
            assert run.failure == Failure("Partial", "1 of 12 items failed\nResultTooLarge: by 3 bytes")

    # by prefix of a key

    @proves("J2")
    @pytest.mark.parametrize("field", ["unique_key", "idempotency_key"])
    @pytest.mark.parametrize("prefix", [*KEYS, "", "a'", "ac", "aa", "日", "\U0010ffff", "�"])
    async def test_jobs_are_found_by_the_prefix_of_their_key(self, prefix: str, field: str) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(**{field: key}) for key in KEYS))
            await put(store, new_job())
            expected = [job_id for job_id, key in zip(ids, KEYS, strict=True) if key.startswith(prefix)]
            assert await find_ids(store, key_prefix=prefix) == expected

    @proves("J2")
    async def test_a_key_prefix_matches_either_key_also_of_a_final_job(self) -> None:
        async with self.opened() as store:
            done = await job_in_state(store, State.COMPLETED, unique_key="order:1")
            cancelled = await job_in_state(store, State.CANCELLED, idempotency_key="order:2")
            (other,) = await put(store, new_job(unique_key="mail", idempotency_key="order:3"))
            assert await find_ids(store, key_prefix="order:") == [done.id, cancelled.id, other]
            assert await find_ids(store, key_prefix="order:", states=("completed",)) == [done.id]

    # by creation time

    @proves("J2")
    async def test_jobs_are_found_by_creation_time_bounds_included(self) -> None:
        async with self.opened() as store:
            ids = [(await put(store, new_job(), now=later(at)))[0] for at in (0, 1, 1.000001, 2)]
            assert await find_ids(store, created_after=later(1)) == ids[1:]
            assert await find_ids(store, created_before=later(1)) == ids[:2]
            assert await find_ids(store, created_after=later(1), created_before=later(1.000001)) == ids[1:3]
            assert await find_ids(store, created_after=later(1.5), created_before=later(1.2)) == []

    # tags

    @proves("A7", "E12", "J2")
    async def test_tags_follow_a_job_through_replacement_and_deletion(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(unique_key="key", tags=("old", "both")))
            await put(store, new_job(unique_key="key", tags=("both", "new"), on_conflict="replace"))
            assert [await find_ids(store, tags=(tag,)) for tag in ("old", "both", "new")] == [[], [job_id], [job_id]]
            await act(store, Action.DELETE, job_id)
            await put(store, new_job(id=job_id))
            assert await find_ids(store, tags=("both",)) == []

    @proves("E9", "E10")
    async def test_the_tags_of_a_duplicate_are_not_put_on_the_job(self) -> None:
        async with self.opened() as store:
            first = new_job(unique_key="key", tags=("x",))
            await put(store, first, new_job(unique_key="key", tags=("y",)))
            await put(store, new_job(id=first.id, tags=("z",)))
            assert [await find_ids(store, tags=(tag,)) for tag in "xyz"] == [[first.id], [], []]

    @proves("E9")
    async def test_the_first_tags_count_if_an_id_is_repeated_in_a_call(self) -> None:
        async with self.opened() as store:
            first = new_job(tags=("x",))
            await put(store, first, new_job(id=first.id, tags=("y",)))
            bare = new_job()
            await put(store, bare, new_job(id=bare.id, tags=("z",)))
            assert [await find_ids(store, tags=(tag,)) for tag in "xyz"] == [[first.id], [], []]

    @proves("J2")
    async def test_a_tag_given_twice_finds_its_job_once(self) -> None:
        async with self.opened() as store:
            (job_id,) = await put(store, new_job(tags=("x", "x")))
            assert await find_ids(store, tags=("x",)) == await find_ids(store, tags=("x", "x")) == [job_id]

    # dead letters

    @proves("DG1", "DG2")
    async def test_dead_jobs_are_grouped_by_task_and_kind_largest_first(self) -> None:
        async with self.opened() as store:
            await dead_job(store, "disk 1", at=3)
            newest = await dead_job(store, "disk 2", at=9)
            await dead_job(store, "disk 3", at=5)
            other = await dead_job(store, "disk 1", at=4, task="other")
            gone, lost = await dead_job(store, "gone", at=2), await dead_job(store, "lost", at=1)
            assert await store.dead_groups(limit=9) == [
                DeadGroup(task="task", error="OSError: disk …", count=3, newest=newest.id, last_at=later(9)),
                DeadGroup(task="other", error="OSError: disk …", count=1, newest=other.id, last_at=later(4)),
                DeadGroup(task="task", error="OSError: gone", count=1, newest=gone.id, last_at=later(2)),
                DeadGroup(task="task", error="OSError: lost", count=1, newest=lost.id, last_at=later(1)),
            ]
            assert [group.newest for group in await store.dead_groups(limit=2)] == [newest.id, other.id]

    @proves("DG2")
    async def test_the_newest_job_of_a_dead_group_is_by_id_at_equal_times(self) -> None:
        async with self.opened() as store:
            _, second = await dead_job(store, "gone", at=1), await dead_job(store, "gone", at=1)
            assert [group.newest for group in await store.dead_groups(limit=9)] == [second.id]

    @proves("DG1")
    async def test_only_dead_jobs_are_in_dead_groups(self) -> None:
        async with self.opened() as store:
            for ended in (Retry(5, "no"), Cancel("no"), Done()):
                await finish_run(store, await start(store), ended)
            job = await dead_job(store, "gone")
            await act(store, Action.RETRY, job.id)
            assert await store.dead_groups(limit=9) == []

    @proves("DG1", "J2")
    async def test_a_dead_group_can_be_listed_and_changed_by_its_kind(self) -> None:
        async with self.opened() as store:
            jobs = [await dead_job(store, f"disk {n}") for n in range(3)]
            await dead_job(store, "gone")
            (group, _) = await store.dead_groups(limit=9)
            which = Filter(states=("dead",), tasks=(group.task,), errors=(group.error,))
            changed = await store.change(Action.RETRY, which, now=NOW, limit=9)
            assert changed.done == [job.id for job in jobs]
            assert [left.error for left in await store.dead_groups(limit=9)] == ["OSError: gone"]

    @proves("DG2")
    async def test_a_dead_job_without_a_failure_is_in_no_dead_group(self) -> None:
        async with self.opened() as store:
            await finish_run(store, await start(store), Discard(), failure=None)
            assert await store.dead_groups(limit=9) == []

    # counts

    @proves("OV1", "OV3", "OV5")
    @pytest.mark.parametrize("seed", range(4))
    async def test_counts_equal_a_recount_after_random_changes(self, seed: int) -> None:
        async with self.opened() as store:
            draw, now = Random(seed), NOW
            for _ in range(120):
                await change_randomly(store, draw, now)
                now += timedelta(seconds=draw.choice([0, 0, 1, 3]))
                recount = Counter(job.shown(now) for job in await all_jobs(store))
                assert (await store.overview(now=now)).states == recount
                assert sum(queue.pending for queue in (await store.overview(now=now)).queues) == recount["pending"]


async def change_randomly(store: Store, draw: Random, now: datetime) -> None:
    """One random change of the store."""
    match draw.choice(["enqueue", "enqueue", "run", "run", "run", "change", "change", "prune"]):
        case "enqueue":
            await put(store, *(_any_job(draw, now) for _ in range(draw.randint(1, 4))), now=now)
        case "run":
            await beat(store, until=now + timedelta(seconds=60), now=now)
            jobs = (await claim(store, limit=draw.randint(1, 4), now=now)).jobs
            for job in jobs[: draw.choice([1, 9, 9])]:
                endings: list[RunEnd] = [Done(), Done(), Discard(), Retry(draw.randint(0, 3)), Snooze(2), Cancel()]
                ended = draw.choice(endings)
                for _ in range(draw.choice([1, 2])):
                    await finish_run(store, job, ended, now=now, then=(_any_job(draw, now),) * draw.choice([0, 0, 1]))
        case "change":
            ids: tuple[JobId, ...] = tuple(job.id for job in await all_jobs(store) if draw.random() < 0.3)
            given = Update(queue=draw.choice("ab"), expires_at=now + timedelta(seconds=draw.randint(0, 3)))
            action = draw.choice(list(Action))
            await store.change(action, Filter(ids=ids), now=now, limit=draw.randint(1, 5), update=given)
        case _:
            for state, task in await store.finished_groups():
                old = await store.prunable(state, task, keep=draw.randint(0, 5), before=now, limit=3)
                await act(store, Action.DELETE, *(job.id for job in old), now=now)


def _any_job(draw: Random, now: datetime) -> Any:
    soon: dict[str, Any] = {"run_at": now + timedelta(seconds=draw.randint(-2, 3))}
    if draw.random() < 0.3:
        soon["expires_at"] = now + timedelta(seconds=draw.randint(0, 5))
    if draw.random() < 0.3:
        soon |= {"unique_key": draw.choice("kl"), "on_conflict": draw.choice(["return", "replace", "raise"])}
    return new_job(**soon, queue=draw.choice("ab"), priority=draw.randint(-1, 1))
