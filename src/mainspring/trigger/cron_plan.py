"""CronPlan: a cron expression as bit sets, to find the next wall-clock time that matches."""

from __future__ import annotations

from datetime import MAXYEAR, datetime
from typing import Literal

from ..errors import BadInput
from .cron_fields import Field, Fields, Special

DayMatch = Literal["or", "and"]

LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Bit mask: the same weekday in each of five weeks.
_FIVE_WEEKS = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28
_KINDS_OF_YEAR = 14
Year = tuple[int, ...]


class CronPlan:
    """Finds the wall-clock times that match an expression, without regard to zones.

    A year begins on one of seven weekdays and is a leap year or not. All of these 14 kinds occur within the
    calendar's cycle of 400 years, so their tables decide whether a date can occur at all.
    """

    def __init__(self, fields: Fields, day_match: DayMatch = "or") -> None:
        self.fields = fields
        self.day_match = day_match
        self.both_days = not (fields.day.free or fields.weekday.free)
        self.seconds, self.minutes, self.hours = fields.second.bits, fields.minute.bits, fields.hour.bits
        self._second, self._minute, self._hour = _lowest(self.seconds), _lowest(self.minutes), _lowest(self.hours)
        self._months: dict[tuple[int, int], int] = {}
        self._years: list[Year | None] = [None] * _KINDS_OF_YEAR
        if not any(any(self._year(kind)) for kind in range(_KINDS_OF_YEAR)):
            raise BadInput(self._impossible())

    def first(self, at: datetime) -> datetime | None:
        """The first match at or after `at`, both without a zone; None if it is beyond the last year."""
        year, month, day = at.year, at.month, at.day
        months = self._year(_kind(year))
        days = months[month] >> day
        if days & 1 and (time := self._time(at.hour, at.minute, at.second)):
            return datetime(year, month, day, *time)
        if days > 1:
            day += 1 + _lowest(days >> 1)
            return datetime(year, month, day, self._hour, self._minute, self._second)
        return self._day_after(year, month)

    def _day_after(self, year: int, month: int) -> datetime | None:
        """The first match after this month."""
        while year <= MAXYEAR:
            months = self._year(_kind(year))
            for later in range(month + 1, 13):
                if months[later]:
                    return datetime(year, later, _lowest(months[later]), self._hour, self._minute, self._second)
            year, month = year + 1, 0
        return None

    def _time(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        """The first matching time of a day at or after this one."""
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and (rest := self.seconds >> second):
                return hour, minute, second + _lowest(rest)
            if rest := self.minutes >> minute + 1:
                return hour, minute + 1 + _lowest(rest), self._second
        if rest := self.hours >> hour + 1:
            return hour + 1 + _lowest(rest), self._minute, self._second
        return None

    def _year(self, kind: int) -> Year:
        """The matching days in each month of a year of this kind; bit n is day n."""
        cached = self._years[kind]
        if cached is not None:
            return cached
        leap, first = divmod(kind, 7)
        months = [0]
        for month in range(1, 13):
            length = LENGTHS[month] + (leap and month == 2)
            months.append(self._month(first, length) if self.fields.month.bits >> month & 1 else 0)
            first = (first + length) % 7
        self._years[kind] = tuple(months)
        return tuple(months)

    def _month(self, first: int, length: int) -> int:
        """The matching days in a month of this length that begins on the weekday `first`."""
        if (cached := self._months.get((first, length))) is not None:
            return cached
        day, weekday = self.fields.day, self.fields.weekday
        by_day, by_weekday = _days(day, first, length), _weekdays(weekday, first, length)
        either = self.both_days and self.day_match == "or"
        days = (by_day | by_weekday if either else by_day & by_weekday) & (2 << length) - 2
        self._months[first, length] = days
        return days

    def _impossible(self) -> str:
        day, month, weekday = (field.text.upper() for field in self.fields[3:])
        if self.both_days and self.day_match == "and":
            return f"no day {day} of month {month} is day of week {weekday}; day_match='or' asks for one of them"
        if self.both_days:
            return f"neither day of month {day} nor day of week {weekday} ever comes in month {month}"
        if self.fields.day.free:
            return f"day of week {weekday} never comes in month {month}"
        return f"day of month {day} never comes in month {month}; the last day of any month is L"


def _kind(year: int) -> int:
    """Number of the kind of year: leap or not, and the weekday of 1 January (Sunday is 0)."""
    before = year - 1
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 7 * leap + (1 + before + before // 4 - before // 100 + before // 400) % 7


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _days(field: Field, first: int, length: int) -> int:
    bits = field.bits
    for special in field.specials:
        day = _special_day(special, first, length)
        bits |= 1 << day if day > 0 else 0
    return bits


def _weekdays(field: Field, first: int, length: int) -> int:
    week = (field.bits >> first | field.bits << 7 - first) & 127
    bits = week * _FIVE_WEEKS << 1
    for special in field.specials:
        day = 1 + (special.number - first) % 7
        if special.kind == "nth":
            day += 7 * (special.nth - 1)
        else:
            day += 28 if day + 28 <= length else 21
        bits |= 1 << day
    return bits


def _special_day(special: Special, first: int, length: int) -> int:
    """The day of the month; below 1 if this month has none."""
    day = min(special.number, length) if special.kind == "nearest weekday" else length - special.number
    if special.kind == "last" or day < 1:
        return day
    match (first + day - 1) % 7:
        case 6:
            return day - 1 if day > 1 else day + 2
        case 0:
            return day + 1 if day < length else day - 2
    return day
