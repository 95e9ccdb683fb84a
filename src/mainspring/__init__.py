"""Durable background jobs and schedules: one library, one command, the same behaviour on every store."""

from typing import TYPE_CHECKING

from .errors import (
    ApiKeyExists,
    ApiKeyNotFound,
    BadFlow,
    BadInput,
    BadPayload,
    BadSetting,
    BadTask,
    BatchEnded,
    BatchFailed,
    ChildFailed,
    FlowFailed,
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
    SignalLate,
    SignalRefused,
    SignalTimeout,
    SignalTwice,
    SignalUnknown,
    Stale,
    StoreError,
    StoreUnavailable,
    UnknownTask,
    WorkerNotFound,
)
from .lazy import exports

if TYPE_CHECKING:
    from .actor import act_as
    from .app import Mainspring
    from .clock import Clock, SystemClock
    from .flow.signal_call import signal
    from .flow.values import exists, first, in_, not_
    from .health import Health
    from .insight.stats import Stats
    from .insight.why import Reason
    from .leader import Leader
    from .middleware import Middleware
    from .records.audit import AuditEntry, AuditFilter
    from .records.batch import BatchCounts, BatchSummary
    from .records.circuit import Breaker
    from .records.job import Job, NewJob, ShownState, State
    from .records.outcome import Cancel, Discard, Finish, Retry, Skip, Snooze
    from .records.principal import Principal
    from .records.query import Filter
    from .records.run import Execution, Failure, Items, LogLine, OutputChunk
    from .retry import Backoff
    from .schedule.record import Schedule, Tick
    from .store import Store
    from .task.batch import Batch
    from .task.collect import Collect
    from .task.context import Context
    from .task.dead_letter import DeadLetter
    from .task.dedup_key import Key
    from .task.flow_failure import DeadStep, FlowFailure
    from .task.handle import Handle
    from .task.limit import Limit
    from .task.results import Results
    from .task.retention import Retention
    from .task.task import Task
    from .trigger import Trigger, Window, at, cron, every
    from .worker.pruner import Archived
    from .worker.worker import Worker
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "actor": ["act_as"],
            "app": ["Mainspring"],
            "clock": ["Clock", "SystemClock"],
            "flow.signal_call": ["signal"],
            "flow.values": ["exists", "first", "in_", "not_"],
            "health": ["Health"],
            "insight.stats": ["Stats"],
            "insight.why": ["Reason"],
            "leader": ["Leader"],
            "middleware": ["Middleware"],
            "records.audit": ["AuditEntry", "AuditFilter"],
            "records.batch": ["BatchCounts", "BatchSummary"],
            "records.circuit": ["Breaker"],
            "records.job": ["Job", "NewJob", "ShownState", "State"],
            "records.outcome": ["Cancel", "Discard", "Finish", "Retry", "Skip", "Snooze"],
            "records.principal": ["Principal"],
            "records.query": ["Filter"],
            "records.run": ["Execution", "Failure", "Items", "LogLine", "OutputChunk"],
            "retry": ["Backoff"],
            "schedule.record": ["Schedule", "Tick"],
            "store": ["Store"],
            "task.batch": ["Batch"],
            "task.collect": ["Collect"],
            "task.context": ["Context"],
            "task.dead_letter": ["DeadLetter"],
            "task.dedup_key": ["Key"],
            "task.limit": ["Limit"],
            "task.flow_failure": ["DeadStep", "FlowFailure"],
            "task.handle": ["Handle"],
            "task.results": ["Results"],
            "task.retention": ["Retention"],
            "task.task": ["Task"],
            "trigger": ["Trigger", "Window", "at", "cron", "every"],
            "worker.pruner": ["Archived"],
            "worker.worker": ["Worker"],
        },
        former={"Entry": "AuditEntry", "Trail": "AuditFilter", "acting": "act_as"},
    )

__all__ = [
    "ApiKeyExists",
    "ApiKeyNotFound",
    "Archived",
    "AuditEntry",
    "AuditFilter",
    "Backoff",
    "BadFlow",
    "BadInput",
    "BadPayload",
    "BadSetting",
    "BadTask",
    "Batch",
    "BatchCounts",
    "BatchEnded",
    "BatchFailed",
    "BatchSummary",
    "Breaker",
    "Cancel",
    "ChildFailed",
    "Clock",
    "Collect",
    "Context",
    "DeadLetter",
    "DeadStep",
    "Discard",
    "Execution",
    "Failure",
    "Filter",
    "Finish",
    "FlowFailed",
    "FlowFailure",
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
    "Limit",
    "LogLine",
    "Mainspring",
    "MainspringError",
    "Middleware",
    "NewJob",
    "NotLeader",
    "NotSigned",
    "OutputChunk",
    "Principal",
    "Reason",
    "ResultTimeout",
    "Results",
    "Retention",
    "Retry",
    "Schedule",
    "ScheduleChanged",
    "ScheduleExists",
    "ScheduleNotFound",
    "SchemaMismatch",
    "ShownState",
    "ShuttingDown",
    "SignalLate",
    "SignalRefused",
    "SignalTimeout",
    "SignalTwice",
    "SignalUnknown",
    "Skip",
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
    "Trigger",
    "UnknownTask",
    "Window",
    "Worker",
    "WorkerNotFound",
    "act_as",
    "at",
    "cron",
    "every",
    "exists",
    "first",
    "in_",
    "not_",
    "signal",
]
