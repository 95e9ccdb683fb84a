"""Queue depth: workers store one sample a minute, which delays nothing else."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mainspring import BadInput, Mainspring
from mainspring.events import StoreTrouble
from mainspring.insight.queue_depth import (
    GRIDS,
    KIND,
    MAX_SAMPLE_BYTES,
    MAX_SAMPLED_QUEUES,
    Depth,
    DepthSample,
    DepthSampler,
    SampleGrid,
    history,
    sample_once,
    take_sample,
)
from mainspring.records.queue import Overview, Queue
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore, VirtualClock

MINUTE = timedelta(minutes=1)


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    """An app whose workers poll seldom."""
    return Mainspring(url, clock=clock, poll_interval=30, beat=15, lease=60)


class Seen:
    """A store that counts the calls of each verb, and can block one."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: list[str] = []
        self.held: dict[str, asyncio.Event] = {}

    def clone(self) -> Any:
        inner = self._store.clone()
        return self if inner is self._store else inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not inspect.iscoroutinefunction(value):
            return value

        async def call(*args: Any, **given: Any) -> Any:
            self.calls.append(name)
            if name in self.held:
                await self.held[name].wait()
            return await value(*args, **given)

        return call


def seeing(app: Mainspring) -> Seen:
    found: list[Seen] = []

    def wrap(store: Store) -> Any:
        found.append(Seen(store))
        return found[0]

    app.wrap_store(wrap)
    return found[0]


def work(app: Mainspring, clock: VirtualClock) -> Any:
    @app.task
    async def work(seconds: float = 0) -> None:
        await clock.sleep(seconds)

    return work


