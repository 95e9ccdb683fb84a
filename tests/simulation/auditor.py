"""The auditor: it records requests, runs and writes, and reports broken rules as they happen."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from mainspring.ids import JobId, Lease, WorkerId
from mainspring.records.job import TRANSITIONS, UNFINISHED, Job, State
from mainspring.records.outcome import Finish, Outcome, Skip
from mainspring.records.run import Ending

from .batch_log import BatchLog
from .flow_log import FlowLog
from .host import Host
from .loop import TrueClock
from .schedule_log import ScheduleLog
from .signal_log import SignalLog
from .step_log import StepLog
from .watch import Watch

RULES: Mapping[str, str] = {
    "I1": "every acknowledged enqueue is in the store, and nothing else is",
    "I2": "no job is lost: with healthy workers each one ends",
    "I3": "a job is started as often as its retries, crashes and refunds allow, and is not dead before",
    "I4": "no effect of a run after the next run of its job has started",
    "I5": "one accepted outcome for each run, one final state for each life of a job",
    "I6": "a schedule's ticks are those it ought to have, each with one fate, on record, and at most one job",
    "I7": "a unique key never has two unfinished jobs",
    "I8": "a worker never runs more than its slots and its tasks' limits allow",
    "L1": "no step is released before what it needs has ended as it must",
    "L2": "a step has one job in each life, with the values of the accepted runs",
    "L3": "a flow's steps, counts and values, and its own end, are those of the ideal",
    "L4": "a flow that waits has an unfinished job to wait for, and a task a signal that has not come",
    "L5": "with healthy workers each flow ends",
    "L6": "of a signal the first value stands, or that its time was over, and the job goes on with that",
    "L7": "after a cancel only steps that run at the end are released",
    "L8": "a durable step that is stored does not begin again, and only the run that holds its job stores it",
    "L9": "a batch counts its jobs, ends after them and when it was closed, and calls back once",
    "W": "a worker ends when it is stopped, and not otherwise",
}

# The states from which each verb may move a stored job.
_MOVES: Mapping[str, frozenset[State]] = {
    "enqueue": frozenset({State.PENDING}),
    "claim": frozenset({State.PENDING}),
    "finish": frozenset({State.RUNNING}),
    "change": frozenset(State),
    "fire": frozenset({State.PENDING}),
}
TOTAL = "in all"


class Fact(NamedTuple):
    """One line of a job's story; `at` is in seconds of true time."""

    at: float
    who: str
    job: JobId
    what: str


class Violation(NamedTuple):
    rule: str
    job: JobId | None
    what: str


