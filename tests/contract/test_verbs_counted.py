"""The number of store calls of a page or a bulk action: the same for many jobs as for few, on every store."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from mainspring import Context, Filter, Mainspring, every
from mainspring.bounds import MAX_METADATA_BYTES
from mainspring.codec import decode_or_text
from mainspring.ids import JobId
from mainspring.records.job import SHOWN, Action
from mainspring.store import Store
from mainspring.testing import VirtualClock, stress
from mainspring.testing.stress import BATCH_JOBS

SMALL_BATCH, LARGE_BATCH = 5, 40


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue(request.param).fresh())


class Counted:
    """A store that counts the calls of its verbs, and the characters of the jobs it returns."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self._store = store
        self.clock = clock
        self.calls: Counter[str] = Counter()
        self.largest_page = 0
        self.ids = 0
        """Named in filters of changes."""

    def clone(self) -> Store:
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if name == "change":
                self.ids += len(args[1].ids or ())
            answer = await verb(*args, **kwargs)
            if name == "jobs":
                self.largest_page = max(self.largest_page, sum(len(str(job)) for job in answer))
            return answer

        return call


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Mainspring, Counted]]:
    clock, stores = VirtualClock(), list[Counted]()
    app = Mainspring(url, clock=clock)

    def wrap(store: Store) -> Store:
        stores.append(Counted(store, clock))
        return cast(Store, stores[-1])

    app.wrap_store(wrap)

    @app.task(max_retries=0)
    async def fail(ctx: Context, n: int, why: str = "no") -> None:
        raise ValueError(why)

    @app.task
    async def work() -> None: ...

    async with app:
        await app.connect()
        yield app, stores[0]


async def kill(app: Mainspring, count: int) -> list[JobId]:
    handles = await app.enqueue_many([app.tasks["fail"].job(n) for n in range(count)])
    await app.drain()
    return [handle.id for handle in handles]


# changes


async def test_redrive_of_a_large_dead_group_takes_as_many_store_calls_as_of_a_small_one(url: str) -> None:
    async with opened(url) as (app, store):
        asked = list[Counter[str]]()
        for count in (SMALL_BATCH, LARGE_BATCH):
            ids = await kill(app, count)
            (group,) = await app.dead.groups()
            store.calls.clear()
            changed = await app.dead.redrive(group, arguments={"why": f"of {count}"})
            asked.append(Counter(store.calls))
            assert sorted(changed.done) == sorted(ids)
            jobs = await app.jobs.list(Filter(ids=tuple(ids)))
            assert sorted(decode_or_text(job.payload)["n"] for job in jobs) == list(range(count))
            assert {(job.state, decode_or_text(job.payload)["why"]) for job in jobs} == {("pending", f"of {count}")}
            await app.jobs.delete(Filter())
        assert asked[0] == asked[1]
        assert asked[0]["change"] == 1


