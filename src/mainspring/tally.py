"""Runs counted by span of time, queue and task: what statistics are made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from msgspec import Struct

from .clock import EPOCH, instant, micros
from .job import Ending
from .outcome import Outcome

K = TypeVar("K")
Span = Literal["minute", "hour", "ever"]
SECONDS: Mapping[Span, int] = {"minute": 60, "hour": 3600, "ever": 0}
# Enough for a day by the minute and a month by the hour.
KEPT: Mapping[Span, timedelta] = {"minute": timedelta(hours=25), "hour": timedelta(days=31)}
# Kinds of failure remembered in one tally: a task that fails in ever new ways must not make it grow.
KINDS = 40
OTHERS = "(other errors)"
NOT_COUNTED = frozenset({Ending.SNOOZED, Ending.RELEASED})


class Sums(Struct, omit_defaults=True):
    """Counts of some runs; two of them can be added."""

    endings: dict[str, int] = {}
    took: int = 0
    """Microseconds, of all runs."""
    spread: dict[int, int] = {}
    """How many took how long: see bucket()."""
    errors: dict[str, int] = {}
    last: int = 0
    """When the last one ended, in microseconds since 1970."""

    def add(self, other: Sums) -> None:
        _add(self.endings, other.endings)
        _add(self.spread, other.spread)
        for kind, count in other.errors.items():
            self._met(kind, count)
        self.took += other.took
        self.last = max(self.last, other.last)

    def count(self, outcome: Outcome) -> None:
        span = outcome.finished_at - (outcome.started_at or outcome.finished_at)
        took = max(0, (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds)
        size = bucket(took)
        self.endings[outcome.ending] = self.endings.get(outcome.ending, 0) + 1
        self.spread[size] = self.spread.get(size, 0) + 1
        self.took += took
        if outcome.failure is not None and outcome.ending is not Ending.CANCELLED:  # an operator's wish is no error
            self._met(outcome.failure.kind, 1)

    def _met(self, kind: str, count: int) -> None:
        known = kind in self.errors or len(self.errors) < KINDS
        _add(self.errors, {kind if known else OTHERS: count})


class Tally(Struct, frozen=True):
    """The runs of a task in a queue that ended within one span of time."""

    at: datetime
    queue: str
    task: str
    sums: Sums


def counted(outcomes: Iterable[Outcome]) -> dict[tuple[datetime, str, str], Sums]:
    """Sums by minute, queue and task."""
    found: dict[tuple[datetime, str, str], Sums] = {}
    minute, after = EPOCH, EPOCH
    for outcome in outcomes:
        at = outcome.finished_at
        if not minute <= at < after:
            minute = begin(at, "minute")
            after = minute + timedelta(minutes=1)
        if outcome.task and outcome.ending not in NOT_COUNTED:
            sums = found.get((minute, outcome.queue, outcome.task))
            if sums is None:
                sums = found[minute, outcome.queue, outcome.task] = Sums()
            sums.count(outcome)
            sums.last = max(sums.last, micros(at))
    return found


def begin(at: datetime, span: Span) -> datetime:
    """When the span that `at` lies in began."""
    size = SECONDS[span]
    if not size:
        return EPOCH
    return at.replace(second=0, microsecond=0) if size == 60 else at.replace(minute=0, second=0, microsecond=0)


def bucket(us: int) -> int:
    """A number for durations alike: four to each doubling, so a percentile is within 13 % of the truth."""
    if us < 4:
        return us
    bits = us.bit_length()
    return bits * 4 + ((us >> (bits - 3)) & 3)


def middle(number: int) -> float:
    """The duration in seconds that a bucket stands for."""
    if number < 12:
        return number / 1e6
    bits, part = divmod(number, 4)
    return ((4 + part) * 2 + 1) * 2.0 ** (bits - 4) / 1e6


def percentile(spread: Mapping[int, int], share: float) -> float | None:
    """Seconds within which that share of the runs was over."""
    left = share * sum(spread.values())
    for number in sorted(spread):
        left -= spread[number]
        if left <= 0:
            return middle(number)
    return None


def last_at(sums: Sums) -> datetime | None:
    return instant(sums.last) if sums.last else None


def _add(counts: dict[K, int], more: Mapping[K, int]) -> None:
    for key, count in more.items():
        counts[key] = counts.get(key, 0) + count
