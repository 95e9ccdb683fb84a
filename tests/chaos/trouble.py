"""Workers, a client and a schedule at work while the server or the network fails."""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import customer
from audit import Audit, read_log, until
from crew import Crew, Member

from mainspring import every
from mainspring.errors import StoreUnavailable

NAME = "beacon"
# Seconds.
RECOVERY = 10.0
# Seconds that a write of the server may need to reach its disk or a replica.
LAG = 0.2
SLOTS = 10
# The start and end of a span, on the clock that all processes of a machine share.
Span = tuple[float, float]


class Business:
    """Three workers and a client on `crew.url`, and a schedule of ten ticks a second."""

    def __init__(self, crew: Crew, ticks: int) -> None:
        self.crew, self._chance = crew, random.Random(20300101)
        self.workers = [self._worker() for _ in range(3)]
        self.client = crew.start("client", program=customer, called="client")
        until(lambda: len(crew.client.sync.workers.list()) == len(self.workers))
        start_at = datetime.now(UTC) + timedelta(seconds=0.2)
        self.ticks = [start_at + n * timedelta(seconds=0.1) for n in range(ticks)]
        options = {"overlap": "allow", "start_at": start_at, "end_at": self.ticks[-1]}
        crew.client.sync.schedules.create(NAME, every(0.1).seconds, "quick", **options)
        self.went_on()

    def _worker(self) -> Member:
        return self.crew.start(f"worker{len(self.crew.members)}", concurrency=SLOTS, max_crashes=1000)

    def lose_a_worker(self) -> None:
        """kill -9; another takes its place."""
        self.workers.pop(self._chance.randrange(len(self.workers))).kill()
        self.workers.append(self._worker())

    def went_on(self, within: float = RECOVERY) -> None:
        """Checks the recovery: a job that is acknowledged from now on ends soon, without intervention."""
        began = time.monotonic()
        until(lambda: self._ended(began), within)
        until(self._answered, 60)

    def _answered(self) -> bool:
        """Whether a call of the client succeeds: the first one after a failure may find a lost connection."""
        try:
            return bool(self.crew.client.sync.stats())
        except StoreUnavailable:
            return False

    def _ended(self, began: float) -> bool:
        promised = {line.id for line in self.client.lines("acknowledged") if line.at > began}
        return any(line.id in promised for worker in self.workers for line in worker.lines("settled"))

    def _all_there(self) -> bool:
        there = {live.info.pid for live in self.crew.client.sync.workers.list()}
        return there >= {worker.process.pid for worker in self.workers}

    def told_within(self, spans: Collection[Span]) -> set[str]:
        """The jobs that were first acknowledged to the client in one of these spans."""
        first: dict[str, float] = {}
        for line in self.client.lines("acknowledged"):
            first.setdefault(line.id, line.at)
        return {id for id, at in first.items() if any(begun <= at <= over for begun, over in spans)}

    def over(self) -> Audit:
        """Returns the audit after the last tick, when no job is left to run and every process has ended."""
        until(self._all_there, 60)  # a process that has just started cannot be stopped gracefully
        self.client.end()
        until(lambda: self.crew.client.sync.schedules.get(NAME).status == "ended", 60)
        self.crew.finished(30)
        for worker in self.workers:
            worker.end()
        return self.crew.audit()

    def survived(self, lost: Collection[Span] = ()) -> Audit:
        """Returns the audit after its checks; a job acknowledged in one of the lost spans may be missing."""
        audit = self.over()
        promised = {line.id for line in self.client.lines("acknowledged")}
        assert promised
        audit.check((promised - self.told_within(lost)) | audit.jobs.keys(), attempts=1000)
        audit.check_keys()
        audit.check_ticks(NAME, self.ticks)
        assert {job.state for job in audit.jobs.values()} == {"completed"}
        effects = audit.count("effect")
        assert not [job.id for job in audit.jobs.values() if job.task == "effect" and not effects[job.id]]
        for worker in self.workers:
            assert busiest(worker) <= SLOTS, "I8: more runs at once than there are slots"
        return audit


def pause(seconds: float) -> None:
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end, seconds + 15)


def busiest(worker: Member) -> int:
    """The largest number of concurrent runs of a worker."""
    running: set[tuple[str, str]] = set()
    most = 0
    for line in read_log(worker.log):
        if line.event == "start":
            running.add((line.id, line.lease))
            most = max(most, len(running))
        elif line.event in ("end", "lost"):
            running.discard((line.id, line.lease))
    return most
