"""What every contract test is built from: one instant, small jobs, verbs with the usual arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from ...ids import new_id
from ...job import Action, Beat, Changed, Claim, Filter, Job, JobId, NewJob, State, WorkerInfo
from ...outcome import Discard, Done, Ended, decide
from ...store import Store

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
A_SECOND_LATER, A_MINUTE_LATER = NOW + timedelta(seconds=1), NOW + timedelta(minutes=1)
REACHABLE = tuple(state for state in State if state is not State.WAITING)


class Contract:
    """Where the tests get their store from."""

    def make_store(self) -> Store:
        """A fresh, empty store, not opened yet."""
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
    return NewJob(**{"id": new_id(NOW), "task": "task", "payload": "{}", **fields})


def a_worker(name: str = "ada", **fields: Any) -> WorkerInfo:
    given = {"host": "host", "pid": 1, "queues": None, "tasks": ("task",), "concurrency": 10, "started_at": NOW}
    return WorkerInfo(**{"id": name, **given, **fields})


async def put(store: Store, *jobs: NewJob, now: datetime = NOW) -> list[JobId]:
    return [answer.id for answer in await store.enqueue(jobs, now=now)]


async def beat(store: Store, worker: str = "ada", *, until: datetime = A_MINUTE_LATER, now: datetime = NOW) -> Beat:
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


async def claimed(store: Store, worker: str = "ada", **asked: Any) -> list[JobId]:
    """The ids a living worker gets."""
    await beat(store, worker)
    return [job.id for job in (await claim(store, worker, **asked)).jobs]


async def run_again(store: Store, job_id: JobId, *, worker: str = "ada", now: datetime = NOW) -> Job:
    """The job, running under a fresh lease."""
    await beat(store, worker)
    taken = await claim(store, worker, now=now)
    return next(job for job in taken.jobs if job.id == job_id)


async def start(store: Store, *, worker: str = "ada", **fields: Any) -> Job:
    """A new job, running."""
    (job_id,) = await put(store, new_job(**fields))
    return await run_again(store, job_id, worker=worker)


async def settle(store: Store, job: Job, ended: Ended, *, now: datetime = A_SECOND_LATER) -> set[JobId]:
    return await store.finish([decide(job, ended, now=now)])


async def act(store: Store, action: Action, *ids: JobId, now: datetime = NOW, reason: str = "") -> Changed:
    return await store.change(action, Filter(ids=ids), now=now, limit=100, reason=reason)


async def see(store: Store, job_id: JobId) -> Job:
    (job,) = await store.jobs(Filter(ids=(job_id,)), now=NOW, limit=2)
    return job


async def everything(store: Store) -> list[Job]:
    return await store.jobs(Filter(), now=NOW, limit=1000)


async def bring(store: Store, state: State, **fields: Any) -> Job:
    """A new job, brought into this state by the verbs."""
    match state:
        case State.PENDING | State.PAUSED | State.CANCELLED:
            (job_id,) = await put(store, new_job(**fields))
            if state is not State.PENDING:
                await act(store, Action.PAUSE if state is State.PAUSED else Action.CANCEL, job_id)
        case State.EXPIRED:
            (job_id,) = await put(store, new_job(**{**fields, "expires_at": NOW}), now=later(-10))
            await claimed(store, tasks=["another task"])
        case State.RUNNING | State.COMPLETED | State.DEAD:
            job = await start(store, **fields)
            job_id = job.id
            if state is not State.RUNNING:
                await settle(store, job, Done('"done"') if state is State.COMPLETED else Discard(), now=NOW)
        case State.WAITING:
            raise NotImplementedError("no verb leads to waiting yet")
    return await see(store, job_id)
