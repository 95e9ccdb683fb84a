"""The handle of a job: result() returns the typed value, or raises one error for each other end."""

import asyncio
import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring import (
    Cancel,
    Discard,
    Handle,
    JobCancelled,
    JobDead,
    JobExpired,
    JobNotFound,
    JobUnfinished,
    Mainspring,
    ResultTimeout,
    State,
)
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW


@dataclasses.dataclass
class Point:
    x: int


VALUES: list[tuple[Any, Any]] = [
    (int, 5),
    (str, "naïve"),
    (None, None),
    (datetime, NOW),
    (Point, Point(1)),
    (list[Point], [Point(1), Point(2)]),
]


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=repr)
async def test_result_has_the_declared_type(app: Mainspring, hint: Any, value: Any) -> None:
    async def give() -> Any:
        return value

    give.__annotations__["return"] = hint
    job = await app.task(give).enqueue()
    await app.drain()
    assert await job.result() == value


async def test_result_of_a_job_enqueued_by_name_is_plain_data(app: Mainspring) -> None:
    """The type is not known in this process."""
    client = app
    job = await client.enqueue("give")

    @client.task
    async def give() -> Point:
        return Point(1)

    await client.drain()
    assert await job.result() == {"x": 1}


async def test_result_can_be_read_repeatedly(app: Mainspring) -> None:
    job = await app.task(lambda: 5, name="give").enqueue()
    await app.drain()
    assert [await job.result(), await job.result(timeout=0)] == [5, 5]


async def test_result_that_could_not_be_stored_is_none(app: Mainspring) -> None:
    job = await app.task(lambda: object(), name="give").enqueue()
    await app.drain()
    assert await job.result() is None
    record = await job.job()
    assert record.state is State.COMPLETED
    assert record.failure is not None
    assert record.failure.type == "ResultLost"


async def test_result_wakes_a_waiter_when_the_job_ends(app: Mainspring, clock: VirtualClock) -> None:
    job = await app.task(lambda: 5, name="give").enqueue()
    waiting = asyncio.create_task(job.result())
    await clock.settle()
    assert not waiting.done()
    await app.drain()
    await clock.elapse(seconds=app.settings.poll_interval)
    assert await waiting == 5


async def test_result_wakes_many_waiters(app: Mainspring, clock: VirtualClock) -> None:
    job = await app.task(lambda: 5, name="give").enqueue()
    waiting = [asyncio.create_task(job.result()) for _ in range(10)]
    await clock.settle()
    await app.drain()
    await clock.elapse(seconds=app.settings.poll_interval)
    assert await asyncio.gather(*waiting) == [5] * 10


async def test_result_does_not_miss_an_end_between_its_read_and_its_wait(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, store = await app.task(lambda: 5, name="give").enqueue(), await app.connect()
    read, ends = store.jobs, iter([True])

    async def jobs(*args: Any, **given: Any) -> Any:
        found = await read(*args, **given)
        if next(ends, False):
            await app.drain()
        return found

    monkeypatch.setattr(store, "jobs", jobs)
    async with asyncio.timeout(5):  # the virtual clock stands still, so that no poll finds it
        assert await job.result() == 5


async def test_result_of_a_run_that_outlives_its_expiry_is_not_polled_without_pause(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def work() -> int:
        await clock.sleep(30)
        return 5

    job, store, reads = await work.using(expires=10).enqueue(), await app.connect(), list[datetime]()
    read = store.jobs

    async def jobs(*args: Any, **given: Any) -> Any:
        reads.append(clock.now())
        return await read(*args, **given)

    async with app.worker():
        await clock.elapse(seconds=20)
        monkeypatch.setattr(store, "jobs", jobs)
        waiting = asyncio.create_task(job.result())
        await clock.elapse(seconds=5)
        assert len(reads) <= 8
        await clock.elapse(seconds=10)
        assert await waiting == 5


async def ended(app: Mainspring, how: str, clock: VirtualClock) -> Handle[Any]:
    """A job that ended without a result in this way."""

    @app.task(max_retries=0)
    async def work() -> None:
        if how == "discarded":
            raise Discard("no use")
        if how == "cancelled by itself":
            raise Cancel("not needed")
        raise ValueError("bad luck")

    job = await work.using(expires=60 if how in ("expired", "never claimed") else None).enqueue()
    if how == "cancelled":
        await app.jobs.cancel(job.id, "changed my mind")
    if how == "deleted":
        await app.jobs.delete(job.id)
    if how in ("expired", "never claimed"):
        clock.advance(seconds=60)
    if how != "never claimed":
        await app.drain()
    return job


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("dead", JobDead, "job {id} (work) is dead: ValueError: bad luck"),
        ("discarded", JobDead, "job {id} (work) is dead: Discard: no use"),
        ("cancelled", JobCancelled, "job {id} (work) is cancelled: changed my mind"),
        ("cancelled by itself", JobCancelled, "job {id} (work) is cancelled: Cancel: not needed"),
        ("expired", JobExpired, "job {id} (work) was not started before 2030-01-01 12:01:00+00:00"),
        ("never claimed", JobExpired, "job {id} (work) was not started before 2030-01-01 12:01:00+00:00"),
        ("deleted", JobNotFound, "there is no job '{id}' in the store (never enqueued, or deleted)"),
    ],
)
async def test_result_raises_a_specific_error_for_each_end(
    app: Mainspring, clock: VirtualClock, how: str, error: type[Exception], message: str
) -> None:
    job = await ended(app, how, clock)
    with pytest.raises(error) as raised:
        await job.result(timeout=5)
    assert str(raised.value) == message.format(id=job.id)


