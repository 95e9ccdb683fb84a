"""Durable background jobs and schedules: one library, one command, the same behaviour on every store."""

from .acting import acting
from .app import Mainspring
from .clock import Clock, SystemClock
from .context import Context
from .deadletter import DeadLetter
from .document import Entry, Trail
from .errors import (
    ApiKeyExists,
    ApiKeyNotFound,
    BadInput,
    BadPayload,
    BadSetting,
    BadTask,
    HookChanged,
    HookExists,
    HookNotFound,
    InvalidTransition,
    ItemsFailed,
    JobCancelled,
    JobDead,
    JobExists,
    JobExpired,
    JobNotFound,
    JobTimeout,
    JobUnfinished,
    LeaseLost,
    MainspringError,
    NotLeader,
    NotSigned,
    ResultTimeout,
    ScheduleChanged,
    ScheduleExists,
    ScheduleNotFound,
    SchemaMismatch,
    ShuttingDown,
    Stale,
    StoreError,
    StoreUnavailable,
    UnknownTask,
    WorkerNotFound,
)
from .handle import Handle
from .health import Health
from .job import Breaker, Execution, Failure, Filter, Items, Job, LogLine, NewJob, ShownState, State
from .key import Key
from .leader import Leader
from .middleware import Middleware
from .outcome import Cancel, Discard, Retry, Snooze
from .prune import Archived
from .retention import Retention
from .retry import Backoff
from .schedule import Schedule, Tick
from .stats import Stats
from .store import Store
from .task import Task
from .trigger import Trigger, Window, at, cron, every
from .why import Reason
from .worker import Worker

__all__ = [
    "ApiKeyExists",
    "ApiKeyNotFound",
    "Archived",
    "Backoff",
    "BadInput",
    "BadPayload",
    "BadSetting",
    "BadTask",
    "Breaker",
    "Cancel",
    "Clock",
    "Context",
    "DeadLetter",
    "Discard",
    "Entry",
    "Execution",
    "Failure",
    "Filter",
    "Handle",
    "Health",
    "HookChanged",
    "HookExists",
    "HookNotFound",
    "InvalidTransition",
    "Items",
    "ItemsFailed",
    "Job",
    "JobCancelled",
    "JobDead",
    "JobExists",
    "JobExpired",
    "JobNotFound",
    "JobTimeout",
    "JobUnfinished",
    "Key",
    "Leader",
    "LeaseLost",
    "LogLine",
    "Mainspring",
    "MainspringError",
    "Middleware",
    "NewJob",
    "NotLeader",
    "NotSigned",
    "Reason",
    "ResultTimeout",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleChanged",
    "ScheduleExists",
    "ScheduleNotFound",
    "SchemaMismatch",
    "ShownState",
    "ShuttingDown",
    "Snooze",
    "Stale",
    "State",
    "Stats",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "SystemClock",
    "Task",
    "Tick",
    "Trail",
    "Trigger",
    "UnknownTask",
    "Window",
    "Worker",
    "WorkerNotFound",
    "acting",
    "at",
    "cron",
    "every",
]
