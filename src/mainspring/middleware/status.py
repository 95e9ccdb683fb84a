"""Status of a run: how it ended, in one word, as a middleware sees it."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, get_args

from ..errors import JobTimeout
from ..records.outcome import Cancel, Directive, Discard, Finish, Skip, Snooze, Suspend
from ..task.context import Context

Status = Literal[
    "completed", "partial", "failed", "timeout", "snoozed", "discarded", "cancelled", "suspended", "interrupted"
]
STATUSES: tuple[Status, ...] = get_args(Status)


_BY_ITEMS: dict[str, Status] = {"success": "completed", "partial": "partial", "failed": "failed"}


def status_of(ended: Any, ctx: Context | None = None) -> Status:
    """The status of a returned value (possibly a Retry, Snooze, …) or a raised exception.

    For an ordinary value, the items that the run counted decide. "interrupted" is a cancellation, a stopping worker
    or a lost lease; only the worker knows which.
    """
    match ended:
        case asyncio.CancelledError():
            return "interrupted"
        case JobTimeout():
            return "timeout"
        case Snooze():
            return "snoozed"
        case Discard():
            return "discarded"
        case Cancel():
            return "cancelled"
        case Suspend():
            return "suspended"
        case Skip() | Finish():
            return "completed"
        case Directive() | BaseException():
            return "failed"
        case _:
            return "completed" if ctx is None else _BY_ITEMS[ctx.verdict]
