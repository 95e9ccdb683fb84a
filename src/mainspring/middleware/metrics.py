"""Metrics: Prometheus counts, durations and last success of runs."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from ..clock import Clock, SystemClock
from ..task.context import Context
from . import Next
from .status import status_of

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
except ImportError as missing:
    raise ImportError("metrics need prometheus-client: pip install 'mainspring[metrics]'") from missing

# Upper bounds of the histogram: jobs take from milliseconds to an hour.
BUCKET_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)


class _Instruments:
    """The metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.runs = Counter("job_execution", "Runs that ended, by how.", ["job", "status"], registry=registry)
        self.seconds = Histogram(
            "job_execution_duration_seconds", "How long runs took.", ["job"], registry=registry, buckets=BUCKET_SECONDS
        )
        self.success = Gauge(
            "job_last_success_timestamp_seconds", "When a run last completed.", ["job"], registry=registry
        )


# By registry: it accepts each name once, and a process may have several apps.
_INSTRUMENTS: WeakKeyDictionary[CollectorRegistry, _Instruments] = WeakKeyDictionary()


class Metrics:
    """Mainspring(..., middleware=[Metrics()]). The label `job` is the task's name, so its values are bounded."""

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        if registry not in _INSTRUMENTS:
            _INSTRUMENTS[registry] = _Instruments(registry)
        self._instruments = _INSTRUMENTS[registry]

    async def __call__(self, ctx: Context, call_next: Next) -> Any:
        began = self._clock.monotonic()
        try:
            value = await call_next(ctx)
        except BaseException as error:
            self._count(ctx, error, began)
            raise
        self._count(ctx, value, began)
        return value

    def _count(self, ctx: Context, ended: Any, began: float) -> None:
        task, status = ctx.job.task, status_of(ended, ctx)
        self._instruments.runs.labels(task, status).inc()
        self._instruments.seconds.labels(task).observe(self._clock.monotonic() - began)
        if status in ("completed", "partial"):
            self._instruments.success.labels(task).set(self._clock.now().timestamp())
