"""Every route there is."""

from __future__ import annotations

from typing import Any

from litestar.handlers import HTTPRouteHandler

from . import keys, queues, scheduler, schedules, session

# Under /api/v1.
ROUTES: list[HTTPRouteHandler] = [
    *keys.ROUTES,
    *queues.ROUTES,
    *scheduler.ROUTES,
    *schedules.ROUTES,
    *session.ROUTES,
]
# At the root.
BESIDE: list[Any] = []
