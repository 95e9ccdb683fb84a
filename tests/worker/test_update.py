"""Updates of waiting jobs: priority, time, arguments and options; claims see them at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import BadInput, BadPayload, Context, Filter, InvalidTransition, Job, Mainspring, State, Task
from mainspring.events import JobsChanged
from mainspring.testing import Recorder, VirtualClock


def noting(app: Mainspring, seen: list[int]) -> Task[..., Any]:
    @app.task
    async def work(n: int, more: str = "") -> None:
        seen.append(n)

    return work


async def test_an_updated_priority_changes_the_order_of_claims(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[int] = []
    task = noting(app, seen)
    async with app:
        handles = await app.enqueue_many(task.job(n) for n in range(5))
        await app.jobs.update(handles[3].id, priority=10)
        await app.jobs.update(handles[0].id, priority=-10)
        async with app.worker(concurrency=1):
            await clock.elapse(seconds=2)
    assert seen == [3, 1, 2, 4, 0]


async def test_a_rescheduled_job_is_claimed_at_its_new_time(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[int] = []
    task = noting(app, seen)
    async with app:
        handles = await app.enqueue_many(task.job(n) for n in range(3))
        start = clock.now()
        await app.jobs.reschedule(handles[0].id, timedelta(seconds=20))
        await app.jobs.reschedule(handles[1].id, start + timedelta(seconds=10))
        async with app.worker():
            await clock.elapse(seconds=5)
            assert seen == [2]
            await clock.elapse(seconds=10)
            assert seen == [2, 1]
            await app.jobs.reschedule(handles[0].id, clock.now())
            await clock.elapse(seconds=1)
    assert seen == [2, 1, 0]


async def test_update_changes_every_given_value_and_keeps_the_others(app: Mainspring, clock: VirtualClock) -> None:
    task = noting(app, [])
    async with app:
        handle = await task.using(delay=60, tags=["old"], metadata={"a": 1}).enqueue(1, more="as it was")
        before = await handle.job()
        soon = clock.now() + timedelta(seconds=5)
        await app.jobs.update(
            handle.id, arguments={"n": 7}, queue="elsewhere", priority=3, run_at=soon,
            expires_at=soon + timedelta(seconds=5), timeout=timedelta(seconds=9), max_retries=0, tags=["new"],
            metadata={"b": 2},
        )  # fmt: skip
        after = await handle.job()
    assert after.payload == '{"n":7,"more":"as it was"}'
    assert (after.queue, after.priority, after.run_at) == ("elsewhere", 3, soon)
    assert (after.expires_at, after.timeout, after.max_retries) == (soon + timedelta(seconds=5), 9, 0)
    assert (after.tags, after.metadata) == (("new",), {"b": 2})
    assert (after.id, after.created_at, after.attempt) == (before.id, before.created_at, 0)


async def test_update_with_none_removes_expiry_and_timeout(app: Mainspring, clock: VirtualClock) -> None:
    task = noting(app, [])
    async with app:
        handle = await task.using(expires=60, timeout=5).enqueue(1)
        await app.jobs.update(handle.id, expires_at=None, timeout=None)
        job = await handle.job()
    assert (job.expires_at, job.timeout) == (None, None)


async def test_a_run_gets_the_updated_arguments_and_retries(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[tuple[int, int]] = []

    @app.task(max_retries=3)
    async def work(ctx: Context, n: int) -> None:
        seen.append((n, ctx.attempt))
        raise ValueError

    async with app:
        handle = await work.using(delay=5).enqueue(1)
        await app.jobs.update(handle.id, arguments={"n": 2}, max_retries=1)
        async with app.worker():
            await clock.elapse(seconds=20)
    assert seen == [(2, 1), (2, 2)]


async def test_a_retrying_job_keeps_its_attempts(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(backoff=lambda n: 3600.0)
    async def work() -> None:
        raise ValueError

    async with app:
        handle = await work.enqueue()
        await app.drain()
        await app.jobs.reschedule(handle.id, timedelta(0))
        job = await handle.job()
    assert (job.attempt, job.run_at, job.shown(clock.now())) == (1, clock.now(), "retrying")


async def test_a_job_is_found_by_its_updated_tags_and_not_by_its_old_ones(app: Mainspring, clock: VirtualClock) -> None:
    task = noting(app, [])
    async with app:
        handle = await task.using(tags=["old", "both"]).enqueue(1)
        await app.jobs.update(handle.id, tags=["new", "both"])
        found = {tag: len(await app.jobs.list(Filter(tags=(tag,)))) for tag in ("old", "new", "both")}
    assert found == {"old": 0, "new": 1, "both": 1}


async def test_an_update_by_filter_keeps_the_other_arguments_of_each_job(app: Mainspring, clock: VirtualClock) -> None:
    task, recorder = noting(app, []), Recorder(app)
    async with app:
        await app.enqueue_many(task.job(n) for n in range(3))
        gone = await task.enqueue(9)
        await app.jobs.cancel(gone.id)
        changed = await app.jobs.update(Filter(), arguments={"more": "x"}, priority=2)
        jobs = await app.jobs.list(Filter(states=("pending",)), newest=False)
    assert [job.payload for job in jobs] == [f'{{"n":{n},"more":"x"}}' for n in range(3)]
    assert {job.priority for job in jobs} == {2}
    assert len(changed.done) == 3
    assert {id: refusal.state for id, refusal in changed.refused.items()} == {gone.id: State.CANCELLED}
    assert [event.action for event in recorder.of(JobsChanged)] == ["cancel", "update"]


@pytest.mark.parametrize("state", ["running", "completed"])
async def test_an_update_of_a_running_or_completed_job_is_refused(
    app: Mainspring, clock: VirtualClock, state: str
) -> None:
    @app.task
    async def work() -> None:
        await clock.sleep(5)

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1 if state == "running" else 10)
            with pytest.raises(InvalidTransition, match=f"it is {state}, update needs paused, pending, waiting"):
                await app.jobs.update(handle.id, priority=1)
            await clock.elapse(seconds=10)


BAD: dict[str, dict[str, Any]] = {
    "update() was given nothing to change": {},
    "option priority": {"priority": 40_000},
    "option priority ": {"priority": "high"},
    "option run_at": {"run_at": "tomorrow"},
    "option timeout": {"timeout": 0},
    "option max_retries": {"max_retries": -1},
    "option tags": {"tags": "one"},
    "option metadata": {"metadata": ["a"]},
    "option queue": {"queue": ""},
    "expires_at takes a datetime, or None for never": {"expires_at": 60},
    "arguments are given as a mapping by name": {"arguments": [1]},
}


@pytest.mark.parametrize(("message", "given"), BAD.items(), ids=BAD)
async def test_an_update_with_a_bad_value_is_refused_by_name_and_changes_nothing(
    app: Mainspring, message: str, given: dict[str, Any]
) -> None:
    task = noting(app, [])
    async with app:
        handle = await task.enqueue(1)
        before = await handle.job()
        for which in (handle.id, Filter()):
            with pytest.raises(BadInput) as refused:
                await app.jobs.update(which, **given)
            assert message.strip() in str(refused.value)
        assert await handle.job() == before


MISFITS: dict[str, dict[str, Any]] = {
    "type": {"n": "seven"},
    "name": {"colour": "red"},
    "nan": {"n": float("nan")},
    "size": {"more": "x" * (1 << 20)},
}


@pytest.mark.parametrize("arguments", MISFITS.values(), ids=MISFITS)
async def test_an_update_with_arguments_that_the_task_does_not_accept_is_refused(
    app: Mainspring, arguments: dict[str, Any]
) -> None:
    task = noting(app, [])
    async with app:
        handle = await task.enqueue(1)
        before = await handle.job()
        with pytest.raises(BadPayload):
            await app.jobs.update(handle.id, arguments=arguments)
        assert await handle.job() == before


async def test_a_dead_job_with_an_unreadable_payload_can_be_redriven_with_valid_arguments(
    app: Mainspring, clock: VirtualClock
) -> None:
    seen: list[int] = []
    async with app:
        before = Mainspring(await app.connect(), clock=clock)
        handle = await before.enqueue("work", n="seven")
        noting(app, seen)
        await app.drain()
        clock.advance(timedelta(seconds=app.settings.skew))
        await app.drain()
        job: Job = await app.jobs.get(handle.id)
        assert job.state is State.DEAD
        await app.dead.redrive(handle.id, arguments={"n": 7})
        await app.drain()
    assert seen == [7]


async def test_a_postponed_job_can_be_updated_with_valid_arguments(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[int] = []
    async with app:
        before = Mainspring(await app.connect(), clock=clock)
        handle = await before.enqueue("work", n="seven")
        noting(app, seen)
        await app.drain()
        await app.jobs.update(handle.id, arguments={"n": 7})
        clock.advance(timedelta(seconds=1))
        await app.drain()
    assert seen == [7]
