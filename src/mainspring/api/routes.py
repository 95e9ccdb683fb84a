"""Every route there is."""

from __future__ import annotations

from typing import Any

from litestar.handlers import HTTPRouteHandler

from . import (
    bulk,
    dead,
    enqueue,
    executions,
    job_actions,
    jobs,
    queues,
    scheduler,
    schedules,
    stats,
    tasks,
    workers,
)

# Under /api/v1.
ROUTES: list[HTTPRouteHandler] = [
    *bulk.ROUTES, *dead.ROUTES, *enqueue.ROUTES, *executions.ROUTES, *job_actions.ROUTES, *jobs.ROUTES, *queues.ROUTES,
    *scheduler.ROUTES, *schedules.ROUTES, *stats.ROUTES, *tasks.ROUTES, *workers.ROUTES,
]  # fmt: skip
# At the root.
BESIDE: list[Any] = []
