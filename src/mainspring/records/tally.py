"""Tallies: runs counted by span of time, queue and task, for statistics. Pure."""

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
# Minimum time that tallies of each span are kept; those of "ever" are never deleted.
RETENTION: Mapping[Span, timedelta] = {
    "minute": timedelta(hours=3),
    "hour": timedelta(days=4),
    "day": timedelta(days=400),
}
# Kinds of failure in one tally, so that a task with ever new errors cannot make it grow without bound.
MAX_ERROR_KINDS = 40
OTHER_ERRORS = "(other errors)"
_MAX_MICROS = 2**63
NOT_COUNTED = frozenset({Ending.SNOOZED, Ending.RELEASED, Ending.SUSPENDED})


class RunSums(Struct, omit_defaults=True):
    """Sums over some runs. Two of them can be added."""

    endings: dict[str, int] = {}
    """Runs by run.outcome_of(): completed and partial runs are counted separately."""
    took: int = 0
    """Microseconds that all runs took together."""
    spread: dict[int, int] = {}
    """A histogram of the durations: runs by histogram.bucket_of()."""
    errors: dict[str, int] = {}
    """Failed runs by Failure.kind."""
    last: int = 0
    """When the last run ended, in microseconds since 1970."""
    well: int = 0
    """When the last run completed. 0 if none did, or if an earlier release counted it."""
    fates: dict[str, int] = {}
    """Failed runs by the state of their jobs afterwards: pending (to be retried) or dead."""
    items: dict[str, int] = {}
    """Items counted with ctx.items(), also those of snoozed and released runs: success, failed, skipped."""
    waits: dict[int, int] = {}
    """A histogram of the time from due_at to started_at, without runs that an earlier release counted."""
    waited: int = 0
    """Microseconds that all runs in `waits` waited together."""
    lines: dict[str, tuple[int, str]] = {}
    """The latest Failure.line of each kind of failure and its time, without runs that an earlier release counted."""
    took_ends: tuple[int, int] | None = None
    """Microseconds of the shortest and the longest run. None if an earlier release counted some of the runs."""
    wait_ends: tuple[int, int] | None = None
    """Microseconds of the shortest and the longest wait. None as for `took_ends`."""

    def add(self, other: RunSums) -> None:
        self.add_figures(other)
        errors, lines = self.errors, self.lines
        for kind, count in other.errors.items():
            if kind in errors:  # hot: statistics of a month add thousands of sums
                errors[kind] += count
            else:
                self._add_error(kind, count)
        for kind, last in other.lines.items():
            if kind in errors and (kind not in lines or last > lines[kind]):
                lines[kind] = last
        if other.fates:
            _add(self.fates, other.fates)
        if other.items:
            _add(self.items, other.items)

    def add_figures(self, other: RunSums) -> None:
        """Adds what figures are computed from: neither errors nor what became of jobs and items."""
        if other.spread:
            self.took_ends = _merged_ends(self.took_ends, self.spread, other.took_ends)
            _add(self.spread, other.spread)
        if other.waits:
            self.wait_ends = _merged_ends(self.wait_ends, self.waits, other.wait_ends)
            _add(self.waits, other.waits)
        _add(self.endings, other.endings)
        self.took += other.took
        self.waited += other.waited
        if other.last > self.last:
            self.last = other.last
        if other.well > self.well:
            self.well = other.well

    def count(self, ending: str, spans: Sequence[timedelta], waits: Sequence[timedelta] = ()) -> None:
        """Counts runs with the same ending, with their durations and waits."""
        self.endings[ending] = self.endings.get(ending, 0) + len(spans)
        took, self.took_ends = _add_to_buckets(self.spread, spans, self.took_ends)
        waited, self.wait_ends = _add_to_buckets(self.waits, waits, self.wait_ends)
        self.took += took
        self.waited += waited

    def add_failure(self, failure: Failure, at: datetime) -> None:
        self._add_error(failure.kind, 1)
        self._keep_latest_line(failure.kind, (micros(at), failure.line))

    def add_items(self, items: Items) -> None:
        counts = {"success": items.success, "failed": items.failed, "skipped": items.skipped}
        _add(self.items, {name: count for name, count in counts.items() if count})

    def _add_error(self, kind: str, count: int) -> None:
        known = kind in self.errors or len(self.errors) < MAX_ERROR_KINDS
        _add(self.errors, {kind if known else OTHER_ERRORS: count})

    def _keep_latest_line(self, kind: str, last: tuple[int, str]) -> None:
        if kind in self.errors:  # else it is counted under OTHER_ERRORS
            self.lines[kind] = max(last, self.lines.get(kind, last))