async def minutes(app: Mainspring, clock: VirtualClock, start: Any) -> list[int]:
    return [(one.at - start) // MINUTE for one in await app.queues.history()]


async def test_workers_store_one_depth_sample_a_minute_and_only_one_counts(
    app: Mainspring, clock: VirtualClock
) -> None:
    seen, task, start = seeing(app), work(app, clock), clock.now()
    async with app:
        await task.using(queue="mail", delay=3600).enqueue()
        async with app.worker(), app.worker(), app.worker():
            await clock.elapse(minutes=3, seconds=30)
        samples = await app.queues.history()
        assert [(one.at - start) // MINUTE for one in samples] == [0, 1, 2, 3]
    assert {one.total for one in samples} == {Depth(scheduled=1)}
    assert {tuple(one.queues) for one in samples} == {("mail",)}
    # Three workers began at once, on a full minute, and one of them sampled each minute.
    assert seen.calls.count("overview") == seen.calls.count("put_documents") == 4


async def test_depth_history_has_a_gap_while_no_worker_runs(app: Mainspring, clock: VirtualClock) -> None:
    task, start = work(app, clock), clock.now()
    async with app:
        for pause in (10, 0):
            async with app.worker():
                await clock.elapse(minutes=2)
            await task.enqueue()
            clock.advance(minutes=pause)
        assert await minutes(app, clock, start) == [0, 1, 12, 13]


async def test_depth_history_has_a_gap_while_the_store_is_unavailable(clock: VirtualClock) -> None:
    faults = Faults()
    shaky: Any = FaultStore(open_store("memory://", clock=clock), faults)
    app = Mainspring(shaky, clock=clock, poll_interval=30)
    work(app, clock)
    troubles: list[StoreTrouble] = []
    app.events.subscribe(StoreTrouble, troubles.append)
    start = clock.now()
    async with app, app.worker() as worker:
        for verb in ("overview", "put_documents"):
            await clock.elapse(minutes=1)
            faults.fail(verb)
            await clock.elapse(minutes=1)
        await clock.elapse(minutes=1)
        assert await minutes(app, clock, start) == [0, 2, 4]
        assert worker.stuck() == []
    assert faults.injected == ["overview", "put_documents"]
    assert troubles == []


async def test_a_hanging_depth_count_delays_neither_jobs_nor_heartbeats_nor_stop(
    app: Mainspring, clock: VirtualClock
) -> None:
    seen, task = seeing(app), work(app, clock)
    async with app:
        seen.held["overview"] = asyncio.Event()
        async with app.worker() as worker:
            await clock.elapse(minutes=2)
            assert seen.calls.count("overview") == 1
            handle = await task.enqueue()
            await clock.elapse(minutes=1)
            assert (await handle.job()).state == "completed"
            assert [one.info.id for one in await app.workers.list()] == [worker.id]
            (reason,) = worker.stuck()
            assert "its depth loop has waited" in reason
        assert "put_documents" not in seen.calls


class Slow:
    """A store whose counts take a number of seconds."""

    def __init__(self, store: Store, clock: VirtualClock, seconds: float) -> None:
        self.documents, self.put_documents = store.documents, store.put_documents
        self._count, self._clock, self._seconds = store.overview, clock, seconds

    async def overview(self, *, now: Any, finished: bool = True) -> Overview:
        await self._clock.sleep(self._seconds)
        return await self._count(now=now)


@pytest.mark.parametrize(("seconds", "taken"), [(0, [0, 1, 2, 3, 4, 5]), (2, [0, 1, 2, 3, 4, 5]), (9, [0, 4])])
async def test_slow_depth_counts_are_taken_less_often(clock: VirtualClock, seconds: float, taken: list[int]) -> None:
    store, start = open_store("memory://", clock=clock), clock.now()
    await store.open()
    slow: Any = Slow(store, clock, seconds)
    running = asyncio.create_task(DepthSampler(clock).run(slow, phase=0.5))
    await clock.elapse(minutes=6)
    running.cancel()
    samples = await history(store, timedelta(hours=1), None, now=clock.now())
    assert [(one.at - start).total_seconds() for one in samples] == [60 * minute + 10 for minute in taken]


async def test_workers_prune_old_depth_samples(app: Mainspring, clock: VirtualClock) -> None:
    work(app, clock)
    async with app:
        store = await app.connect()
        await sample_once(store, clock.now())
        clock.advance(days=5)
        async with app.worker():
            await clock.elapse(minutes=16)
        names = [one.name for one in await store.documents(KIND, now=clock.now() - timedelta(days=5), limit=1000)]
    assert names
    assert min(names) > GRIDS[1].name(clock.now() - timedelta(days=1))


class Many:
    """A store with a number of queues, each with one job less than the one before."""

    def __init__(self, names: list[str]) -> None:
        self._queues = [Queue(name=name, scheduled=len(names) - n) for n, name in enumerate(names)]

    async def overview(self, *, now: Any, finished: bool = True) -> Overview:
        return Overview({}, self._queues, [])


async def test_a_depth_sample_lists_the_deepest_queues_and_totals_all(clock: VirtualClock) -> None:
    names = [f"q{n:03}" for n in range(MAX_SAMPLED_QUEUES + 50)]
    sample = await take_sample(Many(names[::-1]), clock.now())  # type: ignore[arg-type]
    assert list(sample.queues) == names[50:]
    assert (sample.more, sample.total.scheduled) == (50, sum(range(1, MAX_SAMPLED_QUEUES + 51)))
    assert sample.only("q249") is not None
    assert sample.only("q000") is None  # what it held is not known


async def test_a_depth_sample_with_long_names_is_bounded(clock: VirtualClock) -> None:
    sample = await take_sample(Many([f"{n:03}" + "é" * 197 for n in range(MAX_SAMPLED_QUEUES)]), clock.now())  # type: ignore[arg-type]
    assert MAX_SAMPLE_BYTES / 2 < len(msgspec.json.encode(sample.queues)) <= MAX_SAMPLE_BYTES
    assert sample.more == MAX_SAMPLED_QUEUES - len(sample.queues) > 0
    assert "000" + "é" * 197 in sample.queues


async def test_queue_history_leaves_out_samples_that_may_lack_the_queue(clock: VirtualClock) -> None:
    store = open_store("memory://", clock=clock)
    await store.open()
    await sample_once(store, clock.now())
    (found,) = await store.documents(KIND, [GRIDS[0].name(clock.now())], now=clock.now(), limit=1)
    assert '"more":0' in found.text
    cut = [DepthSample(clock.now(), Depth(1), {"a": Depth(1)}, more=1).only(name) for name in ("a", "b")]
    assert cut == [DepthSample(clock.now(), Depth(1), {"a": Depth(1)}), None]


@pytest.mark.parametrize("window", [timedelta(0), timedelta(days=4, seconds=1), timedelta(days=400)])
async def test_a_depth_window_beyond_retention_is_refused(app: Mainspring, window: timedelta) -> None:
    async with app:
        with pytest.raises(BadInput, match="the depth of queues is kept for 4 days"):
            await app.queues.history(window)


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.label)
def test_a_sample_grid_names_each_step_once_in_order(grid: SampleGrid, clock: VirtualClock) -> None:
    now = clock.now() + timedelta(minutes=7, seconds=8)
    names = grid.names(now - grid.retention, now)
    assert names == sorted(set(names))
    assert len(names) == grid.retention // grid.step + 1
    assert (names[0], names[-1]) == (grid.name(now - grid.retention), grid.name(now))


async def test_a_depth_sample_of_a_later_release_is_decoded(clock: VirtualClock) -> None:
    store = open_store("memory://", clock=clock)
    await store.open()
    await sample_once(store, clock.now())
    (known,) = await store.documents(KIND, [GRIDS[0].name(clock.now())], now=clock.now(), limit=1)
    newer = replace(known, text=known.text.replace('"more":0', '"more":0,"news":[1]'), revision=2)
    assert await store.put_documents([newer], now=clock.now()) == [True]
    assert len(await history(store, MINUTE, None, now=clock.now())) == 1
