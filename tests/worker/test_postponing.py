"""A payload that another version of the task has made: its job is postponed, shown, and dead in the end."""

from __future__ import annotations

import importlib
import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jobs_for_children import weekday
from msgspec.structs import replace

from mainspring import Breaker, Context, DeadLetter, Filter, Mainspring, State, every
from mainspring.events import JobDied, JobEnded, JobFailed, JobPostponed
from mainspring.metrics.process import JOBS_POSTPONED
from mainspring.metrics.timed_store import measure
from mainspring.records.job import Job, NewJob
from mainspring.records.run import Ending
from mainspring.records.skew import waiting_since
from mainspring.schedule.record import Firing
from mainspring.testing import VirtualClock

ELSEWHERE = "aabbccddee"


def with_strict(app: Mainspring, **options: Any) -> Any:
    """A task that takes a number."""

    @app.task(**options)
    async def strict(n: int) -> int:
        return n

    return strict


def unfit(job: NewJob, made_by: str | None = ELSEWHERE, payload: str = '{"n":1,"more":2}') -> NewJob:
    """The job as another version of the task would have made it."""
    return replace(job, payload=payload, fingerprint=made_by)


async def postponed(app: Mainspring, made_by: str | None = ELSEWHERE, **options: Any) -> Job:
    """A job that one run could not read."""
    task = app.tasks.get("strict") or with_strict(app)
    (handle,) = await app.enqueue_many([unfit(task.using(**options).job(1), made_by)])
    await app.drain()
    return await handle.job()


@pytest.mark.parametrize("made_by", [ELSEWHERE, None], ids=["another version", "not known"])
async def test_a_job_that_another_version_made_is_postponed(app: Mainspring, made_by: str | None) -> None:
    async with app:
        job = await postponed(app, made_by)
        assert (job.state, job.attempt, job.runs) == (State.PENDING, 0, 1)
        assert job.run_at > app.clock.now()
        assert waiting_since(job) == app.clock.now()
        (run,) = await app.executions.list(job_id=job.id)
        assert run.ending is Ending.RELEASED
        assert run.failure == job.failure


async def test_drain_runs_a_postponed_job_once(app: Mainspring) -> None:
    async with app:
        job = await postponed(app)
        assert await app.drain() == 0
        assert (await app.jobs.get(job.id)).runs == 1


async def test_many_postponed_jobs_do_not_block_other_jobs(url: str, clock: VirtualClock) -> None:
    app = Mainspring(url, clock=clock)
    task = with_strict(app)
    async with app, app.worker(concurrency=10):
        jobs = await app.enqueue_many(unfit(task.job(n)) for n in range(300))
        await clock.elapse(seconds=2)
        began = sum([(await job.job()).runs for job in jobs])
        good = await task.enqueue(1)
        await clock.elapse(seconds=4)
        assert await good.result() == 1
        tries = sum([(await job.job()).runs for job in jobs]) - began
        assert 300 <= tries <= 450  # of about 900 that their delays would have made


async def test_a_postponed_job_runs_once_on_a_worker_with_its_version(clock: VirtualClock, tmp_path: Path) -> None:
    """Two apps of two releases on one file; two memory stores would be separate."""
    old, new = (Mainspring(f"sqlite:///{tmp_path}/shared.db", clock=clock) for _ in range(2))
    ran: list[str] = []

    @old.task(name="greet")
    async def greet_old(name: str) -> None:
        ran.append("old")

    @new.task(name="greet")
    async def greet_new(name: str, title: str) -> None:
        ran.append("new")

    async with old, new:
        handle = await greet_new.enqueue("Ada", "Dr")
        async with old.worker(concurrency=1):
            await clock.elapse(seconds=10)
            assert ran == []
            assert (await handle.job()).state is State.PENDING
            async with new.worker(concurrency=1):
                await clock.elapse(seconds=70)
        assert ran == ["new"]
        job = await handle.job()
        assert (job.state, job.attempt, job.failure) == (State.COMPLETED, 1, None)
        endings = [run.ending for run in await new.executions.list(job_id=job.id)]
        assert endings == [Ending.RELEASED] * (len(endings) - 1) + [Ending.COMPLETED]
        assert 2 < len(endings) < 20