class Tally(Struct, frozen=True):
    """The runs of a task in a queue that ended within one span of time."""

    at: datetime
    queue: str
    task: str
    sums: RunSums


def sums_by_minute(outcomes: Iterable[Outcome]) -> dict[tuple[datetime, str, str], RunSums]:
    """The sums of these runs by minute, queue and task.

    Hot: every run passes here. Runs that completed are first collected, then counted together for each minute.
    """
    found: dict[tuple[datetime, str, str], RunSums] = {}
    completed_runs: dict[tuple[str, str], tuple[list[timedelta], list[timedelta]]] = {}
    ends: dict[tuple[str, str], datetime] = {}
    minute, after, completed = EPOCH, EPOCH, Ending.COMPLETED
    for outcome in outcomes:
        at = outcome.finished_at
        if not minute <= at < after:
            _count_completed(found, completed_runs, minute, ends)
            minute = span_start(at, "minute")
            after = minute + timedelta(minutes=1)
        key = (outcome.queue, outcome.task)
        if outcome.account is not None and outcome.account.items is not None and outcome.task:
            found.setdefault((minute, *key), RunSums()).add_items(outcome.account.items)
        if outcome.ending is completed and outcome.failure is None and outcome.task:
            lists = completed_runs.get(key)
            if lists is None:
                lists = completed_runs[key] = ([], [])
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
            # Directives are no errors; neither are the notes of a completed run (failed items, a lost result).
            if outcome.failure is not None and outcome.ending in WENT_WRONG:
                sums.add_failure(outcome.failure, at)
    _count_completed(found, completed_runs, minute, ends)
    return found


def _count_completed(
    found: dict[tuple[datetime, str, str], RunSums],
    completed_runs: dict[tuple[str, str], tuple[list[timedelta], list[timedelta]]],
    minute: datetime,
    ends: dict[tuple[str, str], datetime],
) -> None:
    """Counts the runs collected for one minute, and empties the collections."""
    for key, (spans, waits) in completed_runs.items():
        sums = found.setdefault((minute, *key), RunSums())
        sums.count(Ending.COMPLETED, spans, waits)
        sums.last = max(sums.last, micros(ends[key]))
        sums.well = max(sums.well, micros(ends[key]))
    completed_runs.clear()
    ends.clear()


def _add_to_buckets(
    spread: dict[int, int], spans: Sequence[timedelta], ends: tuple[int, int] | None
) -> tuple[int, tuple[int, int] | None]:
    """Adds spans to a histogram. Returns their sum in microseconds, and the new shortest and longest span."""
    if not spans:
        return 0, ends
    known = ends is not None or not spread
    total, least, most = 0, *(ends or (_MAX_MICROS, 0))
    for span in spans:
        us = span.seconds * 1_000_000 + span.microseconds
        if span.days:
            us = max(0, us + span.days * 86_400_000_000)
        bits = us.bit_length()
        size = bits * 4 + ((us >> (bits - 3)) & 3) if us > 3 else us  # bucket_of(us), inlined
        spread[size] = spread.get(size, 0) + 1
        total += us
        if us < least:
            least = us
        if us > most:
            most = us
    return total, (least, most) if known else None


def _merged_ends(
    ends: tuple[int, int] | None, spread: Mapping[int, int], others: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The shortest and longest span of two sums together; the second has spans. None if those of one are not known."""
    if not spread:
        return others
    if ends is None or others is None:
        return None
    least, most = ends
    other_least, other_most = others
    return other_least if other_least < least else least, other_most if other_most > most else most


def span_start(at: datetime, span: Span) -> datetime:
    """When the span that contains `at` began."""
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
    if not counts:
        counts.update(more)
        return
    for key, count in more.items():
        counts[key] = counts[key] + count if key in counts else count
