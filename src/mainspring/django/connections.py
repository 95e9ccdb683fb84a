"""Django's database connections around runs: each task begins with usable ones, and leaves no stale one behind."""

from __future__ import annotations

from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries

from ..middleware import Next, ThreadNext
from ..task.context import Context


def fresh_connections(ctx: Context, call_next: ThreadNext) -> Any:
    """Thread middleware: does for a plain function what Django does for a request. The thread is reused, and so are
    connections, for CONN_MAX_AGE."""
    reset_queries()
    close_old_connections()
    try:
        return call_next(ctx)
    finally:
        close_old_connections()


async def own_connections(ctx: Context, call_next: Next) -> Any:
    """Middleware: gives a coroutine's ORM calls a thread of their own, as Django gives one to each ASGI request."""
    async with ThreadSensitiveContext() as thread:
        try:
            return await call_next(ctx)
        finally:
            if thread in SyncToAsync.context_to_thread_executor:  # the run has used it
                await sync_to_async(connections.close_all)()
