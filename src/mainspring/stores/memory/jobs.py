"""The memory store's verbs on jobs: from enqueue to finish, by the rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from ...ids import JobId, WorkerId
from ...records.job import Enqueued, Job, NewJob
from ...records.outcome import Outcome
from ...records.run import RunReport
from ...records.worker import BeatReply, CarryOn, Claim, Finished, WorkerInfo
from ..rules.carry_on import carry_on as start_due
from ..rules.carry_on import request_filter
from ..rules.claim import GroupFilter, claim, expire_due
from ..rules.enqueue import enqueue
from ..rules.finish import finish_one, report_one
from ..rules.limit_gates import LimitGates
from .handle import MemoryHandle


class MemoryJobs(MemoryHandle):
    """The verbs on the way of a job."""

    async def enqueue(self, jobs: Sequence[NewJob], *, now: datetime, within: Any = None) -> list[Enqueued]:
        self._check()
        if within is not None:
            self.capabilities.require_transactions("within=")
        with self._lock:
            answers = enqueue(self._tables, jobs, now)
            if self._tables.flow_changes.noted:
                self._settle()
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
            if self._tables.flow_changes.noted:
                self._settle()
            live = self._tables.workers.row(worker)
            if live is None or live.until <= now:
                return Claim([], None, expired)
            taken = claim(self._tables, self._paused, queues, worker, tasks, limit, now)
            if self._tables.limits.remembers:
                self._tables.limits.forget_idle(now)
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

    async def finish(self, outcomes: Sequence[Outcome], *, carry_on: CarryOn | None = None) -> Finished:
        started: list[Job] = []
        with self._locked():
            accepted = [outcome for outcome in outcomes if self._finish_one(outcome)]
            if self._tables.flow_changes.noted:
                if carry_on is None:
                    self._settle()
                else:
                    started = self._settle_and_start(carry_on)
            # A repeated outcome stands; another ending of the same run (it was rescued, then came back) does not.
            stands = {outcome.id for outcome in outcomes if self._tables.is_recorded(outcome)}
        self._final.wake_all()
        if any(map(_makes_claimable, accepted)):
            self._new.wake_all()
        return Finished(stands, started)

    def _settle_and_start(self, request: CarryOn) -> list[Job]:
        """Settles the flows, and starts what has become due."""
        tables, serves, now = self._tables, self._filter_of(request), request.now
        gates = LimitGates(tables.limits, tables.index.limited, now)
        heads = ((group, tables.index.head(group)) for group in list(tables.index.groups()))
        due_groups = (group for group, head in heads if head is not None and gates.is_open(group[3], head[0]))
        first = max((priority for queue, task, priority, _ in due_groups if serves(queue, task)), default=None)
        tables.flow_changes.watch_due()
        self._settle()
        due = tables.flow_changes.take_due()
        worker = tables.workers.row(request.worker)
        if worker is None or worker.until <= now:
            return []
        return start_due(tables, due, request, serves, first)

    def _filter_of(self, request: CarryOn) -> GroupFilter:
        open_tasks = {circuit.task for circuit in self._tables.circuits() if circuit.open_until is not None}
        return request_filter(request, self._paused, open_tasks)

    def _finish_one(self, outcome: Outcome) -> bool:
        return finish_one(self._tables, outcome)

    async def report(self, reports: Sequence[RunReport]) -> set[JobId]:
        with self._locked():
            stands = {report.id for report in reports if report_one(self._tables, report)}
        self._final.wake_all()
        return stands


def _makes_claimable(outcome: Outcome) -> bool:
    """Whether a job may be claimable because of this outcome."""
    sequel = outcome.then or outcome.breaker or outcome.schedule or outcome.step or outcome.plan
    return bool(sequel) or outcome.limit_key is not None
