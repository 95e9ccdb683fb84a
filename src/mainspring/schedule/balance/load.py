"""Load: the number of ticks of all schedules in each slot of an interval."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from math import gcd
from typing import NamedTuple

from msgspec.structs import replace

from ...clock import micros
from ...trigger import At, Every, Timetable
from ..record import Schedule

MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
# Widths of a slot; an interval uses the narrowest that needs at most MAX_SLOTS.
SLOT_WIDTHS_MICROS = tuple(
    int(seconds * MICROS_PER_SECOND) for seconds in (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 86_400)
)
MAX_SLOTS = 1500
# Weights are whole numbers, so that removing a schedule restores the load exactly. A grown interval has fewer shares.
SHARES_PER_TICK = 1000
WEIGHT_PER_SHARE = 1_000_000
# The weight of one tick in every interval.
WEIGHT_PER_TICK = SHARES_PER_TICK * WEIGHT_PER_SHARE
# Ticks of cron and calendar triggers that are walked; further ones are taken as evenly spread.
MAX_WALKED_TICKS = 10_000
_MICROSECOND = timedelta(microseconds=1)


class Phase(NamedTuple):
    """A recurrence: every `span`, at the offset `phase`; both in microseconds."""

    span: int
    phase: int


class IntervalWheel:
    """One interval, divided into slots, with the average weight of ticks in each slot."""

    def __init__(self, span: int, phases: Mapping[int, Mapping[int, int]]) -> None:
        """`phases` has the shares of each phase, by span and phase."""
        self.span = span
        self.width = next(
            (width for width in SLOT_WIDTHS_MICROS if -(-span // width) <= MAX_SLOTS), -(-span // MAX_SLOTS)
        )
        self.ticks = [0] * -(-span // self.width)
        self.total = 0
        self.add(phases)

    def add(self, phases_by_span: Mapping[int, Mapping[int, int]]) -> None:
        """Adds shares of these phases; a negative number removes them."""
        width, folds = self.width, defaultdict[int, Counter[int]](Counter)
        for span, phases in phases_by_span.items():
            common = gcd(self.span, span)
            # A shorter recurrence loads every slot equally.
            if common >= width:
                fold, weight = folds[common], WEIGHT_PER_SHARE * common // span
                for phase, shares in phases.items():
                    fold[phase % common // width] += shares * weight
        for common, fold in folds.items():
            for first, weight in fold.items():
                self._add_weight(range(first * width, self.span, common), weight)

    def _add_weight(self, phases: range, weight: int) -> None:
        for phase in phases:
            self.ticks[phase // self.width] += weight
        self.total += weight * len(phases)

    @property
    def fair_share(self) -> int:
        """The weight of a slot if all were equal, rounded up to whole ticks."""
        return -(-self.total // (len(self.ticks) * WEIGHT_PER_TICK)) * WEIGHT_PER_TICK

    def slot_of(self, at: int) -> int:
        """The slot of an instant in microseconds."""
        return at % self.span // self.width

    def least_loaded_slot(self, start: int, free: range | None = None) -> int:
        """The middle of the longest run of least loaded slots, the first such run after `start`.

        `free` limits the search to a range of slots, counted from `start`.
        """
        rotated = self.ticks[start:] + self.ticks[:start]
        candidates = rotated if free is None else rotated[free.start : free.stop]
        low = min(candidates)
        fits = bytes(tick == low for tick in candidates)
        first = 0 if free is None else free.start
        busy = fits.find(b"\0")
        if free is None:
            if busy < 0:
                return start
            # The interval is a circle: a run may cross its end.
            first, fits = busy, fits[busy:] + fits[:busy]
        run = max(map(len, fits.split(b"\0")))
        return (start + first + fits.find(b"\1" * run) + run // 2) % len(self.ticks)

    def phase_in(self, slot: int) -> int:
        """The phase of the next schedule in the slot; they are distributed over the slot's seconds."""
        begin, seconds = slot * self.width, max(1, self.width // MICROS_PER_SECOND)
        # A step near the golden ratio leaves wide gaps; one that is coprime to the length visits every second.
        step = next(step for step in range(-(-618 * seconds // 1000), 2 * seconds + 1) if gcd(step, seconds) == 1)
        shift = self.ticks[slot] // WEIGHT_PER_TICK * step % seconds * MICROS_PER_SECOND
        return begin + shift if begin + shift < self.span else begin


class TickLoad:
    """The load of all active schedules, to choose anchors for others. Paused and ended ones do not count."""

    def __init__(self, schedules: Iterable[Schedule], now: datetime) -> None:
        self._phases = defaultdict[int, Counter[int]](Counter)
        self._wheel: IntervalWheel | None = None
        self._walk = TickWalker(now, MAX_WALKED_TICKS)
        for schedule in sorted(schedules, key=lambda row: row.name):
            if schedule.status == "active":
                self.add(schedule)

    def wheel(self, span: int) -> IntervalWheel:
        """The load within one interval. Only the last one is cached: callers go interval by interval."""
        if self._wheel is None or self._wheel.span != span:
            self._wheel = IntervalWheel(span, self._phases)
        return self._wheel

    def add(self, schedule: Schedule, times: int = 1) -> None:
        """Adds the schedule `times` times; -1 removes it."""
        for (span, phase), shares in self._phases_of(schedule):
            self._phases[span][phase] += shares * times
            if self._wheel is not None:
                self._wheel.add({span: {phase: shares * times}})

    def _phases_of(self, schedule: Schedule) -> list[tuple[Phase, int]]:
        trigger = schedule.spec.trigger
        if isinstance(trigger, Every):
            # An interval that is measured from the finish of a run has no phase.
            no_phase = schedule.spec.after == "finish"
            return [] if no_phase else [(phase_of(schedule, trigger), max(1, SHARES_PER_TICK // schedule.stretch))]
        walks = not isinstance(trigger, At) and self._walk.left > 0
        return [(phase, SHARES_PER_TICK) for phase in self._walked(schedule)] if walks else []

    def _walked(self, schedule: Schedule) -> list[Phase]:
        """The ticks of the coming day, taken as recurring daily."""
        timetable = schedule.timetable
        return [
            Phase(MICROS_PER_DAY, micros(timetable.fire_at(tick)) % MICROS_PER_DAY)
            for tick in self._walk.ticks(timetable)
        ]


class TickWalker:
    """Walks the ticks of timetables in the `span` after `since`, up to a total number."""

    def __init__(self, since: datetime, limit: int, span: timedelta = timedelta(days=1)) -> None:
        self.since = since
        self.until = since + span
        self.left = limit
        self._cache: dict[Timetable, list[datetime]] = {}

    def ticks(self, timetable: Timetable) -> list[datetime]:
        """Ticks whose jobs may be due in the span: jitter can delay earlier ticks into it."""
        key = _without_name(timetable)
        if key not in self._cache:
            found = self._cache[key] = []
            tick = timetable.next(self.since - timedelta(seconds=timetable.jitter) - _MICROSECOND)
            while tick is not None and tick < self.until and self.left > 0:
                self.left -= 1
                found.append(tick)
                tick = timetable.next(tick)
        return self._cache[key]


def _without_name(timetable: Timetable) -> Timetable:
    """The timetable without its name if no rule depends on it: schedules with equal ticks share one cache entry."""
    rule = timetable.trigger.named(timetable.name)
    name = "" if rule == timetable.trigger else timetable.name
    anchored = rule if timetable.anchor_at is None else rule.anchored(timetable.anchor_at)
    return replace(timetable, trigger=anchored, name=name, anchor_at=None)


def phase_of(schedule: Schedule, every: Every) -> Phase:
    """The phase at which the jobs of this interval of a schedule are made, with its jitter."""
    span = every.span // _MICROSECOND
    offset = schedule.timetable.offset // _MICROSECOND if schedule.spec.jitter else 0
    return Phase(span, (micros(every.anchor or schedule.anchor_at) + offset) % span)
