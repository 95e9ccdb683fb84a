"""Calendar: a trigger that ticks every n days or weeks, at wall-clock times in a zone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from msgspec.structs import force_setattr, replace

from ..errors import BadInput
from .bounds import MAX_TIMES, MAX_WEEKDAYS, check_count
from .trigger import Trigger
from .wall_clock import DAY, EARLIEST, ZERO, clock_shift, date_text, instants, time_of, time_text, to_utc
from .weekday import NAMES, WEEKEND, WORKDAYS, join_words, weekdays
from .zone import MAX_DAYLIGHT_SHIFT, Change, changes, offset_at, offsets, zone_of

_MIDNIGHT = ("00:00",)
_FIRST_DAY = date(1970, 1, 1)
_FIRST_MONDAY = date(1970, 1, 5)
_MAX_DAYS = 36_525
# The year in which clock changes are looked up for warnings; a trigger does not know the current year.
_SAMPLE_YEAR = datetime(2030, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MORE_TIMES = "use an interval, as every(30).seconds, or a cron expression"
# Times that explain() lists one by one.
MAX_LISTED = 24
# Clock changes that warnings() describes.
MAX_WARNINGS = 10


class Calendar(Trigger, frozen=True, kw_only=True, tag="calendar"):
    """At `times` every n `days`, or on `weekdays` (0 is Monday) every n `weeks`.

    Days and weeks are counted from the anchor's date, by default 1970-01-01 or the week of 1970-01-05; without
    weekdays, the anchor's weekday counts. A time in a daylight-saving gap ticks once, at the first instant after
    the gap; a repeated time ticks at its first occurrence. Clock changes of more than three hours are not corrected.
    """

    days: int = 0
    weeks: int = 0
    weekdays: tuple[int, ...] = ()
    times: tuple[str, ...] = _MIDNIGHT
    anchor: date | None = None

    def __post_init__(self) -> None:
        zone_of(self.tz)
        for unit, number in (("days", self.days), ("weeks", self.weeks)):
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_DAYS:
                raise BadInput(f"{unit} is a whole number from 1 to {_MAX_DAYS}, got {number!r}")
        if bool(self.days) == bool(self.weeks):
            raise BadInput("a calendar counts days or weeks: give one of them, as days=1")
        if self.weekdays:
            self._check_weekdays()
        if isinstance(self.anchor, datetime):
            raise BadInput(f"the anchor of a calendar is a date, got {self.anchor!r}: use .starting(...)")
        force_setattr(self, "times", time_texts(self.times))

    def _check_weekdays(self) -> None:
        check_count("weekdays", self.weekdays, MAX_WEEKDAYS, "write each once")
        if self.days:
            raise BadInput("weekdays go with weeks: write every().week.on('monday') or every().monday")
        force_setattr(self, "weekdays", weekdays(self.weekdays))

    # building

    def at(self, *times: str | time, tz: str | None = None) -> Calendar:
        """The same days at these times."""
        if self.times != _MIDNIGHT:
            raise BadInput(f"it has its times already: give all of them at once, as .at({self.times[0]!r}, '17:30')")
        return replace(self, times=time_texts(times), tz=tz or self.tz)

    def on(self, *days: str | int) -> Calendar:
        """The same weeks on these weekdays."""
        return replace(self, weekdays=weekdays(days))

    def in_zone(self, tz: str) -> Calendar:
        """The same wall-clock times in that zone."""
        return replace(self, tz=tz)

    def starting(self, at: date | datetime) -> Calendar:
        """The same rule, counted from that date; an instant stands for its date in the rule's zone."""
        if isinstance(at, datetime):
            at = to_utc(at, "the anchor of a calendar").astimezone(zone_of(self.tz)).date()
        return replace(self, anchor=at)

    def anchored(self, at: datetime) -> Calendar:
        fixed = self.anchor is not None or self.days == 1 or (self.weeks == 1 and self.weekdays)
        return self if fixed else self.starting(at)

    # ticks

    def next(self, after: datetime) -> datetime | None:
        after = max(to_utc(after, "the instant"), EARLIEST)
        try:
            return self._first(after)
        except OverflowError:  # beyond the calendar
            return None

    def _first(self, after: datetime) -> datetime:
        # After a clock is set back it can show yesterday's date again, and the first tick of a day can precede the
        # last of the day before. So neighbouring days are checked too; no clock change exceeds a day.
        day = self._day(after.astimezone(zone_of(self.tz)).date() - DAY)
        first, found_on = None, day
        while first is None or day - found_on <= DAY:
            tick = self._first_of(day, after)
            if tick is not None and (first is None or tick < first):
                first, found_on = tick, day
            day = self._day(day + DAY)
        return first

    def _first_of(self, day: date, after: datetime) -> datetime | None:
        """The first tick of that day after `after`; None if there is none."""
        times, zone = _clock_times(self.times), zone_of(self.tz)
        ahead = _only_offset(day, times, zone)
        if ahead is None:
            ticks = _ticks_of_change(self.times, day, self.tz)
            later = bisect_right(ticks, after)
            return ticks[later] if later < len(ticks) else None
        wall = after.replace(tzinfo=None) + ahead
        n = 0 if wall.date() < day else bisect_right(times, wall.time()) if wall.date() == day else len(times)
        return (datetime.combine(day, times[n]) - ahead).replace(tzinfo=UTC) if n < len(times) else None

    def _day(self, day: date) -> date:
        """The first day of the rule on or after `day`."""
        base = self.anchor or (_FIRST_DAY if self.days else _FIRST_MONDAY)
        if not self.weekdays:
            return day + (base - day) % timedelta(days=self.days or 7 * self.weeks)
        monday = day - day.weekday() * DAY
        week = monday + (base - base.weekday() * DAY - monday) % timedelta(weeks=self.weeks)
        for number in self.weekdays:
            if week + number * DAY >= day:
                return week + number * DAY
        return week + timedelta(weeks=self.weeks, days=self.weekdays[0])

    def _walls_between(self, low: datetime, high: datetime) -> Iterator[datetime]:
        """Its wall-clock times in [low, high), which are less than two days apart."""
        times = _clock_times(self.times)
        for day in {low.date(): None, high.date(): None}:
            if self._day(day) == day:
                first = bisect_left(times, low.time()) if day == low.date() else 0
                last = bisect_left(times, high.time()) if day == high.date() else len(times)
                yield from (datetime.combine(day, at) for at in times[first:last])

    # words

    def explain(self) -> str:
        zone = "" if self.tz == "UTC" else f", {self.tz}"
        times, more = self.times[:MAX_LISTED], len(self.times) - MAX_LISTED
        return f"every {self._which()} at {join_words(times if more <= 0 else [*times, f'{more:,} more times'])}{zone}"

    def _which(self) -> str:
        unit, number = ("day", self.days) if self.days else ("week", self.weeks)
        days = {WORKDAYS: "weekday", WEEKEND: "weekend day"}.get(self.weekdays)
        if number == 1:
            return days or (join_words(NAMES[n] for n in self.weekdays) if self.weekdays else unit)
        on = f" on {f'{days}s' if days else join_words(NAMES[n] for n in self.weekdays)}" if self.weekdays else ""
        return f"{number} {unit}s{on}"

    def note(self, tick: datetime) -> str:
        zone = zone_of(self.tz)
        local = tick.astimezone(zone)
        walls = [wall for wall in self._walls_of(tick, local) if tick in instants(wall, zone)]
        return "; ".join(text for wall in walls if (text := self._effect(wall, local)))

    def _walls_of(self, tick: datetime, local: datetime) -> Iterator[datetime]:
        """Its wall-clock times that may be due at the tick: the one shown, and those in a gap that just ended."""
        wall = local.replace(tzinfo=None, fold=0)
        if offset_at(tick - DAY, zone_of(self.tz)) == offset_at(tick + DAY, zone_of(self.tz)):
            return
        change = next(changes(tick - _SECOND, tick, zone_of(self.tz)), None)
        if change is not None and change.is_gap:
            yield from self._walls_between(change.low, change.high)
        yield from self._walls_between(wall, wall + _SECOND)

    def _effect(self, wall: datetime, runs: datetime) -> str:
        change = clock_shift(wall, zone_of(self.tz))
        if not change or abs(change) > MAX_DAYLIGHT_SHIFT:
            return ""
        when = f"{date_text(wall)}, {time_text(wall)}"
        if change > ZERO:
            return f"{when} does not exist: runs at {time_text(runs)}"
        return f"{when} comes twice: runs the first time"

    def warnings(self) -> list[str]:
        """Times that a clock change affects, each with an example day; and a weekday that is left to chance."""
        effects = self._effects()
        found = [f"for example {text}" for text in islice(effects, MAX_WARNINGS)]
        if more := sum(1 for _ in effects):
            found.append(f"changes of the clocks meet {more:,} more of its times")
        if self.weeks and not self.weekdays and self.anchor is None:
            found.append("the weekday is that of the day it was made on: add .on('monday')")
        return found

    def _effects(self) -> Iterator[str]:
        """The effects of one year's clock changes on its times, each time once. Every day with its weekday counts."""
        daily, seen = replace(self, days=1, weeks=0, weekdays=(), anchor=None), set[tuple[time, timedelta]]()
        for change in _changes_of_a_year(self.tz):
            for wall in daily._walls_between(change.low, change.high):
                shift = change.after - change.before
                if (self.weekdays and wall.weekday() not in self.weekdays) or (wall.time(), shift) in seen:
                    continue
                seen.add((wall.time(), shift))
                if text := self._effect(wall, change.at.astimezone(zone_of(self.tz))):
                    yield text


