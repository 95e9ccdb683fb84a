"""A worker's fences: claims, outcomes and beats that cross each other, come late or get lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.errors import StoreUnavailable
from mainspring.events import Event, JobEnded, JobLost, JobStarted, StoreTrouble
from mainspring.ids import JobId
from mainspring.records.job import Job, State
from mainspring.records.outcome import Outcome
from mainspring.records.run import Ending, Execution
from mainspring.records.worker import BeatReply, Claim, WorkerInfo
from mainspring.stores.memory.store import MemoryStore

BEAT, LEASE, SWEEP = 0.02, 0.2, 0.02
Obstacle = Callable[[Any], Awaitable[None]]


class Faulty(MemoryStore):
    """A store that can delay or fail the request or the reply of a verb."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, Obstacle] = {}
        self.answered: dict[str, Obstacle] = {}
        self.beats = 0

    async def claim(self, *args: Any, **given: Any) -> Claim:
        answer = await super().claim(*args, **given)
        if answer.jobs and (obstacle := self.answered.get("claim")):
            await obstacle(answer)
        return answer

    async def beat(self, worker: WorkerInfo, **given: Any) -> BeatReply:
        if obstacle := self.asked.get("beat"):
            await obstacle(worker)
        answer = await super().beat(worker, **given)
        if obstacle := self.answered.get("beat"):
            await obstacle(answer)
        self.beats += 1
        return answer

    async def finish(self, outcomes: Sequence[Outcome]) -> set[JobId]:
        if any(outcome.ending == "completed" for outcome in outcomes) and (obstacle := self.asked.get("finish")):
            await obstacle(outcomes)
        answer = await super().finish(outcomes)
        if obstacle := self.answered.get("finish"):
            await obstacle(answer)
        return answer

    async def several_beats(self, _: object = None) -> None:
        """Long enough for a worker to see the same thing twice, and to sweep."""
        await until(lambda seen=self.beats: self.beats >= seen + 5)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def once(act: Obstacle) -> Obstacle:
    """The obstacle for the first call only."""
    left = [act]

    async def first(value: Any) -> None:
        if left:
            await left.pop()(value)

    return first


async def unavailable(_: object) -> None:
    raise StoreUnavailable("a fault for the test")


