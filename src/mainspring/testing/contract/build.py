"""What every contract test is built from: one instant, small jobs, verbs with the usual arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from ...ids import JobId, new_id
from ...records.circuit import Breaker, Circuit
from ...records.job import POISON_SUSPECT_CRASHES, Action, Job, NewJob, State
from ...records.outcome import Crashed, Discard, Done, Policy, RunEnd, decide
from ...records.query import Changed, Filter, Update
from ...records.run import LogLine, RunReport
from ...records.worker import BeatReply, Claim, WorkerInfo
from ...schedule.record import Fired, Firing, Schedule, Spec, Tick, tick_key
from ...store import Store
from ...trigger import Every

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
A_SECOND_LATER, A_MINUTE_LATER = NOW + timedelta(seconds=1), NOW + timedelta(minutes=1)
# Three failures in a row open the circuit for ten seconds.
BREAKER = Breaker(3, 10.0)
NO_RETRY = Policy(max_retries=0, breaker=BREAKER)
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


async def claimed(store: Store, worker: str = "ada", **asked: Any) -> list[JobId]:
    """The ids a living worker gets."""
    await beat(store, worker)
    return [job.id for job in (await claim(store, worker, **asked)).jobs]


async def run_again(
    store: Store, job_id: JobId, *, worker: str = "ada", now: datetime = NOW, tasks: Collection[str] = ("task",)
) -> Job:
    """The job, running under a fresh lease."""
    await beat(store, worker)
    taken = await claim(store, worker, now=now, tasks=tasks)
    return next(job for job in taken.jobs if job.id == job_id)


async def start(store: Store, *, worker: str = "ada", **fields: Any) -> Job:
    """A new job, running."""
    (job_id,) = await put(store, new_job(**fields))
    return await run_again(store, job_id, worker=worker, tasks=[fields.get("task", "task")])


async def settle(
    store: Store,
    job: Job,
    ended: RunEnd,
    *,
    now: datetime = A_SECOND_LATER,
    policy: Policy = Policy(),  # noqa: B008
    **fields: Any,
) -> set[JobId]:
    """Tells what became of the run; `fields` say more than decide() knows."""
    return await store.finish([replace(decide(job, ended, now=now, policy=policy), **fields)])


async def fail(store: Store, job: Job, *, now: datetime = NOW) -> set[JobId]:
    """The run goes wrong and counts against its task's circuit."""
    return await settle(store, job, ValueError("no"), now=now, policy=NO_RETRY)


async def trip(store: Store, task: str = "task") -> None:
    """The task fails until its circuit opens, at NOW and for ten seconds."""
    await put(store, *(new_job(task=task, queue="trip") for _ in range(BREAKER.failures)))
    await beat(store, "tripper")
    for job in (await claim(store, "tripper", queues=["trip"], tasks=[task])).jobs:
        await fail(store, job)


async def circuit(store: Store, task: str = "task") -> Circuit | None:
    return next((found for found in await store.circuits() if found.task == task), None)


async def suspect(store: Store, **fields: Any) -> JobId:
    """A job under which two workers have died, the last of them in the past."""
    (job_id,) = await put(store, new_job(**fields), now=later(-100))
    for n in range(POISON_SUSPECT_CRASHES):
        at = later(10 * n - 90)
        await beat(store, "doomed", until=at + timedelta(seconds=5), now=at)
        taken = await claim(store, "doomed", tasks=[fields.get("task", "task")], now=at)
        (job,) = [job for job in taken.jobs if job.id == job_id]
        await settle(store, job, Crashed("doomed", 9), now=at + timedelta(seconds=6))
    return job_id


def a_line(n: int, text: str = "line", *, run: int = 1) -> LogLine:
    return LogLine(run, n, later(n), 20, text)


async def tell(store: Store, job: Job, *lines: LogLine, **fields: Any) -> set[JobId]:
    """Reports under the job's own lease."""
    return await store.report([RunReport(id=job.id, lease=job.lease or "", lines=lines, **fields)])


async def act(
    store: Store, action: Action, *ids: JobId, now: datetime = NOW, reason: str = "", update: Update | None = None
) -> Changed:
    return await store.change(action, Filter(ids=ids), now=now, limit=100, reason=reason, update=update)


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


# schedules


def a_schedule(name: str = "hourly", *, said: Mapping[str, Any] = {}, **fields: Any) -> Schedule:
    """Its next tick is at NOW; `said` are parts of its spec."""
    spec = Spec(**{"trigger": Every(seconds=3600), "task": "task", **said})
    given = {"created_at": NOW, "updated_at": NOW, "anchor_at": NOW, "next_run_at": NOW, "due_at": NOW}
    return Schedule(name=name, spec=spec, **{**given, **fields})


def bumped(schedule: Schedule, **fields: Any) -> Schedule:
    return replace(schedule, revision=schedule.revision + 1, **fields)


def a_tick(n: int = 1, *, what: str = "fired", **fields: Any) -> Tick:
    return Tick(n=n, at=later(n), seen_at=later(n), what=what, **fields)  # type: ignore[arg-type]


def tick_job(schedule: Schedule, tick: datetime = NOW, **fields: Any) -> NewJob:
    given = {"schedule": schedule.name, "scheduled_at": tick, "idempotency_key": tick_key(schedule.name, tick)}
    return new_job(**{**given, **fields})


async def fire(store: Store, schedule: Schedule, *, now: datetime = NOW, **parts: Any) -> Fired:
    (fired,) = await store.fire([Firing(schedule=schedule, **parts)], now=now)
    return fired


async def row(store: Store, name: str = "hourly") -> Schedule:
    (found,) = await store.schedules([name], limit=2)
    return found


async def launch(
    store: Store, name: str = "hourly", *, said: Mapping[str, Any] = {}, jobs: int = 1, job: Mapping[str, Any] = {}
) -> tuple[Schedule, list[JobId]]:
    """A schedule with jobs of its own that wait, and whose next tick comes in an hour."""
    new = a_schedule(name, said=said, next_run_at=later(3600), due_at=later(3600))
    made = tuple(tick_job(new, later(n), **job) for n in range(jobs))
    ids = [one.id for one in made]
    assert (await fire(store, replace(new, active=tuple(ids), fired=jobs), jobs=made)).stands
    return await row(store, name), ids
