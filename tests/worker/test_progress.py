"""Progress of a run: shown with its job, reported every ten items or every second, and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring import Context, Mainspring, State
from mainspring.ids import JobId
from mainspring.records.run import Progress, RunReport
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock


async def shown(app: Mainspring, id: str) -> tuple[float, float | None, str] | None:
    progress = (await app.jobs.get(id)).progress
    return None if progress is None else (progress.done, progress.total, progress.note)


@pytest.mark.parametrize("awaited", [True, False])
async def test_progress_is_shown_with_the_job_awaited_or_not(
    app: Mainspring, clock: VirtualClock, awaited: bool
) -> None:
    go = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        told = ctx.progress(10, 100, "rows")
        if awaited:
            await told
        await go.wait()

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            assert await shown(app, handle.id) == (10, 100, "rows")
            go.set()


async def test_a_thread_reports_progress(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    def work(ctx: Context) -> None:
        ctx.progress(3, note="files")

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert await shown(app, handle.id) == (3, None, "files")


class Counting(MemoryStore):
    """Records the reported progress."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.told: list[Progress] = []

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        self.told += [report.progress for report in reports if report.progress is not None]
        return await super().report(reports)


async def test_progress_is_reported_every_ten_items_or_every_second(clock: VirtualClock) -> None:
    store = Counting(clock)
    app = Mainspring(store, clock=clock)

    @app.task
    async def slow(ctx: Context) -> None:
        for n in range(1, 31):
            ctx.progress(n, 1000)
            await clock.sleep(0.25)

    @app.task
    async def fast(ctx: Context) -> None:
        for n in range(1, 1001):
            ctx.progress(n, 1000)
            await clock.sleep(0.05)

    async with app:
        for task in (slow, fast):
            store.told.clear()
            handle = await task.enqueue()
            async with app.worker():
                await clock.elapse(seconds=60)
            instants = [progress.at for progress in store.told]
            gaps = [
                (later.at - earlier.at).total_seconds() >= 1 or later.done - earlier.done >= 10
                for earlier, later in zip(store.told, store.told[1:-1], strict=False)
                if later != earlier
            ]
            assert instants == sorted(instants)
            assert all(gaps)
            assert (await handle.job()).progress == store.told[-1]
            assert store.told[-1].done == (30 if task is slow else 1000)
            assert len({progress.done for progress in store.told}) <= (12 if task is slow else 101)


async def test_the_last_progress_is_reported_at_the_end_of_the_run(app: Mainspring) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        for n in range(1, 6):
            ctx.progress(n, 100)
        raise ValueError("at five")

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert await shown(app, handle.id) == (5, 100, "")


async def test_progress_has_the_number_of_its_run(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=1)
    async def work(ctx: Context) -> None:
        ctx.progress(50 if ctx.attempt == 1 else 2, 100)
        raise ValueError

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=30)
        job = await handle.job()
    assert job.progress is not None
    assert (job.progress.run, job.progress.done) == (2, 2)


@pytest.mark.parametrize(
    "given", [(float("nan"),), (float("inf"),), ("half",), (True,), (None,), (1, float("nan")), (10**400,)], ids=repr
)
async def test_progress_that_is_no_number_fails_the_run_only(app: Mainspring, given: Any) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        ctx.progress(*given)

    async with app:
        handle = await work.enqueue()
        await app.drain()
        job = await handle.job()
    assert (job.state, job.progress) == (State.DEAD, None)
    assert job.failure is not None
    assert job.failure.message.startswith("ctx.progress() takes finite numbers, got ")


async def test_a_progress_note_is_truncated_and_escaped_as_a_log_line_is(app: Mainspring) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        ctx.progress(1, 2, "\x00" + "x" * 5000)

    async with app:
        handle = await work.enqueue()
        await app.drain()
        progress = (await handle.job()).progress
    assert progress is not None
    assert progress.note.startswith("\\x00xxx")
    assert progress.note.endswith(" … 908 characters more")


async def test_progress_accepts_whole_numbers_beyond_64_bits(app: Mainspring) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        ctx.progress(2**70, 2**71)

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert await shown(app, handle.id) == (float(2**70), float(2**71), "")
