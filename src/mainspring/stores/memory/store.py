"""The memory store: the Store contract as plain Python, lost with the process."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from ...clock import Clock, SystemClock
from ...errors import BadInput, ShuttingDown
from ...ids import JobId, WorkerId
from ...records.finding import Finding
from ...records.job import Action, Enqueued, Job, NewJob, State
from ...records.outcome import Outcome
from ...records.pruning import Pruning
from ...records.query import Changed, Cursor, Filter, Sort, Updates
from ...records.queue import DeadGroup, Overview
from ...records.run import Execution, LogLine, RunReport
from ...records.schema import Schema
from ...records.tally import Span, Tally
from ...records.worker import BeatReply, Claim, WorkerCommands, WorkerInfo, WorkerRow
from ...schedule.record import Due, Fired, Firing, LeaderTerm, Schedule, Tick
from ...store import Capabilities, Listening, Store, Topic
from ...task.retention import Rules
from ..broadcast import Broadcast
from ..rules import brief_job, unique_ids
from ..rules.change import change
from ..rules.claim import claim, expire_due
from ..rules.enqueue import enqueue
from ..rules.finish import finish_one, report_one
from ..rules.fire import fire_one
from . import read
from .audit import MemoryAudit
from .documents import MemoryDocuments
from .feed import MemoryFeed
from .tables import MemoryTables
from .terms import TermTable


class MemoryStore(MemoryDocuments, MemoryAudit, MemoryFeed):
    """The executable specification of the contract. One lock makes every verb atomic, in any thread or event loop."""

    capabilities = Capabilities(store="the memory store")

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._closed = False
        self._tables = MemoryTables()
        self._terms = TermTable()
        self._paused: set[str] = set()
        self._new, self._final = Broadcast(self._clock), Broadcast(self._clock)

    def _locked(self) -> AbstractContextManager[object]:
        """The store's lock. Raises ShuttingDown if the store is closed."""
        if self._closed:
            self._check()
        return self._lock

    def _check(self) -> None:
        if self._closed:
            raise ShuttingDown("the memory store is closed")

    # opening and closing

    async def open(self, *, migrate: bool = True) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True

    def clone(self) -> Store:
        return self

    async def schema(self) -> Schema:
        self._check()
        return Schema(1, 1, 1)

    async def migrate(self, target: int | None = None) -> list[int]:
        self._check()
        if target not in (None, 1):
            raise BadInput(f"the memory store has one schema, 1; cannot migrate to {target}")
        return []

    async def time(self) -> datetime:
        self._check()
        return self._clock.now()

    async def diagnose(self) -> list[Finding]:
        self._check()
        return [Finding("memory", "warn", "jobs are lost with this process", "sqlite:///jobs.db keeps them in a file")]

    async def wait(self, topic: Topic, timeout: float, *, seen: int | None = None) -> int:
        self._check()
        return await (self._new if topic == "claimable" else self._final).wait(timeout, seen)

    @property
    def listening(self) -> Listening:
        return "off"

    # jobs

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        self._check()
        if within is not None:
            self.capabilities.require_transactions("within=")
        with self._lock:
            answers = enqueue(self._tables, jobs, now)
        self._new.wake_all()
        return answers

    async def claim(
        self,
        queues: Collection[str] | None,
        *,
        worker: WorkerId,
        tasks: Collection[str],
        limit: int,
        now: datetime,
    ) -> Claim:
        with self._locked():
            expired = expire_due(self._tables, now)
            live = self._tables.workers.row(worker)
            if live is None or live.until <= now:
                return Claim([], None, expired)
            taken = claim(self._tables, self._paused, queues, worker, tasks, limit, now)
            return Claim(*taken, expired)

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        with self._locked():
            orders = self._tables.workers.beat(worker, until, now)
            mine = self._tables.jobs.some(self._tables.index.running(worker.id))
            cancels = {job.id: job.cancel_reason for job in mine if job.cancel_reason is not None}
            return BeatReply({job.id: job.lease or "" for job in mine}, cancels, orders, watched_until=self._watched)

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        with self._locked():
            index = self._tables.index
            silent = [worker for worker in index.workers() if self._tables.is_silent(worker, now)]
            lost = [id for worker in silent for id in index.running(worker)]
            return self._tables.jobs.some(sorted(lost)[:limit])

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        with self._locked():
            accepted = [outcome for outcome in outcomes if self._finish_one(outcome)]
            # A repeated outcome stands; another ending of the same run (it was rescued, then came back) does not.
            stands = {outcome.id for outcome in outcomes if self._tables.is_recorded(outcome)}
        self._final.wake_all()
        if any(outcome.then or outcome.breaker or outcome.schedule for outcome in accepted):
            self._new.wake_all()
        return stands

    def _finish_one(self, outcome: Outcome) -> bool:
        return finish_one(self._tables, outcome)

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        with self._locked():
            stands = {report.id for report in reports if report_one(self._tables, report)}
        self._final.wake_all()
        return stands

    # schedules

    async def due(self, *, now: datetime, limit: int, computed: Collection[str] = ()) -> Due:
        with self._locked():
            return self._tables.schedules.due(now, limit, computed)

    async def fire(self, firings: Sequence[Firing], *, now: datetime) -> list[Fired]:
        with self._locked():
            fired = [fire_one(self._tables, firing, now) for firing in firings]
        self._new.wake_all()
        return fired

    async def drop_schedules(self, names: Collection[str]) -> list[str]:
        with self._locked():
            return self._tables.schedules.drop(names)

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        with self._locked():
            return self._tables.schedules.schedules(names, limit, after)

    async def ticks(self, name: str, *, limit: int, before: int | None = None) -> list[Tick]:
        with self._locked():
            return self._tables.schedules.ticks(name, limit, before)

    async def acquire_term(self, name: str, holder: str, *, until: datetime, now: datetime) -> LeaderTerm:
        with self._locked():
            answer = self._terms.acquire(name, holder, until, now)
        if answer.holder is None:
            self._new.wake_all()
        return answer

    async def terms(self, *, now: datetime) -> list[LeaderTerm]:
        with self._locked():
            return self._terms.held(now)

    # operators

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Updates | None = None,
        after: JobId | None = None,
    ) -> Changed:
        with self._locked():
            matching = read.matching(self._tables.jobs, which, now)
            chosen = [job for job in matching if after is None or job.id > after][:limit]
            done, refused = change(self._tables, action, chosen, now, reason, update)
        self._new.wake_all()
        self._final.wake_all()
        return Changed(done, refused, chosen[-1].id if chosen and len(chosen) == limit else None)

    async def pause_queue(self, name: str, paused: bool) -> None:
        with self._locked():
            (self._paused.add if paused else self._paused.discard)(name)
        self._new.wake_all()

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        with self._locked():
            return self._tables.workers.set_commands(workers, commands, now, seen)

    # reading

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
        brief: bool = False,
    ) -> list[Job]:
        with self._locked():
            found = read.page(self._tables.jobs, which, now, limit, after, newest, sort)
            return [brief_job(job) for job in found] if brief else found

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        with self._locked():
            runs = self._tables.ledger.executions
            found = (run for id in sorted(unique_ids(job_id)) for run in runs.get(id, ()))
            return [run for run in found if run.number > after][:limit]

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        with self._locked():
            lines = self._tables.ledger.lines.get(job_id, {})
            return [lines[key] for key in sorted(lines) if key > after][:limit]

    async def overview(self, *, now: datetime, finished: bool = True) -> Overview:
        with self._locked():
            circuits = [circuit for _, circuit in sorted(self._tables.ledger.circuits.items())]
            return read.overview(self._tables.jobs, self._paused, circuits, now)

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        with self._locked():
            return self._tables.workers.live(now)

    async def tallies(self, span: Span, *, since: datetime) -> list[Tally]:
        with self._locked():
            return self._tables.ledger.tallies(span, since)

    async def dead_groups(self, *, limit: int) -> list[DeadGroup]:
        with self._locked():
            return read.dead_groups(self._tables.jobs, limit)

    # pruning

    async def finished_groups(self) -> list[tuple[State, str]]:
        with self._locked():
            return read.finished_groups(self._tables.jobs)

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        with self._locked():
            return read.prunable(self._tables.jobs, state, task, keep, before, limit)

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        with self._locked():
            return Pruning(0, self._drop_expired_documents(now) + self._drop_old_entries(audited_since))
