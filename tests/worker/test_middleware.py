"""The built-in middleware: logging, metrics and tracing; none is on by default."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mainspring import Cancel, Context, Discard, Filter, JobExists, JobTimeout, Mainspring, Retry, Snooze, State, every
from mainspring.middleware import Middleware, Next
from mainspring.middleware.logging import Logging
from mainspring.middleware.metrics import Metrics
from mainspring.middleware.status import STATUSES, status_of
from mainspring.middleware.tracing import Tracing, trace_metadata
from mainspring.testing import VirtualClock


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def make(clock: VirtualClock, *layers: Middleware) -> Mainspring:
    app = Mainspring("memory://", clock=clock, middleware=layers)

    @app.task(max_retries=0, timeout=60)
    async def work(how: str = "well", seconds: float = 2.5) -> Any:
        if seconds:
            await clock.sleep(seconds)
        endings: dict[str, Callable[[], Exception]] = {
            "badly": lambda: ValueError("no such door"),
            "broken": Broken,
            "snoozed": lambda: Snooze(3600),
            "discarded": lambda: Discard("useless"),
            "cancelled": lambda: Cancel("too late"),
        }
        if how in endings:
            raise endings[how]()
        return how

    return app


async def run(app: Mainspring, clock: VirtualClock, *args: Any, **options: Any) -> str:
    async with app, app.worker() as worker:
        handle = await app.tasks["work"].using(**options).enqueue(*args)
        await clock.elapse(minutes=2)
        await worker.stop(grace=0)
    return handle.id


async def stored(app: Mainspring, id: str) -> dict[str, Any]:
    """A job's metadata, after the worker has closed the app."""
    async with app:
        return dict((await app.jobs.get(id)).metadata)


# one word


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (None, "completed"),
        ("value", "completed"),
        (ValueError("no"), "failed"),
        (Retry(), "failed"),
        (JobTimeout("late"), "timeout"),
        (Snooze(1), "snoozed"),
        (Discard(), "discarded"),
        (Cancel(), "cancelled"),
        (asyncio.CancelledError(), "interrupted"),
    ],
)
def test_status_of_a_run_names_its_ending(ended: Any, status: str) -> None:
    assert status_of(ended) == status
    assert status in STATUSES


# logging


async def test_logging_middleware_logs_the_begin_and_the_end_of_a_run(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainspring.run")
    id = await run(make(clock, Logging(clock=clock)), clock, queue="mail")
    first, last = lines(caplog)
    assert first.getMessage() == f"work {id}, attempt 1: began"
    assert last.getMessage() == f"work {id}, attempt 1: completed in 2.500 s"
    for record in (first, last):
        assert record.levelno == logging.INFO
        said = {name: getattr(record, name) for name in ("job_id", "task", "queue", "attempt")}
        assert said == {"job_id": id, "task": "work", "queue": "mail", "attempt": 1}
    assert (extra(last, "status"), extra(last, "duration")) == ("completed", 2.5)
    assert not hasattr(first, "status")


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "mainspring.run"]


def extra(record: logging.LogRecord, name: str) -> Any:
    return getattr(record, name)


@pytest.mark.parametrize(
    ("how", "level", "text"),
    [
        ("badly", logging.WARNING, "failed in 2.500 s: ValueError: no such door"),
        ("broken", logging.WARNING, "failed in 2.500 s: Broken: <the exception's __str__ raised RuntimeError>"),
        ("discarded", logging.WARNING, "discarded in 2.500 s: Discard: useless"),
        ("cancelled", logging.INFO, "cancelled in 2.500 s: Cancel: too late"),
        ("snoozed", logging.INFO, "snoozed in 2.500 s: Snooze: snoozed"),
    ],
)
async def test_the_last_log_line_has_the_ending_of_the_run_and_its_level(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, how: str, level: int, text: str
) -> None:
    caplog.set_level(logging.INFO, "mainspring.run")
    await run(make(clock, Logging(clock=clock)), clock, how)
    last = lines(caplog)[-1]
    assert (last.levelno, last.getMessage().partition("attempt 1: ")[2]) == (level, text)


