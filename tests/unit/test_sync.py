""".sync, for code that does not await: the same methods, refused inside an event loop."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Handle, JobDead, JobNotFound, Mainspring, MainspringError, ResultTimeout, ShuttingDown, State
from mainspring.sync import run, run_blocking

REFUSED = ".sync was used inside an event loop; await the method without .sync there"


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mainspring]:
    """An app on the system clock, because .sync has its own event loop."""
    app = Mainspring("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    app.task(add)
    app.task(max_retries=0)(fail)
    yield app
    app.sync.close()


def add(a: int, b: int = 2) -> int:
    return a + b


async def fail() -> None:
    raise ValueError("no")


def test_sync_enqueues_runs_and_reads_a_job(app: Mainspring) -> None:
    job = app.tasks["add"].sync.enqueue(1, b=5)
    assert job.status == "new"
    assert job.job().state is State.PENDING
    assert app.sync.drain() == 1
    assert job.result(timeout=10) == 6


def test_sync_tasks_take_options(app: Mainspring) -> None:
    urgent = app.tasks["add"].sync.using(priority=5, unique_key="one")
    first, second = urgent.enqueue(1), urgent.enqueue(2)
    assert (second.id, second.duplicate) == (first.id, True)
    assert first.job().priority == 5


def test_sync_handle_returns_the_result(app: Mainspring) -> None:
    handle: Handle[Any] = asyncio.run(app.tasks["add"].enqueue(1))
    app.sync.drain()
    assert handle.sync.result(timeout=10) == 3


def test_sync_calls_raise_the_errors_of_the_coroutine(app: Mainspring) -> None:
    job = app.tasks["fail"].sync.enqueue()
    with pytest.raises(ResultTimeout):
        job.result(timeout=0)
    app.sync.drain()
    with pytest.raises(JobDead, match="ValueError: no"):
        job.result()


def test_sync_control_has_the_same_methods(app: Mainspring) -> None:
    job = app.tasks["add"].sync.enqueue(1)
    assert app.sync.jobs.get(job.id).id == job.id
    assert app.sync.jobs.cancel(job.id).done == [job.id]
    app.sync.queues.pause("mail")
    assert [queue.name for queue in app.sync.queues.list()] == ["mail"]
    assert list(app.sync.executions.list(job_id=job.id)) == []
    assert list(app.sync.workers.list()) == []
    assert app.sync.stats().cancelled == 1
    with pytest.raises(JobNotFound):
        app.sync.jobs.get("nobody")


def test_sync_leaves_plain_attributes_unchanged(app: Mainspring) -> None:
    assert app.sync.settings.concurrency == 100
    assert app.sync.clock.now().tzinfo is not None
    with pytest.raises(AttributeError):
        app.sync.nothing  # noqa: B018


def test_sync_enqueue_and_enqueue_many_return_sync_handles(app: Mainspring) -> None:
    one = app.sync.enqueue("add", a=1)
    (other,) = app.sync.enqueue_many([app.tasks["add"].job(2)])
    app.sync.drain()
    assert one.result(timeout=10) == 3
    assert other.result(timeout=10) == 4


def test_sync_calls_of_many_threads_share_the_bridge(app: Mainspring) -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.append(app.tasks["add"].sync.enqueue(1).id)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 10
    assert app.sync.stats().pending == 10


def test_a_sync_task_may_enqueue_through_sync(app: Mainspring) -> None:
    """A sync task runs in a thread without an event loop."""

    @app.task
    def parent() -> str:
        return app.tasks["add"].sync.enqueue(1).id

    job = asyncio.run(parent.enqueue())
    asyncio.run(app.drain())
    child = job.sync.result(timeout=10)
    assert app.sync.jobs.get(child).task == "add"


async def test_sync_is_refused_inside_an_event_loop_with_a_remedy(app: Mainspring) -> None:
    job = await app.tasks["add"].enqueue(1)
    for call in (
        lambda: app.tasks["add"].sync.enqueue(1),
        lambda: app.sync.stats(),
        lambda: app.sync.jobs.get(job.id),
        lambda: job.sync.result(),
        lambda: job.sync.job(),
    ):
        with pytest.raises(MainspringError) as refused:
            call()
        assert str(refused.value) == REFUSED
    assert (await app.stats()).pending == 1


@pytest.mark.parametrize("app", ["sqlite"], indirect=True)  # the memory store has no transactions
async def test_sync_within_a_transaction_is_refused_inside_an_event_loop(app: Mainspring) -> None:
    task = app.tasks["add"].sync.using(within=object())
    with pytest.raises(MainspringError) as refused:
        task.enqueue(1)
    assert str(refused.value) == REFUSED


def test_sync_enqueue_on_a_closed_app_raises_shutting_down(app: Mainspring) -> None:
    app.tasks["add"].sync.enqueue(1)
    app.sync.close()
    with pytest.raises(ShuttingDown):
        app.tasks["add"].sync.enqueue(1)


def test_sync_and_async_calls_see_the_same_jobs(app: Mainspring) -> None:
    job = app.tasks["add"].sync.enqueue(1)
    assert asyncio.run(app.jobs.get(job.id)).id == job.id


# run_blocking


def test_run_blocking_uses_the_callers_thread() -> None:
    async def work() -> tuple[str, str]:
        return threading.current_thread().name, await run_blocking(lambda: threading.current_thread().name)

    assert run(work()) == ("mainspring-sync", threading.current_thread().name)


def test_run_blocking_raises_the_error_of_its_function() -> None:
    async def work() -> str:
        try:
            return await run_blocking(lambda: str(1 // 0))
        except ZeroDivisionError:
            return "met"

    assert run(work()) == "met"


def test_an_interrupted_sync_caller_cancels_its_coroutine() -> None:
    ended: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        try:
            await run_blocking(interrupted)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def nothing() -> int:
        return 1

    with pytest.raises(KeyboardInterrupt):
        run(work())
    assert (run(nothing()), ended) == (1, ["cancelled"])


async def test_run_blocking_does_not_block_the_event_loop() -> None:
    assert await run_blocking(threading.current_thread) is not threading.current_thread()
