"""Every: a trigger that ticks at a fixed interval, on a grid that does not drift."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, time, timedelta

from msgspec.structs import force_setattr, replace

from ..clock import EPOCH
from ..errors import BadInput
from .calendar import Calendar, time_texts
from .trigger import Trigger
from .wall_clock import DAY, MICROSECOND, date_text, time_text, to_utc
from .weekday import weekdays
from .zone import zone_of

_HOUR = timedelta(hours=1)
_WEEK = timedelta(weeks=1)
_UNITS = (
    ("week", _WEEK),
    ("day", DAY),
    ("hour", _HOUR),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
)
_PAST_THE_HOUR = re.compile(r":([0-5][0-9])(?::([0-5][0-9]))?")
MIN_INTERVAL = timedelta(milliseconds=1)
MAX_INTERVAL = timedelta(days=36_525)
_MAX_INTERVAL_SECONDS = 36_525 * 86_400


class Every(Trigger, frozen=True, kw_only=True, tag="every"):
    """Ticks at anchor + k · seconds for every whole k, in elapsed time: a day is 24 hours.

    From a millisecond to a hundred years, exact to the microsecond. The default anchor is 1970-01-01T00:00Z. The
    zone only determines how ticks are shown, and on which dates they are.
    """

    seconds: int | float
    anchor: datetime | None = None

    def __post_init__(self) -> None:
        zone_of(self.tz)
        force_setattr(self, "seconds", _check_seconds(self.seconds))
        if self.anchor is not None:
            force_setattr(self, "anchor", to_utc(self.anchor, "the anchor of an interval"))

    @property
    def span(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def next(self, after: datetime) -> datetime | None:
        return self._tick(self._steps(after) + 1)

    def count(self, after: datetime, until: datetime, *, limit: int) -> int:
        return max(0, min(self._steps(until) - self._steps(after), limit))

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        tick = self._tick(self._steps(until))
        return tick if tick is not None and tick > after else None

    def _steps(self, at: datetime) -> int:
        """The number of intervals from the anchor to the last tick at or before `at`."""
        return (to_utc(at, "the instant") - (self.anchor or EPOCH)) // self.span

    def _tick(self, k: int) -> datetime | None:
        try:
            return (self.anchor or EPOCH) + k * self.span
        except OverflowError:  # beyond the calendar
            return None

    def anchored(self, at: datetime) -> Every:
        return self if self.anchor is not None else self.starting(at)

    def starting(self, at: datetime) -> Every:
        """The same interval anchored at `at`, which may be in the past or the future."""
        return replace(self, anchor=at)

    def in_zone(self, tz: str) -> Every:
        """The same ticks shown in that zone."""
        return replace(self, tz=tz)

    def at(self, *times: str | time, tz: str | None = None) -> Calendar | Every:
        """For whole days or weeks: at these wall-clock times. For whole hours: at a minute past the hour, as ":15"."""
        span = self.span
        if not span % DAY:
            return self._calendar(times, tz or self.tz)
        if not span % _HOUR:
            return self._past_the_hour(times, tz)
        raise BadInput(f"{self.explain()} has no time of day: .at() goes with whole hours, days and weeks")

    def _past_the_hour(self, times: tuple[str | time, ...], tz: str | None) -> Every:
        match = _PAST_THE_HOUR.fullmatch(times[0]) if len(times) == 1 and isinstance(times[0], str) else None
        if not match:
            raise BadInput(
                f"{self.explain()} has one minute past the hour: write .at(':15'), or every().day.at('09:15')"
            )
        if tz is not None:
            way = f"cron('{int(match[1])} * * * *', tz={tz!r})"
            raise BadInput(f"{self.explain()} counts in UTC: leave tz out, or write {way}")
        return self.starting(EPOCH + timedelta(minutes=int(match[1]), seconds=int(match[2] or 0)))

    def on(self, *days: str | int) -> Calendar:
        """For whole weeks: on these weekdays, at midnight unless .at() follows."""
        if self.span % _WEEK:
            raise BadInput(f"{self.explain()} has no weekdays: write every().week.on('monday') or every().monday")
        return replace(self._calendar(("00:00",), self.tz), weekdays=weekdays(days))

    def _calendar(self, times: Iterable[str | time], tz: str) -> Calendar:
        weeks, rest = divmod(self.span, _WEEK)
        days = self.span // DAY if rest else 0
        anchor = self.anchor and self.anchor.astimezone(zone_of(tz)).date()
        return Calendar(days=days, weeks=0 if rest else weeks, times=time_texts(times), tz=tz, anchor=anchor)

    def explain(self) -> str:
        return f"every {_words(self.span)}{self._from()}"

    def _from(self) -> str:
        if self.anchor is None:
            return ""
        past = self.anchor - EPOCH
        if not self.span % _HOUR and not past % timedelta(seconds=1) and timedelta(0) <= past < _HOUR:
            return f" at :{time_text(self.anchor)[3:]}"
        local = self.anchor.astimezone(zone_of(self.tz))
        return f", counted from {date_text(local)}, {time_text(local)} {self.tz}"

    def warnings(self) -> list[str]:
        if self.span >= timedelta(seconds=1):
            return []
        return [f"{self.explain()} makes {86_400 / self.seconds:,.0f} jobs a day"]


def _check_seconds(seconds: float) -> float:
    """The seconds, rounded to the microsecond; an int if they are whole. Raises BadInput if out of range."""
    if type(seconds) is int and 1 <= seconds <= _MAX_INTERVAL_SECONDS:  # the fast path: every decoding comes here
        return seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise BadInput(f"an interval is a number of seconds, got {seconds!r:.80}")
    if not MIN_INTERVAL.total_seconds() <= seconds <= MAX_INTERVAL.total_seconds():
        raise BadInput(
            f"an interval of {seconds!r:.40} seconds is out of range: from 0.001 seconds to {MAX_INTERVAL.days} days"
        )
    exact = timedelta(seconds=seconds) / MICROSECOND / 1_000_000
    return int(exact) if exact.is_integer() else exact


def _words(span: timedelta) -> str:
    """The span in the largest unit that divides it: 5 minutes, week, 0.25 seconds."""
    unit, one = next(((unit, one) for unit, one in _UNITS if not span % one), _UNITS[-1])
    if span == one:
        return unit
    return f"{f'{span / one:.6f}'.rstrip('0').rstrip('.')} {unit}s"
