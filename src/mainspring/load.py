"""Load: how many ticks of schedules fall into each slot of an interval's round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from math import gcd
from typing import NamedTuple

from .clock import micros
from .schedule import Schedule
from .trigger import At, Every

SECOND = 1_000_000
DAY = 86_400 * SECOND
# A slot is the narrowest of these that cuts a round into at most so many.
WIDTHS = tuple(int(seconds * SECOND) for seconds in (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 86_400))
MOST = 1500
# The weight of one tick in every round: whole numbers, so that what is taken away leaves nothing behind.
SHARE, PART = 1000, 1_000_000
WHOLE = SHARE * PART
# Ticks of other triggers than intervals that are looked up at most; what is beyond counts as falling everywhere alike.
WALKED = 20_000


class Beat(NamedTuple):
    """Something that comes again every `span`, at `phase` of it; both in microseconds."""

    span: int
    phase: int


class Round:
    """One interval, cut into slots, and the ticks that fall into each of them in a round on average."""

    def __init__(self, span: int) -> None:
        self.span = span
        self.width = next((width for width in WIDTHS if -(-span // width) <= MOST), -(-span // MOST))
        self.ticks = [0] * -(-span // self.width)

    def add(self, beats: Iterable[tuple[Beat, int]]) -> None:
        """So many shares of each beat; less than 0 takes them away again."""
        folds: dict[int, Counter[int]] = {}
        for (span, phase), shares in beats:
            common = gcd(self.span, span)
            # Narrower than a slot, it comes to every slot alike.
            if common >= self.width:
                start = phase % common // self.width * self.width
                folds.setdefault(common, Counter())[start] += shares * (PART * common // span)
        for common, fold in folds.items():
            for start, weight in fold.items():
                for at in range(start, self.span, common):
                    self.ticks[at // self.width] += weight

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
        begin, there = slot * self.width, self.ticks[slot] // WHOLE
        # Multiples of the golden section, to the whole second, leave the widest gap to those before.
        shift = there * 618 % 1000 * (self.width // SECOND) // 1000 * SECOND
        return begin + shift if begin + shift < self.span else begin


class Board:
    """All schedules as load, for those that are to be placed among them. What is paused or has ended is none."""

    def __init__(self, schedules: Iterable[Schedule], now: datetime) -> None:
        self._beats = Counter[Beat]()
        self._rounds: dict[int, Round] = {}
        self._now = now
        self._patience = WALKED
        for schedule in sorted(schedules, key=lambda row: row.name):
            if schedule.status == "active":
                self.add(schedule)

    def round(self, span: int) -> Round:
        if span not in self._rounds:
            self._rounds[span] = Round(span)
            self._rounds[span].add(self._beats.items())
        return self._rounds[span]

    def add(self, schedule: Schedule, times: int = 1) -> None:
        """So many more of it; -1 takes it away."""
        for beat, shares in self._of(schedule):
            self._beats[beat] += shares * times
            for round in self._rounds.values():
                round.add([(beat, shares * times)])

    def _of(self, schedule: Schedule) -> list[tuple[Beat, int]]:
        trigger = schedule.spec.trigger
        if isinstance(trigger, Every):
            # Whose interval counts from the end of its runs has no phase.
            return [] if schedule.spec.after == "finish" else [(beat_of(schedule), SHARE // schedule.stretch)]
        return [] if isinstance(trigger, At) else [(beat, SHARE) for beat in self._walked(schedule)]

    def _walked(self, schedule: Schedule) -> list[Beat]:
        """The ticks of the coming day, as if every day were like it."""
        timetable, found = schedule.timetable, list[Beat]()
        tick, until = timetable.next(self._now), self._now + timedelta(days=1)
        while tick is not None and tick <= until and self._patience > 0:
            self._patience -= 1
            found.append(Beat(DAY, micros(timetable.fire_at(tick)) % DAY))
            tick = timetable.next(tick)
        return found


def beat_of(schedule: Schedule) -> Beat:
    """When the jobs of an interval are made: its ticks and its jitter."""
    trigger, timetable = schedule.spec.trigger, schedule.timetable
    assert isinstance(trigger, Every)
    span = trigger.span // timedelta(microseconds=1)
    anchor = micros(trigger.anchor or schedule.anchor_at)
    return Beat(span, (anchor + timetable.offset // timedelta(microseconds=1)) % span)
