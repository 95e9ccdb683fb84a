"""Bounds of rules about time: how much of everything one of them may hold."""

from __future__ import annotations

from collections.abc import Sized

from ..errors import BadInput

# Times of day in one calendar: each minute of a day. More of them are a cron expression or an interval.
MAX_TIMES = 1440
# Dates that one schedule leaves out: ten years of days.
MAX_EXCLUDED_DATES = 3660
# Schedules that one schedule depends on.
MAX_DEPENDENCIES = 100
# Weekdays in one rule as they are written, and characters of them where they are one text.
MAX_WEEKDAYS = 50
MAX_WEEKDAY_CHARACTERS = 200
# Characters of a name: of a schedule, a task, a queue.
MAX_NAME_CHARACTERS = 200
# The last year in which a schedule may start, or be set to tick: from there on ticks can be told in every zone.
LAST_YEAR = 9998
# Characters of a bad value that an error quotes.
MAX_QUOTED_CHARACTERS = 60


def check_count(what: str, values: Sized, most: int, way_out: str) -> None:
    """Refuses more than `most` values."""
    if len(values) > most:
        raise BadInput(f"{len(values):,} {what} are too many: at most {most:,}; {way_out}")


def quoted(text: str) -> str:
    """The text as an error quotes it: a long one is cut."""
    return repr(text) if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]!r}…"
