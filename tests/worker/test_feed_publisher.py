"""The feed publisher: publishes everything in order while the feed is watched, and nothing otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring import Context, Mainspring, Retention, StoreUnavailable, every
from mainspring.events import JobEnded, JobEnqueued, JobsPruned, JobStarted, WorkerStarted
from mainspring.feed.event import DROPPED, FeedEvent, decode
from mainspring.feed.publisher import BATCH_EVENTS, MAX_WAITING_EVENTS
from mainspring.metrics.timed_store import measure
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock


async def watch(app: Mainspring, clock: VirtualClock, seconds: float = 60) -> None:
    now = clock.now()
    await (await app.connect()).news(after=0, limit=0, until=now + timedelta(seconds=seconds))


async def published(app: Mainspring) -> list[FeedEvent]:
    feed = await (await app.connect()).news(after=0, limit=100_000)
    return [notice for one in feed.news if (notice := decode(one.text)) is not None]


async def types(app: Mainspring) -> list[str]:
    return [notice.type for notice in await published(app)]


def tasks_of(app: Mainspring) -> dict[str, Any]:
    @app.task(max_retries=0)
    async def work(ctx: Context, fail: bool = False) -> None:
        if fail:
            raise ValueError("password=hunter2")
        ctx.log.info("at work")
        ctx.progress(1, 2)

    return {"work": work}


async def test_a_worker_publishes_events_while_the_feed_is_watched(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        async with app.worker() as worker:
            handle = await work.enqueue()
            await clock.elapse(seconds=1)
        notices = await published(app)
    assert [notice.type for notice in notices] == [
        "worker.started", "job.enqueued", "job.started", "job.log", "job.progress", "job.completed", "worker.stopping",
        "worker.stopped",
    ]  # fmt: skip
    assert {notice.job.id for notice in notices if notice.job} == {handle.id}
    assert {notice.job.worker for notice in notices if notice.job and notice.type != "job.enqueued"} == {worker.id}


async def test_no_event_is_built_while_the_feed_is_not_watched(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    async with app:
        async with app.worker():
            await work.enqueue()
            await clock.elapse(seconds=20)
            assert [app.events.wants(kind) for kind in (JobEnqueued, JobStarted, JobEnded)] == [False] * 3
        feed = await (await app.connect()).news(after=0, limit=10)
    assert (feed.news, feed.last) == ([], 0)


async def test_a_worker_learns_of_a_watch_within_a_heartbeat(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    async with app, app.worker():
        await clock.elapse(seconds=7)
        await watch(app, clock)
        await clock.elapse(seconds=5)
        assert app.events.wants(JobStarted)
        await work.enqueue()
        await clock.elapse(seconds=1)
        assert "job.completed" in await types(app)


async def test_the_publisher_stops_when_the_watch_ends(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    async with app, app.worker():
        await watch(app, clock, 30)
        await clock.elapse(seconds=29)
        assert app.events.wants(JobStarted)
        await clock.elapse(seconds=2)
        assert not app.events.wants(JobStarted)
        before = await types(app)
        await work.enqueue()
        await clock.elapse(seconds=1)
        assert await types(app) == before


async def test_a_delayed_answer_does_not_shorten_the_watch(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        app.herald.watch_until(clock.now() + timedelta(seconds=60))
        app.herald.watch_until(clock.now() + timedelta(seconds=1))
        app.herald.watch_until(None)
        await clock.elapse(seconds=30)
        assert app.events.wants(JobStarted)


async def test_a_watch_does_not_slow_retention_down(app: Mainspring, clock: VirtualClock) -> None:
    tasks_of(app)
    async with app, app.worker():
        await watch(app, clock)
        await clock.elapse(seconds=5)
        assert app.events.wants(WorkerStarted)
        assert not app.events.wants(JobsPruned)


async def test_a_process_that_only_enqueues_publishes_too(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    other = Mainspring(await app.connect(), clock=clock)
    async with app:
        await watch(app, clock)
        handle = await other.enqueue("work", fail=False)
        await clock.elapse(seconds=1)
        await other.jobs.cancel(handle.id)
        await other.queues.pause("mail")
        await clock.elapse(seconds=1)
        assert await types(app) == ["job.enqueued", "job.changed", "queue.paused"]
    assert work.name == "work"


async def test_a_process_that_only_enqueues_polls_the_watch_in_the_background(clock: VirtualClock) -> None:
    looks: list[datetime] = []

    class Counting(MemoryStore):
        async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
            looks.append(clock.now())
            await clock.sleep(3600)  # a store that does not answer in time
            return None

    app = Mainspring(Counting(clock), clock=clock)
    work = tasks_of(app)["work"]
    async with app:
        for _ in range(30):
            await work.enqueue()
            await clock.elapse(seconds=1)
        assert len(looks) == 1


async def test_watch_polls_are_rare(clock: VirtualClock) -> None:
    looks: list[datetime] = []

    class Counting(MemoryStore):
        async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
            looks.append(clock.now())
            return await super().publish(news, now=now)

    app = Mainspring(Counting(clock), clock=clock)
    work = tasks_of(app)["work"]
    async with app:
        for _ in range(300):
            await work.enqueue()
            await clock.elapse(seconds=0.1)
        assert 5 <= len(looks) <= 7
        looks.clear()
        async with app.worker():  # its beats tell
            for _ in range(300):
                await work.enqueue()
                await clock.elapse(seconds=0.1)
        assert len(looks) <= 1


async def test_events_of_a_short_lived_process_are_published_before_it_closes(clock: VirtualClock) -> None:
    store = MemoryStore(clock)
    server = Mainspring(store, clock=clock)
    await watch(server, clock)
    app = Mainspring(store.clone(), clock=clock)
    work = tasks_of(app)["work"]
    await app.connect()
    await work.enqueue()
    await app.herald.close()
    assert await types(server) == ["job.enqueued"]


async def test_an_app_with_metrics_publishes_its_events(clock: VirtualClock) -> None:
    app = Mainspring(MemoryStore(clock), clock=clock)
    work = tasks_of(app)["work"]
    measure(app)  # as `mainspring dev`, `server` and `worker --metrics` do: the store is wrapped
    async with app:
        await watch(app, clock)
        async with app.worker():
            await work.enqueue()
            await clock.elapse(seconds=1)
        assert (await types(app))[:3] == ["worker.started", "job.enqueued", "job.started"]


async def test_a_publisher_left_over_from_a_test_does_not_reach_the_restored_store(clock: VirtualClock) -> None:
    app = Mainspring(MemoryStore(clock), clock=clock)
    work = tasks_of(app)["work"]
    async with app.testing():
        publisher = app.herald
        publisher.watch_until(app.clock.now() + timedelta(days=1))
        await work.enqueue()
    async with app:
        await watch(app, clock)
        publisher.watch_until(clock.now() + timedelta(days=1))
        await app.queues.pause("mail")
        await clock.elapse(seconds=1)
        assert await types(app) == ["queue.paused"]


async def test_operator_actions_are_published(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        async with app.worker() as worker:
            await app.schedules.create("daily", every(days=1), work)
            await app.schedules.pause("daily", "why not")
            await app.schedules.resume("daily")
            await app.schedules.resume("daily")
            await app.schedules.trigger("daily")
            await app.schedules.delete("daily")
            await app.workers.drain(worker.id)
            await app.queues.pause("mail")
            await app.queues.resume("mail")
            await clock.elapse(seconds=1)
        notices = await published(app)
    kinds = {"schedule.changed", "schedule.fired", "worker.changed", "queue.paused", "queue.resumed"}
    assert [(notice.type, notice.action) for notice in notices if notice.type in kinds] == [
        ("schedule.changed", "create"), ("schedule.changed", "pause"), ("schedule.changed", "resume"),
        ("schedule.fired", None), ("schedule.changed", "delete"), ("worker.changed", "drain"),
        ("queue.paused", None), ("queue.resumed", None),
    ]  # fmt: skip


async def test_pruning_is_published_as_a_count(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(retention=Retention(0, timedelta(0)))
    async def work() -> None: ...

    async with app:
        await app.enqueue_many(work.job() for _ in range(3))
        await app.drain()
        await watch(app, clock)
        clock.advance(seconds=1)
        async with app.worker():
            await app.prune()
            await clock.elapse(seconds=1)
        (pruned,) = [notice for notice in await published(app) if notice.type == "job.pruned"]
    assert pruned.count == 3


class Stubborn(MemoryStore):
    """Fails to publish until it is willing."""

    willing = False

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.sizes: list[int] = []

    async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
        if not self.willing:
            raise StoreUnavailable("not now")
        self.sizes.append(len(news))
        return await super().publish(news, now=now)


async def test_events_are_published_after_the_store_recovers(clock: VirtualClock) -> None:
    store = Stubborn(clock)
    app = Mainspring(store, clock=clock)
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        async with app.worker():
            handle = await work.enqueue()
            await clock.elapse(seconds=5)
            assert (await handle.job()).state == "completed"
            assert await types(app) == []
            store.willing = True
            await clock.elapse(seconds=2)
            assert (await types(app))[-1] == "job.completed"


async def test_too_many_waiting_events_drop_the_oldest(clock: VirtualClock) -> None:
    store = Stubborn(clock)
    app = Mainspring(store, clock=clock)
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        app.herald.watch_until(clock.now() + timedelta(seconds=60))
        await app.enqueue_many(work.job() for _ in range(MAX_WAITING_EVENTS + 20))
        last = (await app.enqueue_many([work.job()]))[0]
        store.willing = True
        await clock.elapse(seconds=5)
        notices = await published(app)
    assert (notices[0].type, notices[0].count) == (DROPPED, 21)
    assert len(notices) == MAX_WAITING_EVENTS + 1
    assert notices[-1].job is not None
    assert notices[-1].job.id == last.id
    assert max(store.sizes) <= BATCH_EVENTS + 1


async def test_a_hanging_store_does_not_delay_a_stopping_worker(clock: VirtualClock) -> None:
    class Hanging(MemoryStore):
        async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
            await asyncio.Event().wait()
            return None

    app = Mainspring(Hanging(clock), clock=clock)
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        async with app.worker():
            handle = await work.enqueue()
            await clock.elapse(seconds=1)
        assert (await handle.job()).state == "completed"


async def test_an_unexpected_feed_error_does_not_affect_jobs_or_health(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MemoryStore):
        async def publish(self, news: Sequence[str], *, now: datetime) -> datetime | None:
            raise RuntimeError("bug")

    app = Mainspring(Broken(clock), clock=clock)
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        async with app.worker():
            handle = await work.enqueue()
            await clock.elapse(seconds=1)
            assert (await handle.job()).state == "completed"
            assert (await app.health()).live
    assert "the live feed gets no more events of this process" in caplog.text


async def test_several_workers_of_one_app_publish_each_event_once(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        async with app.worker(), app.worker():
            await app.enqueue_many(work.job() for _ in range(10))
            await clock.elapse(seconds=1)
        told = await types(app)
    assert (told.count("job.started"), told.count("job.completed"), told.count("worker.stopped")) == (10, 10, 2)


async def test_secrets_in_published_errors_are_masked(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    async with app:
        await watch(app, clock)
        async with app.worker():
            await work.enqueue(fail=True)
            await clock.elapse(seconds=1)
        (dead,) = [notice for notice in await published(app) if notice.type == "job.dead"]
    assert dead.error is not None
    assert dead.error.message == "password=***"


async def test_a_reopened_app_publishes_again(app: Mainspring, clock: VirtualClock) -> None:
    work = tasks_of(app)["work"]
    for _ in range(2):
        async with app:
            await watch(app, clock)
            clock.advance(seconds=6)
            before = (await types(app)).count("job.enqueued")
            await work.enqueue()
            await clock.elapse(seconds=1)
            assert (await types(app)).count("job.enqueued") == before + 1


def test_an_event_loop_that_ends_leaves_no_publisher_task(clock: VirtualClock, recwarn: Any) -> None:
    app = Mainspring(MemoryStore(clock), clock=clock)

    async def begin() -> None:
        await app.connect()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()
    asyncio.run(once_more(app, clock))
    assert [str(warning.message) for warning in recwarn] == []


async def once_more(app: Mainspring, clock: VirtualClock) -> None:
    await watch(app, clock)
    app.herald.watch_until(clock.now() + timedelta(seconds=60))
    await app.queues.pause("mail")
    await clock.elapse(seconds=1)
    assert await types(app) == ["queue.paused"]
    await app.close()
