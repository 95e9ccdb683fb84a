"""Window: the hours and weekdays in which a schedule may fire."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import fields, force_setattr, replace

from ..errors import BadInput
from .wall_clock import DAY, EARLIEST, first_instant, time_of, time_text, to_utc
from .weekday import NAMES, WEEKEND, WORKDAYS, join_words, weekdays
from .zone import zone_of

_MIDNIGHT = re.compile("24:00(:00)?")
# Days searched for an opening: one weekday in seven is open, and a date that a zone skips may hide one.
_SEARCH_DAYS = 16
_DAY_GROUPS: dict[tuple[int, ...], str] = {WORKDAYS: "weekdays", WEEKEND: "weekends"}


class WindowSpan(NamedTuple):
    """One period in which the window is open."""

    opens_at: datetime
    closes_at: datetime


class Window(Struct, frozen=True):
    """Open from `opens` until before `closes`, on `days`; across midnight if it closes earlier than it opens.

    Across midnight, the day of the opening counts. Opening and closing are wall-clock times of the zone: a time in
    a daylight-saving gap is the first instant after it, and of a repeated time the first occurrence counts. The
    default zone is that of the trigger. Ticks `outside` are skipped, or moved to the next opening.
    """

    opens: str
    closes: str
    days: str | Sequence[int | str] | None = None
    tz: str | None = None
    outside: Literal["skip", "move"] = "skip"

    def __post_init__(self) -> None:
        for name in ("opens", "closes"):
            force_setattr(self, name, _time_of_day(getattr(self, name), closing=name == "closes"))
        if self.opens == self.closes:
            raise BadInput(
                f"the window {self.opens}-{self.closes} is empty: give another closing time, or leave it out"
            )
        if self.days is not None:
            force_setattr(self, "days", weekdays(self.days))
        if self.tz is not None:
            zone_of(self.tz)
        if self.outside not in ("skip", "move"):
            raise BadInput(f"what is outside a window is 'skip' or 'move', got {self.outside!r:.80}")

    @classmethod
    def of(cls, said: Window | Mapping[str, Any] | Iterable[Any]) -> Window:
        """Makes a window of ("08:00", "18:00"), ("22:00", "06:00", "mon-fri") or a mapping of its fields."""
        if isinstance(said, Window):
            return said
        if isinstance(said, str) or not isinstance(said, Iterable):
            raise BadInput(
                f"{said!r:.80} is not a window: write it as ('08:00', '18:00') or ('22:00', '06:00', 'mon-fri')"
            )
        parts = list(said)
        named = [field.name for field in fields(cls)]
        if isinstance(said, Mapping):
            given, unknown = dict(said), [part for part in parts if part not in named]
        else:
            given, unknown = dict(zip(named, parts, strict=False)), parts[len(named) :]
        if unknown or not {"opens", "closes"} <= given.keys():
            raise BadInput(f"{said!r:.80} is not a window: it has {', '.join(named)}; the first two are needed")
        return cls(**given)

    def zoned(self, tz: str) -> Window:
        """The window in that zone, unless it has one."""
        return self if self.tz is not None else replace(self, tz=tz)

    def inside(self, at: datetime) -> bool:
        """Whether it is open at the instant."""
        return self.span(at) is not None

    def span(self, at: datetime) -> WindowSpan | None:
        """The open period that contains the instant; None if it is closed then."""
        today, at = self._today(at)
        spans = (self._span(today + n * DAY) for n in (0, -1, 1, -2))
        return next((span for span in spans if span and span.opens_at <= at < span.closes_at), None)

    def opening(self, after: datetime) -> datetime | None:
        """The first opening after `after`; None if it is beyond the last year."""
        today, after = self._today(after)
        try:
            spans = (self._span(today + n * DAY) for n in range(-2, _SEARCH_DAYS))
            return next((span.opens_at for span in spans if span and span.opens_at > after), None)
        except OverflowError:
            return None

    def opened(self, at: datetime) -> datetime | None:
        """The last opening at or before `at`; None if it is before the first year."""
        today, at = self._today(at)
        try:
            spans = (self._span(today - n * DAY) for n in range(-1, _SEARCH_DAYS))
            return next((span.opens_at for span in spans if span and span.opens_at <= at), None)
        except OverflowError:
            return None

    def _today(self, at: datetime) -> tuple[date, datetime]:
        at = max(to_utc(at, "the instant"), EARLIEST)
        return at.astimezone(zone_of(self.tz or "UTC")).date(), at

    def _span(self, day: date) -> WindowSpan | None:
        """The open period that begins on that day; None if there is none, or if it is in a gap of the clock."""
        if isinstance(self.days, tuple) and day.weekday() not in self.days:
            return None
        zone = zone_of(self.tz or "UTC")
        last = day + DAY if self.closes < self.opens or self.closes == "24:00" else day
        opens_at = first_instant(datetime.combine(day, time_of(self.opens)), zone)
        closes_at = first_instant(
            datetime.combine(last, time(0) if self.closes == "24:00" else time_of(self.closes)), zone
        )
        return WindowSpan(opens_at, closes_at) if opens_at < closes_at else None

    def explain(self) -> str:
        zone = f", {self.tz}" if self.tz not in (None, "UTC") else ""
        return f"{self.opens}-{self.closes}{self._on()}{zone}"

    def _on(self) -> str:
        if self.days is None:
            return ""
        days = weekdays(self.days)
        return f" on {_DAY_GROUPS.get(days) or join_words(NAMES[n] for n in days)}"


def _time_of_day(text: str, *, closing: bool) -> str:
    if not isinstance(text, str):
        raise BadInput(f"{text!r:.80} is not a time of day: write it as '09:00'")
    return "24:00" if closing and _MIDNIGHT.fullmatch(text) else time_text(time_of(text))