class Auditor:
    """Receives every event in order. Rules that only the whole story shows are checked in job_audit.py."""

    def __init__(self, clock: TrueClock) -> None:
        self._clock = clock
        self.facts: list[Fact] = []
        self.violations: list[Violation] = []
        self.requested: set[JobId] = set()
        self.acknowledged: dict[JobId, str] = {}
        self.gone: set[JobId] = set()
        """Jobs that were deleted."""
        self.starts: Counter[JobId] = Counter()
        self.returned: set[JobId] = set()
        self.lives: dict[JobId, list[int]] = defaultdict(list)
        """For each operator's retry of a job: the number of its runs that had ended before."""
        self.watch = Watch(clock.monotonic)
        self.schedule_log = ScheduleLog(clock, self.watch, self.fail, self.note)
        self.flow_log = FlowLog(self.fail, self.note)
        self.step_log = StepLog(self.fail, self.note)
        self.signal_log = SignalLog(self.fail, self.note)
        self.batch_log = BatchLog(self.fail, self.note)
        self._runs: Counter[JobId] = Counter()
        self._newest: dict[JobId, Job] = {}
        self._begun: set[tuple[JobId, Lease]] = set()
        self._settled: set[tuple[JobId, Lease, Ending, datetime]] = set()
        self._until: dict[WorkerId, datetime] = {}
        self._holders: dict[str, set[JobId]] = defaultdict(set)
        self._limits: dict[tuple[str, str], int] = {}
        self._running: Counter[tuple[str, str]] = Counter()

    def note(self, who: str, job: JobId, what: str) -> None:
        self.facts.append(Fact(self._clock.monotonic(), who, job, what))

    def fail(self, rule: str, job: JobId | None, what: str) -> None:
        self.violations.append(Violation(rule, job, what))
        if job is not None:
            self.note("AUDITOR", job, f"{rule}: {what}")

    # clients

    def request_sent(self, client: str, id: JobId) -> None:
        self.requested.add(id)
        self.note(client, id, "requests it")

    def acknowledge(self, client: str, requested: JobId, id: JobId, status: str) -> None:
        self.note(client, requested, f"gets the reply: {status}" + (f", it is {id}" if id != requested else ""))
        if status != "refused":
            self.acknowledged[id] = requested

    # the store

    def job_written(self, old: Job | None, job: Job, who: str, verb: str) -> None:
        """Called for every write of a job."""
        if job.unique_key is not None:
            self._hold(job, job.unique_key)
        if job.schedule is not None:
            self.schedule_log.job_written(old, job)
        before = "nothing" if old is None else old.state.value
        if old is not None and old.state is job.state:
            if verb == "change" and old.expires_at is not None and job.expires_at is None:
                # It was pending past its expires_at, so it counted as expired, and was retried.
                self.lives[job.id].append(self._runs[job.id])
            return
        lease = f" under {job.lease[:6]}, attempt {job.attempt}" if job.lease else ""
        self.note(who, job.id, f"{verb}: {before} → {job.state}{lease}")
        if old is None:
            return
        # What becomes of one step moves the jobs of others, and that of the flow.
        of_flow = job.step is not None or job.id in self.flow_log.own or job.id in self.batch_log.plans
        if (old.state not in _MOVES.get(verb, ()) and not of_flow) or job.state not in TRANSITIONS[old.state]:
            self.fail("I5", job.id, f"{verb} moved it from {before} to {job.state}")
        if old.state.final and verb == "change":
            self.lives[job.id].append(self._runs[job.id])

    def job_deleted(self, job: Job, at: datetime, who: str) -> None:
        self.note(who, job.id, f"deletes it, {job.state}")
        self.gone.add(job.id)
        if job.schedule is not None:
            self.schedule_log.job_deleted(job, at)

    def _hold(self, job: Job, key: str) -> None:
        holders = self._holders[key]
        (holders.add if job.state in UNFINISHED else holders.discard)(job.id)
        if len(holders) > 1:
            self.fail("I7", job.id, f"unique key {key!r} is held by {', '.join(sorted(holders))}")

    def beat_received(self, worker: WorkerId, until: datetime, now: datetime) -> None:
        if until > now:
            self._until[worker] = max(until, self._until.get(worker, until))
        else:
            self._until.pop(worker, None)

    def outcome_accepted(self, outcome: Outcome, before: Job | None) -> None:
        """Called when the store accepts an outcome; `before` is the job before the write."""
        key = (outcome.id, outcome.lease, outcome.ending, outcome.finished_at)
        if key in self._settled:
            return
        self._settled.add(key)
        self._runs[outcome.id] += 1
        self.note("store", outcome.id, f"accepts {outcome.ending} of {outcome.lease[:6]}")
        if before is None or before.state is not State.RUNNING or before.lease != outcome.lease:
            self.fail("I5", outcome.id, f"the outcome of {outcome.lease[:6]} was accepted, which does not hold the job")
        elif outcome.crash and (until := self._until.get(before.worker or "")) and until > outcome.finished_at:
            self.fail("I5", outcome.id, f"counted as crashed, although {before.worker} had sent a beat in time")

    # workers

    def join(self, host: Host, slots: int, limits: Mapping[str, int]) -> None:
        self._limits.update({(host.name, task): limit for task, limit in {**limits, TOTAL: slots}.items()})

    @contextmanager
    def run(self, host: Host, job: Job) -> Iterator[Run]:
        """Records one run; wraps the body of a task."""
        run = Run(self, host, job)
        self._start(run)
        try:
            yield run
        except (Finish, Skip) as end:
            self.returned.add(job.id)
            self._end(run, f"raised {type(end).__name__}")
            raise
        except BaseException as error:
            stopped = isinstance(error, asyncio.CancelledError)
            self._end(run, "was interrupted" if stopped else f"raised {type(error).__name__}")
            raise
        else:
            self.returned.add(job.id)
            self._end(run, "returned")

    def _start(self, run: Run) -> None:
        job, key = run.job, (run.job.id, run.lease)
        if key in self._begun:
            self.fail("I3", job.id, f"{run.lease[:6]} was started twice")
        self._begun.add(key)
        self.starts[job.id] += 1
        self._newest[job.id] = max(self._newest.get(job.id, job), job, key=lambda one: one.runs)
        self.note(run.host.name, job.id, f"starts {run.lease[:6]}, attempt {job.attempt}")
        self.step_log.run_started(job)
        for what in (job.task, TOTAL):
            place = (run.host.name, what)
            self._running[place] += 1
            count, limit = self._running[place], self._limits.get(place)
            if limit is not None and count > limit:
                self.fail("I8", job.id, f"{run.host.name} runs {count} {what}, {limit} allowed")

    def _end(self, run: Run, how: str) -> None:
        self.note(run.host.name, run.job.id, f"{how}, {run.lease[:6]}")
        for what in (run.job.task, TOTAL):
            self._running[run.host.name, what] -= 1

    def effect(self, run: Run) -> None:
        self.note(run.host.name, run.job.id, f"effect of {run.lease[:6]}")
        # In the instant a frozen process goes on it cannot know yet that its lease has run out.
        waking = run.host.woke_at == self._clock.monotonic()
        newest = self._newest[run.job.id]
        if newest.runs > run.job.runs and not waking:
            newer = (newest.lease or "")[:6]
            self.fail("I4", run.job.id, f"effect of {run.lease[:6]} on {run.host.name} after {newer} had started")


class Run(NamedTuple):
    """One run of a task's body."""

    auditor: Auditor
    host: Host
    job: Job

    @property
    def lease(self) -> Lease:
        return self.job.lease or ""

    def effect(self) -> None:
        """Records an effect that is visible outside of the process."""
        self.auditor.effect(self)
