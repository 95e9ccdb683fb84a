"""The testing kit: virtual clock, harness, faults, recorders, monitors, and contract suites for stores and loops."""

from .clock import VirtualClock
from .concurrency import ConcurrencyTester
from .faults import Fault, Faults, FaultStore
from .harness import Harness
from .idempotency import IdempotencyReport
from .monitor import QueueMonitor
from .recorder import Recorder
from .retries import RetryTracker, backoff_table
from .stress import Percentiles, Stress, stress

__all__ = [
    "ConcurrencyTester",
    "Fault",
    "FaultStore",
    "Faults",
    "Harness",
    "IdempotencyReport",
    "Percentiles",
    "QueueMonitor",
    "Recorder",
    "RetryTracker",
    "Stress",
    "VirtualClock",
    "backoff_table",
    "stress",
]
