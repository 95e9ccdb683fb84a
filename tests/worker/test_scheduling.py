"""Schedules that code declares, fired by real workers on a virtual clock, on both stores."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Mainspring, State, Task, at, cron, every
from mainspring.events import SchedulePaused, TickFired, TickPassed
from mainspring.testing import Recorder, VirtualClock
from mainspring.worker import scheduler
from mainspring.worker.scheduler import INPUT_TIMEOUT_SECONDS

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)


def instant(hour: int, minute: int = 0, second: int = 0, *, day: int = 1) -> datetime:
    return datetime(2030, 1, day, hour, minute, second, tzinfo=UTC)


def noting(app: Mainspring) -> tuple[Task[[], None], list[datetime]]:
    """A task, and the ticks of the jobs that it ran."""
    seen: list[datetime] = []

    @app.task
    async def note(ctx: Context) -> None:
        assert ctx.scheduled_at is not None
        seen.append(ctx.scheduled_at)

    return note, seen


async def live(app: Mainspring, clock: VirtualClock, **span: float) -> None:
    """Fires and runs as a worker does that is always on time, without its beats."""
    end = clock.now() + timedelta(**span)
    await app.drain()
    while (due := min((row.due_at for row in await app.schedules.list() if row.due_at), default=end)) < end:
        clock.set(max(due, clock.now()))
        await app.drain()
    clock.set(end)
    await app.drain()


# firing


async def test_a_minute_with_a_ten_second_schedule_has_six_ticks(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[datetime] = []

    @app.every(seconds=10)
    async def healthcheck() -> None:
        seen.append(clock.now())

    async with app, app.worker():
        await clock.elapse(minutes=1)
    assert seen == [instant(0, 0, n) for n in (10, 20, 30, 40, 50)] + [instant(0, 1)]


async def test_a_cron_schedule_fires_in_its_zone(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[datetime | None] = []

    @app.cron("0 9 * * mon-fri", tz="Europe/Athens")
    async def report(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await live(app, clock, hours=24)
        assert seen == [instant(7)]


async def test_a_schedule_is_declared_with_a_trigger_a_task_and_its_input(app: Mainspring, clock: VirtualClock) -> None:
    said: list[str] = []

    @app.task
    async def report(kind: str) -> None:
        said.append(kind)

    app.schedule("daily", every().day.at("09:00"), report, kwargs={"kind": "daily"})
    app.schedule("weekly", every().wednesday.at("10:00"), report, kwargs={"kind": "weekly"})
    async with app:
        await live(app, clock, days=2)
    assert said == ["daily", "daily", "weekly"]


async def test_a_task_may_have_several_schedules_and_calls_of_its_own(app: Mainspring, clock: VirtualClock) -> None:
    said: list[str] = []

    @app.every(minutes=30, name="often")
    @app.cron("0 * * * *", name="hourly")
    @app.task(queue="mail")
    async def send(to: str = "all") -> None:
        said.append(to)

    async with app:
        await send.enqueue("ada")
        await live(app, clock, hours=1)
        assert sorted(said) == ["ada", "all", "all", "all"]
        assert {job.queue for job in await app.jobs.list()} == {"mail"}


async def test_a_one_time_schedule_runs_once_and_its_retries_run_too(app: Mainspring, clock: VirtualClock) -> None:
    tries: list[datetime] = []

    @app.task(max_retries=2)
    async def launch() -> None:
        tries.append(clock.now())
        if len(tries) < 3:
            raise OSError("not yet")

    app.schedule("launch", at(instant(0, 0, 9)), launch)
    async with app, app.worker():
        await clock.elapse(seconds=15)
        row = await app.schedules.get("launch")
    assert (len(tries), row.fired, row.completed, row.status) == (3, 1, 1, "ended")


async def test_ten_workers_make_one_job_of_each_tick(app: Mainspring, clock: VirtualClock) -> None:
    task, seen = noting(app)
    app.schedule("often", every(1).seconds, task)
    async with app:
        workers = [app.worker() for _ in range(10)]
        for worker in workers:
            await worker.__aenter__()
        await clock.elapse(seconds=20)
        for worker in workers:
            await worker.stop()
    assert seen == [instant(0, 0, n) for n in range(1, 21)]


# the tick and its job


async def test_a_job_has_its_schedule_and_its_tick(app: Mainspring, clock: VirtualClock) -> None:
    task, _ = noting(app)
    app.schedule("often", every(10).minutes, task)
    async with app:
        await live(app, clock, minutes=10)
        (job,) = await app.jobs.list()
        (tick,) = await app.schedules.ticks("often")
    assert (job.schedule, job.scheduled_at, job.state) == ("often", instant(0, 10), State.COMPLETED)
    assert (tick.what, tick.at, tick.job_id) == ("fired", instant(0, 10), job.id)


async def test_a_late_run_has_the_instant_of_its_tick(app: Mainspring, clock: VirtualClock) -> None:
    task, seen = noting(app)
    app.schedule("daily", cron("0 9 * * *"), task)
    async with app:
        await app.drain()
        clock.set(instant(11, 30))
        await app.drain()
    assert seen == [instant(9)]


async def test_a_job_enqueued_by_hand_has_no_tick(app: Mainspring) -> None:
    seen: list[datetime | None] = []

    @app.every(minutes=1)
    async def note(ctx: Context) -> None:
        seen.append(ctx.scheduled_at)

    async with app:
        await note.enqueue()
        await app.drain()
    assert seen == [None]


async def test_jobs_of_a_schedule_have_the_options_of_their_task(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(queue="slow", priority=3, tags=["nightly"])
    async def work() -> None: ...

    asked = work.using(priority=5, metadata={"by": "clock"}, expires=60, max_retries=7)
    app.schedule("often", every(1).hours, asked)
    async with app:
        await live(app, clock, hours=1)
        (job,) = await app.jobs.list()
    assert (job.queue, job.priority, job.tags, job.max_retries) == ("slow", 5, ("nightly",), 7)
    assert (job.metadata, job.expires_at) == ({"by": "clock"}, instant(1, 1))


# input, computed when a tick fires


async def test_input_is_computed_from_the_tick_when_it_fires(app: Mainspring, clock: VirtualClock) -> None:
    said: list[str] = []

    @app.cron("0 0 * * *", input=lambda tick: {"day": (tick - timedelta(days=1)).date().isoformat()})
    async def close_books(day: str) -> None:
        said.append(day)

    async with app:
        await live(app, clock, days=3)
    assert said == ["2030-01-01", "2030-01-02", "2030-01-03"]


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit


class Unshown:
    def __repr__(self) -> str:
        raise SystemExit("unshown")


def leave(error: BaseException) -> None:
    raise error


async def leave_later(tick: datetime) -> None:
    raise SystemExit("later")


async def test_input_may_be_awaited(app: Mainspring, clock: VirtualClock) -> None:
    said: list[int] = []

    async def newest(tick: datetime) -> dict[str, int]:
        await clock.sleep(1)
        return {"n": tick.second}

    @app.every(seconds=10, input=newest)
    async def work(n: int) -> None:
        said.append(n)

    async with app, app.worker():
        await clock.elapse(seconds=22)
    assert said == [10, 20]


@pytest.mark.parametrize(
    ("input", "reason"),
    [
        (lambda tick: {"n": 1 / 0}, "input: ZeroDivisionError: division by zero"),
        (lambda tick: {"m": 1}, "input: BadPayload: task 'work'"),
        (lambda tick: {"n": "many"}, "input: BadPayload: arguments of task 'work' do not fit"),
        (lambda tick: 7, "input: BadInput: it returned 7, not a mapping of argument names to values"),
        (lambda tick: leave(SystemExit(2)), "input: HookExit: it raised SystemExit: 2"),
        (lambda tick: leave(asyncio.CancelledError("gone")), "input: HookExit: it raised CancelledError: gone"),
        (lambda tick: leave(Mute()), "input: Mute: <the exception's __str__ raised SystemExit>"),
        (lambda tick: Unshown(), "input: SystemExit: unshown"),
        (leave_later, "input: HookExit: it raised SystemExit: later"),
    ],
)
async def test_a_tick_whose_input_cannot_be_made_is_skipped_with_the_reason(
    app: Mainspring, clock: VirtualClock, input: Any, reason: str
) -> None:
    @app.every(minutes=10, input=input)
    async def work(n: int) -> None: ...

    task, seen = noting(app)
    app.schedule("other", every(10).minutes, task)
    async with app:
        await live(app, clock, minutes=20)
        ticks = await app.schedules.ticks("work")
        assert [(tick.what, tick.at) for tick in ticks] == [("skipped", instant(0, 20)), ("skipped", instant(0, 10))]
        assert ticks[0].reason.startswith(reason)
        assert (await app.schedules.get("work")).skipped == 2
    assert len(seen) == 2


async def test_an_input_that_hangs_does_not_keep_the_others_from_firing(app: Mainspring, clock: VirtualClock) -> None:
    async def hangs(tick: datetime) -> dict[str, Any]:
        await clock.sleep(86_400)
        return {}

    @app.every(minutes=1, input=hangs)
    async def work() -> None: ...

    task, seen = noting(app)
    app.schedule("other", every(1).minutes, task)
    async with app, app.worker():
        await clock.elapse(seconds=60 + INPUT_TIMEOUT_SECONDS + 1)
        (tick,) = await app.schedules.ticks("work")
    assert (tick.what, tick.reason) == ("skipped", "input: TimeoutError: it took longer than 10 s")
    assert seen == [instant(0, 1)]


async def test_a_synchronous_input_that_hangs_blocks_neither_jobs_nor_other_schedules(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "INPUT_TIMEOUT_SECONDS", 0.2)
    app, begun, gate, fired = Mainspring(url), threading.Event(), threading.Event(), asyncio.Event()

    def hangs(tick: datetime) -> dict[str, Any]:
        begun.set()
        gate.wait()
        return {}

    @app.every(seconds=1, input=hangs)
    async def work() -> None: ...

    @app.task
    async def plain() -> str:
        return "done"

    @app.every(seconds=1)
    async def other() -> None:
        fired.set()

    try:
        async with app, app.worker():
            assert await asyncio.to_thread(begun.wait, 30)
            assert await (await plain.enqueue()).result(timeout=30) == "done"
            async with asyncio.timeout(30):
                await fired.wait()
            ticks = await app.schedules.ticks("work")
    finally:
        gate.set()
    assert {tick.what for tick in ticks} == {"skipped"}
    assert "input: TimeoutError: it took longer than 0.2 s" in {tick.reason for tick in ticks}


async def test_a_computed_input_waits_for_a_worker_that_has_the_function(url: str, clock: VirtualClock) -> None:
    new, old, said = Mainspring(url, clock=clock), None, list[int]()

    @new.every(minutes=10, input=lambda tick: {"n": tick.minute})
    async def work(n: int) -> None:
        said.append(n)

    async with new:
        await new.drain()
        old = Mainspring(await new.connect(), clock=clock)

        @old.task(name="work")
        async def same(n: int) -> None:
            said.append(-n)

        clock.advance(minutes=10)
        await old.drain()
        assert said == []
        await new.drain()
    assert said == [10]


# rows that last


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_schedules_survive_a_restart_with_their_history_and_next_tick(url: str, clock: VirtualClock) -> None:
    def fresh() -> Mainspring:
        app = Mainspring(url, clock=clock)

        @app.every(minutes=10)
        async def work() -> str:
            return "done"

        return app

    async with fresh() as app:
        await live(app, clock, minutes=14)
    async with fresh() as app:
        row = await app.schedules.get("work")
        assert (row.next_run_at, row.last_run_at, row.last_fired_at) == (instant(0, 20), instant(0, 10), instant(0, 10))
        assert (row.last_outcome, row.fired, row.completed) == (State.COMPLETED, 1, 1)
        await live(app, clock, minutes=7)
        assert (await app.schedules.get("work")).last_run_at == instant(0, 20)
        assert len(await app.schedules.ticks("work")) == 2


# deploys


def release(store: Any, clock: VirtualClock, minutes: int, **options: Any) -> Mainspring:
    """The app as one version of the code declares it."""
    app = Mainspring(store, clock=clock)

    @app.task
    async def work(n: int = 0) -> None: ...

    app.schedule("work", every(minutes).minutes, work, **options)
    return app


async def test_a_deploy_without_changes_keeps_the_next_tick(url: str, clock: VirtualClock) -> None:
    async with release(url, clock, 10) as old:
        await old.drain()
        clock.advance(minutes=7)
        before = await old.schedules.get("work")
        await release(await old.connect(), clock, 10).drain()
        assert await old.schedules.get("work") == before


async def test_a_deploy_that_changes_the_trigger_computes_the_next_tick(url: str, clock: VirtualClock) -> None:
    async with release(url, clock, 10) as old:
        await old.drain()
        clock.advance(minutes=7)
        await release(await old.connect(), clock, 30).drain()
        row = await old.schedules.get("work")
    assert (row.next_run_at, row.owner) == (instant(0, 37), "code")


async def test_a_deploy_that_changes_only_the_input_keeps_the_next_tick(url: str, clock: VirtualClock) -> None:
    async with release(url, clock, 10) as old:
        await old.drain()
        clock.advance(minutes=7)
        await release(await old.connect(), clock, 10, kwargs={"n": 7}).drain()
        row = await old.schedules.get("work")
    assert (row.next_run_at, row.spec.payload) == (instant(0, 10), '{"n":7}')


async def test_a_deploy_does_not_end_a_pause(url: str, clock: VirtualClock) -> None:
    async with release(url, clock, 10) as old:
        await old.schedules.pause("work", "until the move")
        await release(await old.connect(), clock, 30).drain()
        row = await old.schedules.get("work")
    assert (row.status, row.note) == ("paused", "until the move")


async def test_a_schedule_updated_at_run_time_survives_a_restart_of_the_same_code(
    url: str, clock: VirtualClock
) -> None:
    async with release(url, clock, 10) as old:
        await old.schedules.update("work", trigger=every(5).minutes)
        await release(await old.connect(), clock, 10).drain()
        assert (await old.schedules.get("work")).next_run_at == instant(0, 5)
        await release(await old.connect(), clock, 20).drain()
        assert (await old.schedules.get("work")).next_run_at == instant(0, 20)


async def test_a_deploy_never_touches_a_schedule_made_at_run_time(url: str, clock: VirtualClock) -> None:
    async with Mainspring(url, clock=clock) as first:

        @first.task
        async def work(n: int = 0) -> None: ...

        made = await first.schedules.create("work", every(3).hours, "work")
        await release(await first.connect(), clock, 10).drain()
        assert await first.schedules.get("work") == made


async def test_a_schedule_that_the_code_no_longer_has_goes_on_until_it_is_deleted(
    url: str, clock: VirtualClock
) -> None:
    async with release(url, clock, 10) as old:
        await old.drain()
        new = Mainspring(await old.connect(), clock=clock)

        @new.task
        async def work(n: int = 0) -> None: ...

        clock.advance(minutes=10)
        assert await new.drain() == 1
        await new.schedules.delete("work")
        clock.advance(minutes=10)
        assert await new.drain() == 0


async def test_ticks_that_a_deploy_removes_are_published_as_events(url: str, clock: VirtualClock) -> None:
    async with release(url, clock, 10) as old:
        await old.drain()
        clock.advance(minutes=35)
        new = release(await old.connect(), clock, 60)
        told = Recorder(new)
        await new.drain()
        (tick,) = [event.tick for event in told.of(TickPassed)]
    assert (tick.what, tick.reason, tick.at, tick.count) == ("skipped", "changed", instant(0, 10), 3)


# run on start


async def test_run_on_start_fires_at_once_and_then_at_the_interval(app: Mainspring, clock: VirtualClock) -> None:
    task, seen = noting(app)
    app.schedule("often", every(10).minutes, task, run_on_start=True)
    async with app:
        await live(app, clock, minutes=25)
    assert seen == [NEW_YEAR, instant(0, 10), instant(0, 20)]


async def test_run_on_start_does_not_fire_after_a_restart(url: str, clock: VirtualClock) -> None:
    async with release(url, clock, 10, run_on_start=True) as old:
        assert await old.drain() == 1
        clock.advance(minutes=3)
        assert await release(await old.connect(), clock, 10, run_on_start=True).drain() == 0


async def test_without_run_on_start_nothing_fires_before_the_first_tick(app: Mainspring, clock: VirtualClock) -> None:
    task, seen = noting(app)
    app.schedule("often", every(10).minutes, task)
    async with app:
        await live(app, clock, minutes=9)
        assert seen == []
        await live(app, clock, minutes=1)
        assert len(seen) == 1


async def test_a_run_on_start_outside_the_window_waits_for_the_first_tick(app: Mainspring, clock: VirtualClock) -> None:
    task, seen = noting(app)
    app.schedule("often", every(1).hours, task, run_on_start=True, window=("08:00", "10:00"))
    async with app:
        await live(app, clock, hours=12)
    assert seen == [instant(8), instant(9)]


# failures


async def test_a_schedule_continues_after_runs_that_die_or_are_cancelled(app: Mainspring, clock: VirtualClock) -> None:
    ran: list[int] = []

    @app.every(seconds=10, overlap="allow")
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        ran.append(len(ran))
        if ran[-1] == 0:
            raise OSError("no")
        if ran[-1] == 1:
            await clock.sleep(3600)

    async with app, app.worker():
        await clock.elapse(seconds=21)
        (running,) = [job for job in await app.jobs.list() if job.state is State.RUNNING]
        await app.jobs.cancel(running.id)
        await clock.elapse(seconds=20)
        row = await app.schedules.get("work")
    assert (len(ran), row.fired, row.failed, row.status) == (4, 4, 1, "active")


async def test_a_schedule_pauses_itself_after_failures_in_a_row_and_emits_an_event(
    app: Mainspring, clock: VirtualClock
) -> None:
    ran: list[int] = []

    @app.every(minutes=10, pause_after_failures=2)
    @app.task(max_retries=0)
    async def work() -> None:
        ran.append(len(ran))
        if ran[-1] != 1:
            raise OSError("no")

    async with app:
        told = Recorder(app)
        await live(app, clock, hours=2)
        row = await app.schedules.get("work")
        (paused,) = told.of(SchedulePaused)
    assert len(ran) == 4
    assert (row.status, row.note, row.next_run_at) == ("paused", "paused after 2 failures in a row", instant(0, 50))
    assert (paused.schedule, paused.note) == ("work", "paused after 2 failures in a row")


async def test_a_pause_after_expired_runs_is_published_as_an_event(app: Mainspring, clock: VirtualClock) -> None:
    @app.every(seconds=10, pause_after_failures=1)
    @app.task(queue="full", expires=3)
    async def work() -> None: ...

    async with app:
        await app.queues.pause("full")
        told = Recorder(app)
        async with app.worker():
            await clock.elapse(seconds=16)
        assert [event.schedule for event in told.of(SchedulePaused)] == ["work"]


# what is told


async def test_ticks_are_published_as_events(app: Mainspring, clock: VirtualClock) -> None:
    task, _ = noting(app)
    app.schedule("often", every(10).minutes, task, catch_up="skip")
    async with app:
        told = Recorder(app)
        await app.drain()
        clock.advance(minutes=10)
        await app.drain()
        clock.advance(minutes=35)
        await app.drain()
    assert [(event.schedule, event.tick.at) for event in told.of(TickFired)] == [("often", instant(0, 10))]
    (passed,) = told.of(TickPassed)
    assert (passed.tick.reason, passed.tick.count, passed.tick.last_at) == ("catch_up", 3, instant(0, 40))
