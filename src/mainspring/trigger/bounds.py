"""Bounds: limits on the size of triggers and schedules."""

from __future__ import annotations

from collections.abc import Sized

from ..errors import BadInput

# Times of day in one calendar: one for each minute of a day.
MAX_TIMES = 1440
# Excluded dates of a schedule: ten years.
MAX_EXCLUDED_DATES = 3660
# Dependencies of a schedule.
MAX_DEPENDENCIES = 100
# Weekdays in one rule, as written.
MAX_WEEKDAYS = 50
# Length of weekdays written as one text.
MAX_WEEKDAY_CHARACTERS = 200
# Length of the name of a schedule, task or queue.
MAX_NAME_CHARACTERS = 200
# The last year in which a schedule may start or tick: later instants cannot be converted to every zone.
LAST_YEAR = 9998
# Length of a bad value as quoted in an error.
MAX_QUOTED_CHARACTERS = 60


def check_count(what: str, values: Sized, limit: int, remedy: str) -> None:
    """Raises BadInput if there are more than `limit` values."""
    if len(values) > limit:
        raise BadInput(f"{len(values):,} {what} are too many: at most {limit:,}; {remedy}")


def quoted(text: str) -> str:
    """The text as quoted in an error; a long one is truncated."""
    return repr(text) if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]!r}…"
