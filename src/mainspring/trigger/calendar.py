"""Calendar: every so many days or weeks, at wall-clock times of a zone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta

from msgspec.structs import force_setattr, replace

from ..errors import BadInput
from .rule import Trigger
from .wall import DAY, EARLIEST, NOTHING, instants, shift, spoken, time_of, utc, written
from .weekday import NAMES, WEEKEND, WORKDAYS, listed, weekdays
from .zone import LONGEST_SHIFT, zone_of

_MIDNIGHT = ("00:00",)
_FIRST_DAY = date(1970, 1, 1)
_FIRST_MONDAY = date(1970, 1, 5)
_LONGEST = 36_525
# Changes of the clocks are looked for in this year, which stands for all: nothing here knows what year it is.
_SAMPLE = date(2030, 1, 1)


class Calendar(Trigger, frozen=True, kw_only=True, tag="calendar"):
    """At `times` of every so many `days`, or of the `weekdays` (0 is Monday) of every so many `weeks`.

    Days and weeks are counted from the anchor's date, by default 1970-01-01, or the week of 1970-01-05; weeks
    without weekdays come on the anchor's own. A time that summer time skips comes once, at the first instant
    after the gap; one that comes twice, the first time. Changes of more than three hours are not corrected.
    """

    days: int = 0
    weeks: int = 0
    weekdays: tuple[int, ...] = ()
    times: tuple[str, ...] = _MIDNIGHT
    anchor: date | None = None

    def __post_init__(self) -> None:
        zone_of(self.tz)
        for unit, number in (("days", self.days), ("weeks", self.weeks)):
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _LONGEST:
                raise BadInput(f"{unit} is a whole number from 1 to {_LONGEST}, got {number!r}")
        if bool(self.days) == bool(self.weeks):
            raise BadInput("a calendar counts days or weeks: say one of them, as days=1")
        if self.weekdays:
            self._check_weekdays()
        if isinstance(self.anchor, datetime):
            raise BadInput(f"the anchor of a calendar is a date, got {self.anchor!r}: say .starting(...)")
        force_setattr(self, "times", written_all(self.times))

    def _check_weekdays(self) -> None:
        if self.days:
            raise BadInput("weekdays go with weeks: say every().week.on('monday') or every().monday")
        force_setattr(self, "weekdays", weekdays(self.weekdays))

    # building

    def at(self, *times: str | time, tz: str | None = None) -> Calendar:
        """The same days, at these times."""
        if self.times != _MIDNIGHT:
            raise BadInput(f"it has its times already: say all of them at once, as .at({self.times[0]!r}, '17:30')")
        return replace(self, times=written_all(times), tz=tz or self.tz)

    def on(self, *days: str | int) -> Calendar:
        """The same weeks, on these weekdays."""
        return replace(self, weekdays=weekdays(days))

    def in_zone(self, tz: str) -> Calendar:
        """The same wall-clock times, in that zone."""
        return replace(self, tz=tz)

    def starting(self, at: date | datetime) -> Calendar:
        """The same rule, its days or weeks counted from that date; of an instant, the date in the rule's zone."""
        if isinstance(at, datetime):
            at = utc(at, "the anchor of a calendar").astimezone(zone_of(self.tz)).date()
        return replace(self, anchor=at)

    def anchored(self, at: datetime) -> Calendar:
        told = self.anchor is not None or self.days == 1 or (self.weeks == 1 and self.weekdays)
        return self if told else self.starting(at)

    # ticks

    def next(self, after: datetime) -> datetime | None:
        after = max(utc(after, "the instant"), EARLIEST)
        try:
            return self._first(after)
        except OverflowError:  # beyond the calendar
            return None

    def _first(self, after: datetime) -> datetime:
        # A clock set back can show yesterday's date again, and a day's first tick may be earlier than the last of the
        # day before: neighbours are looked at, too. No change is of more than a day.
        day = self._day(after.astimezone(zone_of(self.tz)).date() - DAY)
        first, found_on = None, day
        while first is None or day - found_on <= DAY:
            for tick in self._ticks(day):
                if tick > after and (first is None or tick < first):
                    first, found_on = tick, day
            day = self._day(day + DAY)
        return first

    def _day(self, day: date) -> date:
        """The first day of the rule that is not earlier than `day`."""
        base = self.anchor or (_FIRST_DAY if self.days else _FIRST_MONDAY)
        if not self.weekdays:
            return day + (base - day) % timedelta(days=self.days or 7 * self.weeks)
        monday = day - day.weekday() * DAY
        week = monday + (base - base.weekday() * DAY - monday) % timedelta(weeks=self.weeks)
        for number in self.weekdays:
            if week + number * DAY >= day:
                return week + number * DAY
        return week + timedelta(weeks=self.weeks, days=self.weekdays[0])

    def _walls(self, day: date) -> Iterator[datetime]:
        return (datetime.combine(day, time_of(text)) for text in self.times)

    def _ticks(self, day: date) -> Iterator[datetime]:
        zone = zone_of(self.tz)
        return (tick for wall in self._walls(day) for tick in instants(wall, zone))

    # words

    def explain(self) -> str:
        zone = "" if self.tz == "UTC" else f", {self.tz}"
        return f"every {self._which()} at {listed(self.times)}{zone}"

    def _which(self) -> str:
        unit, number = ("day", self.days) if self.days else ("week", self.weeks)
        days = {WORKDAYS: "weekday", WEEKEND: "weekend day"}.get(self.weekdays)
        if number == 1:
            return days or (listed(NAMES[n] for n in self.weekdays) if self.weekdays else unit)
        on = f" on {f'{days}s' if days else listed(NAMES[n] for n in self.weekdays)}" if self.weekdays else ""
        return f"{number} {unit}s{on}"

    def note(self, tick: datetime) -> str:
        zone = zone_of(self.tz)
        local = tick.astimezone(zone)
        days = [day for day in (local.date() - DAY, local.date()) if self._day(day) == day]
        walls = [wall for day in days for wall in self._walls(day) if tick in instants(wall, zone)]
        return "; ".join(text for wall in walls if (text := self._fate(wall, local)))

    def _fate(self, wall: datetime, runs: datetime) -> str:
        change = shift(wall, zone_of(self.tz))
        if not change or abs(change) > LONGEST_SHIFT:
            return ""
        when = f"{spoken(wall)}, {written(wall)}"
        if change > NOTHING:
            return f"{when} does not exist: runs at {written(runs)}"
        return f"{when} comes twice: runs the first time"

    def warnings(self) -> list[str]:
        """Times that a change of the clocks meets, with a day on which it does; a weekday left to chance."""
        said = [f"for example {text}" for text in self._changes()]
        if self.weeks and not self.weekdays and self.anchor is None:
            said.append("the weekday is that of the day it was made on: say .on('monday')")
        return said

    def _changes(self) -> Iterator[str]:
        zone, met = zone_of(self.tz), set()
        for day in (_SAMPLE + n * DAY for n in range(365)):
            if self.weekdays and day.weekday() not in self.weekdays:
                continue
            for wall in self._walls(day):
                change = shift(wall, zone)
                if change and (wall.time(), change) not in met:
                    met.add((wall.time(), change))
                    for tick in instants(wall, zone):
                        yield self._fate(wall, tick.astimezone(zone))


def written_all(times: Iterable[str | time]) -> tuple[str, ...]:
    """In order, each once, all in the same form."""
    texts = {_text(at) for at in times}
    if not texts:
        raise BadInput("no time is given: say one or more, as .at('09:00', '17:30')")
    return tuple(sorted(texts))


def _text(at: str | time) -> str:
    if isinstance(at, str):
        return written(time_of(at))
    if not isinstance(at, time) or at.tzinfo or at.microsecond:
        raise BadInput(f"{at!r} is not a time of day in whole seconds: say it as '09:00'; the zone goes into tz=")
    return written(at)
