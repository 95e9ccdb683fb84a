"""The reckoning: each schedule's ticks beside those it ought to have had, and its counters beside its records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from mainspring.ids import JobId
from mainspring.schedule.record import Spec, Tick
from mainspring.schedule.status import COUNTED
from mainspring.trigger import Every

from . import reference_ticks
from .schedule_log import ASIDE, Almanac, Era, Life

Fail = Callable[[str, str, str], None]
_OMITTED = ("window", "excluded")


def reckon(almanac: Almanac, fail: Fail, now: datetime) -> None:
    """I6, of every schedule there ever was."""
    for name, lives in sorted(almanac.lives.items()):
        for life in lives:
            _Books(life, now, partial(fail, "I6", name)).check()
    _jobs(almanac, fail)


def _jobs(almanac: Almanac, fail: Fail) -> None:
    """Each job has one tick on record, and each fired tick its job."""
    told: dict[JobId, tuple[str, Tick]] = {}
    for name, lives in sorted(almanac.lives.items()):
        for tick in (tick for life in lives for tick in life.records if tick.what == "fired"):
            if tick.job_id not in almanac.jobs:
                fail("I6", name, f"{tick.at} is on record as fired, and its job is not there")
            told[tick.job_id or ""] = (name, tick)
    for id, job in sorted(almanac.jobs.items()):
        if id not in told:
            fail("I6", job.schedule or "", f"{id} was made, and no tick is on record for it")
        elif (job.schedule, job.scheduled_at) != (told[id][0], told[id][1].at):
            fail("I6", job.schedule or "", f"{id} is for {job.scheduled_at}, and its tick is another")


class _Books:
    """One life of one schedule."""

    def __init__(self, life: Life, now: datetime, fail: Callable[[str], None]) -> None:
        self._life = life
        self._now = now
        self._fail = fail
        self._series = [tick for tick in life.records if tick.reason not in (*ASIDE, *_OMITTED)]
        self._omitted = [tick for tick in life.records if tick.reason in _OMITTED]
        self._last = max([tick.last_at or tick.at for tick in self._series], default=life.row.created_at)

    def check(self) -> None:
        self._counters()
        ought: list[datetime] = []
        for era in self._life.eras:
            if era.spec.after == "start":
                until = self._end(era)
                known = {tick for tick in era.extra if tick <= until}
                ought += sorted({*reference_ticks.ticks(era.spec, era.anchor, era.since, until), *known})
                self._omissions(era, until)
        self._fates(ought)

    def _end(self, era: Era) -> datetime:
        """Up to where each tick must have met its fate."""
        if era.until is not None:
            return era.until
        row = self._life.row
        if era.over or row.next_run_at is None:
            return self._last
        return min(row.next_run_at - timedelta(microseconds=1), self._now)

    def _counters(self) -> None:
        row, counts = self._life.row, Counter[str]()
        for tick in self._life.records:
            if tick.reason not in ASIDE:
                counts[tick.what] += tick.count
        counts |= Counter(completed=self._life.completed, failed=self._life.failed, failures=self._life.failures)
        counts["ticks"] = len(self._life.records)
        for name in ("fired", "skipped", "missed", "completed", "failed", "failures", "ticks"):
            if getattr(row, name) != counts[name]:
                self._fail(f"says {getattr(row, name)} {name}, and {counts[name]} are on record")

    def _after_a_run(self, tick: datetime) -> bool:
        """Whether an interval that begins when a run ends can have ended there."""
        eras = [era for era in self._life.eras if era.spec.after == "finish"]
        return any(
            tick in era.extra or self._follows(tick, base, era.spec) for era in eras for base in self._life.bases
        )

    def _follows(self, tick: datetime, base: datetime, spec: Spec) -> bool:
        """Whole intervals later: a change may have passed over some."""
        on_grid = isinstance(spec.trigger, Every) and base < tick and not (tick - base) % spec.trigger.span
        if not _narrowed(spec):
            return on_grid
        return base < tick and reference_ticks.ticks(replace(spec, end_at=None), base, base, tick)[-1:] == [tick]

    def _fates(self, ought: list[datetime]) -> None:
        """Every tick that ought to be has one fate, and nothing else has any."""
        fates: dict[datetime, list[Tick]] = {tick: [] for tick in ought}
        for record in self._series:
            first, last = record.at, record.last_at or record.at
            covered = ought[bisect_left(ought, first) : bisect_right(ought, last)]
            if not covered and record.last_at is None and self._after_a_run(first):
                continue
            if not covered or covered[0] != first or covered[-1] != last:
                self._fail(f"{record.what} {first} to {last}, which are no ticks of it")
            elif min(len(covered), COUNTED) != record.count:
                self._fail(f"counts {record.count} ticks from {first} to {last}; they are {len(covered)}")
            for tick in covered:
                fates[tick].append(record)
        for tick, records in fates.items():
            self._fate(tick, [record for record in records if record.reason != "made_already"] or records)

    def _fate(self, tick: datetime, records: list[Tick]) -> None:
        if not records and tick != self._life.row.held_at:
            self._fail(f"nothing is known of its tick {tick}")
        elif len(records) > 1:
            told = ", ".join(f"{record.what} {record.reason}".strip() for record in records)
            self._fail(f"its tick {tick} has {len(records)} fates: {told}")

    def _omissions(self, era: Era, until: datetime) -> None:
        """What the timetable leaves out is on record, once, up to the last tick that is."""
        last = max([tick.last_at or tick.at for tick in self._series if tick.at <= until], default=era.since)
        found = reference_ticks.omitted(era.spec, era.anchor, era.since, until) if _narrowed(era.spec) else []
        for why in _OMITTED:
            ticks = [tick for tick, reason in found if reason == why]
            records = [tick for tick in self._omitted if tick.reason == why and era.since < tick.at <= until]
            told = sum(record.count for record in records)
            least = len(ticks) if era.told else bisect_right(ticks, last)
            if not min(least, COUNTED) <= told <= len(ticks):
                self._fail(f"tells of {told} ticks that its {why} took out in {era.since} to {last}; they are {least}")


def _narrowed(spec: Spec) -> bool:
    return spec.window is not None or bool(spec.exclude)
