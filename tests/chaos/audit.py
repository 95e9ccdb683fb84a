"""The auditor: compares what workers did and what clients were promised with the contents of the store."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mainspring.clock import EPOCH
from mainspring.records.job import Job, State
from mainspring.records.query import Cursor, Filter
from mainspring.records.run import Ending, Execution
from mainspring.records.tally import NOT_COUNTED
from mainspring.schedule.record import MAX_KEPT_TICKS
from mainspring.store import Store
from mainspring.stores import open_store

if TYPE_CHECKING:
    from ground import Ground  # a worker's process has no servers at hand

T = TypeVar("T")
# Seconds between two checks of a condition: the minimum and the maximum.
LOOK_SECONDS, MAX_LOOK_SECONDS = 0.01, 0.1


def until(condition: Callable[[], T], timeout: float = 15.0) -> T:
    """Returns the condition's first true value; fails after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        if value := condition():
            return value
        answered = time.monotonic()
        assert answered < end, f"not within {timeout:g} s: {condition.__qualname__}"
        # A condition that reads the store takes CPU time from the processes it waits for: it is checked less often.
        time.sleep(min(max(LOOK_SECONDS, 3 * (answered - asked)), MAX_LOOK_SECONDS))


class Line(NamedTuple):
    """One thing a worker did, on the clock all processes of a machine share."""

    id: str
    attempt: int
    lease: str
    event: str
    """start, effect, end, settled, lost or fired; acknowledged, with its key for a lease."""
    at: float