async def test_a_timeout_is_logged_as_a_warning_and_an_interruption_is_not(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainspring.run")
    app = make(clock, Logging(clock=clock))
    await run(app, clock, "well", 3600.0)
    await run(app, clock, "well", 3600.0, timeout=None)
    ended = [record for record in lines(caplog) if hasattr(record, "status")]
    told = [(extra(record, "status"), extra(record, "duration"), record.levelname) for record in ended]
    assert told == [("timeout", 60.0, "WARNING"), ("interrupted", 120.0, "INFO")]


async def test_logger_and_level_of_the_logging_middleware_can_be_chosen(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shop")
    quiet = Logging(logging.getLogger("shop"), level=logging.DEBUG, clock=clock)
    await run(make(clock, quiet), clock, "badly")
    assert [(record.name, record.levelname) for record in caplog.records if record.name == "shop"] == [
        ("shop", "WARNING")
    ]


async def test_arguments_are_never_logged(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await run(make(clock, Logging(clock=clock)), clock, "hunter2")
    assert lines(caplog)
    assert not [record for record in lines(caplog) if "hunter2" in str(vars(record))]


# metrics


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """As a Prometheus would read them."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


async def test_runs_are_counted_by_how_they_ended_and_timed(clock: VirtualClock) -> None:
    registry = CollectorRegistry()
    app = make(clock, Metrics(registry, clock=clock))
    for how in ("well", "well", "badly", "snoozed"):
        await run(app, clock, how)
    found = samples(registry)
    totals = {key[2]: value for key, value in found.items() if key[0] == "job_execution_total"}
    assert totals == {"completed": 2, "failed": 1, "snoozed": 1}
    assert found["job_execution_duration_seconds_count", "work"] == 4
    assert found["job_execution_duration_seconds_sum", "work"] == 10.0
    assert found["job_execution_duration_seconds_bucket", "work", "2.5"] == 4
    assert found["job_execution_duration_seconds_bucket", "work", "1.0"] == 0


async def test_the_last_success_is_that_of_a_completed_run(clock: VirtualClock) -> None:
    registry = CollectorRegistry()
    app = make(clock, Metrics(registry, clock=clock))
    await run(app, clock, "badly")
    assert ("job_last_success_timestamp_seconds", "work") not in samples(registry)
    began = clock.now()
    await run(app, clock, "well")
    await run(app, clock, "badly")
    assert samples(registry)["job_last_success_timestamp_seconds", "work"] == began.timestamp() + 2.5


async def test_two_apps_may_share_a_registry(clock: VirtualClock) -> None:
    registry = CollectorRegistry()
    for _ in range(2):
        await run(make(clock, Metrics(registry, clock=clock)), clock)
    assert samples(registry)["job_execution_total", "work", "completed"] == 2


# tracing


class Spans:
    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    @property
    def runs(self) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith("run ")]

    @property
    def enqueues(self) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith("enqueue ")]


async def test_a_run_is_traced_as_a_span(clock: VirtualClock) -> None:
    spans = Spans()
    id = await run(make(clock, Tracing(spans.provider)), clock, queue="mail")
    (span,) = spans.runs
    assert (span.name, span.kind, span.links, span.parent) == ("run work", trace.SpanKind.CONSUMER, (), None)
    assert span.status.status_code is trace.StatusCode.UNSET
    assert dict(span.attributes or {}) == {
        "messaging.system": "mainspring",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": id,
        "mainspring.task": "work",
        "mainspring.attempt": 1,
        "mainspring.status": "completed",
    }


async def test_a_run_is_linked_to_the_span_that_enqueued_it(clock: VirtualClock) -> None:
    spans = Spans()
    app = make(clock, Tracing(spans.provider))
    with spans.tracer.start_as_current_span("request") as request:
        metadata = trace_metadata()
    await run(app, clock, metadata=metadata)
    (span,) = spans.runs
    (link,) = span.links
    wanted = request.get_span_context()
    assert (link.context.trace_id, link.context.span_id) == (wanted.trace_id, wanted.span_id)


async def test_enqueueing_inside_a_span_is_a_span_to_which_the_run_is_linked(clock: VirtualClock) -> None:
    spans = Spans()
    app = make(clock, Tracing(spans.provider))
    with spans.tracer.start_as_current_span("request") as request:
        id = await run(app, clock, queue="mail", metadata={"customer": 7})
    (sent,), (ran,) = spans.enqueues, spans.runs
    assert (sent.name, sent.kind) == ("enqueue work", trace.SpanKind.PRODUCER)
    assert sent.parent is not None
    assert sent.parent.span_id == request.get_span_context().span_id
    assert dict(sent.attributes or {}) == {
        "messaging.system": "mainspring",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": 1,
        "messaging.destination.name": "mail",
        "messaging.message.id": id,
        "mainspring.task": "work",
    }
    (link,) = ran.links
    assert sent.context is not None
    assert (link.context.trace_id, link.context.span_id) == (sent.context.trace_id, sent.context.span_id)
    kept = await stored(app, id)
    assert set(kept) == {"customer", "traceparent"}
    assert kept["customer"] == 7


async def test_many_jobs_are_enqueued_in_one_span(clock: VirtualClock) -> None:
    spans = Spans()
    app = make(clock, Tracing(spans.provider))
    work = app.tasks["work"]
    with spans.tracer.start_as_current_span("request"):
        own = trace_metadata()
        jobs = [work.job("well"), work.using(metadata=own, queue="mail").job("well"), work.job("well")]
        handles = await app.enqueue_many(jobs)
    (sent,) = spans.enqueues
    assert (sent.name, (sent.attributes or {})["messaging.batch.message_count"]) == ("enqueue 3 jobs", 3)
    found = [(await app.jobs.get(handle.id)).metadata["traceparent"] for handle in handles]
    assert found[1] == own["traceparent"]
    assert found[0] == found[2] != found[1]


async def test_outside_of_a_span_metadata_stay_as_they_are(clock: VirtualClock) -> None:
    spans = Spans()
    app = make(clock, Tracing(spans.provider))
    id = await run(app, clock, metadata={"customer": 7})
    assert spans.enqueues == []
    assert await stored(app, id) == {"customer": 7}


async def test_without_tracing_middleware_no_metadata_is_added(clock: VirtualClock) -> None:
    spans = Spans()
    app = make(clock, Logging())
    with spans.tracer.start_as_current_span("request"):
        id = await run(app, clock)
    assert await stored(app, id) == {}


async def test_a_job_that_a_run_enqueues_is_linked_to_that_run(clock: VirtualClock) -> None:
    spans = Spans()
    app = Mainspring("memory://", clock=clock, middleware=[Tracing(spans.provider)])

    @app.task
    async def second() -> None: ...

    @app.task
    async def first() -> None:
        await second.enqueue()

    await first.enqueue()
    await app.drain()
    runs, (sent,) = {span.name: span for span in spans.runs}, spans.enqueues
    assert sent.parent is not None
    assert sent.context is not None
    began = runs["run first"].context
    assert began is not None
    assert sent.parent.span_id == began.span_id
    (link,) = runs["run second"].links
    assert link.context.span_id == sent.context.span_id


async def test_runs_of_steps_are_children_of_the_run_that_planned_their_flow(clock: VirtualClock) -> None:
    spans = Spans()
    app = Mainspring("memory://", clock=clock, middleware=[Tracing(spans.provider)])

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task(queue="slow")
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    @app.flow
    def inner(numbers: list[int]) -> int:
        return add.using(metadata={"own": 1}).step(double.map(numbers))

    @app.flow
    def outer() -> int:
        return inner.step([1, 2])

    with spans.tracer.start_as_current_span("request"):
        run = await outer.enqueue()
    await app.drain()
    assert await run.result() == 6
    (sent,) = spans.enqueues
    parents = {span.name: span.parent and span.parent.span_id for span in spans.runs}
    ids = {span.name: span.context and span.context.span_id for span in spans.runs}
    assert parents == {
        "run outer": None, "run inner": ids["run outer"],
        "run double": ids["run inner"], "run add": ids["run inner"],
    }  # fmt: skip
    links = {span.name: [link.context.span_id for link in span.links] for span in spans.runs}
    assert sent.context is not None
    assert links == {"run outer": [sent.context.span_id], "run inner": [], "run double": [], "run add": []}
    (added,) = await app.jobs.list(Filter(tasks=("add",)))
    assert set(added.metadata) == {"own", "traceparent"}


async def test_steps_of_a_plan_that_comes_with_its_job_are_children_of_the_span_that_enqueued_it(
    clock: VirtualClock,
) -> None:
    spans = Spans()
    app = Mainspring("memory://", clock=clock, middleware=[Tracing(spans.provider)])

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    plan = app.plan("by hand")
    plan.returns(plan.step(double, 4))
    with spans.tracer.start_as_current_span("request"):
        run = await plan.enqueue()
    await app.drain()
    assert await run.result() == 8
    (sent,), (ran,) = spans.enqueues, spans.runs
    assert sent.context is not None
    assert ran.parent is not None
    assert ran.parent.span_id == sent.context.span_id


def test_enqueues_by_synchronous_code_are_traced() -> None:
    spans = Spans()
    app = Mainspring("memory://", middleware=[Tracing(spans.provider)])

    @app.task
    async def work() -> None: ...

    with spans.tracer.start_as_current_span("request"):
        handle = work.sync.enqueue()
    assert "traceparent" in app.sync.jobs.get(handle.id).metadata
    app.sync.close()


async def test_the_span_of_a_scheduled_job_names_its_schedule(clock: VirtualClock) -> None:
    spans = Spans()
    app = Mainspring("memory://", clock=clock, middleware=[Tracing(spans.provider)])

    @app.task
    async def work() -> None: ...

    app.schedule("hourly", every(1).hours, work)
    await app.drain()
    clock.advance(hours=1)
    await app.drain()
    (span,) = spans.runs
    assert (span.attributes or {})["mainspring.schedule"] == "hourly"


@pytest.mark.parametrize("metadata", [{}, {"traceparent": "nonsense"}, {"traceparent": 7}, {"traceparent": None}])
async def test_metadata_without_a_valid_traceparent_links_to_no_span(
    clock: VirtualClock, metadata: dict[str, Any]
) -> None:
    spans = Spans()
    id = await run(make(clock, Tracing(spans.provider)), clock, metadata=metadata)
    (span,) = spans.runs
    assert span.links == ()
    assert (span.attributes or {})["messaging.message.id"] == id


def test_outside_of_a_span_there_is_no_metadata() -> None:
    assert trace_metadata() == {}


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("badly", trace.StatusCode.ERROR, "ValueError: no such door"),
        ("broken", trace.StatusCode.ERROR, "Broken: <the exception's __str__ raised RuntimeError>"),
        ("discarded", trace.StatusCode.ERROR, "Discard: useless"),
        ("snoozed", trace.StatusCode.UNSET, None),
        ("cancelled", trace.StatusCode.UNSET, None),
    ],
)
async def test_a_span_says_whether_its_run_failed(clock: VirtualClock, how: str, status: Any, text: str | None) -> None:
    spans = Spans()
    await run(make(clock, Tracing(spans.provider)), clock, how)
    (span,) = spans.runs
    assert (span.status.status_code, span.status.description) == (status, text)
    assert [event.name for event in span.events] == (["exception"] if text else [])


SECRETS = "postgresql://ada:kan4ri@db/shop, password=kan4ri, Bearer kan4ri.kan4ri"


def texts(span: ReadableSpan) -> str:
    """All texts of a span."""
    return repr([span.status.description, *(dict(event.attributes or {}) for event in span.events)])


@pytest.mark.parametrize("executor", ["async", "thread", "process"])
async def test_a_span_of_a_failed_run_has_no_secrets(executor: Literal["async", "thread", "process"]) -> None:
    spans = Spans()
    app = Mainspring("memory://", middleware=[Tracing(spans.provider)])
    app.task(name="leak", executor=executor, max_retries=0)(leak_later if executor == "async" else leak)
    await app.tasks["leak"].enqueue()
    await app.drain()
    (span,) = spans.runs
    assert "kan4ri" not in texts(span)
    (event,) = span.events
    assert (event.attributes or {})["exception.type"] == "ValueError"
    assert "in leak" in str((event.attributes or {})["exception.stacktrace"])
    assert span.status.description == "ValueError: postgresql://ada:***@db/shop, password=*** Bearer ***"


async def test_a_span_of_a_refused_enqueue_has_no_secrets() -> None:
    spans = Spans()
    app = Mainspring("memory://", middleware=[Tracing(spans.provider)])
    work = app.task(leak).using(unique_key="password=kan4ri", on_conflict="raise")
    with spans.tracer.start_as_current_span("request"):
        await work.enqueue()
        with pytest.raises(JobExists, match="kan4ri"):
            await work.enqueue()
    _, refused = spans.enqueues
    assert "kan4ri" not in texts(refused)
    assert refused.status.status_code is trace.StatusCode.ERROR


def leak() -> None:
    raise ValueError(SECRETS)


async def leak_later() -> None:
    leak()


async def test_the_span_is_current_in_a_plain_function_too(clock: VirtualClock) -> None:
    spans = Spans()
    app = Mainspring("memory://", clock=clock, middleware=[Tracing(spans.provider)])

    @app.task
    def plain() -> str:
        return str(trace.get_current_span().get_span_context().span_id)

    async with app:
        handle = await plain.enqueue()
        await app.drain()
        (span,) = spans.runs
        assert span.context is not None
        assert await handle.result() == str(span.context.span_id)


# all of them


async def test_the_first_middleware_is_the_outermost(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A line logged inside the tracing is logged within its span; one logged outside is not."""
    caplog.set_level(logging.INFO)
    spans, seen = Spans(), dict[str, bool]()

    class Watching(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen[record.name] = trace.get_current_span().get_span_context().is_valid

    watching = Watching()
    outside, inside = logging.getLogger("outside"), logging.getLogger("inside")
    for logger in (outside, inside):
        logger.addHandler(watching)
    await run(make(clock, Logging(outside), Tracing(spans.provider), Logging(inside)), clock)
    for logger in (outside, inside):
        logger.removeHandler(watching)
    assert seen == {"outside": False, "inside": True}


async def test_middleware_can_wrap_one_task_only(clock: VirtualClock) -> None:
    registry = CollectorRegistry()
    app = make(clock)

    @app.task(middleware=[Metrics(registry, clock=clock)])
    async def counted() -> None: ...

    async with app:
        await counted.enqueue()
        await app.tasks["work"].enqueue("well", 0)
        assert await app.drain() == 2
    assert [key[1:] for key in samples(registry) if key[0] == "job_execution_total"] == [("counted", "completed")]


async def test_middleware_changes_neither_the_value_nor_the_failure(clock: VirtualClock) -> None:
    spans, registry = Spans(), CollectorRegistry()
    app = make(clock, Logging(), Metrics(registry), Tracing(spans.provider))
    async with app:
        well, badly, broken = [await app.tasks["work"].enqueue(how, 0) for how in ("well", "badly", "broken")]
        await app.drain()
        assert await well.result() == "well"
        for handle, kind in ((badly, "ValueError"), (broken, "Broken")):
            job = await handle.job()
            assert job.failure is not None
            assert (job.state, job.failure.type) == (State.DEAD, kind)


async def test_no_middleware_is_on_by_default(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app = make(clock)
    await run(app, clock)
    assert app.middleware == []
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("metrics", "prometheus_client", "metrics"), ("tracing", "opentelemetry", "otel")],
)
def test_the_error_of_a_missing_package_names_the_extra_to_install(module: str, package: str, extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import mainspring.middleware.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"pip install 'mainspring[{extra}]'" in done.stderr.splitlines()[-1]


async def test_custom_middleware_works_beside_the_metrics_middleware(clock: VirtualClock) -> None:
    registry = CollectorRegistry()

    async def refuse(ctx: Context, call_next: Next) -> Any:
        raise PermissionError("not today")

    await run(make(clock, Metrics(registry, clock=clock), refuse), clock)
    assert samples(registry)["job_execution_total", "work", "failed"] == 1