@lru_cache(maxsize=1024)
def _clock_times(texts: tuple[str, ...]) -> tuple[time, ...]:
    """The times of day, in the order of their texts."""
    return tuple(map(time_of, texts))


@lru_cache(maxsize=64)
def _ticks_of_change(texts: tuple[str, ...], day: date, tz: str) -> tuple[datetime, ...]:
    """The ticks of a day on which the clocks change, in order."""
    walls, zone = (datetime.combine(day, at) for at in _clock_times(texts)), zone_of(tz)
    return tuple(sorted(tick for wall in walls for tick in instants(wall, zone)))


@lru_cache(maxsize=1024)
def _changes_of_a_year(tz: str) -> tuple[Change, ...]:
    return tuple(changes(_SAMPLE_YEAR, _SAMPLE_YEAR + 365 * DAY, zone_of(tz)))


def _only_offset(day: date, times: Sequence[time], zone: ZoneInfo) -> timedelta | None:
    """The zone's offset from UTC at all these times of the day; None if it changes between them."""
    found = {*offsets(datetime.combine(day, times[0]), zone), *offsets(datetime.combine(day, times[-1]), zone)}
    return found.pop() if len(found) == 1 else None


def time_texts(times: Iterable[str | time]) -> tuple[str, ...]:
    """The times in normal form, sorted, without duplicates."""
    several = tuple(times) if not isinstance(times, str) else (times,)
    check_count("times", several, MAX_TIMES, _MORE_TIMES)
    texts = {_time_text(at) for at in several}
    if not texts:
        raise BadInput("no time is given: give one or more, as .at('09:00', '17:30')")
    return tuple(sorted(texts))


def _time_text(at: str | time) -> str:
    if isinstance(at, str):
        return time_text(time_of(at))
    if not isinstance(at, time) or at.tzinfo or at.microsecond:
        raise BadInput(f"{at!r} is not a time of day in whole seconds: write it as '09:00'; the zone goes into tz=")
    return time_text(at)
