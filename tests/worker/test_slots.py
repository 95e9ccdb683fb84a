"""The task and the context variables of a run: shared by runs that never wait, unnoticed by all of them."""

from __future__ import annotations

import asyncio
import gc
import time
from contextvars import ContextVar
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import Mainspring
from mainspring.records.job import State
from mainspring.records.outcome import Released
from mainspring.records.worker import Claim
from mainspring.worker.run import Run
from mainspring.worker.slots import START_SECONDS

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=["memory"])
def url() -> str:
    return "memory://"


async def test_runs_that_never_wait_share_a_task(app: Mainspring) -> None:
    tasks: list[asyncio.Task[object] | None] = []

    @app.task
    async def note() -> None:
        tasks.append(asyncio.current_task())

    async with app:
        await app.enqueue_many([note.job() for _ in range(10)])
        await app.drain()
    assert len(tasks) == 10
    assert len(set(tasks)) == 1


async def test_a_run_that_waits_has_one_task_of_its_own_from_its_first_step(app: Mainspring) -> None:
    seen: dict[int, list[asyncio.Task[object] | None]] = {}
    gate = asyncio.Event()

    @app.task
    async def work(n: int) -> None:
        seen[n] = [asyncio.current_task()]
        if len(seen) == 6:
            gate.set()
        elif n % 2:
            await gate.wait()
        seen[n].append(asyncio.current_task())

    async with app:
        await app.enqueue_many([work.job(n) for n in range(6)])
        await app.drain()
    assert all(first is second for first, second in seen.values())
    assert len({seen[n][0] for n in (0, 1, 3, 5)}) == 3


async def test_context_variables_of_a_run_are_its_own(app: Mainspring) -> None:
    name: ContextVar[str] = ContextVar("name", default="nothing")
    found: list[str] = []

    @app.task
    async def work(n: int) -> None:
        found.append(name.get())
        name.set(str(n))
        if n % 2:
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(lambda: found.append(name.get()))
        await asyncio.create_task(check(n))

    async def check(n: int) -> None:
        assert name.get() == str(n)

    async with app:
        await app.enqueue_many([work.job(n) for n in range(6)])
        await app.drain()
    assert sorted(found) == [*"012345", *["nothing"] * 6]
    assert name.get() == "nothing"


async def test_a_task_that_cancels_itself_cancels_no_other_run(app: Mainspring) -> None:
    @app.task(max_retries=0)
    async def work(n: int) -> int:
        if n == 2:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        if n == 4:
            raise asyncio.CancelledError
        return n

    async with app:
        handles = await app.enqueue_many([work.job(n) for n in range(6)])
        await app.drain()
        jobs = [await app.jobs.get(handle.id) for handle in handles]
    states = [job.state for job in jobs]
    assert states == [State.DEAD if n in (2, 4) else State.COMPLETED for n in range(6)]
    assert {job.failure.message for job in jobs if job.failure} == {"the task cancelled itself"}


@pytest.mark.parametrize(("in_process", "first_runs"), [(False, 4), (True, 8)])
async def test_a_claim_begins_when_half_of_the_slots_are_free(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch, in_process: bool, first_runs: int
) -> None:
    """Runs of one claim end without waiting: the next claim is sent before the second half of them begins, if the store
    has a server that works meanwhile."""
    events: list[str] = []

    @app.task
    async def work() -> None:
        events.append("run")

    async with app:
        store = await app._engine.connect()
        claim = store.claim

        async def noted(*args: Any, **options: Any) -> Claim:
            events.append("claim")
            return await claim(*args, **options)

        monkeypatch.setattr(store, "claim", noted)
        monkeypatch.setattr(store, "capabilities", replace(store.capabilities, in_process=in_process))
        await app.enqueue_many([work.job() for _ in range(16)])
        await app.worker(concurrency=8).drain()
    assert events[: first_runs + 2] == ["claim", *["run"] * first_runs, "claim"]


async def test_a_timeout_inside_a_run_ends_its_block_only(app: Mainspring) -> None:
    @app.task
    async def work(n: int) -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "in time"

    async with app:
        handles = await app.enqueue_many([work.job(n) for n in range(3)])
        await app.drain()
        assert [await handle.result() for handle in handles] == ["late"] * 3


async def test_an_error_raised_after_a_cancellation_was_handled_has_no_context(app: Mainspring) -> None:
    raised: list[BaseException] = []

    @app.task(max_retries=0)
    async def work() -> None:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            pass
        try:
            raise ValueError("of its own")
        except ValueError as error:
            raised.append(error)

    async with app:
        await work.enqueue()
        await app.drain()
    assert [error.__context__ for error in raised] == [None]


async def test_other_work_of_the_loop_has_its_turn_between_runs_that_block() -> None:
    """Each run blocks the loop for START_SECONDS: before the next one begins, timers that are due have run."""
    app = Mainspring("memory://")
    order: list[str] = []

    @app.task
    async def work(n: int) -> None:
        order.append(f"run {n}")
        asyncio.get_running_loop().call_soon(order.append, f"callback {n}")
        end = time.perf_counter() + 1.5 * START_SECONDS
        while time.perf_counter() < end:
            pass

    async with app:
        await app.enqueue_many([work.job(n) for n in range(3)])
        async with app.worker():
            await asyncio.gather(*(app.jobs.wait(job.id, 20) for job in await app.jobs.list()))
    assert order == [f"{what} {n}" for n in range(3) for what in ("run", "callback")]


async def test_a_run_that_is_released_before_it_begins_never_begins() -> None:
    app = Mainspring("memory://")
    begun: list[int] = []
    runs: list[Run] = []

    @app.task
    async def work(n: int) -> None:
        if not begun:
            runs[:] = worker._slots
            second, third = runs[1:]
            second.end(Released())
            third.end(Released())
            worker._slots.settle(third, Released())  # as at the end of a drain
        begun.append(n)

    async with app:
        handles = await app.enqueue_many([work.job(n) for n in range(3)])
        worker = app.worker(concurrency=3)
        async with worker:
            for handle in handles:
                await app.jobs.wait(handle.id, 20)
            for run in runs:
                worker._slots.settle(run, Released())  # has no effect: all are settled
        endings = [[str(run.ending) for run in await app.executions.list(job_id=handle.id)] for handle in handles]
    assert sorted(begun) == [0, 1, 2]
    assert endings == [["completed"], ["released", "completed"], ["released", "completed"]]


def test_a_loop_that_ends_leaves_no_run_behind_that_has_not_begun(caplog: pytest.LogCaptureFixture) -> None:
    app = Mainspring("memory://")
    begun: list[int] = []

    @app.task
    async def work(n: int) -> None:
        begun.append(n)
        first.set()
        end = time.perf_counter() + 1.5 * START_SECONDS
        while time.perf_counter() < end:
            pass

    async def main() -> None:
        await app.enqueue_many([work.job(n) for n in range(9)])
        await app.worker(concurrency=9).__aenter__()
        await first.wait()

    first = asyncio.Event()
    asyncio.run(main())
    gc.collect()
    assert begun == list(range(len(begun)))
    assert len(begun) < 9
    said = [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    assert [text for text in said if "Slots." in text] == []  # not what a test before this one has left behind
