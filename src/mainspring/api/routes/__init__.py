"""Every route there is."""

from __future__ import annotations

from typing import Any

from litestar.handlers import HTTPRouteHandler

from . import (
    audit,
    bulk,
    dead,
    depth,
    enqueue,
    events,
    executions,
    health,
    job_actions,
    jobs,
    keys,
    metrics,
    outlook,
    pages,
    queues,
    schedule_bulk,
    scheduler,
    schedules,
    session,
    settings,
    stats,
    tasks,
    triggers,
    webhooks,
    workers,
)

# Under /api/v1.
ROUTES: list[HTTPRouteHandler] = [
    *audit.ROUTES,
    *bulk.ROUTES,
    *dead.ROUTES,
    *depth.ROUTES,
    *enqueue.ROUTES,
    *events.ROUTES,
    *executions.ROUTES,
    *job_actions.ROUTES,
    *jobs.ROUTES,
    *keys.ROUTES,
    *outlook.ROUTES,
    *queues.ROUTES,
    *schedule_bulk.ROUTES,
    *scheduler.ROUTES,
    *schedules.ROUTES,
    *session.ROUTES,
    *settings.ROUTES,
    *stats.ROUTES,
    *tasks.ROUTES,
    *triggers.ROUTES,
    *webhooks.ROUTES,
    *workers.ROUTES,
]
# At the root.
BESIDE: list[Any] = [*health.BESIDE, *metrics.BESIDE, *pages.BESIDE, *triggers.BESIDE]
