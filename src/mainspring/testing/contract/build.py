"""Builders and short forms for contract tests: a fixed time, small records, and verbs with default arguments."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from ...ids import JobId
from ...records.circuit import Breaker, Circuit
from ...records.job import POISON_SUSPECT_CRASHES, Action, Job, NewJob, State
from ...records.outcome import Crashed, Discard, Done, Policy, RunEnd, decide
from ...records.query import Changed, Filter, Update
from ...records.run import LogLine, OutputChunk, RunReport
from ...records.worker import BeatReply, Claim, WorkerInfo
from ...schedule.record import Fired, Firing, Schedule, Spec, Tick, tick_key
from ...store import Store
from ...trigger import Every

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
_made = count(1)
A_SECOND_LATER = NOW + timedelta(seconds=1)
A_MINUTE_LATER = NOW + timedelta(minutes=1)
# Three failures in a row open the circuit for ten seconds.
BREAKER = Breaker(3, 10.0)
NO_RETRY = Policy(max_retries=0, breaker=BREAKER)
# Texts that break naive quoting, escaping or encoding.
SPECIAL_TEXTS = ("O'Hara", 'say "hi"', "100%_", "{tag}", "a\\b", "ü ✓ 🕰", "*", "")
# States that verbs lead to on every store. Only a store with flows has waiting jobs: see flow.begin().
REACHABLE = tuple(state for state in State if state is not State.WAITING)


class Contract:
    """The base class of all contract tests; a subclass defines make_store()."""

    def make_store(self) -> Store:
        """Returns a fresh, empty store that is not opened yet."""
        raise NotImplementedError(f"{type(self).__name__} must define make_store()")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = self.make_store()
        await store.open()
        try:
            yield store
        finally:
            await store.close()


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def new_job(**fields: Any) -> NewJob:
    return NewJob(**{"id": id_made_at(NOW), "task": "task", "payload": "{}", **fields})


def id_made_at(at: datetime) -> JobId:
    """A UUIDv7 with this very time, whatever later ids this process has made: stores treat such jobs as plain ones.

    These ids sort in the order in which they are made.
    """
    bits = int(at.timestamp() * 1000) << 80 | 7 << 76 | 2 << 62
    return str(UUID(int=bits | next(_made) << 32 | int.from_bytes(os.urandom(4), "big")))


def a_worker(name: str = "ada", **fields: Any) -> WorkerInfo:
    given = {"host": "host", "pid": 1, "queues": None, "tasks": ("task",), "concurrency": 10, "started_at": NOW}
    return WorkerInfo(**{"id": name, **given, **fields})


async def put(store: Store, *jobs: NewJob, now: datetime = NOW) -> list[JobId]:
    return [answer.id for answer in await store.enqueue(jobs, now=now)]


async def beat(
    store: Store, worker: str = "ada", *, until: datetime = A_MINUTE_LATER, now: datetime = NOW
) -> BeatReply:
    return await store.beat(a_worker(worker), until=until, now=now)


async def claim(
    store: Store,
    worker: str = "ada",
    *,
    queues: Collection[str] | None = None,
    tasks: Collection[str] = ("task",),
    limit: int = 10,
    now: datetime = NOW,
) -> Claim:
    return await store.claim(queues, worker=worker, tasks=tasks, limit=limit, now=now)


async def claim_ids(store: Store, worker: str = "ada", **query: Any) -> list[JobId]:
    """The ids of the jobs that a live worker claims."""
    await beat(store, worker)
    return [job.id for job in (await claim(store, worker, **query)).jobs]


async def claim_job(
    store: Store, job_id: JobId, *, worker: str = "ada", now: datetime = NOW, tasks: Collection[str] = ("task",)
) -> Job:
    """Claims the job: it runs under a new lease."""
    await beat(store, worker)
    taken = await claim(store, worker, now=now, tasks=tasks)
    return next(job for job in taken.jobs if job.id == job_id)


async def start(store: Store, *, worker: str = "ada", **fields: Any) -> Job:
    """Enqueues and claims a new job."""
    (job_id,) = await put(store, new_job(**fields))
    return await claim_job(store, job_id, worker=worker, tasks=[fields.get("task", "task")])


async def finish_run(
    store: Store,
    job: Job,
    ended: RunEnd,
    *,
    now: datetime = A_SECOND_LATER,
    policy: Policy = Policy(),  # noqa: B008
    **fields: Any,
) -> set[JobId]:
    """Ends the run; `fields` replace fields of the outcome that decide() returns."""
    return await store.finish([replace(decide(job, ended, now=now, policy=policy), **fields)])


async def fail(store: Store, job: Job, *, now: datetime = NOW) -> set[JobId]:
    """Ends the run with a failure that counts against its task's circuit."""
    return await finish_run(store, job, ValueError("no"), now=now, policy=NO_RETRY)


async def open_circuit(store: Store, task: str = "task") -> None:
    """Fails jobs of the task until its circuit opens, at NOW and for ten seconds."""
    await put(store, *(new_job(task=task, queue="trip") for _ in range(BREAKER.failures)))
    await beat(store, "tripper")
    for job in (await claim(store, "tripper", queues=["trip"], tasks=[task])).jobs:
        await fail(store, job)