async def test_a_postponed_job_is_dead_after_the_skew_and_sends_a_dead_letter(clock: VirtualClock, url: str) -> None:
    app = Mainspring(url, clock=clock, skew="10m")
    letters: list[DeadLetter] = []

    @app.dead_letter
    async def bury(letter: DeadLetter) -> None:
        letters.append(letter)

    task = with_strict(app)
    async with app:
        began = clock.now()
        (handle,) = await app.enqueue_many([unfit(task.job(1))])
        async with app.worker():
            await clock.elapse(minutes=9.9)
            assert (await handle.job()).state is State.PENDING
            await clock.elapse(minutes=0.2)
        job = await handle.job()
        assert (job.state, job.failure and job.failure.type) == (State.DEAD, "VersionSkew")
        assert job.finished_at is not None
        assert timedelta(minutes=10) <= job.finished_at - began <= timedelta(minutes=10, seconds=2)
        assert job.failure is not None
        assert "No worker could read it for 0:10:00 (setting skew): deploy workers" in job.failure.message
        assert "this worker has version" in job.failure.message
        assert "(n: int)" in job.failure.message
        (letter,) = letters
        assert letter.failure == job.failure
        assert job.runs < 60
        (group,) = await app.dead.groups()
        assert (group.task, group.count) == ("strict", 1)


async def test_a_redriven_job_is_postponed_for_another_skew(clock: VirtualClock, url: str) -> None:
    app = Mainspring(url, clock=clock, skew=60)
    task = with_strict(app)
    async with app:
        (handle,) = await app.enqueue_many([unfit(task.job(1))])
        async with app.worker():
            await clock.elapse(minutes=2)
            assert (await handle.job()).state is State.DEAD
            await app.dead.redrive(handle.id)
            await clock.elapse(seconds=50)
            job = await handle.job()
            assert job.state is State.PENDING
            assert waiting_since(job) is not None
            await clock.elapse(seconds=20)
            assert (await handle.job()).state is State.DEAD


async def test_redrive_with_arguments_that_fit_completes_a_postponed_job(clock: VirtualClock, url: str) -> None:
    app = Mainspring(url, clock=clock, skew=60)
    task = with_strict(app)
    async with app:
        (handle,) = await app.enqueue_many([unfit(task.job(1), payload='{"n":"x"}')])
        async with app.worker():
            await clock.elapse(minutes=2)
            await app.dead.redrive(handle.id, arguments={"n": 3})
            assert (await handle.job()).fingerprint == task.arguments.fingerprint
            await clock.elapse(seconds=1)
        assert await handle.result() == 3


async def test_arguments_edited_by_an_app_without_the_code_have_no_fingerprint(
    clock: VirtualClock, tmp_path: Path
) -> None:
    place = f"sqlite:///{tmp_path}/shared.db"
    app, client = Mainspring(place, clock=clock), Mainspring(place, clock=clock)
    async with app, client:
        handle = await with_strict(app).using(delay=60).enqueue(1)
        assert (await handle.job()).fingerprint is not None
        await client.jobs.update(handle.id, arguments={"n": 2})
        assert (await handle.job()).fingerprint is None


async def test_without_skew_a_job_with_an_unreadable_payload_is_dead_at_once(clock: VirtualClock, url: str) -> None:
    app = Mainspring(url, clock=clock, skew=0)
    async with app:
        job = await postponed(app)
        assert (job.state, job.failure and job.failure.type) == (State.DEAD, "BadPayload")


async def test_an_error_of_the_task_itself_is_not_version_skew(app: Mainspring) -> None:
    @app.task(max_retries=0)
    async def broken(n: int) -> None:
        raise TypeError("unexpected keyword argument 'x'")

    async with app:
        (handle,) = await app.enqueue_many([replace(broken.job(1), fingerprint=ELSEWHERE)])
        await app.drain()
        job = await handle.job()
        assert (job.state, job.failure and job.failure.type) == (State.DEAD, "TypeError")


async def test_a_payload_of_another_version_that_fits_is_run(app: Mainspring) -> None:
    task = with_strict(app)
    async with app:
        (handle,) = await app.enqueue_many([replace(task.job(1), fingerprint=ELSEWHERE)])
        await app.drain()
        assert await handle.result() == 1


@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_every_executor_postpones_a_payload_that_it_cannot_read(app: Mainspring, executor: Any) -> None:
    task = app.task(executor=executor)(weekday.fn)
    async with app:
        (handle,) = await app.enqueue_many([unfit(task.job(day="2030-01-01"), payload='{"day":"someday"}')])
        await app.drain()
        assert waiting_since(await handle.job()) == app.clock.now()


