"""app.schedules at run time: pause, resume, trigger, reschedule, update, delete, backfill; made by users, too."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring import BadInput, Context, Mainspring, ScheduleExists, ScheduleNotFound, State, at, cron, every
from mainspring.events import JobEnqueued, TickFired, TickPassed
from mainspring.testing import Recorder, VirtualClock


def hour(n: float) -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=n)


Seen = list[tuple[str, datetime | None]]


@pytest.fixture
def seen(app: Mainspring) -> Seen:
    """What the schedule `work`, every hour, has run: its argument and its tick."""
    ran: Seen = []

    @app.cron("0 * * * *", kwargs={"who": "clock"})
    async def work(ctx: Context, who: str) -> str:
        ran.append((who, ctx.scheduled_at))
        return who

    return ran


# pause and resume


async def test_a_paused_schedule_keeps_its_row_and_makes_no_jobs(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    async with app:
        row = await app.schedules.pause("work", "until the move")
        assert (row.status, row.note, row.paused_at) == ("paused", "until the move", hour(0))
        clock.advance(hours=5)
        assert await app.drain() == 0
        assert (await app.schedules.get("work")).next_run_at == hour(1)


async def test_resume_continues_from_now_and_records_the_ticks_of_the_pause(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    told = Recorder(app)
    async with app:
        await app.schedules.pause("work")
        clock.advance(hours=5, minutes=30)
        row = await app.schedules.resume("work")
        assert (row.status, row.note, row.next_run_at) == ("active", "", hour(6))
        assert await app.drain() == 0
        (tick,) = await app.schedules.ticks("work")
        assert (tick.what, tick.reason, tick.count, tick.at, tick.last_at) == ("skipped", "paused", 5, hour(1), hour(5))
        assert [event.tick for event in told.of(TickPassed)] == [tick]


async def test_resume_with_catch_up_fires_a_tick_of_the_pause(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        await app.schedules.pause("work")
        clock.advance(hours=5, minutes=30)
        await app.schedules.resume("work", catch_up=True)
        await app.drain()
    assert seen == [("clock", hour(5))]


async def test_a_pause_that_covers_no_tick_changes_nothing(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        await app.schedules.pause("work")
        clock.advance(minutes=10)
        row = await app.schedules.resume("work")
        assert (row.next_run_at, await app.schedules.ticks("work")) == (hour(1), [])
        assert await app.schedules.resume("work") == row


async def test_running_jobs_of_a_paused_schedule_go_on(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        handle = await app.schedules.trigger("work")
        await app.schedules.pause("work")
        await app.drain()
        assert (await handle.job()).state is State.COMPLETED


# trigger


async def test_trigger_makes_one_job_at_once_and_leaves_the_next_tick_alone(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    told = Recorder(app)
    async with app:
        clock.advance(minutes=20)
        handle = await app.schedules.trigger("work")
        await app.drain()
        assert await handle.result() == "clock"
        row = await app.schedules.get("work")
        (tick,) = await app.schedules.ticks("work")
    assert seen == [("clock", hour(1 / 3))]
    assert (row.next_run_at, row.last_job_id, tick.reason) == (hour(1), handle.id, "by_hand")
    assert [len(told.of(TickFired)), len(told.of(JobEnqueued))] == [1, 1]


async def test_a_paused_schedule_can_be_triggered(app: Mainspring, seen: Seen) -> None:
    async with app:
        await app.schedules.pause("work")
        await app.schedules.trigger("work")
        await app.drain()
        assert (await app.schedules.get("work")).status == "paused"
    assert len(seen) == 1


async def test_trigger_twice_at_one_instant_makes_two_jobs(app: Mainspring, seen: Seen) -> None:
    async with app:
        first, second = await app.schedules.trigger("work"), await app.schedules.trigger("work")
        assert await app.drain() == 2
    assert first.id != second.id


async def test_trigger_at_the_instant_of_a_tick_runs_its_own_job(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    async with app:
        await app.drain()
        clock.set(hour(1))
        handle = await app.schedules.trigger("work")
        async with app.worker():
            await clock.elapse(seconds=1)
        assert (await handle.job()).state is State.COMPLETED
        assert {tick.reason for tick in await app.schedules.ticks("work")} <= {"by_hand", "", "overlap"}


async def test_trigger_takes_other_arguments(app: Mainspring, seen: Seen) -> None:
    async with app:
        await app.schedules.trigger("work", kwargs={"who": "ada"})
        await app.drain()
        with pytest.raises(BadInput, match="who"):
            await app.schedules.trigger("work", kwargs={"whom": "ada"})
    assert seen == [("ada", hour(0))]


async def test_trigger_of_a_schedule_with_computed_input_computes_it(app: Mainspring, clock: VirtualClock) -> None:
    @app.every(hours=1, input=lambda tick: {"minute": tick.minute})
    async def work(minute: int) -> int:
        return minute

    async with app:
        clock.advance(minutes=7)
        handle = await app.schedules.trigger("work")
        await app.drain()
        assert await handle.result() == 7


# reschedule


async def test_reschedule_sets_the_next_tick_and_those_after_it_follow_the_trigger(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    async with app:
        row = await app.schedules.reschedule("work", hour(2.25))
        assert (row.next_run_at, row.due_at) == (hour(2.25), hour(2.25))
        shown = await app.schedules.preview("work", 3)
        assert [(coming.at, coming.note) for coming in shown] == [
            (hour(2.25), "not by its trigger"), (hour(3), ""), (hour(4), ""),
        ]  # fmt: skip
        for n in (1, 2, 2.25, 3):
            clock.set(hour(n))
            await app.drain()
    assert [tick for _, tick in seen] == [hour(2.25), hour(3)]


async def test_a_finished_one_time_schedule_can_be_rescheduled(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def launch() -> None: ...

    app.schedule("launch", at(hour(1)), launch)
    async with app:
        await app.drain()
        clock.set(hour(1))
        assert await app.drain() == 1
        await app.schedules.reschedule("launch", hour(5))
        clock.set(hour(5))
        assert await app.drain() == 1


# update


async def test_update_changes_the_given_options_of_a_schedule_and_keeps_the_others(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    async with app:
        row = await app.schedules.update("work", kwargs={"who": "bob"}, overlap="allow")
        assert (row.next_run_at, row.spec.overlap, row.spec.catch_up) == (hour(1), "allow", "latest")
        row = await app.schedules.update("work", trigger=cron("30 * * * *"))
        assert row.next_run_at == hour(0.5)
        clock.set(hour(0.5))
        await app.drain()
    assert seen == [("bob", hour(0.5))]


async def test_concurrent_changes_of_a_schedule_all_take_effect(app: Mainspring, seen: Seen) -> None:
    async with app:
        changes = [app.schedules.update("work", jitter=n) for n in range(5)]
        await asyncio.gather(*changes, *(app.schedules.trigger("work") for _ in range(5)))
        row = await app.schedules.get("work")
        assert (len(row.active), row.revision) == (5, 11)


# delete


async def test_delete_leaves_jobs_already_made_alone(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        handle = await app.schedules.trigger("work")
        await app.schedules.delete("work")
        with pytest.raises(ScheduleNotFound):
            await app.schedules.get("work")
        await app.drain()
        assert (await handle.job()).state is State.COMPLETED


# made by users


async def test_a_schedule_made_at_run_time_is_fired_like_any_other(app: Mainspring, clock: VirtualClock) -> None:
    said: list[str] = []

    @app.task
    async def greet(name: str) -> None:
        said.append(name)

    async with app:
        row = await app.schedules.create("hello", every(2).hours, greet, kwargs={"name": "ada"})
        assert (row.owner, row.next_run_at) == ("user", hour(2))
        clock.set(hour(2))
        await app.drain()
        assert [one.name for one in await app.schedules.list(owner="user")] == ["hello"]
        with pytest.raises(ScheduleExists, match="a schedule named 'hello' is there already"):
            await app.schedules.create("hello", every(3).hours, greet, kwargs={"name": "bob"})
    assert said == ["ada"]


async def test_schedules_are_listed_by_task_owner_and_status(app: Mainspring, seen: Seen) -> None:
    @app.task
    async def other() -> None: ...

    async with app:
        await app.schedules.create("mine", every(1).hours, other)
        await app.schedules.pause("work")
        names: Callable[..., Awaitable[list[str]]]

        async def names(**which: Any) -> list[str]:
            return [row.name for row in await app.schedules.list(**which)]

        assert await names() == ["mine", "work"]
        assert await names(task="other") == ["mine"]
        assert await names(owner="code") == ["work"]
        assert await names(status="paused") == ["work"]
        assert await names(limit=1, after="mine") == ["work"]


async def test_schedule_stats_count_fired_and_missed_ticks(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        await app.drain()
        clock.set(hour(1))
        await app.drain()
        clock.set(hour(4.5))
        await app.drain()
        stats = await app.schedules.stats("work")
    assert (stats.fired, stats.missed, stats.completed, stats.success) == (2, 2, 2, 1.0)
    assert stats.reasons == {"catch_up": 2}


def test_schedules_can_be_paused_and_read_by_synchronous_code(app: Mainspring, seen: Seen) -> None:
    row = app.sync.schedules.pause("work", "from a script")
    assert app.sync.schedules.get("work") == row
    app.sync.close()


# preview


async def test_a_preview_shows_the_next_ticks(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        assert [coming.at for coming in await app.schedules.preview("work", 2)] == [hour(1), hour(2)]
        await app.schedules.pause("work")
        clock.set(hour(5.5))
        assert [coming.at for coming in await app.schedules.preview("work", 2)] == [hour(6), hour(7)]


async def test_a_preview_ends_after_max_runs(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        await app.schedules.update("work", max_runs=2)
        assert len(await app.schedules.preview("work")) == 2
        clock.set(hour(1))
        await app.drain()
        assert [coming.at for coming in await app.schedules.preview("work")] == [hour(2)]
        clock.set(hour(2))
        await app.drain()
        assert await app.schedules.preview("work") == []


# backfill


async def test_backfill_makes_the_jobs_of_past_ticks_once(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        clock.set(hour(5.5))
        there = await app.schedules.backfill("work", hour(2), hour(5))
        assert (there.made, there.there) == ([hour(2), hour(3), hour(4)], [])
        again = await app.schedules.backfill("work", hour(2), hour(6 - 0.5))
        assert (again.made, again.there) == ([hour(5)], [hour(2), hour(3), hour(4)])
        await app.drain()
    backfilled = sorted(tick for _, tick in seen if tick is not None)
    assert backfilled == [hour(2), hour(3), hour(4), hour(5)]


async def test_a_dry_run_of_a_backfill_lists_the_ticks_and_makes_no_job(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    async with app:
        clock.set(hour(3.5))
        planned = await app.schedules.backfill("work", hour(0), dry_run=True)
        assert (planned.made, planned.dry_run) == ([hour(0), hour(1), hour(2), hour(3)], True)
        assert await app.jobs.list() == []
        made = await app.schedules.backfill("work", hour(0))
        assert made.made == planned.made


async def test_backfill_does_not_repeat_ticks_that_have_a_job(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        await app.drain()
        for n in (1, 2):
            clock.set(hour(n))
            await app.drain()
        clock.set(hour(2.5))
        done = await app.schedules.backfill("work", hour(0.5))
    assert (done.made, done.there) == ([], [hour(1), hour(2)])


async def test_backfills_at_the_same_time_share_the_ticks(app: Mainspring, clock: VirtualClock, seen: Seen) -> None:
    async with app:
        clock.set(hour(20.5))
        done = await asyncio.gather(*(app.schedules.backfill("work", hour(0.5)) for _ in range(4)))
        assert sorted(itertools.chain(*(one.made for one in done))) == [hour(n) for n in range(1, 21)]
        assert all(sorted(one.made + one.there) == [hour(n) for n in range(1, 21)] for one in done)
        assert len(await app.jobs.list()) == 20


async def test_backfill_changes_neither_the_next_tick_nor_the_active_jobs_of_a_schedule(
    app: Mainspring, clock: VirtualClock, seen: Seen
) -> None:
    async with app:
        await app.drain()
        before = await app.schedules.get("work")
        await app.schedules.backfill("work", hour(-3), hour(0))
        row = await app.schedules.get("work")
        assert (row.next_run_at, row.active) == (before.next_run_at, ())
        assert {tick.reason for tick in await app.schedules.ticks("work")} == {"backfill"}
        clock.set(hour(1))
        assert await app.drain() == 4


# bad input


async def refusals(app: Mainspring) -> list[tuple[Awaitable[Any], str]]:
    schedules = app.schedules
    work, naive = app.tasks["work"], datetime(2030, 1, 1)
    return [
        (schedules.get("wrok"), "there is no schedule 'wrok'; did you mean 'work'?"),
        (schedules.get("nothing like it"), "there is no schedule 'nothing like it'; known: work"),
        (schedules.get(""), "a schedule name is 1 to 200 printable characters"),
        (schedules.delete("wrok"), "there is no schedule 'wrok'; did you mean 'work'?"),
        (schedules.pause("work", "x" * 1001), "a note is text of at most 1,000 characters"),
        (schedules.reschedule("work", naive), "reschedule takes a datetime with a time zone, got datetime.datetime"),
        (schedules.reschedule("work", hour(-1)), "is past; trigger() runs it now, backfill() makes up past ticks"),
        (schedules.update("work"), "update of schedule 'work' was given nothing to change"),
        (schedules.update("work", overlop="skip"), "schedule 'work' has no option 'overlop'; did you mean 'overlap'?"),  # type: ignore[call-arg]
        (schedules.update("work", kwargs={"whom": 1}), "whom"),
        (schedules.update("work", input=lambda tick: {}), "an input function is given in code, with app.schedule"),
        (schedules.create("new", every(1).hours, "wrok"), "no task 'wrok' is registered in this app; did you"),
        (schedules.create("new", at(hour(-1)), work, kwargs={"who": ""}), "schedule 'new' would never run"),
        (schedules.create("new", "@daily", work, kwargs={"who": ""}), "schedule 'new' takes a trigger, e.g. cron("),
        (schedules.backfill("work", naive), "backfill takes datetimes with a time zone, got start=datetime.datetime"),
        (schedules.backfill("work", hour(1)), "backfill goes from an earlier to a later instant, both past"),
        (schedules.backfill("work", hour(-2000)), "that is more than 1,000 ticks of 'work'; go in smaller steps"),
        (schedules.backfill("work", hour(-2), limit=0), "limit is from 1 to 10,000, got 0"),
        (schedules.ticks("work", limit=0), "limit must be from 1 to 1000, got 0"),
        (schedules.preview("work", 0), "n is from 1 to 1,000, got 0"),
    ]  # fmt: skip


async def test_invalid_schedule_calls_are_refused_with_the_remedy(app: Mainspring, seen: Seen) -> None:
    async with app:
        for call, words in await refusals(app):
            with pytest.raises((BadInput, ScheduleNotFound)) as refused:
                await call
            assert words in str(refused.value)
        assert [row.revision for row in await app.schedules.list()] == [1]
