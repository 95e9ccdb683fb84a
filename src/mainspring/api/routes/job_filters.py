"""Filters of jobs: query parameters of a list, and the filter in a body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from litestar.di import NamedDependency
from litestar.params import QueryParameter
from msgspec.structs import replace

from ...app import Mainspring
from ...mask import MASK
from ...records.job import Shown
from ...records.query import Filter
from ..access.authenticate import App
from ..access.redaction import is_hiding, redact_error
from ..parameters import InstantText, parse_instant
from ..problem import Problem

# Of one query parameter.
MAX_FILTER_VALUES = 100
MAX_DEAD_GROUPS = 1000
_ANY = "May be repeated: any of the values."
Names = Annotated[list[str] | None, QueryParameter(max_items=MAX_FILTER_VALUES, description=_ANY)]
Tags = Annotated[
    list[str] | None, QueryParameter(max_items=MAX_FILTER_VALUES, description="May be repeated: all of the tags.")
]
Errors = Annotated[list[str] | None, QueryParameter(max_items=MAX_FILTER_VALUES, description=f"The last error. {_ANY}")]
States = Annotated[list[Shown] | None, QueryParameter(name="state", max_items=MAX_FILTER_VALUES, description=_ANY)]
Outcome = Annotated[Literal["partial"] | None, QueryParameter(description="Completed, but some items failed.")]
Prefix = Annotated[str | None, QueryParameter(description="Prefix of the unique or idempotency key.")]


class JobFilter(Filter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects the jobs that match all fields. An unknown field is refused: if ignored, it would select more jobs."""


async def filter_from_query(
    app: App,
    states: States = None,
    queue: Names = None,
    task: Names = None,
    tag: Tags = None,
    schedule: Names = None,
    worker: Names = None,
    error: Errors = None,
    outcome: Outcome = None,
    key_prefix: Prefix = None,
    created_after: InstantText = None,
    created_before: InstantText = None,
) -> Filter:
    """The filter in the query parameters of a request."""
    which = Filter(
        states=None if states is None else tuple(states),
        queues=_texts(queue),
        tasks=_texts(task),
        tags=_texts(tag),
        schedules=_texts(schedule),
        workers=_texts(worker),
        errors=_texts(error),
        outcome=outcome,
        key_prefix=key_prefix,
        created_after=parse_instant(created_after),
        created_before=parse_instant(created_before),
    )
    return await unmasked_filter(app, which)


async def unmasked_filter(app: Mainspring, which: Filter) -> Filter:
    """The filter with masked errors replaced by the stored ones that are shown like them.

    A caller who may not see error texts or keys cannot filter by them: the result would reveal whether they exist.
    """
    if which.key_prefix is not None and is_hiding():
        raise Problem(403, "forbidden", "job keys may contain arguments, which are hidden from viewers here")
    if which.errors is None or not (is_hiding() or any(MASK in error for error in which.errors)):
        return which
    kinds = [group.error for group in await app.dead.groups(limit=MAX_DEAD_GROUPS)]
    found = [kind for kind in kinds if redact_error(kind) in which.errors]
    given = [MASK] if is_hiding() else which.errors
    return replace(which, errors=tuple(dict.fromkeys([*given, *found])))


def _texts(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


# Injected into a handler by the parameter name `which`.
QueryFilter = NamedDependency[Filter]
