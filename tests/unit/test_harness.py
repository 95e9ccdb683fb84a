"""app.testing(): the code under test enqueues for real, on a store and a clock that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    Backoff,
    BadInput,
    BadPayload,
    Context,
    JobCancelled,
    JobDead,
    JobTimeout,
    JobUnfinished,
    Mainspring,
    ShuttingDown,
    State,
    SystemClock,
)
from mainspring.events import JobEnqueued
from mainspring.middleware import Next
from mainspring.testing import Recorder
from mainspring.testing.harness import Harness


@dataclass
class Parcel:
    to: str
    weight: float = 1.0


class Shop:
    """An app as in production: created once, on a file, with the system clock."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.app = app = Mainspring(f"sqlite:///{file}", middleware=[self.layer])
        self.ran: list[Any] = []
        self.layers = 0

        @app.task
        async def send(to: str, subject: str = "hello") -> str:
            self.ran.append((to, subject))
            return f"{subject} to {to}"

        @app.task(max_retries=2, backoff=Backoff.constant(60, jitter=0))
        async def fail(reason: str = "no") -> None:
            self.ran.append(reason)
            raise ValueError(reason)

        @app.task
        async def ship(parcel: Parcel, on: date, notes: list[str]) -> None:
            self.ran.append(parcel)
            notes.append("seen")

        @app.task
        def invoice(order: int) -> None:
            send.sync.enqueue(f"customer {order}")

        @app.task
        async def order(number: int) -> None:
            await send.enqueue(f"customer {number}")

        self.send, self.fail, self.ship, self.invoice, self.order = send, fail, ship, invoice, order

    async def layer(self, ctx: Context, call_next: Next) -> Any:
        self.layers += 1
        return await call_next(ctx)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "jobs.db")


# the store and the clock within the block


