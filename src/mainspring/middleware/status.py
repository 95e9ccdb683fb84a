"""How a run ended, in one word, as far as a layer around it can see."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, get_args

from ..errors import JobTimeout
from ..records.outcome import Cancel, Directive, Discard, Snooze
from ..task.context import Context

Status = Literal["completed", "partial", "failed", "timeout", "snoozed", "discarded", "cancelled", "interrupted"]
STATUSES: tuple[Status, ...] = get_args(Status)


_BY_ITEMS: dict[str, Status] = {"success": "completed", "partial": "partial", "failed": "failed"}


def status_of(ended: Any, ctx: Context | None = None) -> Status:
    """Of a value returned or an exception raised; a task may also return what steers its job. Where it returned, the
    items that it counted decide.

    "interrupted": by a cancel, a stopping worker or a lost lease. Which of them, only the worker knows.
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
        case Directive() | BaseException():
            return "failed"
        case _:
            return "completed" if ctx is None else _BY_ITEMS[ctx.verdict]