async def circuits(store: Store) -> list[Circuit]:
    return (await store.overview(now=NOW)).circuits


async def read_circuit(store: Store, task: str = "task") -> Circuit | None:
    return next((found for found in await circuits(store) if found.task == task), None)


async def make_suspect(store: Store, **fields: Any) -> JobId:
    """A poison suspect: a job during which two workers have died, the last of them in the past."""
    (job_id,) = await put(store, new_job(**fields), now=later(-100))
    for n in range(POISON_SUSPECT_CRASHES):
        at = later(10 * n - 90)
        await beat(store, "doomed", until=at + timedelta(seconds=5), now=at)
        taken = await claim(store, "doomed", tasks=[fields.get("task", "task")], now=at)
        (job,) = [job for job in taken.jobs if job.id == job_id]
        await finish_run(store, job, Crashed("doomed", 9), now=at + timedelta(seconds=6))
    return job_id


def a_line(n: int, text: str = "line", *, run: int = 1) -> LogLine:
    return LogLine(run, n, later(n), 20, text)


def a_chunk(n: int, text: str = "chunk", *, run: int = 1) -> OutputChunk:
    return OutputChunk(n, run, later(n), f'"{text}"')


async def send_output(store: Store, job: Job, *chunks: OutputChunk) -> set[JobId]:
    return await send_report(store, job, chunks=chunks)


async def send_report(store: Store, job: Job, *lines: LogLine, **fields: Any) -> set[JobId]:
    """Sends a report under the job's own lease."""
    return await store.report([RunReport(id=job.id, lease=job.lease or "", lines=lines, **fields)])


async def act(
    store: Store, action: Action, *ids: JobId, now: datetime = NOW, reason: str = "", update: Update | None = None
) -> Changed:
    return await store.change(action, Filter(ids=ids), now=now, limit=100, reason=reason, update=update)


async def read_job(store: Store, job_id: JobId) -> Job:
    (job,) = await store.jobs(Filter(ids=(job_id,)), now=NOW, limit=2)
    return job


async def all_jobs(store: Store) -> list[Job]:
    return await store.jobs(Filter(), now=NOW, limit=1000)


async def job_in_state(store: Store, state: State, **fields: Any) -> Job:
    """A new job that the store's verbs have brought into this state."""
    match state:
        case State.PENDING | State.PAUSED | State.CANCELLED:
            (job_id,) = await put(store, new_job(**fields))
            if state is not State.PENDING:
                await act(store, Action.PAUSE if state is State.PAUSED else Action.CANCEL, job_id)
        case State.EXPIRED:
            (job_id,) = await put(store, new_job(**{**fields, "expires_at": NOW}), now=later(-10))
            await claim_ids(store, tasks=["another task"])
        case State.RUNNING | State.COMPLETED | State.DEAD:
            job = await start(store, **fields)
            job_id = job.id
            if state is not State.RUNNING:
                await finish_run(store, job, Done('"done"') if state is State.COMPLETED else Discard(), now=NOW)
        case State.WAITING:
            raise ValueError("a waiting job has a flow: make it with flow.begin()")
    return await read_job(store, job_id)


# schedules


def a_schedule(name: str = "hourly", *, spec: Mapping[str, Any] = {}, **fields: Any) -> Schedule:
    """A schedule whose next tick is at NOW; `spec` are fields of its spec."""
    built = Spec(**{"trigger": Every(seconds=3600), "task": "task", **spec})
    given = {"created_at": NOW, "updated_at": NOW, "anchor_at": NOW, "next_run_at": NOW, "due_at": NOW}
    return Schedule(name=name, spec=built, **{**given, **fields})


def next_revision(schedule: Schedule, **fields: Any) -> Schedule:
    return replace(schedule, revision=schedule.revision + 1, **fields)


def a_tick(n: int = 1, *, what: str = "fired", **fields: Any) -> Tick:
    return Tick(n=n, at=later(n), seen_at=later(n), what=what, **fields)  # type: ignore[arg-type]


def tick_job(schedule: Schedule, tick: datetime = NOW, **fields: Any) -> NewJob:
    given = {"schedule": schedule.name, "scheduled_at": tick, "idempotency_key": tick_key(schedule.name, tick)}
    return new_job(**{**given, **fields})


async def fire(store: Store, schedule: Schedule, *, now: datetime = NOW, **parts: Any) -> Fired:
    (fired,) = await store.fire([Firing(schedule=schedule, **parts)], now=now)
    return fired


async def read_schedule(store: Store, name: str = "hourly") -> Schedule:
    (found,) = await store.schedules([name], limit=2)
    return found


async def launch(
    store: Store, name: str = "hourly", *, spec: Mapping[str, Any] = {}, jobs: int = 1, job: Mapping[str, Any] = {}
) -> tuple[Schedule, list[JobId]]:
    """Stores a schedule with waiting jobs, whose next tick is in an hour. Returns it and the ids of the jobs."""
    new = a_schedule(name, spec=spec, next_run_at=later(3600), due_at=later(3600))
    made = tuple(tick_job(new, later(n), **job) for n in range(jobs))
    ids = [one.id for one in made]
    assert (await fire(store, replace(new, active=tuple(ids), fired=jobs), jobs=made)).stands
    return await read_schedule(store, name), ids
