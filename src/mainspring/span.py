"""Spans of time as users write them, such as 90, 2.5, "4s", "1h30m" or timedelta(minutes=5), in seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from .bounds import MAX_SPAN_SECONDS
from .errors import BadSetting

Span = float | timedelta | str
"""Seconds, a timedelta, or text such as "4s", "1h30m" or "2 days"."""

_MAX_CHARACTERS = 100
_PIECE = re.compile(r"([0-9]+(?:[.][0-9]+)?) ?([a-z]*)")
_UNITS: dict[float, tuple[str, ...]] = {
    0.001: ("ms", "millisecond", "milliseconds"), 1: ("s", "sec", "secs", "second", "seconds", ""),
    60: ("m", "min", "mins", "minute", "minutes"), 3600: ("h", "hr", "hrs", "hour", "hours"),
    86_400: ("d", "day", "days"), 604_800: ("w", "week", "weeks"),
}  # fmt: skip
_SECONDS = {name: unit for unit, names in _UNITS.items() for name in names}


def parse_span(text: str) -> float | None:
    """The seconds of a span written as text. A number alone is in seconds. None if the text is not a span."""
    words = " ".join(text[: _MAX_CHARACTERS + 1].lower().split())
    pieces = _PIECE.findall(words)
    rest = _PIECE.sub("", words).replace("and", "").strip(" ,")
    units = {_SECONDS.get(name): float(number) for number, name in pieces if name or len(pieces) == 1}
    if len(text) > _MAX_CHARACTERS or rest or not units or len(units) < len(pieces):
        return None
    return None if None in units else _exact(units)


def _exact(units: dict[float | None, float]) -> float:
    """The sum in seconds, rounded to the microsecond as a timedelta is."""
    return round(sum(number * unit for unit, number in units.items() if unit is not None), 6)


def seconds(span: Span, what: str, most: float = MAX_SPAN_SECONDS) -> float:
    """A span in seconds. Raises BadSetting, with `what`, if it is no number, negative, or more than `most`."""
    value = span.total_seconds() if isinstance(span, timedelta) else parse_span(span) if isinstance(span, str) else span
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise BadSetting(f"{what} takes a span such as 30, '4s', '1h30m' or a timedelta, 0 or more; {_got(span)}")
    if value > most:
        raise BadSetting(f"{what} takes at most {most / 86_400:,.0f} days ({most:.0f} seconds), got {span!r:.80}")
    return float(value)


def _got(span: object) -> str:
    way = "; months and years differ in length" if isinstance(span, str) and re.search("month|year", span) else ""
    return f"got {span!r:.80}{way}"
