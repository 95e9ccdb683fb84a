"""Metrics of this process, built from its counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from prometheus_client.core import Metric

from ..clock import Clock
from ..counters import Counters, CounterSnapshot, label_values
from ..survived_errors import METRIC as ERRORS_SURVIVED
from ..survived_errors import UNREADABLE_METRIC as RECORDS_UNREADABLE
from .families import counter, histogram, seconds

STORE_SECONDS = "mainspring_store_seconds"
STORE_ERRORS = "mainspring_store_errors_total"
FINISH_SIZE = "mainspring_finish_batch_size"
CLAIM_SIZE = "mainspring_claim_batch_size"
JOB_LAG = "mainspring_job_lag_seconds"
JOBS_EXPIRED = "mainspring_jobs_expired_total"
JOBS_LOST = "mainspring_jobs_lost_total"
JOBS_POSTPONED = "mainspring_jobs_postponed_total"
FLOW_STEPS = "mainspring_flow_steps_total"
SIGNALS = "mainspring_signals_total"
DURABLE_STEPS = "mainspring_durable_steps_total"
OUTPUT_CHUNKS = "mainspring_output_chunks_total"
LEAKS = "mainspring_leaks_total"
LOOP_LAG = "mainspring_loop_lag_seconds"
STARTS = "mainspring_process_starts_total"

# A size n is counted as n million millionths, so that its bounds are those of durations: sizes up to 1 are below 2**20.
_CALL_BOUNDS, _WAIT_BOUNDS = seconds(7, 24), seconds(10, 16, 2) | seconds(17, 24) | seconds(26, 34, 2)
_SIZE_BOUNDS = {20: 1.0, 21: 2.0, 22: 4.0, 23: 8.0, 24: 16.0, 25: 33.0, 26: 67.0, 27: 134.0, 28: 268.0, 30: 1073.0}


class MetricKind(Struct, frozen=True):
    """Help text, labels and bounds of a metric."""

    text: str
    labels: tuple[str, ...] = ()
    bounds: Mapping[int, float] = {}
    """Upper bounds of a histogram; empty for a counter."""


KINDS: Mapping[str, MetricKind] = {
    STORE_SECONDS: MetricKind("Duration of store calls.", ("verb",), _CALL_BOUNDS),
    STORE_ERRORS: MetricKind("Store calls that failed.", ("verb", "error")),
    ERRORS_SURVIVED: MetricKind("Errors that a loop of the process has survived; see the log.", ("loop", "error")),
    FINISH_SIZE: MetricKind("Outcomes stored by one call.", (), _SIZE_BOUNDS),
    CLAIM_SIZE: MetricKind("Jobs claimed by one call, if there were any.", (), _SIZE_BOUNDS),
    JOB_LAG: MetricKind("Time from when a job was due to when a worker claimed it.", ("queue",), _WAIT_BOUNDS),
    JOBS_EXPIRED: MetricKind("Jobs that were not started before their expires_at."),
    JOBS_LOST: MetricKind("Runs whose lease was lost, so that their outcome was discarded."),
    JOBS_POSTPONED: MetricKind("Runs that left a job to a worker with the task version of its payload.", ("job",)),
    FLOW_STEPS: MetricKind("Steps by how they had ended when their flow did.", ("flow", "step", "state")),
    SIGNALS: MetricKind("Signals that were given or refused through this process.", ("flow", "name", "what")),
    DURABLE_STEPS: MetricKind("Values of durable steps that were stored, sleeps included.", ("job",)),
    OUTPUT_CHUNKS: MetricKind("Chunks of output that were stored.", ("job",)),
    LEAKS: MetricKind("Runs that ignored their interruption, and kept their slot."),
    RECORDS_UNREADABLE: MetricKind("Records that were skipped because they cannot be decoded.", ("kind",)),
    LOOP_LAG: MetricKind("Delay of the event loop in waking a sleeper of one second.", (), seconds(10, 24, 2)),
    STARTS: MetricKind("Processes started by the supervisor."),
}


def families(counts: CounterSnapshot) -> Iterator[Metric]:
    """Every metric, including those without a sample."""
    for name, kind in KINDS.items():
        if kind.bounds:
            spreads = counts.spreads.get(name, {})
            found = {_labels(key, kind): (spread.buckets, spread.total) for key, spread in spreads.items()}
            yield histogram(name, kind.text, kind.labels, found, kind.bounds)
        else:
            totals = counts.totals.get(name, {} if kind.labels else {"": 0.0})
            yield counter(name, kind.text, kind.labels, {_labels(key, kind): n for key, n in totals.items()})


def _labels(key: str, kind: MetricKind) -> tuple[str, ...]:
    return tuple(label_values(key)) if kind.labels else ()


async def watch_loop(counters: Counters, clock: Clock) -> None:
    """Measures the lag of the event loop until cancelled."""
    while True:
        began = clock.monotonic()
        await clock.sleep(1.0)
        counters.observe(LOOP_LAG, (max(0.0, clock.monotonic() - began - 1.0),))
