"""Retention by number or age, for each state and task; unfinished jobs are never deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import Archived, BadInput, Context, Filter, Mainspring, Retention, State
from mainspring.events import JobsPruned
from mainspring.testing import Recorder, VirtualClock
from mainspring.worker.pruner import BATCH_JOBS

DAY = timedelta(days=1)


async def left(app: Mainspring, *states: Any) -> int:
    return len(await app.jobs.list(Filter(states=states or None), limit=1000))


async def done(app: Mainspring, n: int, task: str = "work") -> list[str]:
    """Ends n jobs now."""
    handles = await app.enqueue_many(app.tasks[task].job() for _ in range(n))
    await app.drain()
    return [handle.id for handle in handles]


def work(app: Mainspring, name: str = "work", **options: Any) -> None:
    async def nothing() -> None: ...

    app.task(name=name, **options)(nothing)


async def test_retention_keeps_the_newest_jobs_however_old(app: Mainspring, clock: VirtualClock) -> None:
    work(app, retention=Retention(keep=3, age=DAY))
    async with app:
        old = []
        for _ in range(5):
            old += await done(app, 1)
            clock.advance(minutes=1)
        clock.advance(days=400)
        assert await app.prune() == 2
        assert [job.id for job in await app.jobs.list(newest=False)] == old[2:]


async def test_retention_keeps_the_younger_jobs_however_many(app: Mainspring, clock: VirtualClock) -> None:
    work(app, retention=Retention(keep=0, age=DAY))
    async with app:
        await done(app, 3)
        clock.advance(hours=13)
        young = await done(app, 20)
        clock.advance(hours=12)
        assert await app.prune() == 3
        assert {job.id for job in await app.jobs.list()} == set(young)


async def test_retention_without_an_age_keeps_all_jobs_and_with_an_age_of_zero_none(
    app: Mainspring, clock: VirtualClock
) -> None:
    work(app, "kept", retention=Retention(keep=0, age=None))
    work(app, "gone", retention=Retention(keep=0, age=timedelta(0)))
    work(app, "old", retention=Retention(keep=0, age=timedelta.max))
    async with app:
        for task in ("kept", "gone", "old"):
            await done(app, 2, task)
        clock.advance(days=3650)
        assert await app.prune() == 2
        assert {job.task for job in await app.jobs.list()} == {"kept", "old"}


async def test_each_state_has_its_own_retention_rule(app: Mainspring, clock: VirtualClock) -> None:
    rules = {"dead": Retention(0, 3 * DAY), "completed": Retention(0, DAY)}

    @app.task(max_retries=0, retention=rules)
    async def may_fail(fail: bool) -> None:
        if fail:
            raise ValueError

    async with app:
        await app.enqueue_many(may_fail.job(fail) for fail in (True, False))
        gone = await may_fail.using(delay=60).enqueue(fail=False)
        await app.jobs.cancel(gone.id)
        await app.drain()
        clock.advance(days=2)
        assert await app.prune() == 1
        assert await left(app, "completed") == 0
        clock.advance(days=2)
        assert await app.prune() == 1
        assert await left(app, "dead") == 0
        assert await left(app, "cancelled") == 1


async def test_a_task_without_a_retention_rule_has_that_of_the_app(url: str, clock: VirtualClock) -> None:
    app = Mainspring(url, clock=clock, history_keep=2, history_days=10, dead_retention="3d")
    work(app)

    @app.task(max_retries=0)
    async def failing() -> None:
        raise ValueError

    async with app:
        await done(app, 5)
        await done(app, 5, "failing")
        clock.advance(days=4)
        assert await app.prune() == 5
        assert (await left(app, "dead"), await left(app, "completed")) == (0, 5)
        clock.advance(days=7)
        assert await app.prune() == 3
        assert await left(app) == 2


async def test_an_app_without_tasks_prunes_jobs_of_every_task_by_its_own_rule(url: str, clock: VirtualClock) -> None:
    app = Mainspring(url, clock=clock, history_keep=1)
    work(app, "old name")
    async with app:
        await done(app, 3, "old name")
        del app.tasks["old name"]
        clock.advance(days=31)
        assert await app.prune() == 2


async def test_unfinished_jobs_are_never_pruned(app: Mainspring, clock: VirtualClock) -> None:
    go = asyncio.Event()
    rule = Retention(0, timedelta(0))

    @app.task(retention=rule, timeout=None)
    async def held() -> None:
        await go.wait()

    work(app, "waits", retention=rule)
    async with app, app.worker():
        running = await held.enqueue()
        await clock.settle()
        scheduled = await app.tasks["waits"].using(delay=86400 * 366).enqueue()
        paused = await app.tasks["waits"].using(delay=60).enqueue()
        await app.jobs.pause(paused.id)
        await clock.elapse(seconds=95)
        assert await app.prune() == 0
        assert {job.id for job in await app.jobs.list()} == {running.id, scheduled.id, paused.id}
        go.set()


async def test_a_worker_prunes_by_itself(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)
    work(app, retention=Retention(0, timedelta(seconds=100)))
    async with app:
        ids = await done(app, 3)
        async with app.worker():
            await clock.elapse(seconds=95)
            assert await left(app) == 3
            await clock.elapse(seconds=100)
            assert await left(app) == 0
    (pruned,) = recorder.of(JobsPruned)
    assert (pruned.state, pruned.task, sorted(pruned.ids)) == (State.COMPLETED, "work", sorted(ids))


async def test_pruning_deletes_in_batches_with_pauses(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)
    work(app, retention=Retention(0, DAY))
    async with app:
        await done(app, 2 * BATCH_JOBS + 10)
        clock.advance(days=2)
        began = clock.monotonic()
        pruning = asyncio.create_task(app.prune())
        await clock.elapse(seconds=5)
        assert await pruning == 2 * BATCH_JOBS + 10
        assert await left(app) == 0
    steps = [len(event.ids) for event in recorder.of(JobsPruned)]
    assert steps == [16, 64, 256, BATCH_JOBS, BATCH_JOBS + 10 - 336]  # short ones first: the jobs may be large
    assert recorder.of(JobsPruned)[-1].at > recorder.of(JobsPruned)[0].at
    assert began < clock.monotonic()


async def test_pruning_a_job_removes_its_executions_and_log_lines(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(retention=Retention(0, DAY))
    async def speaks(ctx: Context) -> None:
        ctx.log.info("words")

    async with app:
        handle = await speaks.enqueue()
        await app.drain()
        clock.advance(days=2)
        await app.prune()
        store = await app.connect()
        assert await store.executions(handle.id) == []
        assert await store.logs(handle.id, limit=10) == []
        assert (await app.stats(None)).total.completed == 1  # what was counted stays counted


# the archive


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_archive_hook_gets_each_job_with_runs_and_log_lines_before_it_is_pruned(
    app: Mainspring, clock: VirtualClock, kind: str
) -> None:
    kept: list[Archived] = []
    there: list[int] = []

    async def later(leaving: Sequence[Archived]) -> None:
        there.append(await left(app))
        kept.extend(leaving)

    app.archive(kept.extend if kind == "sync" else later)

    @app.task(retention=Retention(0, DAY))
    async def speaks(ctx: Context) -> str:
        ctx.log.info("words")
        return "value"

    async with app:
        handle = await speaks.enqueue()
        await app.drain()
        clock.advance(days=2)
        assert await app.prune() == 1
    (one,) = kept
    assert (one.job.id, one.job.result) == (handle.id, '"value"')
    assert [run.number for run in one.executions] == [1]
    assert [line.text for line in one.lines] == ["words"]
    assert there == ([] if kind == "sync" else [1])


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_jobs_are_kept_while_the_archive_hook_raises(
    app: Mainspring, clock: VirtualClock, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    full = [True]

    def hook(leaving: Sequence[Archived]) -> None:
        if full:
            raise OSError("no space left")

    async def later(leaving: Sequence[Archived]) -> None:
        hook(leaving)

    app.archive(hook if kind == "sync" else later)
    work(app, retention=Retention(0, DAY))
    async with app:
        await done(app, 3)
        clock.advance(days=2)
        assert await app.prune() == 0
        assert await left(app) == 3
        assert "the archive hook raised; 3 finished jobs are kept until it succeeds" in caplog.text
        full.clear()
        assert await app.prune() == 3


async def test_an_archive_that_raises_does_not_end_the_worker(app: Mainspring, clock: VirtualClock) -> None:
    @app.archive
    def hook(leaving: Sequence[Archived]) -> None:
        raise OSError("no space left")

    work(app, retention=Retention(0, timedelta(0)))
    async with app:
        await done(app, 1)
        async with app.worker():
            await clock.elapse(seconds=95)
            handle = await app.tasks["work"].enqueue()
            await clock.elapse(seconds=2)
            assert (await handle.job()).state is State.COMPLETED


async def test_a_job_that_is_retried_while_it_is_archived_stays(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0, retention=Retention(0, DAY))
    async def failing() -> None:
        raise ValueError

    async with app:
        kept, gone = await done(app, 2, "failing")

        @app.archive
        async def hook(leaving: Sequence[Archived]) -> None:
            if (await app.jobs.get(kept)).state is State.DEAD:
                await app.jobs.retry(kept)

        clock.advance(days=2)
        assert await app.prune() == 1
        assert [job.id for job in await app.jobs.list()] == [kept]
        assert gone != kept


async def test_concurrent_prunings_do_not_disturb_each_other(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)
    work(app, retention=Retention(0, DAY))
    async with app:
        await done(app, 20)
        clock.advance(days=2)
        assert sum(await asyncio.gather(app.prune(), app.prune())) == 20
    assert sum(len(event.ids) for event in recorder.of(JobsPruned)) == 20
    assert all(event.ids for event in recorder.of(JobsPruned))


# values


@pytest.mark.parametrize("keep", [-1, True, 1.5, "5", None])
def test_a_bad_number_to_keep_is_refused(keep: Any) -> None:
    with pytest.raises(BadInput, match=r"Retention\(keep=…\) takes a whole number of 0 or more"):
        Retention(keep=keep)


@pytest.mark.parametrize("age", [5, [], -DAY])
def test_a_bad_age_is_refused(age: Any) -> None:
    with pytest.raises(BadInput, match=r"Retention\(age=…\) takes a span such as '7d' or timedelta"):
        Retention(age=age)


@pytest.mark.parametrize("bad", [5, {"running": Retention()}, {"dead": 5}, [Retention()]], ids=repr)
def test_a_bad_retention_is_refused_by_the_tasks_name(app: Mainspring, bad: Any) -> None:
    with pytest.raises(BadInput, match="option retention of task 'work'"):
        work(app, retention=bad)


def test_an_archive_that_cannot_be_called_is_refused(app: Mainspring) -> None:
    with pytest.raises(BadInput, match=r"@app\.archive takes a function of a list of Archived"):
        app.archive("s3://bucket")  # type: ignore[arg-type]


async def test_a_job_that_dies_again_while_the_archive_hook_runs_is_kept(app: Mainspring, clock: VirtualClock) -> None:
    archived: list[str] = []

    @app.task(max_retries=0, retention=Retention(keep=0, age=timedelta(0)))
    async def fail() -> None:
        raise ValueError("no")

    @app.archive
    async def keep(leaving: Sequence[Archived]) -> None:
        archived.extend(one.job.id for one in leaving)
        if len(archived) == 2:
            await app.jobs.retry(again.id)
            clock.advance(seconds=1)
            await app.drain()

    async with app:
        again, _ = await app.enqueue_many([fail.job(), fail.job()])
        await app.drain()
        clock.advance(seconds=1)
        assert await app.prune() == 1
        (job,) = await app.jobs.list()
        assert (job.id, job.state, job.runs) == (again.id, State.DEAD, 2)
        clock.advance(seconds=1)
        assert await app.prune() == 1
        assert archived.count(again.id) == 2


@pytest.mark.parametrize("error", [SystemExit(), asyncio.CancelledError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_the_worker_continues_pruning_whatever_the_archive_hook_raises(
    app: Mainspring, clock: VirtualClock, caplog: pytest.LogCaptureFixture, kind: str, error: BaseException
) -> None:
    calls = list[int]()

    def leave(leaving: Sequence[Archived]) -> None:
        calls.append(len(leaving))
        if len(calls) == 1:
            raise error

    async def leave_later(leaving: Sequence[Archived]) -> None:
        leave(leaving)

    app.archive(leave if kind == "sync" else leave_later)
    work(app, retention=Retention(0, timedelta(0)))
    async with app, app.worker():
        await app.tasks["work"].enqueue()
        await clock.elapse(minutes=5)
        assert await left(app) == 0
    assert calls == [1, 1]
    assert f"it raised {type(error).__name__}" in caplog.text


async def test_large_jobs_are_pruned_a_few_at_a_time(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs as an earlier release accepted them: never all of them in memory at once."""
    monkeypatch.setattr("mainspring.worker.batch_size.BATCH_BYTES", 1 << 20)
    sizes = list[int]()
    app.archive(lambda leaving: sizes.append(len(leaving)))
    work(app, retention=Retention(0, DAY))
    async with app:
        old = [replace(app.tasks["work"].job(), metadata={"old": "x" * (1 << 17)}) for _ in range(40)]
        await (await app.connect()).enqueue(old, now=clock.now())
        await app.drain()
        clock.advance(days=2)
        pruning = asyncio.create_task(app.prune())
        await clock.elapse(seconds=5)
        assert await pruning == 40
    assert sizes[:4] == [16, 8, 4, 4]
