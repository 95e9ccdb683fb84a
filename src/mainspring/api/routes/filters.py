"""Which jobs: the parameters of a list, and the filter in a body."""

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
from ..access.authenticate import Spring
from ..access.redaction import hiding, shown_error
from ..parameters import When, instant
from ..problem import Problem

# As many values of a kind may be named.
MANY = 100
# As many kinds of failure are looked at.
GROUPS = 1000
_ANY = "May be repeated: any of them."
Names = Annotated[list[str] | None, QueryParameter(max_items=MANY, description=_ANY)]
Tags = Annotated[list[str] | None, QueryParameter(max_items=MANY, description="May be repeated: all of them.")]
Errors = Annotated[list[str] | None, QueryParameter(max_items=MANY, description=f"What it failed with last. {_ANY}")]
States = Annotated[list[Shown] | None, QueryParameter(name="state", max_items=MANY, description=_ANY)]
Outcome = Annotated[Literal["partial"] | None, QueryParameter(description="Completed, and some of its items failed.")]
Prefix = Annotated[str | None, QueryParameter(description="How its unique or idempotency key begins.")]


class JobFilter(Filter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs: all of it must hold. A misspelt part would mean any job, so it is refused."""


async def which_jobs(
    spring: Spring,
    states: States = None,
    queue: Names = None,
    task: Names = None,
    tag: Tags = None,
    schedule: Names = None,
    worker: Names = None,
    error: Errors = None,
    outcome: Outcome = None,
    key_prefix: Prefix = None,
    created_after: When = None,
    created_before: When = None,
) -> Filter:
    which = Filter(
        states=None if states is None else tuple(states), queues=_texts(queue), tasks=_texts(task), tags=_texts(tag),
        schedules=_texts(schedule), workers=_texts(worker), errors=_texts(error), outcome=outcome,
        key_prefix=key_prefix, created_after=instant(created_after), created_before=instant(created_before),
    )  # fmt: skip
    return await meant(spring, which)


async def meant(spring: Mainspring, which: Filter) -> Filter:
    """The filter with errors as the store has them, where a list has shown them without their secrets.

    Who may not see an error's text, or a key, cannot ask for it either: whether there is one would tell.
    """
    if which.key_prefix is not None and hiding():
        raise Problem(403, "forbidden", "keys of jobs may be made of arguments, which are hidden from viewers here")
    if which.errors is None or not (hiding() or any(MASK in error for error in which.errors)):
        return which
    kinds = [group.error for group in await spring.dead.groups(limit=GROUPS)]
    found = [kind for kind in kinds if shown_error(kind) in which.errors]
    asked = [MASK] if hiding() else which.errors
    return replace(which, errors=tuple(dict.fromkeys([*asked, *found])))


def _texts(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


Which = NamedDependency[Filter]
