"""Every route there is."""

from __future__ import annotations

from typing import Any

from litestar.handlers import HTTPRouteHandler

from . import events, queues, scheduler, schedules

# Under /api/v1.
ROUTES: list[HTTPRouteHandler] = [*events.ROUTES, *queues.ROUTES, *scheduler.ROUTES, *schedules.ROUTES]
# At the root.
BESIDE: list[Any] = []