class Log:
    """A worker's own file. A line is one write, so a kill never leaves half of one."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, event: str, job: Job) -> None:
        self.note(event, job.id, job.attempt, job.lease or "-")

    def note(self, event: str, id: str, attempt: int = 0, lease: str = "-") -> None:
        os.write(self._file, f"{id} {attempt} {lease} {event} {time.monotonic()!r}\n".encode())


def read_log(path: Path) -> list[Line]:
    if not path.exists():
        return []
    rows = [line.split() for line in path.read_text().splitlines()]
    return [Line(id, int(attempt), lease, event, float(at)) for id, attempt, lease, event, at in rows]


class Audit:
    """The contents of one store: `jobs` and `runs` by job id, `ticks` by schedule, `lines` of all its workers."""

    def __init__(self, ground: Ground, logs: Iterable[Path]) -> None:
        self.lines = [line for log in logs for line in read_log(log)]
        asyncio.run(self._read(open_store(ground.url)))
        self.complaints = ground.complaints()

    async def _read(self, store: Store) -> None:
        await store.open()
        try:
            self.read_at, self.jobs = await store.time(), dict[str, Job]()
            while page := await store.jobs(Filter(), now=self.read_at, limit=1000, after=self._last()):
                self.jobs.update((job.id, job) for job in page)
            runs = await asyncio.gather(*map(store.executions, self.jobs))
            self.runs: dict[str, list[Execution]] = dict(zip(self.jobs, runs, strict=True))
            names = [schedule.name for schedule in await store.schedules(limit=1000)]
            self.ticks = {name: await store.ticks(name, limit=MAX_KEPT_TICKS) for name in names}
            self.counts, self.tallied = (await store.overview(now=self.read_at)).states, Counter[str]()
            for tally in await store.tallies("ever", since=EPOCH):
                self.tallied.update(tally.sums.endings)
        finally:
            await store.close()

    def _last(self) -> Cursor | None:
        return Cursor(max(self.jobs)) if self.jobs else None

    def count(self, event: str) -> Counter[str]:
        return Counter(line.id for line in self.lines if line.event == event)

    def endings(self, id: str) -> list[str]:
        return [run.ending.value for run in self.runs[id]]

    def check(self, acknowledged: Iterable[str], *, attempts: int = 3, final: bool = True) -> None:
        """No acknowledged job is lost, and each job has one accepted outcome."""
        assert self.complaints == []
        promised = set(acknowledged)
        assert not promised - self.jobs.keys(), "I1: acknowledged, and not in the store"
        if final:
            unfinished = {id: self.jobs[id].state.value for id in promised if not self.jobs[id].state.final}
            assert not unfinished, "I2: not final"
        for id, starts in self.count("start").items():
            assert starts <= attempts, f"I3: {id} was started {starts} times, {attempts} allowed"
        leases = Counter((line.id, line.lease) for line in self.lines if line.event == "start")
        assert not [run for run, starts in leases.items() if starts > 1], "a lease was shared"
        for id in promised:
            self._check_runs(self.jobs[id], self.runs[id])
        self._check_counts()

    def check_keys(self) -> None:
        """An idempotency key has one job; of the jobs with a unique key, one ends before the next starts."""
        for line in self.lines:
            if line.event == "acknowledged" and line.lease != "-" and line.id in self.jobs:
                job = self.jobs[line.id]
                assert line.lease in (job.idempotency_key, job.unique_key), f"I7: {line.lease} is not the key of {job}"
        kept = Counter(job.idempotency_key for job in self.jobs.values() if job.idempotency_key)
        assert not [key for key, jobs in kept.items() if jobs > 1], "I7: two jobs with one idempotency key"
        spans: dict[str, list[tuple[float, float]]] = {}
        for job in self.jobs.values():
            if job.unique_key and job.state is State.COMPLETED:
                spans.setdefault(job.unique_key, []).append(self._span(job))
        for key, times in spans.items():
            times.sort()
            assert all(left[1] <= right[0] for left, right in pairwise(times)), f"I7: {key} had two unfinished jobs"

    def _span(self, job: Job) -> tuple[float, float]:
        """The time from its first start to the end of the run that counts."""
        last = self.runs[job.id][-1].lease
        lines = [line for line in self.lines if line.id == job.id]
        begun = min(line.at for line in lines if line.event == "start")
        return begun, max(line.at for line in lines if line.event == "end" and line.lease == last)

    def _check_counts(self) -> None:
        shown = Counter(job.shown(self.read_at) for job in self.jobs.values())
        assert shown == self.counts, "I10: the counts are not those of the jobs"
        endings = Counter(run.ending for runs in self.runs.values() for run in runs if run.ending not in NOT_COUNTED)
        assert endings == self.tallied, "I10: the statistics are not those of the runs"

    def check_ticks(self, name: str, ideal: Sequence[datetime]) -> None:
        """Every tick of the schedule has one job, or a record with the reason why it has none."""
        jobs = {job.id: job.scheduled_at for job in self.jobs.values() if job.schedule == name}
        fired = {tick.job_id: tick.at for tick in self.ticks[name] if tick.what == "fired"}
        assert jobs == fired, f"I6: the jobs of {name} are not those on record"
        rest = [tick for tick in self.ticks[name] if tick.what != "fired"]
        passed = [at for at in ideal for tick in rest if tick.at <= at <= (tick.last_at or tick.at)]
        assert sorted([*fired.values(), *passed]) == list(ideal), f"I6: the ticks of {name} are not the ideal ones"
        assert len(passed) == sum(tick.count for tick in rest), f"I6: the ticks of {name} are miscounted"

    def _check_runs(self, job: Job, runs: list[Execution]) -> None:
        settled = [run for run in runs if run.ending in _SETTLES]
        if job.state is State.COMPLETED:
            assert [run.ending for run in settled] == [Ending.COMPLETED], f"I5: {job.id} was settled by {settled}"
            assert runs[-1] is settled[0], f"I5: {job.id} ran on after its outcome was accepted"
        elif job.state is not State.DEAD:
            assert not settled, f"I5: {job.id} is {job.state}, and was settled by {settled}"
        numbers = [run.number for run in runs]
        assert numbers == sorted(set(numbers)), f"H2: {job.id} has runs {numbers}"
        assert len({run.lease for run in runs}) == len(runs), f"H2: two runs of {job.id} had one lease"
        assert job.runs == len(runs) + (job.state is State.RUNNING), f"H2: {job.id} ran {job.runs} times, has {numbers}"


# The endings after which a job of these tests never runs again.
_SETTLES = frozenset({Ending.COMPLETED, Ending.DISCARDED, Ending.CANCELLED})
