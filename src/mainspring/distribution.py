"""Distribution: how many ticks of schedules come in each hour of a day, and how evenly they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from .schedule import Schedule
from .trigger import Every, Timetable

SECONDS = 86_400
# Ticks that are looked up one by one at most: those of intervals are counted without.
WALKED = 100_000
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000


class Peak(Struct, frozen=True):
    """The minute with the most ticks, the first of several."""

    at: datetime
    count: int


class Distribution(Struct, frozen=True, kw_only=True):
    """The ticks of the 24 hours from `since`, the next full hour, as if nothing were changed until then.

    Paused schedules have none. The score is 1 if no hour, no minute and no second has more than its share,
    rounded up, and 0 if everything comes in one second: the mean of how even hours, minutes and seconds are.
    """

    since: datetime
    schedules: int
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    """By minute of the hour, all hours together."""
    peak: Peak | None
    """None: there are no ticks."""
    score: float
    unseen: int = 0
    """Schedules whose ticks were too many to look up."""

    @property
    def total(self) -> int:
        return sum(self.hours)


def distribution(schedules: Iterable[Schedule], now: datetime) -> Distribution:
    since = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    rows = sorted((row for row in schedules if row.status == "active"), key=lambda row: row.name)
    day = _Day(since)
    for row in rows:
        day.add(row)
    seconds = day.counted()
    minutes, hours = _sums(seconds, 60), _sums(seconds, 3600)
    most = max(minutes)
    peak = Peak(since + timedelta(minutes=minutes.index(most)), most) if most else None
    score = sum(evenness(counts) for counts in (seconds, minutes, hours)) / 3
    return Distribution(
        since=since, schedules=len(rows), hours=tuple(hours), minutes=tuple(sum(minutes[n::60]) for n in range(60)),
        peak=peak, score=round(score, 4), unseen=day.unseen,
    )  # fmt: skip


def evenness(counts: Sequence[int]) -> float:
    """1: none has more than its share of all, rounded up; 0: one has everything."""
    total = sum(counts)
    share = -(-total // len(counts))
    return 1.0 if total <= share else (sum(min(count, share) for count in counts) - share) / (total - share)


def _sums(counts: Sequence[int], size: int) -> list[int]:
    return [sum(counts[n : n + size]) for n in range(0, len(counts), size)]


class _Day:
    """The seconds of a day, while they are counted. Equal intervals are counted together: there may be thousands."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self.unseen = 0
        self._seconds = [0] * SECONDS
        # By interval in microseconds and first second.
        self._intervals = Counter[tuple[int, int]]()
        self._patience = WALKED
        self._walked: dict[Timetable, list[datetime]] = {}

    def add(self, row: Schedule) -> None:
        spec, timetable = row.spec, row.timetable
        limited = spec.window or spec.exclude or spec.end_at or spec.max_runs
        if isinstance(timetable.trigger, Every) and not limited:
            self._interval(timetable.trigger.span, timetable)
        elif self._patience <= 0:
            self.unseen += 1
        else:
            left = None if spec.max_runs is None else max(0, spec.max_runs - row.fired)
            for tick in self._ticks(timetable)[:left]:
                self._count(timetable.fire_at(tick))

    def _interval(self, span: timedelta, timetable: Timetable) -> None:
        tick = timetable.next(self.since - timetable.offset - _MICROSECOND)
        if tick is not None:
            length, first = span // _MICROSECOND, (timetable.fire_at(tick) - self.since) // _MICROSECOND
            self._intervals[length, first // _SECOND] += 1

    def _count(self, at: datetime) -> None:
        second = (at - self.since) // timedelta(seconds=1)
        if 0 <= second < SECONDS:
            self._seconds[second] += 1

    def _ticks(self, timetable: Timetable) -> list[datetime]:
        """Those that are due on this day; jitter may bring them over from the day before."""
        bare = _nameless(timetable)
        if bare not in self._walked:
            found = self._walked[bare] = []
            tick = bare.next(self.since - timedelta(seconds=timetable.jitter) - _MICROSECOND)
            while tick is not None and tick < self.since + timedelta(days=1) and self._patience > 0:
                self._patience -= 1
                found.append(tick)
                tick = bare.next(tick)
        return self._walked[bare]

    def counted(self) -> list[int]:
        """Ticks by second."""
        for (span, first), times in self._intervals.items():
            if span >= _SECOND:
                for at in range(first * _SECOND, SECONDS * _SECOND, span):
                    self._seconds[at // _SECOND] += times
            else:
                for second in range(SECONDS):
                    self._seconds[second] += times * ((second + 1) * _SECOND // span - second * _SECOND // span)
        return self._seconds


def _nameless(timetable: Timetable) -> Timetable:
    """What schedules that tick alike have in common, whatever their names."""
    rule = timetable.trigger.named(timetable.name)
    anchored = rule if timetable.anchor_at is None else rule.anchored(timetable.anchor_at)
    return replace(timetable, trigger=anchored, name="", anchor_at=None)