async def test_harness_never_touches_the_real_store(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.send.enqueue("ada")
        await jobs.drain()
        assert shop.ran == [("ada", "hello")]
    assert not shop.file.exists()


async def test_harness_hides_the_real_jobs_until_it_is_left(shop: Shop) -> None:
    async with shop.app:
        real = await shop.send.enqueue("ada")
        async with shop.app.testing() as jobs:
            assert jobs.enqueued == []
            assert await shop.app.jobs.list() == []
            assert await jobs.drain() == []
        assert [job.id for job in await shop.app.jobs.list()] == [real.id]
        assert await shop.app.drain() == 1


async def test_harness_restores_the_app_after_an_error(shop: Shop) -> None:
    before = dict(vars(shop.app))

    async def failing() -> None:
        async with shop.app.testing():
            await shop.app.close()
            raise RuntimeError("a failing test")

    with pytest.raises(RuntimeError, match="a failing test"):
        await failing()
    assert vars(shop.app) == before
    async with shop.app:
        await shop.send.enqueue("ada")
    assert shop.file.exists()


async def test_harness_starts_empty_in_each_block(shop: Shop) -> None:
    harness = shop.app.testing()
    for _ in range(2):
        async with harness as jobs:
            assert jobs.enqueued == []
            await shop.send.enqueue("ada")
            assert len(jobs.enqueued) == 1


async def test_harness_refuses_a_second_one_inside(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        with pytest.raises(BadInput, match="under test already"), shop.app.testing():
            pass
        await shop.send.enqueue("ada")
        jobs.assert_enqueued(shop.send)


async def test_harness_allows_another_app_under_test(shop: Shop, tmp_path: Path) -> None:
    other = Shop(tmp_path / "other.db")
    async with shop.app.testing() as here, other.app.testing() as there:
        await shop.send.enqueue("ada")
        assert (len(here.enqueued), len(there.enqueued)) == (1, 0)


def test_harness_refuses_an_unknown_mode(shop: Shop) -> None:
    with pytest.raises(BadInput, match=r"'manual'.*or 'inline'.*not 'eager'"):
        shop.app.testing("eager")  # type: ignore[arg-type]


async def test_harness_clock_stands_still_until_it_is_moved(shop: Shop) -> None:
    real = shop.app.clock
    async with shop.app.testing() as jobs:
        assert shop.app.clock.now() == jobs.clock.now() == datetime(2030, 1, 1, tzinfo=UTC)
        jobs.clock.advance(hours=1)
        assert shop.app.clock.now() == datetime(2030, 1, 1, 1, tzinfo=UTC)
    assert shop.app.clock is real
    assert abs(SystemClock().now() - shop.app.clock.now()) < timedelta(minutes=1)


async def test_harness_survives_code_that_opens_and_closes_the_app(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        async with shop.app:
            await shop.send.enqueue("ada")
        jobs.assert_enqueued(shop.send, "ada")
        with pytest.raises(ShuttingDown):
            await shop.send.enqueue("bob")


# manual: jobs wait


async def test_process_one_runs_a_waiting_job(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        handle = await shop.send.enqueue("ada")
        assert shop.ran == []
        job = await jobs.process_one()
        assert job is not None
        assert (job.id, job.state, job.attempt) == (handle.id, State.COMPLETED, 1)
        assert await handle.result() == "hello to ada"
        assert await jobs.process_one() is None


async def test_drain_runs_jobs_in_order_whatever_their_task_limits(shop: Shop) -> None:
    @shop.app.task(concurrency=1)
    async def alone(name: str) -> None:
        shop.ran.append(name)

    async with shop.app.testing() as jobs:
        await shop.send.enqueue("first")
        await alone.enqueue("second")
        await shop.send.using(priority=5).enqueue("urgent")
        for _ in range(3):
            await jobs.process_one()
    assert shop.ran == [("urgent", "hello"), ("first", "hello"), "second"]


async def test_process_one_runs_the_middleware(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.send.enqueue("ada")
        await jobs.process_one()
    assert shop.layers == 1


async def test_process_one_returns_the_failure_and_the_retry(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.fail.enqueue("broken")
        job = await jobs.process_one()
        assert job is not None
        assert job.failure is not None
        assert (job.state, job.failure.message) == (State.PENDING, "broken")
        assert await jobs.process_one() is None
        jobs.clock.advance(minutes=1)
        assert (await jobs.process_one() or job).attempt == 2


async def test_elapse_during_process_one_ends_the_run_by_its_timeout(shop: Shop) -> None:
    @shop.app.task(timeout=30, max_retries=0)
    async def hang() -> None:
        await asyncio.Event().wait()

    async with shop.app.testing() as jobs:
        await hang.enqueue()
        run = asyncio.create_task(jobs.process_one())
        await jobs.clock.elapse(seconds=30)
        job = await run
        assert job is not None
        assert job.failure is not None
        assert job.failure.type == JobTimeout.__name__


async def test_drain_runs_due_jobs_and_those_they_enqueue(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.order.enqueue(7)
        await shop.send.using(delay=60).enqueue("later")
        assert [job.task for job in await jobs.drain()] == ["order", "send"]
        assert shop.ran == [("customer 7", "hello")]


async def test_sync_task_enqueues_into_the_harness_store(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.invoice.enqueue(7)
        assert [job.task for job in await jobs.drain()] == ["invoice", "send"]


async def test_drain_with_scheduled_moves_the_clock_to_delays_and_retries(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        began = jobs.clock.now()
        await shop.fail.enqueue()
        await shop.send.using(delay=90).enqueue("ada")
        ran = await jobs.drain(with_scheduled=True)
        assert [(job.task, job.state) for job in ran] == [
            ("fail", State.PENDING),
            ("fail", State.PENDING),
            ("send", State.COMPLETED),
            ("fail", State.DEAD),
        ]
        assert jobs.clock.now() - began == timedelta(minutes=2)


async def test_drain_leaves_jobs_that_cannot_run(shop: Shop) -> None:
    @shop.app.stub
    async def elsewhere() -> None: ...

    async with shop.app.testing() as jobs:
        await elsewhere.enqueue()
        await shop.send.using(queue="mail").enqueue("ada")
        await shop.send.using(delay=5, expires=10).enqueue("bob")
        await shop.app.queues.pause("mail")
        jobs.clock.advance(hours=1)
        assert await jobs.drain(with_scheduled=True) == []


async def test_drain_fails_for_a_task_that_enqueues_itself_for_ever(shop: Shop) -> None:
    @shop.app.task
    async def again() -> None:
        await again.using(delay=10).enqueue()

    async with shop.app.testing() as jobs:
        await again.enqueue()
        with pytest.raises(AssertionError, match=r"after 20 runs a job of 'again' is still due"):
            await jobs.drain(with_scheduled=True, limit=20)
        assert len(jobs.of(again)) == 21


async def test_drain_with_just_enough_limit_passes(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.order.enqueue(7)
        assert len(await jobs.drain(limit=2)) == 2


# enqueued jobs


async def test_harness_enqueued_lists_every_job_in_order_with_its_current_state(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.app.enqueue_many([shop.send.job("ada"), shop.ship.job(Parcel("x"), date(2030, 1, 1), [])])
        await shop.app.enqueue("send", to="bob")
        await jobs.process_one()
        assert [(job.task, job.state) for job in jobs.enqueued] == [
            ("send", State.COMPLETED),
            ("ship", State.PENDING),
            ("send", State.PENDING),
        ]
        assert jobs.of(shop.send) == jobs.of("send") == [jobs.enqueued[0], jobs.enqueued[2]]


@pytest.mark.parametrize(
    "expected",
    [
        lambda jobs, shop: jobs.assert_enqueued(shop.send),
        lambda jobs, shop: jobs.assert_enqueued("send"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "ada"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, to="ada"),
        lambda jobs, shop: jobs.assert_enqueued("send", to="ada"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "ada", "hello"),  # an omitted argument equals its default
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "bob", subject="news"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "bob", queue="mail"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, queue="mail", delay=60),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, delay=timedelta(minutes=1)),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "ada", delay=0),
        lambda jobs, shop: jobs.assert_enqueued(shop.ship, Parcel("zoe", 2.5)),
        lambda jobs, shop: jobs.assert_enqueued(shop.ship, on=date(2030, 5, 1), notes=["a"]),
    ],
)
async def test_assert_enqueued_passes(shop: Shop, expected: Callable[[Harness, Shop], Any]) -> None:
    async with shop.app.testing() as jobs:
        await enqueue_three(shop)
        assert expected(jobs, shop) in jobs.enqueued


@pytest.mark.parametrize(
    "expected",
    [
        lambda jobs, shop: jobs.assert_enqueued(shop.fail),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "eve"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "ada", "news"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "ada", queue="mail"),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "bob", delay=61),
        lambda jobs, shop: jobs.assert_enqueued(shop.send, "bob", delay=0),
        lambda jobs, shop: jobs.assert_enqueued(shop.ship, Parcel("zoe")),
        lambda jobs, shop: jobs.assert_not_enqueued(),
        lambda jobs, shop: jobs.assert_not_enqueued(shop.send),
        lambda jobs, shop: jobs.assert_not_enqueued("send", to="ada"),
        lambda jobs, shop: jobs.assert_not_enqueued(queue="mail"),
    ],
)
async def test_assert_enqueued_fails(shop: Shop, expected: Callable[[Harness, Shop], Any]) -> None:
    async with shop.app.testing() as jobs:
        await enqueue_three(shop)
        with pytest.raises(AssertionError, match="enqueued; there"):
            expected(jobs, shop)


async def enqueue_three(shop: Shop) -> None:
    await shop.send.enqueue("ada")
    await shop.send.using(queue="mail", delay=60).enqueue("bob", subject="news")
    await shop.ship.enqueue(Parcel("zoe", 2.5), date(2030, 5, 1), ["a"])


async def test_assert_enqueued_failure_lists_the_jobs(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        with pytest.raises(AssertionError) as empty:
            jobs.assert_enqueued(shop.send, "eve")
        await enqueue_three(shop)
        await jobs.process_one()
        with pytest.raises(AssertionError) as failed:
            jobs.assert_enqueued(shop.send, "eve", queue="mail")
        with pytest.raises(AssertionError) as unwanted:
            jobs.assert_not_enqueued(shop.send, "bob")
    assert str(empty.value) == "no job send(to='eve') was enqueued; nothing was"
    assert str(failed.value).splitlines() == [
        "no job send(to='eve') in queue 'mail' was enqueued; there are:",
        "  send(to='ada') in queue 'default' (completed)",
        "  send(to='bob', subject='news') in queue 'mail' with delay 60 s (pending)",
        "  ship(parcel={'to': 'zoe', 'weight': 2.5}, on='2030-05-01', notes=['a']) in queue 'default' (pending)",
    ]
    assert str(unwanted.value).splitlines() == [
        "a job send(to='bob') was enqueued; there is:",
        "  send(to='bob', subject='news') in queue 'mail' with delay 60 s (pending)",
    ]


async def test_assert_not_enqueued_passes_if_no_job_matches(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        jobs.assert_not_enqueued()
        await shop.send.enqueue("ada")
        jobs.assert_not_enqueued(shop.fail)
        jobs.assert_not_enqueued(shop.send, "bob")


async def test_assert_enqueued_refuses_impossible_arguments(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        with pytest.raises(BadPayload, match="no argument 'too'"):
            jobs.assert_not_enqueued(shop.send, too="ada")
        with pytest.raises(BadInput, match="instead of using"):
            jobs.assert_not_enqueued(shop.send.using(queue="mail"))
        with pytest.raises(BadInput, match="need the task itself"):
            jobs.assert_not_enqueued("unknown", "ada")


async def test_assert_enqueued_delay_is_the_requested_one_after_a_retry(shop: Shop) -> None:
    async with shop.app.testing() as jobs:
        await shop.fail.using(delay=30).enqueue()
        jobs.clock.advance(seconds=30)
        await jobs.process_one()
        jobs.assert_enqueued(shop.fail, delay=30)


async def test_assert_enqueued_ignores_defaults_that_cannot_be_encoded(shop: Shop) -> None:
    marker: Any = object()

    @shop.app.task
    async def odd(value: Any = marker) -> None: ...

    async with shop.app.testing() as jobs:
        await odd.enqueue()
        jobs.assert_enqueued(odd)
        jobs.assert_not_enqueued(odd, 1)


# arguments are encoded


@pytest.mark.parametrize("mode", ["manual", "inline"])
async def test_harness_enqueue_refuses_arguments_that_cannot_be_encoded(shop: Shop, mode: Any) -> None:
    async with shop.app.testing(mode) as jobs:
        with pytest.raises(BadPayload, match="cannot be sent"):
            await shop.send.enqueue(object())  # type: ignore[arg-type]
        with pytest.raises(BadPayload, match="do not fit"):
            await shop.send.enqueue(7)  # type: ignore[arg-type]
        jobs.assert_not_enqueued()


@pytest.mark.parametrize("mode", ["manual", "inline"])
async def test_harness_task_gets_typed_copies_of_its_arguments(shop: Shop, mode: Any) -> None:
    parcel, notes = Parcel("ada"), ["mine"]
    async with shop.app.testing(mode) as jobs:
        await shop.ship.enqueue(parcel, date(2030, 1, 1), notes)
        await jobs.drain()
    assert shop.ran == [parcel]
    assert shop.ran[0] is not parcel
    assert notes == ["mine"]


# inline: enqueue runs the job


async def test_inline_enqueue_returns_after_the_run(shop: Shop) -> None:
    async with shop.app.testing("inline") as jobs:
        handle = await shop.send.enqueue("ada")
        assert shop.ran == [("ada", "hello")]
        assert await handle.result() == "hello to ada"
        assert jobs.assert_enqueued(shop.send, "ada").state is State.COMPLETED
    assert shop.layers == 1


async def test_inline_enqueue_raises_the_failure_and_keeps_the_job(shop: Shop) -> None:
    async with shop.app.testing("inline") as jobs:
        with pytest.raises(JobUnfinished, match=r"\(fail\) is retrying: ValueError: broken\n(.|\n)*raise ValueError"):
            await shop.fail.enqueue("broken")
        assert [job.attempt for job in jobs.enqueued] == [1]
        assert [job.state for job in await jobs.drain(with_scheduled=True)] == [State.PENDING, State.DEAD]


async def test_inline_error_names_the_state_of_the_job(shop: Shop) -> None:
    @shop.app.task
    async def steer(kind: str) -> Any:
        from mainspring import Cancel, Discard, Snooze

        return {"discard": Discard("useless"), "cancel": Cancel("too late"), "snooze": Snooze(10)}[kind]

    async with shop.app.testing("inline") as jobs:
        with pytest.raises(JobDead, match="useless"):
            await steer.enqueue("discard")
        with pytest.raises(JobCancelled, match="too late"):
            await steer.enqueue("cancel")
        await steer.enqueue("snooze")  # no failure
        assert [job.state for job in jobs.enqueued] == [State.DEAD, State.CANCELLED, State.PENDING]


async def test_inline_without_raises_returns_after_a_failure(shop: Shop) -> None:
    async with shop.app.testing("inline", raises=False):
        handle = await shop.fail.enqueue("broken")
        job = await handle.job()
        assert job.failure is not None
        assert (job.state, job.failure.message) == (State.PENDING, "broken")


async def test_inline_delayed_job_waits_for_its_time(shop: Shop) -> None:
    async with shop.app.testing("inline") as jobs:
        await shop.send.using(delay=60).enqueue("ada")
        assert shop.ran == []
        await jobs.drain(with_scheduled=True)
        assert shop.ran == [("ada", "hello")]


@pytest.mark.parametrize("name", ["order", "invoice"])
async def test_inline_nested_jobs_run_within_their_parent(shop: Shop, name: str) -> None:
    async with shop.app.testing("inline") as jobs:
        await shop.app.tasks[name].enqueue(7)
        assert [(job.task, job.state) for job in jobs.enqueued] == [
            (name, State.COMPLETED),
            ("send", State.COMPLETED),
        ]


async def test_inline_concurrent_callers_get_their_own_runs(shop: Shop) -> None:
    async with shop.app.testing("inline"):
        handles = await asyncio.gather(*(shop.send.enqueue(str(n)) for n in range(20)))
        assert [await handle.result(timeout=0) for handle in handles] == [f"hello to {n}" for n in range(20)]
    assert len(shop.ran) == 20


async def test_inline_caller_waits_for_a_run_of_another_caller(shop: Shop) -> None:
    """Both jobs are enqueued before either is claimed, so the first caller runs the urgent job of the second."""
    began, go = asyncio.Event(), asyncio.Event()

    @shop.app.task
    async def long() -> str:
        began.set()
        await go.wait()
        return "done"

    async with shop.app.testing("inline") as jobs:
        first = asyncio.create_task(shop.send.enqueue("ada"))
        second = asyncio.create_task(long.using(priority=5).enqueue())
        await began.wait()
        await jobs.clock.settle()
        assert shop.ran == [("ada", "hello")]
        assert not second.done()
        go.set()
        assert await (await second).result(timeout=0) == "done"
        await first


async def test_inline_enqueue_many_runs_all_and_raises_the_first_failure(shop: Shop) -> None:
    async with shop.app.testing("inline"):
        with pytest.raises(JobUnfinished, match="ValueError: one"):
            await shop.app.enqueue_many([shop.fail.job("one"), shop.send.job("ada"), shop.fail.job("two")])
    assert shop.ran == ["one", ("ada", "hello"), "two"]


async def test_inline_job_does_not_wait_for_its_own_key(shop: Shop) -> None:
    @shop.app.task(unique_key="only")
    async def only() -> bool:
        return (await only.enqueue()).duplicate

    async with shop.app.testing("inline"), asyncio.timeout(5):
        assert await (await only.enqueue()).result() is True


async def test_inline_refuses_a_task_that_enqueues_itself_for_ever(shop: Shop) -> None:
    @shop.app.task(max_retries=0)
    async def again() -> None:
        await again.enqueue()

    async with shop.app.testing("inline") as jobs:
        with pytest.raises(JobDead, match="inline jobs are nested 50 deep"):
            await again.enqueue()
        assert len(jobs.enqueued) == 50


async def test_inline_events_are_in_order(shop: Shop) -> None:
    told = Recorder(shop.app)
    async with shop.app.testing("inline"):
        await shop.send.enqueue("ada")
    assert [type(event).__name__ for event in told.events] == ["JobEnqueued", "JobStarted", "JobEnded"]


# sync code, and code with its own transaction


def test_harness_sync_has_the_same_methods(shop: Shop) -> None:
    with shop.app.testing() as jobs:
        shop.send.sync.enqueue("ada")
        jobs.assert_enqueued(shop.send, "ada")
        assert jobs.sync.process_one().state is State.COMPLETED
        shop.invoice.sync.enqueue(7)
        assert len(jobs.sync.drain()) == 2
    assert not shop.file.exists()


def test_inline_works_for_sync_code(shop: Shop) -> None:
    with shop.app.testing("inline"):
        assert shop.send.sync.enqueue("ada").result() == "hello to ada"
        shop.invoice.sync.enqueue(7)
        with pytest.raises(JobUnfinished, match="ValueError: no"):
            shop.fail.sync.enqueue()
    assert shop.ran == [("ada", "hello"), ("customer 7", "hello"), "no"]


async def test_harness_stores_a_job_within_a_transaction_at_once(shop: Shop) -> None:
    told = Recorder(shop.app)
    async with shop.app.testing() as jobs:
        await shop.send.using(within=object()).enqueue("ada")
        jobs.assert_enqueued(shop.send, "ada")
    assert len(told.of(JobEnqueued)) == 1


async def test_harness_runs_a_whole_worker(shop: Shop) -> None:
    async with shop.app.testing() as jobs, shop.app.worker():
        handle = await shop.send.using(delay=60).enqueue("ada")
        result: Awaitable[str] = asyncio.create_task(handle.result())
        await jobs.clock.elapse(minutes=2)
        assert await result == "hello to ada"


async def test_harness_leftovers_never_reach_the_real_store(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/production.db")

    @app.task
    async def work() -> None: ...

    async with app.testing():
        await work.enqueue()
    for _ in range(10):
        await asyncio.sleep(0)
    assert list(tmp_path.iterdir()) == []
