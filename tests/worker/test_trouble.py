"""Lost replies, silent workers and an unreliable store: no job is lost, and none counts twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, State
from mainspring.events import JobEnded, JobLost, StoreTrouble
from mainspring.records.run import Ending
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore, Recorder, VirtualClock


class Scene:
    def __init__(self, url: str, clock: VirtualClock) -> None:
        self.faults = Faults()
        self.store: Any = FaultStore(open_store(url, clock=clock), self.faults)
        self.app = Mainspring(self.store, clock=clock, middleware=[self.faults.middleware])
        self.recorder = Recorder(self.app)
        self.runs: list[str] = []

        @self.app.task(max_retries=2)
        async def work(name: str) -> None:
            self.runs.append(name)

        self.work = work


@pytest.fixture
def scene(url: str, clock: VirtualClock) -> Scene:
    return Scene(url, clock)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["claim", "finish", "beat", "orphaned", "time", "wait"])
async def test_every_job_completes_once_when_store_calls_fail_or_lose_their_replies(
    scene: Scene, clock: VirtualClock, verb: str, moment: Any
) -> None:
    async with scene.app as app:
        handles = [await scene.work.enqueue(str(n)) for n in range(10)]
        scene.faults.fail(verb, times=3, after=1, moment=moment)
        async with app.worker(concurrency=3):
            await clock.elapse(minutes=2)
        jobs = [await handle.job() for handle in handles]
        assert {job.state for job in jobs} == {State.COMPLETED}
        for handle in handles:
            runs = await app.executions.list(job_id=handle.id)
            assert [run.ending for run in runs].count(Ending.COMPLETED) == 1
        assert sorted(scene.runs) == sorted(map(str, range(10)))
        assert scene.faults.injected == [verb] * 3
        assert scene.recorder.of(JobLost) == []


async def test_a_claim_whose_reply_is_lost_costs_no_attempt(scene: Scene, clock: VirtualClock) -> None:
    async with scene.app as app:
        handle = await scene.work.enqueue("once")
        scene.faults.fail("claim", moment="after")
        async with app.worker():
            await clock.elapse(minutes=1)
        job = await handle.job()
        assert (job.state, job.attempt, job.runs, scene.runs) == (State.COMPLETED, 1, 2, ["once"])


async def test_an_enqueue_whose_reply_is_lost_may_be_repeated(scene: Scene) -> None:
    async with scene.app as app:
        job = scene.work.job("once")
        scene.faults.fail("enqueue", moment="after")
        with pytest.raises(Exception, match="injected"):
            await app.enqueue_many([job])
        (handle,) = await app.enqueue_many([job])
        await app.drain()
        assert scene.runs == ["once"]
        assert not handle.duplicate


async def test_an_injected_fault_fails_a_task_the_given_number_of_times(scene: Scene, clock: VirtualClock) -> None:
    async with scene.app as app:
        handle = await scene.work.enqueue("third time lucky")
        scene.faults.fail("work", times=2, error=lambda: OSError("flaky"))
        async with app.worker():
            await clock.elapse(seconds=10)
        assert [run.ending for run in await app.executions.list(job_id=handle.id)] == ["failed", "failed", "completed"]


async def test_a_silent_workers_job_runs_again_within_lease_and_sweep(scene: Scene, clock: VirtualClock) -> None:
    async with scene.app as app:
        handle = await scene.work.enqueue("again")
        store, now = await app.connect(), clock.now()
        (dead,) = await silent_worker(app, limit=1)
        async with app.worker():
            await clock.elapse(seconds=19)
            assert scene.runs == []
            await clock.elapse(seconds=6)
            assert scene.runs == ["again"]
        first, second = await app.executions.list(job_id=handle.id)
        assert (first.ending, first.worker, second.ending) == ("crashed", "gone", "completed")
        assert first.finished_at - now <= timedelta(seconds=25)
        assert dead.lease == first.lease
        assert await store.orphaned(now=clock.now(), limit=10) == []


async def silent_worker(app: Mainspring, limit: int) -> Any:
    """A worker that claims and then is silent."""
    from mainspring.records.worker import WorkerInfo

    store, now = await app.connect(), app.clock.now()
    info = WorkerInfo(id="gone", host="h", pid=1, queues=None, tasks=tuple(app.tasks), concurrency=1, started_at=now)
    await store.beat(info, until=now + timedelta(seconds=app.settings.lease), now=now)
    claim = await store.claim(None, worker="gone", tasks=list(app.tasks), limit=limit, now=now)
    return claim.jobs


async def test_a_job_that_kills_its_worker_three_times_is_dead(scene: Scene, clock: VirtualClock) -> None:
    async with scene.app as app:
        handle = await scene.work.using(max_retries=0).enqueue("pill")
        for _ in range(3):
            await silent_worker(app, limit=1)
            clock.advance(seconds=21)
            watcher = app.worker(queues=["nothing here"])
            await watcher.drain()
        job = await handle.job()
        assert (job.state, job.crashes) == (State.DEAD, 3)
        assert job.failure is not None
        assert job.failure.type == "PoisonPill"
        assert scene.runs == []


async def test_crashes_do_not_use_up_retries(scene: Scene, clock: VirtualClock) -> None:
    async with scene.app as app:
        handle = await scene.work.enqueue("x")
        scene.faults.fail("work", times=2, error=OSError)
        for _ in range(2):
            await silent_worker(app, limit=1)
            clock.advance(seconds=21)
            await app.worker(queues=["nothing here"]).drain()
        async with app.worker():
            await clock.elapse(seconds=30)
        assert (await handle.job()).state is State.COMPLETED


async def test_a_long_job_of_a_live_worker_is_not_rescued(scene: Scene, clock: VirtualClock) -> None:
    @scene.app.task(timeout=None)
    async def long() -> None:
        await clock.sleep(120)

    async with scene.app as app:
        handle = await long.enqueue()
        async with app.worker(concurrency=1), app.worker(concurrency=1):
            await clock.elapse(seconds=130)
        (run,) = await app.executions.list(job_id=handle.id)
        assert run.ending is Ending.COMPLETED


async def test_store_trouble_is_reported_and_waited_out(scene: Scene, clock: VirtualClock) -> None:
    async with scene.app as app:
        scene.faults.fail("claim", times=5)
        handle = await scene.work.enqueue("patience")
        async with app.worker():
            await clock.elapse(seconds=30)
        assert (await handle.job()).state is State.COMPLETED
        troubles = scene.recorder.of(StoreTrouble)
        assert len(troubles) == 5
        assert troubles[0].doing == "claiming"
        assert troubles[-1].again > troubles[0].again


async def test_an_unexpected_store_error_ends_the_worker_with_that_error(scene: Scene, clock: VirtualClock) -> None:
    scene.faults.fail("claim", error=lambda: RuntimeError("a bug"))
    async with scene.app as app:
        worker = app.worker()
        with pytest.raises(BaseExceptionGroup, match="unhandled errors"):
            async with worker:
                await clock.elapse(seconds=5)
        assert await app.workers.list() == []


@pytest.mark.parametrize("verb", ["open", "time", "beat"])
async def test_a_store_that_is_down_at_the_start_is_waited_for(scene: Scene, clock: VirtualClock, verb: str) -> None:
    async with scene.app as app:
        handle = await scene.work.enqueue("late")
        scene.faults.fail(verb, times=4)  # the app has opened its own handle; the beat has another
        starting = asyncio.create_task(app.worker().run())
        await clock.elapse(seconds=30)
        assert (await handle.job()).state is State.COMPLETED
        starting.cancel()
        await clock.elapse(seconds=60)
        with pytest.raises(asyncio.CancelledError):
            await starting


async def test_a_skewed_clock_follows_the_stores_time(tmp_path: Path) -> None:
    store_clock, skewed = VirtualClock(), VirtualClock()
    skewed.advance(hours=1)
    store = open_store("memory://", clock=store_clock)
    app = Mainspring(store, clock=skewed)

    @app.task
    async def now() -> None: ...

    async with app:
        handle = await now.enqueue()
        assert (await handle.job()).created_at == store_clock.now()
        await app.drain()
        (run,) = await app.executions.list(job_id=handle.id)
        assert run.started_at == store_clock.now()


async def test_a_job_end_is_reported_once(scene: Scene, clock: VirtualClock) -> None:
    async with scene.app as app:
        scene.faults.fail("finish", moment="after")
        handle = await scene.work.enqueue("x")
        async with app.worker():
            await clock.elapse(seconds=10)
        assert len(scene.recorder.of(JobEnded, handle.id)) == 1
