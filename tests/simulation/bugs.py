"""Bugs that can be planted: each breaks one rule of the engine, and the simulation must find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from msgspec.structs import replace

from mainspring.clock import StoreClock
from mainspring.engine import Engine
from mainspring.errors import StoreUnavailable
from mainspring.records.job import Enqueued, NewJob
from mainspring.records.outcome import Outcome
from mainspring.stores.memory.job_table import JobTable
from mainspring.stores.memory.store import MemoryStore
from mainspring.stores.memory.tables import MemoryTables
from mainspring.stores.rules import apply_outcome, enqueue, finish
from mainspring.stores.rules.workers import WorkerTable
from mainspring.task.handle import Handle
from mainspring.worker import claims, heartbeat
from mainspring.worker.rescue import OrphanRescue
from mainspring.worker.worker import Worker

from . import batch_bugs, flow_bugs, schedule_bugs, signal_bugs, step_bugs
from .patch import patch


class Bug(NamedTuple):
    description: str
    plant: Callable[[], AbstractContextManager[None]]


def _finish_without_fence() -> AbstractContextManager[None]:
    fenced = MemoryStore._finish_one

    def unfenced(self: MemoryStore, outcome: Outcome) -> bool:
        job = self._tables.job(outcome.id)
        return fenced(self, replace(outcome, lease=job.lease) if job and job.lease else outcome)

    return patch(MemoryStore, "_finish_one", unfenced)


def _sweep_the_living() -> AbstractContextManager[None]:
    return patch(WorkerTable, "alive", lambda self, worker, now: False)


def _hasty_takeover() -> AbstractContextManager[None]:
    fenced = MemoryStore._finish_one

    def hasty(self: MemoryStore, outcome: Outcome) -> bool:
        with patch(self._tables.workers, "alive", lambda worker, now: False):
            return fenced(self, outcome)

    return patch(MemoryStore, "_finish_one", hasty)


def _no_refund() -> AbstractContextManager[None]:
    return patch(finish, "apply_outcome", lambda job, outcome: apply_outcome(job, replace(outcome, refund=False)))


def _uncounted_crash() -> AbstractContextManager[None]:
    return patch(finish, "apply_outcome", lambda job, outcome: apply_outcome(job, replace(outcome, crash=False)))


def _forgotten_orphans() -> AbstractContextManager[None]:
    return patch(OrphanRescue, "note_unknown_runs", lambda self, unknown: None)


def _same_id_twice() -> AbstractContextManager[None]:
    enqueue_one = enqueue.enqueue_one

    def forgetful(tables: MemoryTables, new: NewJob, now: Any) -> Enqueued:
        old = tables.jobs._rows.pop(new.id, None)
        answer = enqueue_one(tables, new, now)
        if old is not None:
            tables.jobs._rows.setdefault(old.id, old)
        return answer

    return patch(enqueue, "enqueue_one", forgetful)


def _ignored_key() -> AbstractContextManager[None]:
    return patch(JobTable, "holder", lambda self, job: (None, None))


def _deaf_clock() -> AbstractContextManager[None]:
    async def deaf(self: StoreClock, time: Any) -> None:
        return None

    return patch(StoreClock, "learn", deaf)


def _late_letting_go() -> AbstractContextManager[None]:
    return patch(heartbeat, "GIVE_UP_LEASE_SHARE", 1.6)


def _claims_in_silence() -> AbstractContextManager[None]:
    return patch(Worker, "_lose_leases", lambda self: self._slots.lose_leases())


def _no_limit() -> AbstractContextManager[None]:
    return patch(claims, "_groups", lambda rooms: [(None if rooms is None else list(rooms), None)])


def _hopeful_enqueue() -> AbstractContextManager[None]:
    insert = Engine.insert

    async def hopeful(self: Engine, jobs: Sequence[NewJob], within: Any = None) -> list[Handle[Any]]:
        try:
            return await insert(self, jobs, within)
        except StoreUnavailable:
            return [Handle(self, Enqueued(job.id)) for job in jobs]

    return patch(Engine, "insert", hopeful)


BUGS: Mapping[str, Bug] = {
    "finish-without-fence": Bug("finish does not check which run an outcome belongs to", _finish_without_fence),
    "sweep-the-living": Bug("a sweep counts every worker as silent", _sweep_the_living),
    "hasty-takeover": Bug("a crash counts although its worker has sent a beat meanwhile", _hasty_takeover),
    "late-letting-go": Bug("a worker without beats keeps its runs beyond the lease", _late_letting_go),
    "claims-in-silence": Bug("a worker without beats starts jobs that it still claims", _claims_in_silence),
    "no-refund": Bug("snooze and release keep the attempt", _no_refund),
    "uncounted-crash": Bug("a crash is not counted", _uncounted_crash),
    "forgotten-orphans": Bug("jobs whose claim got no reply are not released", _forgotten_orphans),
    "same-id-twice": Bug("a repeated enqueue writes its job again", _same_id_twice),
    "ignored-key": Bug("enqueue ignores keys", _ignored_key),
    "deaf-clock": Bug("a worker does not adjust to the store's clock", _deaf_clock),
    "no-limit": Bug("a worker ignores the limits of its tasks", _no_limit),
    "hopeful-enqueue": Bug("an enqueue that failed is acknowledged", _hopeful_enqueue),
    **{
        name: Bug(*bug)
        for some in (schedule_bugs, flow_bugs, step_bugs, signal_bugs, batch_bugs)
        for name, bug in some.BUGS.items()
    },
}
