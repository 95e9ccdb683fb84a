"""Runs counted by span of time, queue and task: what statistics are made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from msgspec import Struct

from ..clock import EPOCH, instant, micros
from .outcome import Outcome
from .run import WENT_WRONG, Ending, Failure, Items, outcome_of

K = TypeVar("K")
Span = Literal["minute", "hour", "day", "ever"]
SPAN_SECONDS: Mapping[Span, int] = {"minute": 60, "hour": 3600, "day": 86_400, "ever": 0}
# Enough for some hours by the minute, some days by the hour and a year by the day.
RETENTION: Mapping[Span, timedelta] = {
    "minute": timedelta(hours=3),
    "hour": timedelta(days=4),
    "day": timedelta(days=400),
}
# Kinds of failure remembered in one tally: a task that fails in ever new ways must not make it grow.
MAX_ERROR_KINDS = 40
OTHER_ERRORS = "(other errors)"
_MAX_MICROS = 2**63
NOT_COUNTED = frozenset({Ending.SNOOZED, Ending.RELEASED})


class RunSums(Struct, omit_defaults=True):
    """Counts of some runs; two of them can be added."""

    endings: dict[str, int] = {}
    """By job.outcome_of(): those that completed in part are counted apart."""
    took: int = 0
    """Microseconds, of all runs."""
    spread: dict[int, int] = {}
    """How many took how long: see bucket()."""
    errors: dict[str, int] = {}
    last: int = 0
    """When the last one ended, in microseconds since 1970."""
    well: int = 0
    """When the last one that completed did; 0: none has, or it was counted by an earlier release."""
    fates: dict[str, int] = {}
    """The states in which runs that went wrong left their jobs: pending (tried again) or dead."""
    items: dict[str, int] = {}
    """What ctx.items() was told, of snoozed and released runs as well: success, failed, skipped."""
    waits: dict[int, int] = {}
    """How many had waited how long to be taken, by bucket(); a run counted by an earlier release is not in it."""
    waited: int = 0
    """Microseconds, of all runs in `waits`."""
    lines: dict[str, tuple[int, str]] = {}
    """By kind of failure its latest Failure.line, and when that was; none of runs counted by an earlier release."""
    took_ends: tuple[int, int] | None = None
    """Microseconds of the shortest and the longest run; None: an earlier release has counted some of them."""
    wait_ends: tuple[int, int] | None = None
    """The same of the waits."""

    def add(self, other: RunSums) -> None:
        self.took_ends = _joined(self.took_ends, self.spread, other.took_ends, other.spread)
        self.wait_ends = _joined(self.wait_ends, self.waits, other.wait_ends, other.waits)
        _add(self.endings, other.endings)
        _add(self.spread, other.spread)
        for kind, count in other.errors.items():
            self._met(kind, count)
        for kind, last in other.lines.items():
            self._heard(kind, last)
        self.took += other.took
        self.last = max(self.last, other.last)
        self.well = max(self.well, other.well)
        _add(self.fates, other.fates)
        _add(self.items, other.items)
        _add(self.waits, other.waits)
        self.waited += other.waited

    def count(self, ending: str, spans: Sequence[timedelta], waits: Sequence[timedelta] = ()) -> None:
        """Runs that ended alike and took so long, after waits that long."""
        self.endings[ending] = self.endings.get(ending, 0) + len(spans)
        took, self.took_ends = _sort(self.spread, spans, self.took_ends)
        waited, self.wait_ends = _sort(self.waits, waits, self.wait_ends)
        self.took += took
        self.waited += waited

    def meet(self, failure: Failure, at: datetime) -> None:
        self._met(failure.kind, 1)
        self._heard(failure.kind, (micros(at), failure.line))

    def work(self, items: Items) -> None:
        told = {"success": items.success, "failed": items.failed, "skipped": items.skipped}
        _add(self.items, {name: count for name, count in told.items() if count})

    def _met(self, kind: str, count: int) -> None:
        known = kind in self.errors or len(self.errors) < MAX_ERROR_KINDS
        _add(self.errors, {kind if known else OTHER_ERRORS: count})

    def _heard(self, kind: str, last: tuple[int, str]) -> None:
        if kind in self.errors:  # not one of the others
            self.lines[kind] = max(last, self.lines.get(kind, last))


class Tally(Struct, frozen=True):
    """The runs of a task in a queue that ended within one span of time."""

    at: datetime
    queue: str
    task: str
    sums: RunSums


def sums_by_minute(outcomes: Iterable[Outcome]) -> dict[tuple[datetime, str, str], RunSums]:
    """Sums by minute, queue and task. Every run of a busy worker passes here: what went well is only collected."""
    found: dict[tuple[datetime, str, str], RunSums] = {}
    well: dict[tuple[str, str], tuple[list[timedelta], list[timedelta]]] = {}
    ends: dict[tuple[str, str], datetime] = {}
    minute, after, completed = EPOCH, EPOCH, Ending.COMPLETED
    for outcome in outcomes:
        at = outcome.finished_at
        if not minute <= at < after:
            _gather(found, well, minute, ends)
            minute = span_start(at, "minute")
            after = minute + timedelta(minutes=1)
        key = (outcome.queue, outcome.task)
        if outcome.account is not None and outcome.account.items is not None and outcome.task:
            found.setdefault((minute, *key), RunSums()).work(outcome.account.items)
        if outcome.ending is completed and outcome.failure is None and outcome.task:
            lists = well.get(key)
            if lists is None:
                lists = well[key] = ([], [])
                ends[key] = at
            elif at > ends[key]:
                ends[key] = at
            started, due = outcome.started_at or at, outcome.due_at
            lists[0].append(at - started)
            if due is not None:
                lists[1].append(started - due)
        elif outcome.task and outcome.ending not in NOT_COUNTED:
            sums = found.setdefault((minute, *key), RunSums())
            started, due = outcome.started_at or at, outcome.due_at
            name = outcome_of(outcome.ending, outcome.failure)
            sums.count(name, [at - started], [] if due is None else [started - due])
            sums.last = max(sums.last, micros(at))
            if outcome.ending is completed:
                sums.well = max(sums.well, micros(at))
            elif outcome.ending in WENT_WRONG:
                _add(sums.fates, {outcome.state.value: 1})
            # A wish is no error, and neither is what a completed run notes: failed items, a result that was not kept.
            if outcome.failure is not None and outcome.ending in WENT_WRONG:
                sums.meet(outcome.failure, at)
    _gather(found, well, minute, ends)
    return found


def _gather(
    found: dict[tuple[datetime, str, str], RunSums],
    well: dict[tuple[str, str], tuple[list[timedelta], list[timedelta]]],
    minute: datetime,
    ends: dict[tuple[str, str], datetime],
) -> None:
    for key, (spans, waits) in well.items():
        sums = found.setdefault((minute, *key), RunSums())
        sums.count(Ending.COMPLETED, spans, waits)
        sums.last = max(sums.last, micros(ends[key]))
        sums.well = max(sums.well, micros(ends[key]))
    well.clear()
    ends.clear()


def _sort(
    spread: dict[int, int], spans: Sequence[timedelta], ends: tuple[int, int] | None
) -> tuple[int, tuple[int, int] | None]:
    """Adds spans to their buckets; returns the microseconds of all of them, and the new ends."""
    if not spans:
        return 0, ends
    known = ends is not None or not spread
    total, least, most = 0, *(ends or (_MAX_MICROS, 0))
    for span in spans:
        us = span.seconds * 1_000_000 + span.microseconds
        if span.days:
            us = max(0, us + span.days * 86_400_000_000)
        bits = us.bit_length()
        size = bits * 4 + ((us >> (bits - 3)) & 3) if us > 3 else us  # bucket(us), without the call
        spread[size] = spread.get(size, 0) + 1
        total += us
        if us < least:
            least = us
        if us > most:
            most = us
    return total, (least, most) if known else None


def _joined(
    ends: tuple[int, int] | None,
    spread: Mapping[int, int],
    others: tuple[int, int] | None,
    other_spread: Mapping[int, int],
) -> tuple[int, int] | None:
    """The ends of two sums together; unknown if those of one are."""
    if not other_spread:
        return ends
    if not spread:
        return others
    return None if ends is None or others is None else (min(ends[0], others[0]), max(ends[1], others[1]))


def span_start(at: datetime, span: Span) -> datetime:
    """When the span that `at` lies in began."""
    match span:
        case "minute":
            return at.replace(second=0, microsecond=0)
        case "hour":
            return at.replace(minute=0, second=0, microsecond=0)
        case "day":
            return at.replace(hour=0, minute=0, second=0, microsecond=0)
    return EPOCH


def last_at(sums: RunSums) -> datetime | None:
    return instant(sums.last) if sums.last else None


def _add(counts: dict[K, int], more: Mapping[K, int]) -> None:
    for key, count in more.items():
        counts[key] = counts.get(key, 0) + count
