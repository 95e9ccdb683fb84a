"""Period: the builder behind every(), which makes intervals and calendars."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, overload

from ..errors import BadInput
from ..span import Span, seconds
from ..suggest import did_you_mean
from .calendar import Calendar
from .every import Every
from .wall_clock import MICROSECOND
from .weekday import WEEKEND, WORKDAYS

UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_CRON = {"month": "0 9 1 * *", "months": "0 9 1 * *", "year": "0 9 1 1 *", "years": "0 9 1 1 *"}


class _Unit:
    """A unit of every(n): the singular takes no number, the plural needs one."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._plural = name, name.endswith("s")

    def __get__(self, period: Period, owner: type) -> Every:
        number = period.number
        if self._plural and number is None:
            raise BadInput(f"every().{self._name}: how many? write every(5).{self._name}, or every().{self._name[:-1]}")
        if not self._plural and number not in (None, 1):
            raise BadInput(f"every({number}).{self._name}: write every({number}).{self._name}s")
        return Every(seconds=self._seconds * (1 if number is None else number))


class _Weekdays:
    """Weekdays of every week, at midnight unless .at() follows."""

    def __init__(self, *days: int) -> None:
        self._days = days

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, period: Period, owner: type) -> Calendar:
        if period.number not in (None, 1):
            days = {"weekday": "mon-fri", "weekend": "sat-sun"}.get(self._name, self._name)
            raise BadInput(f"every({period.number}).{self._name}: write every({period.number}).weeks.on({days!r})")
        return Calendar(weeks=1, weekdays=self._days)


class Period:
    """every(n) before its unit is named: every(5).minutes, every().day, every().monday."""

    def __init__(self, number: float | None = None) -> None:
        valid = isinstance(number, int | float) and not isinstance(number, bool) and number > 0
        if number is not None and not valid:
            raise BadInput(f"every({number!r}): give a number above 0, as in every(5).minutes")
        self.number = number

    second, seconds = _Unit(1), _Unit(1)
    minute, minutes = _Unit(60), _Unit(60)
    hour, hours = _Unit(3600), _Unit(3600)
    day, days = _Unit(86_400), _Unit(86_400)
    week, weeks = _Unit(604_800), _Unit(604_800)
    monday, tuesday, wednesday = _Weekdays(0), _Weekdays(1), _Weekdays(2)
    thursday, friday = _Weekdays(3), _Weekdays(4)
    saturday, sunday = _Weekdays(5), _Weekdays(6)
    weekday, weekend = _Weekdays(*WORKDAYS), _Weekdays(*WEEKEND)

    def __repr__(self) -> str:
        return f"every({'' if self.number is None else self.number})"

    if not TYPE_CHECKING:  # so that type checkers report misspelt names

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            raise BadInput(f"{self}.{name}: {_suggestion(name)}")


def _suggestion(name: str) -> str:
    if name in _CRON:
        return f"they differ in length; write cron({_CRON[name]!r})"
    import difflib  # needed for a message only

    units = [unit for unit in vars(Period) if not unit.startswith("_")]
    near = difflib.get_close_matches(name, units, 1)
    return f"write .{near[0]}" if near else f"name a unit: {', '.join(units)}"


@overload
def every(number: float | None = None, /) -> Period: ...  # pyright: ignore[reportOverlappingOverload]  # every()
@overload
def every(span: timedelta | str, /) -> Every: ...
@overload
def every(*, weeks: float = 0, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Every: ...
def every(span: Span | None = None, /, **units: float) -> Period | Every:
    """every(5).minutes, every().day.at("09:00"), every().monday, every("1h30m"), every(hours=1, minutes=30)."""
    if units and span is not None:
        raise BadInput(f"every({span!r}, {', '.join(units)}=...): use one form, as every(minutes=5)")
    if units:
        span = _sum(units)
    if isinstance(span, str):
        if span.strip().isdigit():
            raise BadInput(f"every({span!r:.80}): give the unit, as in every({span.strip() + 'm'!r:.80}) for minutes")
        return Every(seconds=seconds(span, f"every({span!r:.80})", math.inf))
    return Every(seconds=span / MICROSECOND / 1_000_000) if isinstance(span, timedelta) else Period(span)


def _sum(units: dict[str, float]) -> timedelta:
    try:
        return timedelta(**units)
    except (TypeError, ValueError, OverflowError):
        given = ", ".join(f"{unit}={number!r}" for unit, number in units.items())
        unknown = next((unit for unit in units if unit not in UNITS), None)
        way = "" if unknown is None else f"; {did_you_mean(unknown, UNITS)}"
        raise BadInput(
            f"every({given}) is not an interval: give numbers of {', '.join(UNITS)}; 36525 days at most{way}"
        ) from None
