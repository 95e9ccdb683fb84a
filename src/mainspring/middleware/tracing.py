"""Tracing: an OpenTelemetry span for each run, linked to the span that enqueued its job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from ..mask import mask_text
from ..records.job import Job, NewJob
from ..records.outcome import RemoteFailure, Suspend, failure_of
from ..task.context import Context
from . import Next
from .status import status_of

try:
    from opentelemetry import trace
    from opentelemetry.context import Context as OtelContext
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise ImportError("tracing needs opentelemetry-api: pip install 'mainspring[otel]'") from missing

_FIELDS = ("traceparent", "tracestate")
_propagator = TraceContextTextMapPropagator()


def trace_metadata() -> dict[str, str]:
    """The current span as metadata of a job, to enqueue without Tracing: send.using(metadata=trace_metadata()).

    Empty outside a span.
    """
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier


class Tracing:
    """Mainspring(..., middleware=[Tracing()]): spans of the given or the global provider.

    A run is a trace of its own, since it may start hours after the enqueuer's trace has ended; a link connects them.
    Runs of a flow's steps are children of the run that planned it.
    Inside a span, enqueueing is a span too, which jobs carry in their metadata unless they have a traceparent.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("mainspring", tracer_provider=provider)

    @contextmanager
    def producing(self, jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
        """Yields the jobs with trace metadata, inside a producer span."""
        if not trace.get_current_span().get_span_context().is_valid or all(
            "traceparent" in job.metadata for job in jobs
        ):
            yield jobs
            return
        with self._tracer.start_as_current_span(
            f"enqueue {jobs[0].task}" if len(jobs) == 1 else f"enqueue {len(jobs)} jobs",
            kind=trace.SpanKind.PRODUCER,
            record_exception=False,
            set_status_on_exception=False,
            attributes=_described(jobs),
        ) as span:
            carrier = trace_metadata()
            try:
                yield [job if "traceparent" in job.metadata else _carrying(job, carrier) for job in jobs]
            except BaseException as error:
                _record(span, error)
                raise

    async def __call__(self, ctx: Context, call_next: Next) -> Any:
        job, enqueuer = ctx.job, _enqueuer(ctx.job)
        of_step = job.step is not None
        schedule = {"mainspring.schedule": job.schedule} if job.schedule is not None else {}
        with self._tracer.start_as_current_span(
            f"run {job.task}",
            kind=trace.SpanKind.CONSUMER,
            context=enqueuer if of_step else None,
            links=[] if of_step else _links(enqueuer),
            record_exception=False,
            set_status_on_exception=False,
            attributes={
                "messaging.system": "mainspring",
                "messaging.operation.type": "process",
                "messaging.destination.name": job.queue,
                "messaging.message.id": job.id,
                "mainspring.task": job.task,
                "mainspring.attempt": job.attempt,
                **schedule,
            },
        ) as span:
            try:
                value = await call_next(ctx)
            except BaseException as error:
                _end(span, error, ctx)
                _add_trace(error)  # a durable task raises what suspends it
                raise
            _end(span, value, ctx)
            _add_trace(value)
            return value


def _add_trace(end: Any) -> None:
    """If the run has planned steps: gives their jobs the current span."""
    if isinstance(end, Suspend) and end.plan is not None:
        end.plan = replace(end.plan, metadata={**end.plan.metadata, **trace_metadata()})


def _described(jobs: Sequence[NewJob]) -> dict[str, str | int]:
    about: dict[str, str | int] = {
        "messaging.system": "mainspring",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": len(jobs),
    }
    if len({job.queue for job in jobs}) == 1:
        about["messaging.destination.name"] = jobs[0].queue
    if len({job.task for job in jobs}) == 1:
        about["mainspring.task"] = jobs[0].task
    return about | ({"messaging.message.id": jobs[0].id} if len(jobs) == 1 else {})


def _carrying(job: NewJob, carrier: Mapping[str, str]) -> NewJob:
    """The job with the current span in its metadata, and in those of its steps if it comes with a plan."""
    plan = None if job.plan is None else replace(job.plan, metadata={**job.plan.metadata, **carrier})
    return replace(job, metadata={**job.metadata, **carrier}, plan=plan)


def _enqueuer(job: Job) -> OtelContext | None:
    """The span that the job's metadata have: of who enqueued it, or of the flow whose step it is."""
    carrier = {name: value for name in _FIELDS if isinstance(value := job.metadata.get(name), str)}
    return _propagator.extract(carrier, OtelContext()) if carrier else None


def _links(enqueuer: OtelContext | None) -> list[trace.Link]:
    span = None if enqueuer is None else trace.get_current_span(enqueuer).get_span_context()
    return [trace.Link(span)] if span is not None and span.is_valid else []


def _end(span: trace.Span, ended: Any, ctx: Context) -> None:
    status = status_of(ended, ctx)
    span.set_attribute("mainspring.status", status)
    if status == "failed" and ctx.verdict == "failed" and not isinstance(ended, BaseException):
        span.set_status(trace.Status(trace.StatusCode.ERROR, "too many of its items failed"))
    if status in ("failed", "timeout", "discarded") and isinstance(ended, BaseException):
        _record(span, ended)


def _record(span: trace.Span, error: BaseException) -> None:
    """Like span.record_exception(), but with secrets masked and safe against a __str__ that raises."""
    failure = failure_of(error)
    message = mask_text(failure.message)
    span.set_status(trace.Status(trace.StatusCode.ERROR, f"{failure.type}: {message}"))
    about = {"type": _kind(error, failure.type), "message": message, "stacktrace": mask_text(failure.stack)}
    span.add_event("exception", {f"exception.{name}": text for name, text in about.items()})


def _kind(error: BaseException, name: str) -> str:
    """The qualified class name, as OpenTelemetry wants it; an error of a child process has no module here."""
    module = type.__getattribute__(type(error), "__module__")
    return name if issubclass(type(error), RemoteFailure) or module == "builtins" else f"{module}.{name}"
