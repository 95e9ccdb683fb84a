"""Recovery: turns any exception of a task into an ordinary one, so that no task ends the worker."""

from __future__ import annotations

import asyncio
from typing import Any

from ..records.outcome import failure_of
from ..task.context import Context
from ..task.durable import suspends
from ..task.interruption import Interrupted, TaskExit
from . import Next


async def recovery(ctx: Context, call_next: Next) -> Any:
    """Raises TaskExit for SystemExit and the like, and Suspend if the run is suspended; cancellations and interruptions
    pass through."""
    try:
        return await call_next(ctx)
    except (Exception, asyncio.CancelledError, Interrupted):
        raise
    except BaseException as error:
        if (suspension := ctx.suspension) is not None and suspends(error):
            raise suspension from None
        failure = failure_of(error, stack=False)
        raise TaskExit(f"the task raised {failure.type}: {failure.message}") from error
