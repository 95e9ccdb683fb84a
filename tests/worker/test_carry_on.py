"""A worker takes on the next steps of flows with the outcomes that release them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from flow_kit import ended

from mainspring import Filter, Handle, Mainspring, State
from mainspring.records.worker import Claim, Finished
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.worker.claimer import CARRY_ON_SECONDS

Obstacle = Callable[[Finished], Awaitable[None]]


class Watched:
    """A store that notes the tasks of the jobs that were claimed and carried on, and may hold up an answer."""

    def __init__(self, store: Any, scene: Scene) -> None:
        self._store, self._scene = store, scene

    def clone(self) -> Any:
        inner = self._store.clone()
        return self if inner is self._store else Watched(inner, self._scene)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *args: Any, **given: Any) -> Claim:
        answer: Claim = await self._store.claim(*args, **given)
        self._scene.claimed += [job.task for job in answer.jobs]
        return answer

    async def finish(self, *args: Any, **given: Any) -> Finished:
        answer: Finished = await self._store.finish(*args, **given)
        self._scene.carried += [job.task for job in answer.carried_on]
        if answer.carried_on and self._scene.obstacle is not None:
            obstacle, self._scene.obstacle = self._scene.obstacle, None
            await obstacle(answer)
        return answer


async def turns(count: int) -> None:
    """Lets the loops of the worker go round so often."""
    for _ in range(count):
        await asyncio.sleep(0)


class Scene:
    """An app with a chain of three steps."""

    def __init__(self, app: Mainspring, step_seconds: float = 0.0, **options: Any) -> None:
        self.app, self.claimed, self.carried = app, list[str](), list[str]()
        self.obstacle: Obstacle | None = None
        self.running = self.most = 0
        app._engine.wrap_store(lambda store: Watched(store, self))  # type: ignore[arg-type,return-value]

        @app.task(**options)
        async def hop(n: int) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            await app.clock.sleep(step_seconds)
            self.running -= 1
            return n + 1

        @app.flow
        def chain(n: int) -> int:
            return hop.step(hop.step(hop.step(n)))

        self.chain = chain


async def test_next_steps_run_without_a_claim(app: Mainspring, clock: VirtualClock) -> None:
    scene = Scene(app)
    async with app:
        job = await ended(app, clock, await scene.chain.enqueue(0))
        assert (job.state, job.result) == (State.COMPLETED, "3")
        assert (scene.claimed.count("hop"), scene.carried.count("hop")) == (1, 2)


async def test_worker_claims_first_once_its_last_claim_was_long_ago(app: Mainspring, clock: VirtualClock) -> None:
    scene = Scene(app, step_seconds=2 * CARRY_ON_SECONDS)
    async with app:
        assert (await ended(app, clock, await scene.chain.enqueue(0))).result == "3"
        assert (scene.claimed.count("hop"), scene.carried.count("hop")) == (3, 0)


async def test_steps_never_take_more_slots_than_there_are(app: Mainspring, clock: VirtualClock) -> None:
    scene = Scene(app, step_seconds=0.01)
    async with app:
        runs = [await scene.chain.enqueue(n) for n in range(6)]
        async with app.worker(concurrency=2):
            await clock.elapse(timedelta(minutes=1))
        assert [await run.result(timeout=0) for run in runs] == [n + 3 for n in range(6)]
        assert scene.most == 2
        assert "hop" in scene.carried


async def test_steps_of_tasks_with_a_limit_are_claimed(app: Mainspring, clock: VirtualClock) -> None:
    scene = Scene(app, concurrency=1)
    async with app:
        assert (await ended(app, clock, await scene.chain.enqueue(0))).result == "3"
        assert "hop" not in scene.carried


async def test_queues_with_a_limit_are_left_to_claims(app: Mainspring, clock: VirtualClock) -> None:
    scene = Scene(app)
    async with app, app.worker(queues={"default": 2}):
        run = await scene.chain.enqueue(0)
        await clock.elapse(timedelta(minutes=1))
        assert await run.result(timeout=0) == 3
        assert "hop" not in scene.carried


async def test_step_whose_start_was_lost_with_the_reply_is_run(url: str, clock: VirtualClock) -> None:
    app, faults = Mainspring(url, clock=clock), Faults()
    scene = Scene(app)
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]
    faults.fail("finish", after=1, moment="after")
    async with app:
        run = await scene.chain.enqueue(0)
        assert (await ended(app, clock, run)).result == "3"
        hops = await app.jobs.list(Filter(tasks=("hop",)))
        assert sorted((job.runs, job.attempt, job.crashes) for job in hops) == [(1, 1, 0), (1, 1, 0), (2, 1, 0)]


async def test_slot_of_a_step_that_has_ended_is_kept_for_the_next_one() -> None:
    app, held, others = Mainspring("memory://"), list[int](), list[Handle[None]]()
    scene = Scene(app)

    @app.task
    async def other() -> None:
        await turns(50)
        held.append(len(worker._slots))

    async def others_come(_: Finished) -> None:
        others.extend(await app.enqueue_many([other.job() for _ in range(3)]))
        await turns(20)

    async with app:
        run = await scene.chain.enqueue(0)
        async with app.worker(concurrency=1) as worker:
            scene.obstacle = others_come
            assert await run.result(timeout=5) == 3
            for one in others:
                await one.result(timeout=5)
    assert held == [1, 1, 1]


async def test_step_that_comes_to_a_worker_that_stops_is_given_back() -> None:
    app = Mainspring("memory://")
    scene, held, go = Scene(app), asyncio.Event(), asyncio.Event()

    async def hold(_: Finished) -> None:
        held.set()
        await go.wait()

    scene.obstacle = hold
    async with app:
        run = await scene.chain.enqueue(0)
        async with app.worker() as worker:
            await held.wait()
            stopping = asyncio.create_task(worker.stop(grace=5))
            await asyncio.sleep(0)
            go.set()
            await stopping
        (waiting,) = await app.jobs.list(Filter(tasks=("hop",), states=(State.PENDING,)))
        assert (waiting.attempt, waiting.runs, waiting.crashes) == (0, 1, 0)
        assert [one.ending for one in await app.executions.list(job_id=waiting.id)] == ["released"]
        async with app.worker():
            assert await run.result(timeout=5) == 3


async def test_step_that_comes_after_the_leases_have_lapsed_is_not_begun() -> None:
    app = Mainspring("memory://", beat=0.02, lease=1.0, sweep=0.02)
    scene = Scene(app)
    async with app:
        async with app.worker() as worker:

            async def lapse(_: Finished) -> None:
                worker._lose_leases()
                worker._state.renew()

            scene.obstacle = lapse
            run = await scene.chain.enqueue(0)
            assert await run.result(timeout=5) == 3
        runs = sorted(job.runs for job in await app.jobs.list(Filter(tasks=("hop",))))
        assert runs == [1, 1, 2]


async def test_drain_up_to_a_number_of_runs_takes_nothing_on(url: str) -> None:
    app = Mainspring(url)
    scene = Scene(app)
    async with app:
        await scene.chain.enqueue(0)
        assert await app.worker().drain(2) == 2
        assert "hop" not in scene.carried
