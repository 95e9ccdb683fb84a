"""app.jobs, app.schedules, app.dead, app.queues, app.executions, app.workers: seeing and steering the store."""

from .dead import Dead
from .executions import Executions
from .jobs import PAGE, Jobs, Page
from .queues import Queues
from .schedules import Backfill, Schedules, ScheduleStats
from .workers import Workers

__all__ = [
    "PAGE", "Backfill", "Dead", "Executions", "Jobs", "Page", "Queues", "ScheduleStats", "Schedules", "Workers",
]  # fmt: skip
