"""Turns whatever a task throws into an ordinary exception, so that nothing it does ends the worker."""

from __future__ import annotations

import asyncio
from typing import Any

from ..records.outcome import failure_of
from ..task.context import Context
from ..task.interruption import Interrupted, TaskExit
from . import Next


async def recovery(ctx: Context, call_next: Next) -> Any:
    try:
        return await call_next(ctx)
    except (Exception, asyncio.CancelledError, Interrupted):
        raise
    except BaseException as error:
        told = failure_of(error, stack=False)
        raise TaskExit(f"the task raised {told.type}: {told.message}") from error