async def test_a_redrive_with_other_arguments_continues_beyond_one_batch(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.control.jobs.MAX_EDITED_JOBS", 3)
    async with opened(url) as (app, store):
        ids = await kill(app, 8)
        first = await app.dead.redrive(Filter(), arguments={"why": "x"}, limit=4)
        rest = await app.dead.redrive(Filter(), arguments={"why": "x"}, after=first.next)
        assert (len(first.done), len(rest.done), rest.next) == (4, 4, None)
        assert sorted([*first.done, *rest.done]) == sorted(ids)
        assert store.calls["change"] == 2 + 2


async def test_a_bulk_action_on_many_ids_reads_each_id_once(url: str) -> None:
    async with opened(url) as (app, store):
        handles = await app.enqueue_many([app.tasks["work"].job() for _ in range(1500)])
        ids = tuple(handle.id for handle in handles)
        store.ids = 0
        changed = await app.jobs.pause(Filter(ids=(*ids, "no such job")))
        assert (sorted(changed.done), changed.refused, store.ids) == (sorted(ids), {}, len(ids) + 1)
        first = await app.jobs.cancel(Filter(ids=ids), limit=120)
        rest = await app.jobs.cancel(Filter(ids=ids), after=first.next)
        assert [*first.done, *rest.done] == sorted(ids)
        assert (len(first.done), rest.next) == (120, None)


async def test_redrive_refuses_only_jobs_whose_task_does_not_accept_the_arguments(url: str) -> None:
    async with opened(url) as (app, _):
        ids = await kill(app, 3)

        @app.task(max_retries=0)
        async def other(why: int = 0) -> None:
            raise ValueError(why)

        odd = await other.enqueue()
        await app.drain()
        changed = await app.dead.redrive(Filter(), arguments={"why": "text"})
        assert (sorted(changed.done), list(changed.refused)) == (sorted(ids), [odd.id])
        assert "other" in (changed.refused[odd.id].error or "")


async def test_a_preview_by_state_reads_no_payloads(url: str) -> None:
    async with opened(url) as (app, store):
        text = "x" * 50_000
        await app.enqueue_many([app.tasks["fail"].job(n, text) for n in range(LARGE_BATCH)])
        store.largest_page = 0
        seen = await app.jobs.preview(Action.PAUSE, Filter())
        assert (len(seen.done), store.largest_page < LARGE_BATCH * len(text) // 10) == (LARGE_BATCH, True)


# reads


async def test_filtered_counts_read_no_payloads_and_no_metadata(url: str) -> None:
    async with opened(url) as (app, store):
        task = app.tasks["fail"].using(metadata={"text": "x" * (MAX_METADATA_BYTES - 100)}, tags=["big"])
        await app.enqueue_many([task.job(n, "y" * 50_000) for n in range(LARGE_BATCH)])
        store.largest_page = 0
        found = await app.jobs.filtered_counts(Filter(tags=("big",)))
        assert (found.counts["pending"], store.largest_page < LARGE_BATCH * MAX_METADATA_BYTES // 10) == (
            LARGE_BATCH,
            True,
        )


async def test_filtered_counts_of_partial_jobs_leave_out_other_outcomes(url: str) -> None:
    async with opened(url) as (app, _):

        @app.task(max_retries=0)
        async def counting(ctx: Context, failed: int) -> None:
            ctx.items(success=10 - failed, failed=failed)

        for failed in (0, 0, 1, 9):
            await counting.enqueue(failed)
        await app.drain()
        await counting.enqueue(0)
        found = await app.jobs.filtered_counts(Filter(outcome="partial"))
        assert {state: count for state, count in found.counts.items() if count} == {"completed": 1}
        assert len(found.counts) == len(SHOWN)


async def test_runs_of_a_schedule_are_read_in_one_call_for_many_jobs(url: str) -> None:
    async with opened(url) as (app, store):
        await app.schedules.create("often", every(minutes=1), "work", overlap="allow")
        for _ in range(LARGE_BATCH):
            await app.schedules.trigger("often")
        await app.drain()
        store.calls.clear()
        stats = await app.schedules.stats("often", timedelta(hours=1))
        assert (stats.runs.runs, store.calls["executions"]) == (LARGE_BATCH, 1)
        store.calls.clear()
        assert len(await app.schedules.executions("often", limit=LARGE_BATCH)) == LARGE_BATCH
        assert store.calls["executions"] == 1


async def test_executions_of_archived_jobs_are_read_in_batches(url: str) -> None:
    async with opened(url) as (app, store):
        gone = list[tuple[JobId, int]]()
        app.archive(lambda jobs: gone.extend((one.job.id, len(one.executions)) for one in jobs))
        ids = await kill(app, LARGE_BATCH)
        store.clock.advance(days=400)
        store.calls.clear()
        assert await app.prune() == LARGE_BATCH
        assert sorted(gone) == [(id, 1) for id in sorted(ids)]
        assert store.calls["executions"] == 2  # a few jobs first: they may be large


async def test_stress_reads_each_job_a_bounded_number_of_times(url: str) -> None:
    async with opened(url) as (app, store):
        jobs = 4 * BATCH_JOBS
        result = await stress(app, app.tasks["work"], jobs=jobs, workers=1, concurrency=50)
        assert (result.completed, result.lost, result.duplicates) == (jobs, 0, 0)
        looks = store.calls["jobs"]
        assert looks < 3 * (jobs // BATCH_JOBS) + 60
