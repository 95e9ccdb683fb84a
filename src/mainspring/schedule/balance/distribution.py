"""Distribution: the number of ticks in each hour of a day or a week, and how even they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from ...clock import micros
from ...trigger import Cron, Timetable
from ...trigger.zone import zone_of
from ..record import Schedule
from .load import TickWalker, phase_of

DAYS_PER_WEEK = 7
_SECONDS_PER_DAY = 86_400
# Ticks that are walked; those of plain intervals are computed instead.
MAX_WALKED_TICKS = 100_000
_MICROS_PER_SECOND = 1_000_000
_HOUR = timedelta(hours=1)


class Peak(Struct, frozen=True):
    """The minute with the most ticks; the first one if there are several."""

    at: datetime
    count: int


class Distribution(Struct, frozen=True, kw_only=True):
    """The expected ticks of the coming day or days, from `since`, the next full hour.

    Paused schedules have no ticks. The score is the mean evenness of hours, minutes and seconds: 1 if none of them
    has more than its fair share, rounded up, and 0 if all ticks are in one second.
    """

    since: datetime
    schedules: int
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    """By minute of the hour, over all hours."""
    peak: Peak | None
    """None if there are no ticks."""
    score: float
    unseen: int = 0
    """Schedules whose ticks were not counted, or not all of them, because there were too many."""
    as_of: datetime | None = None
    """When it was computed; with very many schedules an answer is cached for up to a minute."""

    @property
    def total(self) -> int:
        return sum(self.hours)


def distribution(schedules: Iterable[Schedule], now: datetime, days: int = 1) -> Distribution:
    builder = DistributionBuilder(now, days)
    builder.add(sorted(schedules, key=lambda row: row.name))
    return builder.result()


class DistributionBuilder:
    """Computes a distribution from schedules that arrive in batches, in order of their names."""

    def __init__(self, now: datetime, days: int = 1) -> None:
        self._as_of = now
        self._since = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        self._counts = _TickCounts(self._since, days)
        self._schedules = 0

    def add(self, schedules: Iterable[Schedule]) -> None:
        for row in schedules:
            if row.status == "active":
                self._schedules += 1
                self._counts.add(row)

    def result(self) -> Distribution:
        seconds = self._counts.by_second()
        minutes, hours = _sums(seconds, 60), _sums(seconds, 3600)
        peak_ticks = max(minutes)
        peak = Peak(self._since + timedelta(minutes=minutes.index(peak_ticks)), peak_ticks) if peak_ticks else None
        score = sum(evenness(counts) for counts in (seconds, minutes, hours)) / 3
        return Distribution(
            since=self._since,
            schedules=self._schedules,
            hours=tuple(hours),
            minutes=tuple(sum(minutes[n::60]) for n in range(60)),
            peak=peak,
            score=round(score, 4),
            unseen=self._counts.unseen,
            as_of=self._as_of,
        )


def evenness(counts: Sequence[int]) -> float:
    """1 if none has more than its fair share, rounded up; 0 if one has everything."""
    total = sum(counts)
    share = -(-total // len(counts))
    return 1.0 if total <= share else (sum(min(count, share) for count in counts) - share) / (total - share)


def _sums(counts: Sequence[int], size: int) -> list[int]:
    return [sum(counts[n : n + size]) for n in range(0, len(counts), size)]


class _TickCounts:
    """Counts ticks by second. Equal intervals are counted together, since there may be thousands."""

    def __init__(self, since: datetime, days: int) -> None:
        self.since = since
        self.unseen = 0
        self._seconds = [0] * (days * _SECONDS_PER_DAY)
        # Number of schedules by interval in microseconds and first second.
        self._intervals = Counter[tuple[int, int]]()
        self._until = since + timedelta(days=days)
        self._walk = TickWalker(since, MAX_WALKED_TICKS, timedelta(days=days))
        self._hour = TickWalker(since, MAX_WALKED_TICKS, timedelta(hours=1))

    def add(self, row: Schedule) -> None:
        spec, every = row.spec, row.interval
        later = spec.start_at is not None and spec.start_at > self.since
        plain = not (later or spec.window or spec.exclude or spec.end_at or spec.max_runs)
        if every is not None and plain:
            span, phase = phase_of(row, every)
            self._intervals[span, (phase - micros(self.since)) % span // _MICROS_PER_SECOND] += 1
        elif plain and isinstance(spec.trigger, Cron) and self._repeats_hourly(spec.trigger):
            self._add_hourly(row.timetable)
        elif self._walk.left <= 0:
            self.unseen += 1
        else:
            timetable = row.timetable
            left = None if spec.max_runs is None else max(0, spec.max_runs - row.fired)
            for tick in self._walk.ticks(timetable)[:left]:
                self._count(timetable.fire_at(tick))
            self.unseen += self._walk.left <= 0

    def _repeats_hourly(self, rule: Cron) -> bool:
        """Whether its ticks repeat every hour, as those of the most frequent rules do."""
        zone = zone_of(rule.tz)
        shift = self._until.astimezone(zone).utcoffset() or timedelta()
        shift -= self.since.astimezone(zone).utcoffset() or timedelta()
        return rule.hourly and not shift % _HOUR

    def _add_hourly(self, timetable: Timetable) -> None:
        for tick in self._hour.ticks(timetable):
            if tick >= self.since:
                second = (timetable.fire_at(tick) - self.since) % _HOUR // timedelta(seconds=1)
                self._intervals[3600 * _MICROS_PER_SECOND, second] += 1

    def _count(self, at: datetime) -> None:
        second = (at - self.since) // timedelta(seconds=1)
        if 0 <= second < len(self._seconds):
            self._seconds[second] += 1

    def by_second(self) -> list[int]:
        """The number of ticks in each second."""
        size = len(self._seconds)
        for (span, first), times in self._intervals.items():
            if span >= _MICROS_PER_SECOND:
                for at in range(first * _MICROS_PER_SECOND, size * _MICROS_PER_SECOND, span):
                    self._seconds[at // _MICROS_PER_SECOND] += times
            else:
                for second in range(size):
                    self._seconds[second] += times * (
                        (second + 1) * _MICROS_PER_SECOND // span - second * _MICROS_PER_SECOND // span
                    )
        return self._seconds
