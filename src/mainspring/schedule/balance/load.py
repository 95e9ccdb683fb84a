"""Load: how many ticks of schedules fall into each slot of an interval's round."""

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
# A slot is the narrowest of these that cuts a round into at most so many.
SLOT_WIDTHS_MICROS = tuple(
    int(seconds * MICROS_PER_SECOND) for seconds in (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 86_400)
)
MAX_SLOTS = 1500
# The weight of one tick in every round: whole numbers, so that what is taken away leaves nothing behind.
SHARES_PER_TICK, WEIGHT_PER_SHARE = 1000, 1_000_000
WEIGHT_PER_TICK = SHARES_PER_TICK * WEIGHT_PER_SHARE
# Ticks of other triggers than intervals that are looked up at most; what is beyond is taken to fall everywhere alike.
MAX_WALKED_TICKS = 10_000
_MICROSECOND = timedelta(microseconds=1)


class Phase(NamedTuple):
    """Something that comes again every `span`, at `phase` of it; both in microseconds."""

    span: int
    phase: int


class IntervalWheel:
    """One interval, cut into slots, and the ticks that fall into each of them in a round on average."""

    def __init__(self, span: int, beats: Mapping[int, Mapping[int, int]]) -> None:
        """The shares of each beat, by span and phase."""
        self.span = span
        self.width = next(
            (width for width in SLOT_WIDTHS_MICROS if -(-span // width) <= MAX_SLOTS), -(-span // MAX_SLOTS)
        )
        self.ticks = [0] * -(-span // self.width)
        self.total = 0
        self.add(beats)

    def add(self, beats: Mapping[int, Mapping[int, int]]) -> None:
        """More shares of these beats; less than 0 takes them away again."""
        width, folds = self.width, defaultdict[int, Counter[int]](Counter)
        for span, phases in beats.items():
            common = gcd(self.span, span)
            # Narrower than a slot, it comes to every slot alike.
            if common >= width:
                fold, part = folds[common], WEIGHT_PER_SHARE * common // span
                for phase, shares in phases.items():
                    fold[phase % common // width] += shares * part
        for common, fold in folds.items():
            for first, weight in fold.items():
                self._lay(range(first * width, self.span, common), weight)

    def _lay(self, phases: range, weight: int) -> None:
        for phase in phases:
            self.ticks[phase // self.width] += weight
        self.total += weight * len(phases)

    @property
    def share(self) -> int:
        """What each slot would have if all had the same, in whole ticks, rounded up."""
        return -(-self.total // (len(self.ticks) * WEIGHT_PER_TICK)) * WEIGHT_PER_TICK

    def slot(self, at: int) -> int:
        return at % self.span // self.width

    def least(self, start: int, free: range | None = None) -> int:
        """The middle of the longest row of least loaded slots, the first one from `start` on; among `free`, if given.

        `free` counts from `start` on, too.
        """
        turned = self.ticks[start:] + self.ticks[:start]
        some = turned if free is None else turned[free.start : free.stop]
        low = min(some)
        fits = bytes(tick == low for tick in some)
        first = 0 if free is None else free.start
        taken = fits.find(b"\0")
        if free is None:
            if taken < 0:
                return start
            # A round has no end: the row that goes over it is one row.
            first, fits = taken, fits[taken:] + fits[:taken]
        row = max(map(len, fits.split(b"\0")))
        return (start + first + fits.find(b"\1" * row) + row // 2) % len(self.ticks)

    def phase(self, slot: int) -> int:
        """Where in the slot the next one goes: those of one slot do not all fall on its first second."""
        begin, seconds = slot * self.width, max(1, self.width // MICROS_PER_SECOND)
        # Steps near the golden section leave wide gaps, and one that shares no factor meets every second in turn.
        step = next(step for step in range(-(-618 * seconds // 1000), 2 * seconds + 1) if gcd(step, seconds) == 1)
        shift = self.ticks[slot] // WEIGHT_PER_TICK * step % seconds * MICROS_PER_SECOND
        return begin + shift if begin + shift < self.span else begin


class TickLoad:
    """All schedules as load, for those that are to be placed among them. What is paused or has ended is none."""

    def __init__(self, schedules: Iterable[Schedule], now: datetime) -> None:
        self._beats = defaultdict[int, Counter[int]](Counter)
        self._round: IntervalWheel | None = None
        self._walk = TickWalker(now, MAX_WALKED_TICKS)
        for schedule in sorted(schedules, key=lambda row: row.name):
            if schedule.status == "active":
                self.add(schedule)

    def round(self, span: int) -> IntervalWheel:
        """The same one until another is asked for: whoever places many does so interval by interval."""
        if self._round is None or self._round.span != span:
            self._round = IntervalWheel(span, self._beats)
        return self._round

    def add(self, schedule: Schedule, times: int = 1) -> None:
        """So many more of it; -1 takes it away."""
        for (span, phase), shares in self._of(schedule):
            self._beats[span][phase] += shares * times
            if self._round is not None:
                self._round.add({span: {phase: shares * times}})

    def _of(self, schedule: Schedule) -> list[tuple[Phase, int]]:
        trigger = schedule.spec.trigger
        if isinstance(trigger, Every):
            # Whose interval counts from the end of its runs has no phase.
            free = schedule.spec.after == "finish"
            return [] if free else [(phase_of(schedule, trigger), max(1, SHARES_PER_TICK // schedule.stretch))]
        walks = not isinstance(trigger, At) and self._walk.left > 0
        return [(beat, SHARES_PER_TICK) for beat in self._walked(schedule)] if walks else []

    def _walked(self, schedule: Schedule) -> list[Phase]:
        """The ticks of the coming day, as if every day were like it."""
        timetable = schedule.timetable
        return [
            Phase(MICROS_PER_DAY, micros(timetable.fire_at(tick)) % MICROS_PER_DAY)
            for tick in self._walk.ticks(timetable)
        ]


class TickWalker:
    """The ticks of timetables in the `span` after `since`, looked up one by one, so many at most."""

    def __init__(self, since: datetime, most: int, span: timedelta = timedelta(days=1)) -> None:
        self.since = since
        self.until = since + span
        self.left = most
        self._known: dict[Timetable, list[datetime]] = {}

    def ticks(self, timetable: Timetable) -> list[datetime]:
        """Those whose jobs may be due by then: jitter brings some over from the day before."""
        key = _without_name(timetable)
        if key not in self._known:
            found = self._known[key] = []
            tick = timetable.next(self.since - timedelta(seconds=timetable.jitter) - _MICROSECOND)
            while tick is not None and tick < self.until and self.left > 0:
                self.left -= 1
                found.append(tick)
                tick = timetable.next(tick)
        return self._known[key]


def _without_name(timetable: Timetable) -> Timetable:
    """What schedules that tick alike have in common: their names matter to few rules, their anchors to some."""
    rule = timetable.trigger.named(timetable.name)
    name = "" if rule == timetable.trigger else timetable.name
    anchored = rule if timetable.anchor_at is None else rule.anchored(timetable.anchor_at)
    return replace(timetable, trigger=anchored, name=name, anchor_at=None)


def phase_of(schedule: Schedule, every: Every) -> Phase:
    """When the jobs of this interval of a schedule are made: its ticks and its jitter."""
    span = every.span // _MICROSECOND
    offset = schedule.timetable.offset // _MICROSECOND if schedule.spec.jitter else 0
    return Phase(span, (micros(every.anchor or schedule.anchor_at) + offset) % span)
