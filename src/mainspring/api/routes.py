"""Every route there is."""

from __future__ import annotations

from typing import Any

from litestar.handlers import HTTPRouteHandler

from . import (
    bulk,
    dead,
    enqueue,
    events,
    executions,
    health,
    job_actions,
    jobs,
    keys,
    metrics,
    queues,
    scheduler,
    schedules,
    session,
    stats,
    tasks,
    workers,
)

# Under /api/v1.
ROUTES: list[HTTPRouteHandler] = [
    *bulk.ROUTES,
    *dead.ROUTES,
    *enqueue.ROUTES,
    *events.ROUTES,
    *executions.ROUTES,
    *job_actions.ROUTES,
    *jobs.ROUTES,
    *keys.ROUTES,
    *queues.ROUTES,
    *scheduler.ROUTES,
    *schedules.ROUTES,
    *session.ROUTES,
    *stats.ROUTES,
    *tasks.ROUTES,
    *workers.ROUTES,
]
# At the root.
BESIDE: list[Any] = [*health.BESIDE, *metrics.BESIDE]
