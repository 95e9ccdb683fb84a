"""The audit of ticks at the end: recorded ticks against the reference, and counters against the records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from mainspring.ids import JobId
from mainspring.schedule.record import Spec, Tick
from mainspring.schedule.status import MAX_COUNTED_TICKS
from mainspring.trigger import Every

from . import reference_ticks
from .schedule_log import DETACHED_REASONS, ScheduleLife, ScheduleLog, TimetablePeriod

Fail = Callable[[str, str, str], None]
_OMITTED = ("window", "excluded")


def audit_ticks(schedule_log: ScheduleLog, fail: Fail, now: datetime) -> None:
    """Checks I6 for every schedule that ever existed."""
    for name, lives in sorted(schedule_log.lives.items()):
        for life in lives:
            _TickAudit(life, now, partial(fail, "I6", name)).check()
    _check_jobs(schedule_log, fail)


def _check_jobs(schedule_log: ScheduleLog, fail: Fail) -> None:
    """Fails if a job has no recorded tick, or a fired tick no job."""
    recorded: dict[JobId, tuple[str, Tick]] = {}
    for name, lives in sorted(schedule_log.lives.items()):
        for tick in (tick for life in lives for tick in life.records if tick.what == "fired"):
            if tick.job_id not in schedule_log.jobs:
                fail("I6", name, f"{tick.at} is recorded as fired, but its job does not exist")
            recorded[tick.job_id or ""] = (name, tick)
    for id, job in sorted(schedule_log.jobs.items()):
        if id not in recorded:
            fail("I6", job.schedule or "", f"{id} was created, but no tick is recorded for it")
        elif (job.schedule, job.scheduled_at) != (recorded[id][0], recorded[id][1].at):
            fail("I6", job.schedule or "", f"{id} is for {job.scheduled_at}, but its tick is another")


class _TickAudit:
    """The audit of one life of one schedule."""

    def __init__(self, life: ScheduleLife, now: datetime, fail: Callable[[str], None]) -> None:
        self._life = life
        self._now = now
        self._fail = fail
        self._series = [tick for tick in life.records if tick.reason not in (*DETACHED_REASONS, *_OMITTED)]
        self._omitted = [tick for tick in life.records if tick.reason in _OMITTED]
        self._last = max([tick.last_at or tick.at for tick in self._series], default=life.row.created_at)

    def check(self) -> None:
        self._check_counters()
        reference: list[datetime] = []
        for period in self._life.periods:
            if period.spec.after == "start":
                until = self._end(period)
                known = {tick for tick in period.extra if tick <= until}
                reference += sorted({*reference_ticks.ticks(period.spec, period.anchor, period.since, until), *known})
                self._check_omissions(period, until)
        self._check_records(reference)

    def _end(self, period: TimetablePeriod) -> datetime:
        """The instant up to which each tick must be recorded."""
        if period.until is not None:
            return period.until
        row = self._life.row
        if period.over or row.next_run_at is None:
            return self._last
        return min(row.next_run_at - timedelta(microseconds=1), self._now)

    def _check_counters(self) -> None:
        row, counts = self._life.row, Counter[str]()
        for tick in self._life.records:
            if tick.reason not in DETACHED_REASONS:
                counts[tick.what] += tick.count
        counts |= Counter(completed=self._life.completed, failed=self._life.failed, failures=self._life.failures)
        counts["ticks"] = len(self._life.records)
        for name in ("fired", "skipped", "missed", "completed", "failed", "failures", "ticks"):
            if getattr(row, name) != counts[name]:
                self._fail(f"counts {getattr(row, name)} {name}, but {counts[name]} are recorded")

    def _after_a_run(self, tick: datetime) -> bool:
        """Whether an interval with `after="finish"` can have ended there."""
        periods = [period for period in self._life.periods if period.spec.after == "finish"]
        return any(
            tick in period.extra or self._follows(tick, base, period.spec)
            for period in periods
            for base in self._life.bases
        )

    def _follows(self, tick: datetime, base: datetime, spec: Spec) -> bool:
        """Whether `tick` is a whole number of intervals after `base`: a change may have skipped some."""
        on_grid = isinstance(spec.trigger, Every) and base < tick and not (tick - base) % spec.trigger.span
        if not _narrowed(spec):
            return on_grid
        return base < tick and reference_ticks.ticks(replace(spec, end_at=None), base, base, tick)[-1:] == [tick]

    def _check_records(self, reference: list[datetime]) -> None:
        """Fails if a reference tick has not exactly one record, or a record is no reference tick."""
        fates: dict[datetime, list[Tick]] = {tick: [] for tick in reference}
        for record in self._series:
            first, last = record.at, record.last_at or record.at
            covered = reference[bisect_left(reference, first) : bisect_right(reference, last)]
            if not covered and record.last_at is None and self._after_a_run(first):
                continue
            if not covered or covered[0] != first or covered[-1] != last:
                self._fail(f"{record.what} {first} to {last}, which are not its ticks")
            elif min(len(covered), MAX_COUNTED_TICKS) != record.count:
                self._fail(f"counts {record.count} ticks from {first} to {last}; they are {len(covered)}")
            for tick in covered:
                fates[tick].append(record)
        for tick, records in fates.items():
            self._check_record(tick, [record for record in records if record.reason != "made_already"] or records)

    def _check_record(self, tick: datetime, records: list[Tick]) -> None:
        if not records and tick != self._life.row.held_at:
            self._fail(f"its tick {tick} is not recorded")
        elif len(records) > 1:
            fates = ", ".join(f"{record.what} {record.reason}".strip() for record in records)
            self._fail(f"its tick {tick} has {len(records)} records: {fates}")

    def _check_omissions(self, period: TimetablePeriod, until: datetime) -> None:
        """Fails if the ticks that the timetable omits are not recorded once each, up to the last recorded tick."""
        since = period.omits_since or period.since
        last = max([tick.last_at or tick.at for tick in self._series if tick.at <= until], default=since)
        found = reference_ticks.omitted(period.spec, period.anchor, since, until) if _narrowed(period.spec) else []
        for why in _OMITTED:
            ticks = [tick for tick, reason in found if reason == why]
            records = [tick for tick in self._omitted if tick.reason == why and since < tick.at <= until]
            count = sum(record.count for record in records)
            least = len(ticks) if period.complete else bisect_right(ticks, last)
            if not min(least, MAX_COUNTED_TICKS) <= count <= len(ticks):
                self._fail(f"records {count} ticks omitted by its {why} in {since} to {last}; they are {least}")


def _narrowed(spec: Spec) -> bool:
    return spec.window is not None or bool(spec.exclude)
