"""Cluster metrics read from the store, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from mainspring import Breaker, Context, Discard, Mainspring, Retry, StoreUnavailable, every
from mainspring.counters import MAX_LABEL_SETS, OTHER_LABEL
from mainspring.metrics import exposition, snapshot
from mainspring.metrics.cluster import ClusterCollector, ClusterMetrics
from mainspring.metrics.families import FoldedLabels
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import Faults, FaultStore, VirtualClock

Samples = dict[tuple[str, ...], float]


def samples(families: Iterable[Metric]) -> Samples:
    """As Prometheus reads them: name, and label values in the order of the labels' names."""
    body, _ = exposition(families)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


async def scraped(app: Mainspring) -> Samples:
    return samples(await ClusterMetrics(app).families())


async def test_runs_are_counted_by_job_and_status(app: Mainspring) -> None:
    @app.task(max_retries=1)
    async def work(how: str) -> None:
        if how == "fail":
            raise ValueError(how)
        if how == "discard":
            raise Discard("useless")

    for how in ("well", "well", "discard", "fail"):
        await work.enqueue(how)
    await app.drain()
    found = await scraped(app)
    statuses = {labels[2]: value for labels, value in found.items() if labels[0] == "job_execution_total"}
    ended = {"completed": 2, "partial": 0, "failed": 1, "discarded": 1, "timeout": 0, "cancelled": 0, "crashed": 0}
    assert statuses == ended
    assert found["mainspring_job_retries_total", "work"] == 1
    assert found["mainspring_job_deaths_total", "work"] == 1
    assert found["mainspring_jobs", "dead"] == 1
    assert found["mainspring_jobs", "retrying"] == 1