class Scene:
    """A worker on a faulty store, one task, and all its events."""

    def __init__(self, **settings: Any) -> None:
        self.store = Faulty()
        self.app = Mainspring(self.store, beat=BEAT, lease=LEASE, sweep=SWEEP, poll_interval=0.02, **settings)
        self.told: list[Event] = []
        self.app.events.subscribe(Event, self.told.append)
        self.gate = asyncio.Event()
        self.cancelled = 0
        self.task = self.app.task(self._run, name="task")

    async def _run(self) -> None:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    def heard(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    async def started(self) -> Job:
        job_id = (await self.task.enqueue()).id
        await until(lambda: self.store._tables.jobs.job(job_id).state is State.RUNNING)
        return await self.app.jobs.get(job_id)

    async def completed(self, job_id: JobId) -> Sequence[Execution]:
        """Returns its runs, once it has completed and every beat under way has ended."""
        await until(lambda: self.store._tables.jobs.job(job_id).state is State.COMPLETED)
        await self.store.several_beats()
        return await self.app.executions.list(job_id=job_id)

    async def hold_beats(self, *, release: Callable[[], object]) -> None:
        """Returns when a beat is held up; the condition releases it."""
        held = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def hold(_: object) -> None:
            loop.call_soon_threadsafe(held.set)
            await until(release)
            self.store.asked.pop("beat", None)

        self.store.asked["beat"] = hold
        await held.wait()

    async def crash(self, job: Job, again_in: float = 0.0) -> None:
        """Its worker counts as dead for a moment."""
        now = self.app.clock.now()
        crashed = Outcome(id=job.id, lease=job.lease or "", state=State.PENDING, ending=Ending.CRASHED, crash=True,
                          run_at=now + timedelta(seconds=again_in), finished_at=now + timedelta(hours=1))  # fmt: skip
        assert await self.store.finish([crashed]) == {job.id}

    async def ghost_job(self) -> JobId:
        """A job that runs on a worker which is silent from now on."""
        now = self.app.clock.now()
        info = WorkerInfo(id="ghost", host="", pid=1, queues=None, tasks=("task",), concurrency=1, started_at=now)
        await MemoryStore.beat(self.store, info, until=now + timedelta(seconds=0.05), now=now)
        new = self.task.job()
        with self.store._lock:  # no worker claims between the two
            await MemoryStore.enqueue(self.store, [new], now=now)
            claim = await MemoryStore.claim(self.store, None, worker="ghost", tasks=("task",), limit=1, now=now)
        assert [job.id for job in claim.jobs] == [new.id]
        return new.id


@asynccontextmanager
async def scene(**settings: Any) -> AsyncIterator[Scene]:
    scene = Scene(**settings)
    async with scene.app.worker(concurrency=5):
        yield scene


async def test_a_run_that_began_after_the_beat_was_sent_is_not_reported_as_lost() -> None:
    async with scene() as the:
        begun = asyncio.Event()
        sent = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def slow(_: object) -> None:
            loop.call_soon_threadsafe(sent.set)
            await until(begun.is_set)

        the.store.answered["beat"] = once(slow)
        await sent.wait()
        job = await the.started()
        begun.set()
        await the.store.several_beats()
        the.gate.set()
        assert [run.ending for run in await the.completed(job.id)] == ["completed"]
        assert (the.cancelled, the.heard(JobLost)) == (0, [])


async def test_a_run_is_interrupted_when_its_job_is_held_under_another_lease() -> None:
    async with scene() as the:
        job = await the.started()
        # No beat between the two leases: the job never seems to be gone.
        await the.hold_beats(release=lambda: the.store._tables.jobs.job(job.id).lease not in (None, job.lease))
        await the.crash(job)
        await until(lambda: the.cancelled == 1)
        the.gate.set()
        assert [run.ending for run in await the.completed(job.id)] == ["crashed", "completed"]
        assert [event.job.lease for event in the.heard(JobLost)] == [job.lease]


async def test_a_run_whose_outcome_is_refused_is_reported_as_lost() -> None:
    async with scene() as the:
        job = await the.started()
        await the.hold_beats(release=lambda: the.heard(JobLost) or the.heard(JobEnded))
        await the.crash(job, again_in=3600)
        the.gate.set()
        await until(lambda: the.heard(JobLost))
        assert (the.cancelled, the.heard(JobEnded)) == (0, [])
        assert the.store._tables.jobs.job(job.id).state is State.PENDING


async def test_a_run_of_a_silent_worker_is_rescued_and_runs_again() -> None:
    async with scene() as the:
        the.gate.set()
        job_id = await the.ghost_job()
        assert [run.ending for run in await the.completed(job_id)] == ["crashed", "completed"]
        (crashed, completed) = the.heard(JobEnded)
        assert (crashed.job.worker, crashed.outcome.ending, completed.outcome.ending) == (
            "ghost",
            "crashed",
            "completed",
        )


async def test_a_run_that_crashed_too_often_is_dead_as_a_poison_pill() -> None:
    async with scene(max_crashes=1) as the:
        job_id = await the.ghost_job()
        await until(lambda: the.store._tables.jobs.job(job_id).state is State.DEAD)
        job = await the.app.jobs.get(job_id)
        assert (job.failure and job.failure.type, job.crashes, job.runs) == ("PoisonPill", 1, 1)


async def test_a_run_that_a_stop_ends_gives_its_attempt_back() -> None:
    the = Scene()
    async with the.app.worker() as worker:
        job = await the.started()
        await worker.stop(grace=0.01)
    left = the.store._tables.jobs.job(job.id)
    assert (left.state, left.attempt, left.runs, the.cancelled) == (State.PENDING, 0, 1, 1)


@pytest.mark.parametrize("way", ["an error", "silence"])
async def test_runs_are_given_up_before_the_lease_ends_when_the_store_is_unreachable(way: str) -> None:
    async with scene() as the:
        job = await the.started()
        back = False
        the.store.asked["beat"] = unavailable if way == "an error" else lambda _: until(lambda: back)
        (row,) = await the.store.workers(now=the.app.clock.now())
        try:
            await until(lambda: the.heard(JobLost))
        finally:
            back = True
        lost = the.heard(JobLost)[0]
        assert (lost.job.lease, the.cancelled) == (job.lease, 1)
        assert lost.at < row.until


async def test_jobs_claimed_before_the_leases_lapsed_are_not_started() -> None:
    async with scene() as the:
        the.gate.set()

        async def until_others_may_take_it(_: object) -> None:
            the.store.asked["beat"] = unavailable
            await until(lambda: not the.store._tables.workers.live(the.app.clock.now()))
            the.store.asked.clear()

        the.store.answered["claim"] = once(until_others_may_take_it)
        job_id = (await the.task.enqueue()).id
        _, completed = await the.completed(job_id)
        assert [event.job.lease for event in the.heard(JobStarted)] == [completed.lease]


async def test_a_worker_whose_beats_fail_claims_nothing() -> None:
    async with scene() as the:
        await the.started()
        the.store.answered["beat"] = unavailable  # the store receives the beats, so it would return jobs
        await until(lambda: the.heard(JobLost))
        job_id = (await the.task.enqueue()).id
        beats = len(the.heard(StoreTrouble))
        await until(lambda: len(the.heard(StoreTrouble)) > beats + 2)
        assert the.store._tables.jobs.job(job_id).runs == 0
        the.store.answered.clear()
        the.gate.set()
        await the.completed(job_id)


async def test_a_beat_that_is_answered_too_late_does_not_keep_the_lease() -> None:
    async with scene() as the:
        job = await the.started()

        async def until_the_runs_are_let_go(_: object) -> None:
            await until(lambda: the.heard(JobLost))
            over = the.app.clock.monotonic() + LEASE
            await until(lambda: the.app.clock.monotonic() > over)

        the.store.answered["beat"] = once(until_the_runs_are_let_go)
        await until(lambda: the.heard(StoreTrouble))
        (trouble,) = the.heard(StoreTrouble)
        assert trouble.doing == "beating"
        assert "too late to keep the lease" in trouble.error
        the.gate.set()
        assert [run.ending for run in await the.completed(job.id)][-1] == "completed"


async def test_a_job_whose_claim_was_not_answered_is_released_and_run_again() -> None:
    async with scene() as the:
        the.store.answered["claim"] = once(unavailable)
        the.gate.set()
        job_id = (await the.task.enqueue()).id
        assert [run.ending for run in await the.completed(job_id)] == ["released", "completed"]
        assert (await the.app.jobs.get(job_id)).attempt == 1


async def test_a_job_whose_claim_is_answered_late_is_not_released() -> None:
    async with scene() as the:
        the.store.answered["claim"] = once(the.store.several_beats)
        the.gate.set()
        job_id = (await the.task.enqueue()).id
        assert [run.ending for run in await the.completed(job_id)] == ["completed"]


async def test_a_run_whose_outcome_is_on_its_way_is_not_released() -> None:
    async with scene() as the:
        the.store.asked["finish"] = once(the.store.several_beats)
        the.gate.set()
        job_id = (await the.task.enqueue()).id
        assert [run.ending for run in await the.completed(job_id)] == ["completed"]


async def test_a_run_whose_outcome_waits_for_the_store_is_not_released() -> None:
    async with scene() as the:
        the.store.asked["finish"] = unavailable
        the.gate.set()
        job_id = (await the.task.enqueue()).id
        await the.store.several_beats()
        await the.store.several_beats()
        del the.store.asked["finish"]
        assert [run.ending for run in await the.completed(job_id)] == ["completed"]


@pytest.mark.parametrize("way", ["asked", "answered"])
async def test_finish_is_repeated_after_a_fault_and_counts_once(way: str) -> None:
    async with scene() as the:
        getattr(the.store, way)["finish"] = once(unavailable)
        the.gate.set()
        job_id = (await the.task.enqueue()).id
        assert [run.ending for run in await the.completed(job_id)] == ["completed"]
        await until(lambda: the.heard(JobEnded))
        assert [event.job.id for event in the.heard(JobEnded)] == [job_id]
        assert the.heard(JobLost) == []


async def test_an_abandoned_run_ends_with_its_worker_and_its_result_is_discarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mainspring.worker.slots.DRAIN_GRACE_SECONDS", 0.02)
    store = Faulty()
    app = Mainspring(store, beat=BEAT, lease=LEASE, sweep=SWEEP)
    gate, ended = asyncio.Event(), asyncio.Event()
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))

    @app.task
    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        ended.set()

    async with app.worker() as worker:
        job_id = (await stubborn.enqueue()).id
        await until(lambda: store._tables.jobs.job(job_id).state is State.RUNNING)
        await worker.stop(grace=0.01)
    gate.set()
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0)
    (run,) = await store.executions(job_id)
    assert (run.ending, store._tables.jobs.job(job_id).state, troubles) == ("released", State.PENDING, [])
    assert not ended.is_set()
