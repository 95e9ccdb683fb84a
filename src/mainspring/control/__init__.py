"""app.jobs, app.schedules, app.dead, app.queues, app.executions, app.workers, app.keys: seeing and steering."""

from .dead import Dead
from .executions import Executions
from .jobs import PAGE, Jobs, Page
from .keys import Keys
from .queues import Queues
from .schedules import Backfill, Schedules, ScheduleStats
from .workers import Workers

__all__ = [
    "PAGE", "Backfill", "Dead", "Executions", "Jobs", "Keys", "Page", "Queues", "ScheduleStats", "Schedules",
    "Workers",
]  # fmt: skip
