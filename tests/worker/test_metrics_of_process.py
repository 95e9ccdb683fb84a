"""Process metrics: store calls, batch sizes, the lag of jobs and of the event loop; and their endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from mainspring import BadInput, Context, Mainspring, SignalRefused, StoreUnavailable, signal
from mainspring.clock import EPOCH
from mainspring.counters import Counters, CounterSnapshot
from mainspring.health import Health
from mainspring.metrics import endpoint, exposition
from mainspring.metrics.cluster import ClusterMetrics
from mainspring.metrics.endpoint import MAX_HEAD_BYTES, Endpoint
from mainspring.metrics.pages import pages
from mainspring.metrics.process import KINDS, families, watch_loop
from mainspring.metrics.timed_store import TimedStore, measure
from mainspring.testing import Faults, FaultStore, VirtualClock

Samples = dict[tuple[str, ...], float]


def samples(found: Iterable[Metric]) -> Samples:
    body, _ = exposition(found)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def shown(meter: Counters) -> Samples:
    return samples(families(meter.whole()))


async def test_calls_of_the_store_are_timed_and_batches_counted(app: Mainspring, clock: VirtualClock) -> None:
    meter = measure(app)

    @app.task
    async def work() -> None: ...

    await app.enqueue_many(work.using(queue="mail").job() for _ in range(5))
    clock.advance(seconds=3)
    await app.drain()
    found = shown(meter)
    assert found["mainspring_store_seconds_count", "enqueue"] == 1
    assert found["mainspring_finish_batch_size_sum",] == 5
    assert (found["mainspring_claim_batch_size_sum",], found["mainspring_claim_batch_size_count",]) == (5, 1)
    sizes = {labels[1]: count for labels, count in found.items() if labels[0] == "mainspring_claim_batch_size_bucket"}
    assert (sizes["4.0"], sizes["8.0"]) == (0, 1)
    assert found["mainspring_job_lag_seconds_count", "mail"] == 5
    assert found["mainspring_job_lag_seconds_sum", "mail"] == 15


async def test_the_job_lag_metric_equals_the_waited_time_of_the_statistics(
    app: Mainspring, clock: VirtualClock
) -> None:
    meter = measure(app)

    @app.task
    async def work() -> None: ...

    for seconds in (0, 2, -3600):
        await work.using(run_at=clock.now() + timedelta(seconds=seconds)).enqueue()
    clock.advance(seconds=5)
    await app.drain()
    (tally,) = await (await app.connect()).tallies("ever", since=EPOCH)
    assert shown(meter)["mainspring_job_lag_seconds_sum", "default"] == tally.sums.waited / 1e6 == 13


async def test_a_failed_call_is_counted_by_verb_and_kind_and_raised(clock: VirtualClock) -> None:
    app, faults = Mainspring("memory://", clock=clock), Faults()
    app.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type, return-value]
    meter = measure(app)
    faults.fail("overview", error=lambda: StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable):
        await app.stats()
    await app.stats()
    found = shown(meter)
    assert found["mainspring_store_errors_total", "StoreUnavailable", "overview"] == 1
    assert found["mainspring_store_seconds_count", "overview"] == 2


async def test_expired_jobs_are_counted(app: Mainspring, clock: VirtualClock) -> None:
    meter = measure(app)

    @app.task
    async def work() -> None: ...

    for _ in range(3):
        await work.using(expires=10).enqueue()
    clock.advance(seconds=20)
    await app.drain()
    assert shown(meter)["mainspring_jobs_expired_total",] == 3


async def test_lost_runs_and_leaks_are_counted(app: Mainspring) -> None:
    from mainspring.events import JobLost, SlotLeaked

    meter = measure(app)

    @app.task
    async def work() -> None: ...

    job = await work.enqueue()
    record = await app.jobs.get(job.id)
    app.events.emit(JobLost(at=app.clock.now(), job=record))
    app.events.emit(SlotLeaked(at=app.clock.now(), job=record, stack=""))
    found = shown(meter)
    assert (found["mainspring_jobs_lost_total",], found["mainspring_leaks_total",]) == (1, 1)


async def test_steps_are_counted_when_their_flow_has_ended(app: Mainspring) -> None:
    meter = measure(app)

    @app.task(max_retries=0)
    async def check(n: int) -> int:
        return 1 // n

    @app.flow
    def flow(n: int) -> None:
        done = check.step(n)
        check.using(when=done > 0, step="again").map([done, 1])

    async with app:
        good, bad = await flow.enqueue(1), await flow.enqueue(0)
        await app.drain()
        await app.flows.retry(bad.id)
        await app.drain()
        assert [(await run.job()).state for run in (good, bad)] == ["completed", "dead"]
    found = {labels: count for labels, count in shown(meter).items() if labels[0] == "mainspring_flow_steps_total"}
    assert found == {
        ("mainspring_flow_steps_total", "flow", "completed", "check"): 1,
        ("mainspring_flow_steps_total", "flow", "dead", "check"): 2,
        ("mainspring_flow_steps_total", "flow", "completed", "again"): 1,
        ("mainspring_flow_steps_total", "flow", "not_run", "again"): 2,
    }


async def test_durable_steps_and_chunks_of_output_are_counted(app: Mainspring) -> None:
    meter = measure(app)

    @app.task
    async def tell(ctx: Context, n: int) -> None:
        for k in range(n):
            await ctx.step(str, k)
            await ctx.write("word")

    @app.task
    async def quiet(ctx: Context) -> None:
        ctx.log.info("a line")

    async with app:
        for n in (3, 4):
            await tell.enqueue(n)
        await quiet.enqueue()
        await app.drain()
    names = ("mainspring_durable_steps_total", "mainspring_output_chunks_total")
    found = {labels: count for labels, count in shown(meter).items() if labels[0] in names}
    assert found == {(name, "tell"): 7 for name in names}


async def test_signals_are_counted(app: Mainspring) -> None:
    meter = measure(app)

    @app.flow
    def ask() -> int:
        return signal("size", int)

    async with app:
        run = await ask.enqueue()
        await app.drain()
        await run.signal("size", 5)
        for name in ("size", "sise"):
            with pytest.raises(SignalRefused):
                await run.signal(name, 6)
    found = {labels: count for labels, count in shown(meter).items() if labels[0] == "mainspring_signals_total"}
    assert found == {
        ("mainspring_signals_total", "ask", "size", "given"): 1,
        ("mainspring_signals_total", "ask", "size", "twice"): 1,
        ("mainspring_signals_total", "ask", "sise", "unknown"): 1,
    }


async def test_event_loop_lag_is_measured(clock: VirtualClock) -> None:
    meter = Counters()
    task = asyncio.create_task(watch_loop(meter, clock))
    await clock.elapse(seconds=1)
    clock.advance(seconds=5)  # it wanted to wake after one
    await clock.settle()
    task.cancel()
    found = shown(meter)
    assert found["mainspring_loop_lag_seconds_count",] == 2
    assert found["mainspring_loop_lag_seconds_sum",] == 4


async def test_cloned_stores_are_timed_too(app: Mainspring) -> None:
    meter = measure(app)
    store = (await app.connect()).clone()
    await store.open()
    await store.overview(now=app.clock.now())
    assert shown(meter)["mainspring_store_seconds_count", "overview"] == 1
    await store.close()


async def test_verbs_of_every_kind_are_timed(app: Mainspring) -> None:
    meter = measure(app)
    store = await app.connect()
    before = dict(shown(meter))
    await store.documents("x", now=app.clock.now(), limit=1)
    await store.terms(now=app.clock.now())
    verbs = {labels[1] for labels in set(shown(meter)) - set(before) if labels[0] == "mainspring_store_seconds_count"}
    assert verbs >= {"documents", "terms"}


async def test_without_metrics_the_store_is_not_timed(app: Mainspring) -> None:
    assert not isinstance(await app.connect(), TimedStore)


async def test_metrics_cannot_be_added_to_an_open_app(app: Mainspring) -> None:
    await app.connect()
    with pytest.raises(BadInput, match="before"):
        measure(app)


async def test_cluster_and_process_metrics_have_distinct_names(app: Mainspring) -> None:
    together = [*await ClusterMetrics(app).families(), *families(CounterSnapshot())]
    names = [family.name for family in together]
    assert sorted(set(names)) == sorted(names)
    strict, _ = exposition(together, "application/openmetrics-text; version=1.0.0")
    assert strict.endswith(b"# EOF\n")


def test_metrics_without_samples_are_reported() -> None:
    assert {name.removesuffix("_total") for name in KINDS} == {family.name for family in families(CounterSnapshot())}
    assert shown(Counters())["mainspring_jobs_lost_total",] == 0


# the endpoint


async def ask(port: int, request: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    try:
        answer = (await reader.read()).decode()
    except ConnectionResetError:  # it does not read to the end what is no request
        return 400, "reset"
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n", 200),
        (b"GET /metrics?name[]=x HTTP/1.1\r\n\r\n", 200),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 200),
        (b"GET /metrics/cluster HTTP/1.1\r\n\r\n", 200),
        (b"GET /health/live HTTP/1.1\r\n\r\n", 200),
        (b"GET /health/ready HTTP/1.1\r\n\r\n", 503),
        (b"GET /etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\r\n\r\n", 400),
        (b"GET /metrics", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 2 * MAX_HEAD_BYTES + b"\r\n\r\n", 400),
    ],
)
async def test_the_metrics_endpoint_answers_any_request(request_: bytes, code: int) -> None:
    app = Mainspring("memory://")

    async def health(store: bool) -> Health:
        return Health(True, not store, ["the store is away"] if store else [])

    async with Endpoint(pages(app, CounterSnapshot, health)).serving("127.0.0.1", 0) as served:
        answer, body = await ask(served.port, request_)
        assert answer == code
        if code == 503:
            assert body == '{"status":"failing","reasons":["the store is away"],"notes":[]}'
        assert bool(body) == (not request_.startswith(b"HEAD"))


async def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "REQUEST_TIMEOUT_SECONDS", 0.01)
    async with Endpoint({}).serving("127.0.0.1", 0) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        assert await reader.read() == b""
        writer.close()


async def test_connections_above_the_maximum_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_CONNECTIONS", 0)
    async with Endpoint({}).serving("127.0.0.1", 0) as served:
        assert (await ask(served.port, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == 503