async def test_code_that_was_changed_under_a_worker_postpones_the_job(
    app: Mainspring, clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child process imports the files as they are now, and they may be those of the next release."""
    file = tmp_path / "code_of_a_release.py"
    file.write_text("def weigh(a: int) -> None: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = app.task(executor="process")(importlib.import_module("code_of_a_release").weigh)
    file.write_text("def weigh(a: int, unit: str) -> None: ...\n")
    async with app:
        handle = await task.enqueue(1)
        await app.drain()
        job = await handle.job()
        assert (job.state, job.attempt, job.failure and job.failure.type) == (State.PENDING, 0, "VersionSkew")
        assert job.failure is not None
        assert f"made by version {task.arguments.fingerprint}, this worker has version" in job.failure.message
        assert "(a: int, unit: str)" in job.failure.message
    del sys.modules["code_of_a_release"]


# what is told of it


async def test_a_postponed_job_emits_job_postponed_and_no_failure(app: Mainspring) -> None:
    heard: list[JobEnded] = []
    app.on(JobEnded)(heard.append)
    async with app:
        await postponed(app)
    (event,) = heard
    assert isinstance(event, JobPostponed)
    assert not isinstance(event, JobFailed | JobDied)


async def test_postponed_jobs_are_counted_by_task(app: Mainspring) -> None:
    meter = measure(app)
    async with app:
        await postponed(app)
    assert meter.whole().totals[JOBS_POSTPONED] == {"strict": 1}


async def test_a_postponed_job_trips_no_breaker_and_is_in_no_statistics(app: Mainspring) -> None:
    with_strict(app, breaker=Breaker(failures=1))
    async with app:
        await postponed(app)
        assert (await (await app.connect()).overview(now=app.clock.now())).circuits == []
        assert (await app.stats()).total.runs == 0


async def test_a_postponed_job_is_logged_once(url: str, clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    app = Mainspring(url, clock=clock)
    task = with_strict(app)
    caplog.set_level(logging.INFO, "mainspring")
    async with app, app.worker():
        handles = await app.enqueue_many(unfit(task.job(n)) for n in range(2))
        await clock.elapse(minutes=5)
        assert (await handles[0].job()).runs > 5
    lines = [record.getMessage() for record in caplog.records if "postponed" in record.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith(f"postponed strict {handles[0].id}: the payload does not fit task 'strict'")


async def test_why_of_a_postponed_job_names_the_version_and_the_next_try(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        job = await postponed(app)
        async with app.worker():
            reason, *_ = await app.jobs.why(job.id)
    assert (reason.code, reason.until) == ("version_skew", job.run_at)
    assert f"no worker could read its arguments since {clock.now():%Y-%m-%d %H:%M:%S}Z: " in reason.text
    assert "(n, more) were made by version aabbccddee, this worker has version" in reason.text
    assert "No live worker has version aabbccddee of task 'strict': deploy one, or change the arguments" in reason.text
    assert f"it is tried again at {job.run_at:%Y-%m-%d %H:%M:%S}Z" in reason.text


async def test_why_names_the_live_workers_that_have_the_version(app: Mainspring) -> None:
    task = with_strict(app)
    async with app:
        job = await postponed(app)
        store = await app.connect()
        async with app.worker() as worker:
            (live,) = await store.workers(now=app.clock.now())
            of = dict(zip(live.info.tasks, live.info.fingerprints, strict=True))
            assert of["strict"] == task.arguments.fingerprint
            theirs = replace(live.info, id="theirs", fingerprints=tuple(ELSEWHERE for _ in live.info.tasks))
            await store.beat(theirs, until=live.until, now=app.clock.now())
            reason, *_ = await app.jobs.why(job.id)
            assert "Version aabbccddee of task 'strict' is live on theirs; it is tried again" in reason.text
            assert worker.id not in reason.text


# every way into the store


async def fingerprints(app: Mainspring) -> set[str | None]:
    return {job.fingerprint for job in await app.jobs.list()}


async def test_every_way_to_enqueue_keeps_the_fingerprint(app: Mainspring) -> None:
    task = with_strict(app)
    async with app:
        await task.enqueue(1)
        await task.using(delay=5, unique_key="a").enqueue(1)
        await app.enqueue_many([task.job(1), task.using(tags=["x"]).job(2), app.job("strict", {"n": 1})])
        await app.enqueue("strict", n=2)
        assert len(await app.jobs.list()) == 6
        assert await fingerprints(app) == {task.arguments.fingerprint}


async def test_a_stub_keeps_the_fingerprint_of_its_own_parameters(app: Mainspring) -> None:
    @app.stub
    async def strict(n: int) -> int: ...

    async with app:
        await strict.enqueue(1)
        assert await fingerprints(app) == {strict.arguments.fingerprint}


async def test_an_app_without_tasks_enqueues_without_a_fingerprint(app: Mainspring) -> None:
    async with app:
        await app.enqueue("strict", n=2)
        assert await fingerprints(app) == {None}


async def test_jobs_of_a_schedule_have_the_fingerprint_of_its_declaration(app: Mainspring, clock: VirtualClock) -> None:
    task = with_strict(app)
    app.schedule("stored", every(5).minutes, task, kwargs={"n": 1})
    app.schedule("made", every(5).minutes, task, input=lambda at: {"n": 2})
    async with app:
        async with app.worker():
            await clock.elapse(minutes=6)
            await app.schedules.trigger("stored")
            await app.schedules.trigger("stored", kwargs={"n": 3})
            await app.schedules.trigger("made")
            await clock.elapse(seconds=1)
        assert len(await app.jobs.list()) == 5
        assert await fingerprints(app) == {task.arguments.fingerprint}


async def test_a_schedule_of_an_older_release_fires_jobs_that_are_postponed(
    app: Mainspring, clock: VirtualClock
) -> None:
    """Its stored input has no fingerprint, and the task has other parameters by now."""
    task = with_strict(app)
    async with app:
        await app.schedules.create("old", every(5).minutes, task, kwargs={"n": 1})
        store, (row,) = await app.connect(), await app.schedules.list()
        older = replace(row.spec, payload='{"n":1,"gone":2}', fingerprint=None)
        firing = Firing(schedule=replace(row, spec=older, revision=row.revision + 1))
        assert (await store.fire([firing], now=clock.now()))[0].stands
        async with app.worker():
            await clock.elapse(minutes=6)
        (job,) = await app.jobs.list()
        assert (job.state, job.failure and job.failure.type) == (State.PENDING, "VersionSkew")


async def test_a_changed_task_does_not_redefine_an_unchanged_schedule(clock: VirtualClock, tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/shared.db"
    rows = []
    for optional in (False, True):
        app = Mainspring(place, clock=clock)
        if optional:
            app.task(name="greet")(_greet_with_title)
        else:
            app.task(name="greet")(_greet)
        app.schedule("greeting", every(5).minutes, app.tasks["greet"], kwargs={"name": "Ada"})
        async with app, app.worker():
            rows += await app.schedules.list()
    assert rows[0] == rows[1]


async def _greet(name: str) -> None: ...


async def _greet_with_title(name: str, title: str = "") -> None: ...


async def test_a_dead_letter_handler_gets_jobs_with_its_own_fingerprint(app: Mainspring) -> None:
    @app.dead_letter
    async def bury(ctx: Context, letter: DeadLetter) -> None: ...

    @app.task(max_retries=0)
    async def doomed() -> None:
        raise ValueError("no")

    async with app:
        await doomed.enqueue()
        await app.drain()
        (notice,) = await app.jobs.list(Filter(tasks=("bury",)))
        assert notice.fingerprint == app.tasks["bury"].arguments.fingerprint


# the testing kit


async def test_in_the_harness_an_unreadable_payload_of_its_own_version_is_dead_at_once(app: Mainspring) -> None:
    task = with_strict(app)
    async with app.testing() as jobs:
        await app.enqueue_many([replace(task.job(1), payload='{"n":"x"}')])
        (job,) = await jobs.drain()
        assert (job.state, job.failure and job.failure.type) == (State.DEAD, "BadPayload")


async def test_in_the_harness_a_payload_of_another_version_is_postponed_until_the_skew_ends(app: Mainspring) -> None:
    task = with_strict(app)
    async with app.testing() as jobs:
        await app.enqueue_many([unfit(task.job(1))])
        (job,) = await jobs.drain()
        assert job.state is State.PENDING
        assert await jobs.drain() == []
        *_, last = await jobs.advance(hours=1, minutes=2)
        assert (last.state, last.failure and last.failure.type) == (State.DEAD, "VersionSkew")
