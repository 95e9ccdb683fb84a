"""Facades of an app over its store, for reading and changing: app.jobs, app.schedules, app.queues and so on."""

from typing import TYPE_CHECKING

from ..lazy import exports

if TYPE_CHECKING:
    from .audit import Audit
    from .batches import Batches
    from .checks import MAX_PAGE_ROWS
    from .dead import Dead
    from .executions import Executions
    from .flows import Flows
    from .job_page import Page
    from .jobs import Jobs
    from .keys import Keys
    from .limits import Limits
    from .queues import Queues
    from .schedule_bulk import ManySchedules, ScheduleBulk, ScheduleFilter
    from .schedule_history import RunSample, ScheduleRun, ScheduleStats
    from .schedules import Backfill, Schedules
    from .statistics import Statistics
    from .triggers import Triggers
    from .webhooks import Webhooks
    from .workers import Workers
else:
    __getattr__, __dir__ = exports(
        __name__,
        {
            "audit": ["Audit"],
            "batches": ["Batches"],
            "checks": ["MAX_PAGE_ROWS"],
            "dead": ["Dead"],
            "executions": ["Executions"],
            "flows": ["Flows"],
            "job_page": ["Page"],
            "jobs": ["Jobs"],
            "keys": ["Keys"],
            "limits": ["Limits"],
            "queues": ["Queues"],
            "schedule_bulk": ["ManySchedules", "ScheduleBulk", "ScheduleFilter"],
            "schedule_history": ["RunSample", "ScheduleRun", "ScheduleStats"],
            "schedules": ["Backfill", "Schedules"],
            "statistics": ["Statistics"],
            "triggers": ["Triggers"],
            "webhooks": ["Webhooks"],
            "workers": ["Workers"],
        },
    )

__all__ = [
    "MAX_PAGE_ROWS", "Audit", "Backfill", "Batches", "Dead", "Executions", "Flows", "Jobs", "Keys", "Limits",
    "ManySchedules",
    "Page", "Queues", "RunSample", "ScheduleBulk", "ScheduleFilter", "ScheduleRun", "ScheduleStats", "Schedules",
    "Statistics", "Triggers", "Webhooks", "Workers",
]  # fmt: skip
