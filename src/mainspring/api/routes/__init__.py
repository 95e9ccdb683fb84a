"""All routes of the API and the dashboard."""

from __future__ import annotations

from typing import Any

from litestar.handlers import HTTPRouteHandler

from . import (
    audit,
    batches,
    dead,
    depth,
    enqueue,
    events,
    executions,
    flow_actions,
    flows,
    health,
    job_actions,
    job_checkpoints,
    job_output,
    jobs,
    keys,
    metrics,
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
from . import dashboard_pages as pages
from . import job_bulk as bulk
from . import schedule_overview as outlook

# Under /api/v1.
ROUTES: list[HTTPRouteHandler] = [
    *audit.ROUTES,
    *bulk.ROUTES,
    *dead.ROUTES,
    *depth.ROUTES,
    *enqueue.ROUTES,
    *events.ROUTES,
    *executions.ROUTES,
    *batches.ROUTES,
    *flow_actions.ROUTES,
    *flows.ROUTES,
    *job_actions.ROUTES,
    *job_checkpoints.ROUTES,
    *job_output.ROUTES,
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
# Outside /api/v1.
ROOT_ROUTES: list[Any] = [*health.ROOT_ROUTES, *metrics.ROOT_ROUTES, *pages.ROOT_ROUTES, *triggers.ROOT_ROUTES]