def test_result_errors_have_one_base_class() -> None:
    assert all(issubclass(kind, JobUnfinished) for kind in (JobDead, JobCancelled, JobExpired, ResultTimeout))
    assert issubclass(ResultTimeout, TimeoutError)
    assert not issubclass(JobNotFound, JobUnfinished)


async def test_result_wakes_a_waiter_when_the_job_expires(app: Mainspring, clock: VirtualClock) -> None:
    job = await app.task(lambda: 5, name="give").using(expires=60).enqueue()
    waiting = asyncio.create_task(job.result())
    await clock.elapse(seconds=59)
    assert not waiting.done()
    await clock.elapse(seconds=2)
    with pytest.raises(JobExpired):
        await waiting


@pytest.mark.parametrize("act", ["cancel", "delete"])
async def test_result_wakes_a_waiter_when_the_job_is_deleted(app: Mainspring, clock: VirtualClock, act: str) -> None:
    job = await app.task(lambda: 5, name="give").enqueue()
    waiting = asyncio.create_task(job.result())
    await clock.settle()
    await getattr(app.jobs, act)(job.id)
    await clock.elapse(seconds=app.settings.poll_interval)
    with pytest.raises((JobCancelled, JobNotFound)):
        await waiting


async def test_result_timeout_names_the_state_of_the_job(app: Mainspring, clock: VirtualClock) -> None:
    job = await app.task(lambda: 5, name="give").using(delay=3600).enqueue()
    waiting = asyncio.create_task(job.result(timeout=10))
    await clock.elapse(seconds=9.9)
    assert not waiting.done()
    await clock.elapse(seconds=0.2)
    with pytest.raises(ResultTimeout) as raised:
        await waiting
    assert str(raised.value) == f"job {job.id} (give) is scheduled after 10 s"
    assert (await job.job()).state is State.PENDING


async def test_result_with_zero_timeout_reads_once(app: Mainspring) -> None:
    job = await app.task(lambda: 5, name="give").enqueue()
    with pytest.raises(ResultTimeout, match="is pending after 0 s"):
        await job.result(timeout=0)


async def test_result_of_a_retried_job_is_returned(app: Mainspring, clock: VirtualClock) -> None:
    tries: list[int] = []

    @app.task
    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return len(tries)

    job = await flaky.enqueue()
    waiting = asyncio.create_task(job.result())
    for _ in range(3):
        await app.drain()
        await clock.elapse(minutes=1)
    assert await waiting == 3


# the handle that enqueue returns


async def test_handle_status_tells_new_from_duplicate(app: Mainspring) -> None:
    task = app.task(lambda: 5, name="give").using(unique_key="one")
    first, second = await task.enqueue(), await task.enqueue()
    assert (first.status, first.duplicate) == ("new", False)
    assert (second.status, second.duplicate) == ("duplicate", True)
    assert repr(second) == f"<Handle {first.id} duplicate>"


async def test_handle_job_returns_the_present_record(app: Mainspring, clock: VirtualClock) -> None:
    job = await app.task(lambda: 5, name="give").enqueue()
    assert (await job.job()).state is State.PENDING
    clock.advance(timedelta(seconds=5))
    await app.drain()
    record = await job.job()
    assert (record.state, record.result, record.finished_at) == (State.COMPLETED, "5", NOW + timedelta(seconds=5))
