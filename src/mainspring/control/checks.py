"""Checks of the arguments that callers pass to the facades: ids, limits and filters."""

from __future__ import annotations

from msgspec.structs import replace

from ..clock import is_instant
from ..errors import BadInput
from ..ids import JobId
from ..records.job import SHOWN
from ..records.query import Filter
from ..records.run import PARTIAL
from ..suggest import did_you_mean
from ..task.handle import job_not_found
from .job_page import is_text

# Rows of one page of a list.
MAX_PAGE_ROWS = 1000
# The largest count that every store can hold.
MAX_COUNT = 2**31 - 1
_TEXTS = ("ids", "states", "queues", "tasks", "tags", "workers", "errors", "schedules")


def checked_filter(which: Filter) -> Filter:
    """Raises BadInput for values of the wrong type, with the name of the field."""
    for name in _TEXTS:
        _texts(f"Filter({name}=…)", getattr(which, name))
    if which.key_prefix is not None and not is_text(which.key_prefix):
        raise BadInput(f"Filter(key_prefix=…) takes a text, got {which.key_prefix!r:.80}")
    if which.outcome not in (None, PARTIAL):
        raise BadInput(f"unknown outcome {which.outcome!r:.80} (known: {PARTIAL}; for others use states)")
    for state in which.states or ():
        if state not in SHOWN:
            raise BadInput(f"unknown state {state!r}; {did_you_mean(state, SHOWN)}")
    for name in ("created_after", "created_before"):
        at = getattr(which, name)
        if at is not None and not is_instant(at):
            raise BadInput(f"{name} takes a datetime with a time zone, got {at!r}")
    return _storable(which)


def _storable(which: Filter) -> Filter:
    """The filter without values that contain NUL: no store has such a value, and not every one can search for it."""
    if "\x00" in (which.key_prefix or "") or any("\x00" in tag for tag in which.tags or ()):
        return Filter(ids=())
    for name in ("ids", "queues", "tasks", "workers", "errors", "schedules"):
        values = getattr(which, name)
        if values is not None and any("\x00" in value for value in values):
            which = replace(which, **{name: tuple(value for value in values if "\x00" not in value)})
    return which


def _texts(what: str, given: object) -> None:
    if given is not None and (not isinstance(given, tuple | list) or not all(map(is_text, given))):
        raise BadInput(f"{what} takes a tuple of texts, got {given!r:.80}")


def checked_limit(limit: object, maximum: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= maximum:
        raise BadInput(f"limit must be from 1 to {maximum}, got {limit!r}; page on with after=")


def checked_id(id: object) -> JobId:
    if not isinstance(id, str):
        raise BadInput(f"a job is named by its id, which is text; got {type(id).__name__} (a handle has it as .id)")
    if not id.isprintable():
        raise job_not_found(id)  # without asking the store
    return id
