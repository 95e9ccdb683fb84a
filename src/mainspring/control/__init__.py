"""app.jobs, app.schedules, app.queues, app.workers and the like: seeing and steering."""

from .audit import Audit
from .dead import Dead
from .executions import Executions
from .jobs import PAGE, Jobs, Page
from .keys import Keys
from .queues import Queues
from .schedules import Backfill, Schedules, ScheduleStats
from .workers import Workers

__all__ = [
    "PAGE", "Audit", "Backfill", "Dead", "Executions", "Jobs", "Keys", "Page", "Queues", "ScheduleStats", "Schedules",
    "Workers",
]  # fmt: skip
