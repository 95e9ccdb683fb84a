"""app.jobs, app.dead, app.queues, app.executions, app.workers: seeing and steering what is in the store."""

from .dead import Dead
from .executions import Executions
from .jobs import PAGE, Jobs, Page
from .queues import Queues
from .workers import Workers

__all__ = ["PAGE", "Dead", "Executions", "Jobs", "Page", "Queues", "Workers"]
