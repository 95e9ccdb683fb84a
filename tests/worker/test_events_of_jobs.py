"""Events of jobs: emitted once, after the fact; a subscriber that raises affects nothing else."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Cancel, Context, Discard, Filter, Mainspring, Retention, Snooze, State
from mainspring.events import (
    Event,
    JobDied,
    JobEnded,
    JobEnqueued,
    JobFailed,
    JobPartial,
    JobResultLost,
    JobRetrying,
    JobsChanged,
    JobsPruned,
    JobStarted,
    JobStopped,
)
from mainspring.records.job import Action
from mainspring.records.run import Ending
from mainspring.testing import Recorder, VirtualClock

JOB_EVENTS = (JobEnqueued, JobStarted, JobEnded, JobsChanged, JobsPruned)


def told(recorder: Recorder) -> list[str]:
    return [type(event).__name__ for event in recorder.events if isinstance(event, JOB_EVENTS)]


async def test_a_completed_job_emits_enqueued_started_and_ended_events(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)

    @app.task(queue="mail")
    async def work() -> None:
        await clock.sleep(3)

    async with app:
        began = clock.now()
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
    assert told(recorder) == ["JobEnqueued", "JobStarted", "JobEnded"]
    (enqueued,), (started,), (ended,) = (recorder.of(kind) for kind in (JobEnqueued, JobStarted, JobEnded))
    assert (enqueued.id, enqueued.task, enqueued.queue, enqueued.status) == (handle.id, "work", "mail", "new")
    assert (started.job.id, started.job.attempt, started.at) == (handle.id, 1, began)
    assert (ended.job.id, ended.outcome.state, ended.at) == (handle.id, State.COMPLETED, began + timedelta(seconds=3))


async def test_a_retrying_event_has_the_failed_attempt_and_the_time_of_the_next(
    app: Mainspring, clock: VirtualClock
) -> None:
    recorder = Recorder(app)

    @app.task(max_retries=2, backoff=lambda n: 10 * n)
    async def work() -> None:
        raise ValueError("no")

    async with app:
        began = clock.now()
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=40)
        assert (await handle.job()).state is State.DEAD
    retrying = recorder.of(JobRetrying)
    nexts = [(began, 10), (began + timedelta(seconds=10), 20)]
    assert [(event.job.attempt, event.outcome.run_at) for event in retrying] == [
        (n, at + timedelta(seconds=wait)) for n, (at, wait) in enumerate(nexts, 1)
    ]
    (died,) = recorder.of(JobDied)
    assert (died.job.attempt, died.outcome.run_at) == (3, None)
    assert died.outcome.failure is not None
    assert died.outcome.failure.message == "no"
    assert told(recorder)[-1] == "JobDied"
    assert len(recorder.of(JobFailed)) == 3


STEERED: dict[str, tuple[Exception, type[Event], Ending]] = {
    "discard": (Discard("no"), JobDied, Ending.DISCARDED),
    "cancel": (Cancel("no"), JobStopped, Ending.CANCELLED),
    "snooze": (Snooze(3600), JobEnded, Ending.SNOOZED),
}


@pytest.mark.parametrize(("error", "kind", "ending"), STEERED.values(), ids=STEERED)
async def test_each_ending_has_its_own_event(
    app: Mainspring, clock: VirtualClock, error: Exception, kind: type[Any], ending: Ending
) -> None:
    recorder = Recorder(app)

    @app.task
    async def work() -> None:
        raise error

    async with app:
        await work.enqueue()
        await app.drain()
    (event,) = recorder.of(JobEnded)
    assert (type(event), event.outcome.ending) == (kind, ending)


async def test_a_cancelled_run_emits_jobs_changed_before_job_stopped(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)

    @app.task
    async def work() -> None:
        await asyncio.Event().wait()

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            await app.jobs.cancel(handle.id, "enough")
            await clock.elapse(seconds=5)
    assert told(recorder) == ["JobEnqueued", "JobStarted", "JobsChanged", "JobStopped"]
    (changed,) = recorder.of(JobsChanged)
    assert (changed.action, changed.ids) == (Action.CANCEL, (handle.id,))


async def test_a_bulk_action_emits_one_jobs_changed_event_for_all_its_jobs(
    app: Mainspring, clock: VirtualClock
) -> None:
    recorder = Recorder(app)

    @app.task
    async def work() -> None: ...

    async with app:
        ids = [handle.id for handle in await app.enqueue_many(work.using(delay=60).job() for _ in range(3))]
        await app.jobs.pause(Filter())
        await app.jobs.resume(ids[0])
        await app.jobs.update(Filter(), priority=5)
        await app.jobs.cancel(Filter(states=("paused",)))
        await app.jobs.retry(Filter(states=("cancelled",)))
        await app.jobs.delete(Filter(queues=("elsewhere",)))
        await app.jobs.delete(Filter())
    assert [(event.action.value, len(event.ids)) for event in recorder.of(JobsChanged)] == [
        ("pause", 3), ("resume", 1), ("update", 3), ("cancel", 2), ("retry", 2), ("delete", 3),
    ]  # fmt: skip


async def test_pruned_jobs_emit_a_jobs_pruned_event(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)

    @app.task(retention=Retention(0, timedelta(0)))
    async def work() -> None: ...

    async with app:
        handle = await work.enqueue()
        await app.drain()
        clock.advance(seconds=1)
        await app.prune()
    (pruned,) = recorder.of(JobsPruned)
    assert (pruned.ids, pruned.state, pruned.task) == ((handle.id,), State.COMPLETED, "work")


async def test_a_duplicate_enqueue_emits_an_event_with_its_status(app: Mainspring) -> None:
    recorder = Recorder(app)

    @app.task(unique_key="one")
    async def work() -> None: ...

    async with app:
        for _ in range(2):
            await work.enqueue()
    assert [event.status for event in recorder.of(JobEnqueued)] == ["new", "duplicate"]


@pytest.mark.parametrize("error", [ValueError("bad subscriber"), SystemExit(3)], ids=repr)
async def test_a_subscriber_that_raises_affects_neither_jobs_nor_other_subscribers(
    app: Mainspring, clock: VirtualClock, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    @app.on(Event)
    def bad(event: Event) -> None:
        raise error

    recorder = Recorder(app)

    @app.task(max_retries=1)
    async def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise ValueError
        return "done"

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
            assert await handle.result(0) == "done"
            assert (await app.health()).live
        await app.jobs.delete(handle.id)
    assert told(recorder) == ["JobEnqueued", "JobStarted", "JobRetrying", "JobStarted", "JobEnded", "JobsChanged"]
    assert "raised on JobRetrying" in caplog.text


async def test_job_ended_is_emitted_after_the_store_has_the_outcome(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[Any] = []
    store = await app.connect()

    @app.task
    async def work() -> None: ...

    async with app:
        handle = await work.enqueue()

        @app.on(JobEnded)
        def look(event: JobEnded) -> None:
            seen.append(asyncio.ensure_future(store.jobs(Filter(ids=(handle.id,)), now=clock.now(), limit=1)))

        async with app.worker():
            await clock.elapse(seconds=1)
            states = [job.state for looked in seen for job in await looked]
    assert states == [State.COMPLETED]


async def test_a_run_whose_result_cannot_be_kept_is_completed_everywhere(
    app: Mainspring, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(app)

    @app.task
    async def work() -> object:
        return object()

    @app.task
    async def partly(ctx: Context) -> object:
        ctx.items(success=9, failed=1)
        return object()

    async with app:
        handle = await work.enqueue()
        await app.drain()
        job, (execution,) = await handle.job(), await app.executions.list(job_id=handle.id)
        await partly.enqueue()
        await app.drain()
        stats = await app.stats()
        tallies = await (await app.connect()).tallies("minute", since=clock.now() - timedelta(hours=1))
    event, partial = recorder.of(JobEnded)
    assert (type(event), type(partial)) == (JobResultLost, JobPartial)
    assert recorder.of(JobFailed) == []
    assert (event.outcome.state, event.outcome.ending, job.state) == (
        State.COMPLETED,
        Ending.COMPLETED,
        State.COMPLETED,
    )
    for failure in (event.outcome.failure, job.failure, execution.failure):
        assert failure is not None
        assert failure.type == "ResultLost"
    assert (execution.outcome, stats.completed) == ("completed", 2)
    sums = {tally.task: tally.sums for tally in tallies}
    assert (sums["work"].endings, sums["work"].errors) == ({"completed": 1}, {})
    assert (sums["partly"].endings, sums["partly"].errors) == ({"partial": 1}, {})
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.startswith("completed work") and "ResultLost: " in line for line in lines] == [True]
