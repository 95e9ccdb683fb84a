"""Durable background jobs and schedules: one library, one command, the same behaviour on every store."""

from .app import Mainspring, Stats
from .clock import Clock, SystemClock
from .context import Context
from .errors import (
    BadInput,
    BadPayload,
    BadSetting,
    BadTask,
    InvalidTransition,
    JobCancelled,
    JobDead,
    JobExists,
    JobExpired,
    JobNotFound,
    JobTimeout,
    JobUnfinished,
    MainspringError,
    ResultTimeout,
    SchemaMismatch,
    ShuttingDown,
    StoreError,
    StoreUnavailable,
    UnknownTask,
)
from .handle import Handle
from .job import Execution, Failure, Filter, Job, NewJob, State
from .key import Key
from .middleware import Middleware
from .outcome import Cancel, Discard, Retry, Snooze
from .retry import Backoff
from .store import Store
from .task import Task
from .worker import Worker

__all__ = [
    "Backoff",
    "BadInput",
    "BadPayload",
    "BadSetting",
    "BadTask",
    "Cancel",
    "Clock",
    "Context",
    "Discard",
    "Execution",
    "Failure",
    "Filter",
    "Handle",
    "InvalidTransition",
    "Job",
    "JobCancelled",
    "JobDead",
    "JobExists",
    "JobExpired",
    "JobNotFound",
    "JobTimeout",
    "JobUnfinished",
    "Key",
    "Mainspring",
    "MainspringError",
    "Middleware",
    "NewJob",
    "ResultTimeout",
    "Retry",
    "SchemaMismatch",
    "ShuttingDown",
    "Snooze",
    "State",
    "Stats",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "SystemClock",
    "Task",
    "UnknownTask",
    "Worker",
]