async def test_durations_are_a_histogram(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def nap(seconds: float) -> None:
        await clock.sleep(seconds)

    async with app.worker():
        for seconds in (0.002, 0.3, 0.3, 10):
            await nap.enqueue(seconds)
        await clock.elapse(seconds=12)
        found = await scraped(app)
    name = "job_execution_duration_seconds"
    buckets = {labels[2]: value for labels, value in found.items() if labels[0] == f"{name}_bucket"}
    assert (buckets["0.001024"], buckets["0.004096"], buckets["0.262144"], buckets["0.524288"]) == (0, 1, 1, 3)
    assert (buckets["8.388608"], buckets["16.777216"], buckets["+Inf"]) == (3, 4, 4)
    assert found[f"{name}_count", "nap"] == 4
    assert found[f"{name}_sum", "nap"] == pytest.approx(10.602, abs=0.01)


async def test_counters_only_grow(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context, well: bool) -> None:
        ctx.items(success=2)
        if not well:
            raise ValueError

    app.schedule("often", every(7).minutes, work, kwargs={"well": True})
    before: Samples = {}
    for step in range(12):
        await work.enqueue(step % 3 > 0)
        clock.advance(minutes=30)
        await app.drain()
        now = await scraped(app)
        monotonic = [key for key in before if key[0].endswith(("_total", "_count", "_bucket", "_sum"))]
        assert monotonic or not before
        assert {key: (before[key], now[key]) for key in monotonic if now[key] < before[key]} == {}
        before = now


async def test_the_last_success_metric_ignores_failed_runs(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(well: bool) -> None:
        if not well:
            raise ValueError

    await work.enqueue(True)
    await app.drain()
    then = clock.now()
    clock.advance(minutes=5)
    await work.enqueue(False)
    await app.drain()
    assert (await scraped(app))["job_last_success_timestamp_seconds", "work"] == then.timestamp()


async def test_processed_items_are_counted_by_status(app: Mainspring) -> None:
    @app.task
    async def sync(ctx: Context) -> None:
        ctx.items(success=7, failed=2)
        ctx.items(success=1, skipped=3)

    for _ in range(2):
        await sync.enqueue()
    await app.drain()
    found = await scraped(app)
    items = {labels[2]: value for labels, value in found.items() if labels[0] == "job_items_processed_total"}
    assert items == {"success": 16, "failed": 4, "skipped": 6}


async def test_queues_show_their_jobs_and_the_oldest_of_them(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None: ...

    await work.using(queue="mail").enqueue()
    clock.advance(seconds=30)
    await work.using(queue="mail").enqueue()
    await work.using(queue="later", delay=60).enqueue()
    await app.queues.pause("mail")
    clock.advance(seconds=10)
    found = await scraped(app)
    assert found["mainspring_queue_jobs", "mail", "pending"] == 2
    assert found["mainspring_queue_jobs", "later", "scheduled"] == 1
    assert found["mainspring_queue_oldest_seconds", "mail"] == 40
    assert found["mainspring_queue_oldest_seconds", "later"] == 0
    assert (found["mainspring_queue_paused", "mail"], found["mainspring_queue_paused", "later"]) == (1, 0)


async def test_a_retry_that_is_due_counts_as_waiting(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None:
        raise Retry(after=10)

    await work.enqueue()
    await app.drain()
    assert (await scraped(app))["mainspring_queue_oldest_seconds", "default"] == 0
    clock.advance(seconds=25)
    assert (await scraped(app))["mainspring_queue_oldest_seconds", "default"] == 15


async def test_workers_slots_and_running_jobs_are_counted(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def long() -> None:
        await clock.sleep(7)

    async with app.worker(concurrency=3), app.worker(concurrency=4):
        await long.enqueue()
        await clock.elapse(seconds=6)
        found = await scraped(app)
        assert (found["mainspring_workers",], found["mainspring_slots",], found["mainspring_running",]) == (2, 7, 1)
        await clock.elapse(seconds=2)
    assert (await scraped(app))["mainspring_workers",] == 0


async def test_schedules_show_ticks_and_lateness(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None: ...

    app.schedule("hourly", every(1).hours, work, catch_up="skip", grace=60)
    await app.drain()
    for _ in range(2):
        clock.advance(hours=1)
        await app.drain()
    found = await scraped(app)
    assert found["mainspring_schedule_ticks_total", "hourly", "fired"] == 2
    assert found["mainspring_schedule_runs_total", "hourly", "completed"] == 2
    assert found["mainspring_schedule_overdue_seconds", "hourly"] == 0
    clock.advance(hours=3, seconds=10)
    assert (await scraped(app))["mainspring_schedule_overdue_seconds", "hourly"] == 2 * 3600 + 10
    await app.drain()
    found = await scraped(app)
    assert found["mainspring_schedule_ticks_total", "hourly", "missed"] == 2
    assert found["mainspring_schedule_ticks_total", "hourly", "fired"] == 3
    assert found["mainspring_schedule_lateness_seconds", "hourly"] == 10


async def test_a_paused_schedule_is_not_overdue(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None: ...

    await app.schedules.create("hourly", every(1).hours, work)
    await app.schedules.pause("hourly")
    clock.advance(hours=9)
    found = await scraped(app)
    assert found["mainspring_schedule_paused", "hourly"] == 1
    assert found["mainspring_schedule_overdue_seconds", "hourly"] == 0


async def test_leaders_and_open_circuits_are_shown(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(breaker=Breaker(failures=2, cooldown=600), max_retries=0)
    async def broken() -> None:
        raise OSError("no route")

    for _ in range(2):
        await broken.enqueue()
    await app.drain()
    async with app.leader("reindex") as leader:
        await clock.elapse(seconds=1)
        found = await scraped(app)
        assert found["mainspring_leader", leader.holder, "reindex"] == 1
        assert found["mainspring_leader_term", "reindex"] == 1
        assert found["mainspring_circuit_open", "broken"] == 1
    assert not any(key[0] == "mainspring_leader" for key in await scraped(app))
    clock.advance(minutes=11)
    assert (await scraped(app))["mainspring_circuit_open", "broken"] == 0


async def test_open_flows_beyond_a_limit_are_estimated(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "PAGE_JOBS", 5)
    monkeypatch.setattr(snapshot, "MAX_READ_FLOWS", 10)

    @app.task
    async def wait() -> None: ...

    @app.flow
    def old() -> None:
        wait.using(delay=3600).step()

    @app.flow
    def new() -> None:
        wait.using(delay=3600).step()

    async with app:
        for flow, count in ((old, 15), (new, 10)):
            await app.enqueue_many(flow.job() for _ in range(count))
            await app.drain()
        told = (await scraped(app)).items()
        open_flows = {labels[1]: count for labels, count in told if labels[0] == "mainspring_flows_open"}
        assert open_flows == {"new": 25}  # estimated from the newest ten


async def test_an_empty_store_has_every_metric(app: Mainspring) -> None:
    names = {family.name for family in await ClusterMetrics(app).families()}
    assert len(names) > 25
    assert {"job_execution", "mainspring_queue_jobs", "mainspring_schedule_ticks", "mainspring_leader"} <= names


async def test_labels_are_bounded_and_further_queues_are_counted_together(app: Mainspring) -> None:
    @app.task
    async def work() -> None: ...

    jobs = [work.using(queue=f"q{n:03}").job() for n in range(MAX_LABEL_SETS + 5)]
    await app.enqueue_many(jobs)
    found = await scraped(app)
    queues = {labels[1] for labels in found if labels[0] == "mainspring_queue_jobs"}
    assert len(queues) == MAX_LABEL_SETS + 1
    assert found["mainspring_queue_jobs", OTHER_LABEL, "pending"] == 5
    assert found["mainspring_metrics_folded", "queue"] == 5


def test_the_first_names_have_labels_of_their_own() -> None:
    fold = FoldedLabels(["a", "b", "a", "c", "d"], limit=2)
    assert [fold(name) for name in "abcd"] == ["a", "b", OTHER_LABEL, OTHER_LABEL]
    assert fold.folded == 2


# the scrape itself


class Counted(FaultStore):
    """Counts reads of the store."""

    looks = 0

    def __getattr__(self, name: str) -> Any:
        Counted.looks += name == "overview"
        return super().__getattr__(name)


@pytest.fixture
def faulty(clock: VirtualClock) -> tuple[Mainspring, Faults]:
    app, faults = Mainspring("memory://", clock=clock), Faults()
    Counted.looks = 0
    app.wrap_store(lambda store: Counted(store, faults))  # type: ignore[arg-type, return-value]
    return app, faults


async def test_concurrent_scrapes_read_the_store_once(faulty: tuple[Mainspring, Faults], clock: VirtualClock) -> None:
    cluster = ClusterMetrics(faulty[0], max_age=2)
    await asyncio.gather(*(cluster.families() for _ in range(5)))
    clock.advance(seconds=1)
    await cluster.families()
    assert Counted.looks == 1
    clock.advance(seconds=1)
    await cluster.families()
    assert Counted.looks == 2


async def test_a_failing_store_is_reported_without_old_figures(
    faulty: tuple[Mainspring, Faults], clock: VirtualClock
) -> None:
    app, faults = faulty
    cluster = ClusterMetrics(app, max_age=2)
    assert samples(await cluster.families())["mainspring_store_up",] == 1
    clock.advance(seconds=5)
    faults.fail("overview", error=lambda: StoreUnavailable("gone"))
    down = samples(await cluster.families())
    assert down["mainspring_store_up",] == 0
    assert {name for name, *_ in down} == {"mainspring_store_up"}
    assert samples(await cluster.families())["mainspring_store_up",] == 1


class Hung(MemoryStore):
    """A store that takes its time to count."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.answers = asyncio.Event()

    async def overview(self, **given: Any) -> Any:
        await self.answers.wait()
        return await super().overview(**given)


async def test_a_store_that_hangs_does_not_hang_the_scrape(clock: VirtualClock) -> None:
    store = Hung(clock)
    cluster = ClusterMetrics(Mainspring(store, clock=clock), deadline=0.01)
    assert samples(await cluster.families()) == {("mainspring_store_up",): 0}
    store.answers.set()
    assert samples(await cluster.families())["mainspring_store_up",] == 1


async def test_a_slow_store_has_its_last_figures_reported_with_their_age(clock: VirtualClock) -> None:
    store = Hung(clock)
    cluster = ClusterMetrics(Mainspring(store, clock=clock), deadline=0.01)
    store.answers.set()
    await cluster.families()
    store.answers.clear()
    clock.advance(seconds=30)
    found = samples(await cluster.families())
    assert (found["mainspring_store_up",], found["mainspring_scrape_age_seconds",]) == (1, 30)
    assert ("mainspring_jobs", "dead") in found
    clock.advance(seconds=31)
    assert samples(await cluster.families()) == {("mainspring_store_up",): 0}


async def test_a_store_that_takes_long_is_asked_less_often(clock: VirtualClock) -> None:
    store = Hung(clock)
    cluster = ClusterMetrics(Mainspring(store, clock=clock), deadline=0.01)
    await cluster.families()
    clock.advance(seconds=3)
    store.answers.set()
    await cluster.families()
    store.answers.clear()
    clock.advance(seconds=29)
    assert samples(await cluster.families())["mainspring_scrape_age_seconds",] == 29
    assert cluster._reading is None
    clock.advance(seconds=1)
    await cluster.families()
    assert cluster._reading is not None


def test_the_cluster_collector_can_be_registered_in_another_registry() -> None:
    app = Mainspring("memory://")
    registry = CollectorRegistry()
    registry.register(ClusterCollector(app))
    assert registry.get_sample_value("mainspring_store_up") == 1
    assert registry.get_sample_value("mainspring_jobs", {"state": "dead"}) == 0
    app.sync.close()


async def test_prometheus_gets_the_format_it_accepts(app: Mainspring) -> None:
    families = await ClusterMetrics(app).families()
    plain, kind = exposition(families)
    assert kind.startswith("text/plain")
    strict, kind = exposition(families, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert strict.endswith(b"# EOF\n")
    assert plain.count(b"# HELP") == strict.count(b"# HELP")


def test_schedules_are_read_in_pages(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.metrics import snapshot

    monkeypatch.setattr(snapshot, "PAGE_SCHEDULES", 3)
    app = Mainspring("memory://", clock=clock)

    @app.task
    async def work() -> None: ...

    async def look() -> Samples:
        for n in range(8):
            await app.schedules.create(f"s{n}", every(1).hours, work)
        return await scraped(app)

    found = asyncio.run(look())
    assert sum(key[0] == "mainspring_schedule_paused" for key in found) == 8
