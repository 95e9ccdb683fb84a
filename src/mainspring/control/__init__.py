"""app.jobs, app.schedules, app.dead, app.queues, app.executions, app.workers, app.audit: seeing and steering."""

from .audit import Audit
from .dead import Dead
from .executions import Executions
from .jobs import PAGE, Jobs, Page
from .queues import Queues
from .schedules import Backfill, Schedules, ScheduleStats
from .workers import Workers

__all__ = [
    "PAGE", "Audit", "Backfill", "Dead", "Executions", "Jobs", "Page", "Queues", "ScheduleStats", "Schedules",
    "Workers",
]  # fmt: skip
