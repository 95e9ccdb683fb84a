"""A month of work, written by the verbs of the store with instants of the past: jobs of every state the pages offer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.clock import micros
from mainspring.records.job import Action, Job, NewJob
from mainspring.records.outcome import Cancel, Done, Outcome, Policy, RunEnd, decide
from mainspring.records.query import Filter
from mainspring.records.run import Items
from mainspring.records.worker import WorkerInfo
from mainspring.store import Store

DAYS, QUEUES, TASKS, SCHEDULES = 31, 20, 50, 50
# Finished jobs are made in this number of steps, evenly over the days; others in this number over the last hours.
STEPS, RECENT_STEPS, RECENT = 248, 100, timedelta(hours=12)
# Waiting jobs that have failed before: one of this number. Running and paused jobs: this number at most.
RETRIED_SHARE, RUNNING_JOBS, PAUSED_JOBS = 200, 200, 500
CALL_JOBS = 1_000
WORKER = "seed"
ERRORS = [f"{type} {word}" for type in ("Value", "Key", "OS", "Timeout") for word in ("a", "b", "c", "d", "e")]
_NAMES = {"Value": ValueError, "Key": KeyError, "OS": OSError, "Timeout": TimeoutError}


def id_at(at: datetime, n: int) -> str:
    """An id as new_id() makes it, but for any instant and not one that grows from call to call."""
    ms = micros(at) // 1000
    return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{n & 0xFFF:03x}-8000-{n:012x}"


def names(n: int) -> tuple[str, str]:
    """Queue and task of the n-th job. The first tasks have most jobs; one job in ten is not in its task's own queue."""
    part = (n * 2_654_435_761 % 2**32) / 2**32
    task = int(TASKS * part * part)
    return f"queue-{(task + (n % 10 == 3)) % QUEUES:02}", f"task-{task:02}"


def new_job(n: int, at: datetime, *, run_at: datetime | None = None, finished: bool = False) -> NewJob:
    queue, task = names(n)
    made_by = f"schedule-{n % SCHEDULES:02}" if n % 20 == 11 else None
    key = f"schedule:{made_by}:{micros(at) + n}" if made_by else f"order-{n}" if n % 50 == 13 else None
    tags = ("common",) * (n % 5 == 0) + ("rare",) * (n % 1000 == 10)
    expires_at = at + timedelta(days=30) if n % 50 == 23 else None
    if finished and n % 100 == 99:
        expires_at = at + timedelta(seconds=1)
    return NewJob(
        id=id_at(at, n), task=task, payload=f'{{"customer": {n}, "amount": "12.50"}}', queue=queue,
        priority=5 * (n % 20 == 7), run_at=run_at, expires_at=expires_at, tags=tags, idempotency_key=key,
        unique_key=f"customer-{n}" if n % 100 == 31 and not finished else None, schedule=made_by,
        scheduled_at=at if made_by else None, fingerprint="0123456789abcdef",
    )  # fmt: skip


def ended(job: Job) -> RunEnd:
    n = int(job.id[-12:], 16)
    if n % 100 == 97:
        return _error(n // 100)
    if n % 100 == 98:
        return Cancel("not needed any more")
    done = Done('{"sent": true}')
    return done.partly(Items(success=8, failed=2)) if n % 1000 == 96 else done


def _error(n: int) -> Exception:
    type, word = ERRORS[n % len(ERRORS)].split()
    return _NAMES[type](f"no {word}")


class Seed:
    """Writes the jobs; `end` is the instant of the newest."""

    def __init__(self, store: Store, end: datetime) -> None:
        self._store, self._end, self._n = store, end, 0

    async def finished(self, jobs: int) -> None:
        step = timedelta(days=DAYS) / STEPS
        for turn in range(STEPS):
            at = self._end - timedelta(days=DAYS) + turn * step + timedelta(minutes=1)
            await self._put(self._share(jobs, turn, STEPS), at, finished=True)
            await self._run(at + timedelta(seconds=2), Policy(max_retries=0))

    async def waiting(self, jobs: int, *, later: bool = False) -> None:
        """Jobs that are due, or `later` within a week."""
        for turn in range(RECENT_STEPS):
            at = self._end - RECENT + turn * (RECENT / RECENT_STEPS)
            await self._put(self._share(jobs, turn, RECENT_STEPS), at, later=later)

    async def retried(self, jobs: int) -> None:
        at = self._end - timedelta(hours=1)
        await self._put(jobs, at)
        await self._run(at + timedelta(seconds=2), Policy(max_retries=5), failing=True)

    async def held(self) -> None:
        """Leaves some jobs running and some paused."""
        await self._beat()
        await self._claim(self._end, RUNNING_JOBS)
        found = await self._store.jobs(Filter(states=("pending",)), now=self._end, limit=PAUSED_JOBS, newest=True)
        ids = Filter(ids=tuple(job.id for job in found))
        await self._store.change(Action.PAUSE, ids, now=self._end, limit=PAUSED_JOBS)

    def _share(self, jobs: int, turn: int, turns: int) -> int:
        return jobs * (turn + 1) // turns - jobs * turn // turns

    async def _put(self, jobs: int, at: datetime, *, later: bool = False, finished: bool = False) -> None:
        for first in range(0, jobs, CALL_JOBS):
            some = [*self._new(min(CALL_JOBS, jobs - first), at, later, finished)]
            await self._store.enqueue(some, now=at)

    def _new(self, jobs: int, at: datetime, later: bool, finished: bool) -> Iterator[NewJob]:
        for _ in range(jobs):
            self._n += 1
            due = self._end + timedelta(seconds=self._n * 7919 % 604_800) if later else None
            yield new_job(self._n, at, run_at=due, finished=finished)

    async def _run(self, now: datetime, policy: Policy, *, failing: bool = False) -> None:
        await self._beat()
        while claimed := await self._claim(now, CALL_JOBS):
            ends = [(job, _error(n) if failing else ended(job)) for n, job in enumerate(claimed)]
            later = now + timedelta(milliseconds=250)
            outcomes: list[Outcome] = [decide(job, end, now=later, policy=policy) for job, end in ends]
            await self._store.finish(outcomes)

    async def _claim(self, now: datetime, limit: int) -> list[Job]:
        queues, tasks = [f"queue-{n:02}" for n in range(QUEUES)], [f"task-{n:02}" for n in range(TASKS)]
        return (await self._store.claim(queues, worker=WORKER, tasks=tasks, limit=limit, now=now)).jobs

    async def _beat(self) -> None:
        info = WorkerInfo(
            id=WORKER, host="bench", pid=1, queues=None, tasks=(), concurrency=CALL_JOBS, started_at=self._end
        )
        await self._store.beat(info, until=self._end + timedelta(days=1), now=self._end)


async def seed(store: Store, end: datetime, *, finished: int, waiting: int, later: int) -> None:
    """Everything but what is running or paused."""
    one = Seed(store, end)
    await one.finished(finished)
    await one.retried(max(1, waiting // RETRIED_SHARE))
    await one.waiting(waiting)
    await one.waiting(later, later=True)


async def hold(store: Store, end: datetime) -> None:
    await Seed(store, end).held()
