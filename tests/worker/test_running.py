"""One job from its claim to its stored outcome."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from mainspring import Backoff, Cancel, Context, Discard, JobDead, Mainspring, Retry, Snooze, State
from mainspring.events import JobEnded, JobStarted
from mainspring.records.run import Ending
from mainspring.testing import Recorder, VirtualClock

pytestmark = pytest.mark.filterwarnings("error")


async def endings(app: Mainspring, id: str) -> list[str]:
    return [str(run.ending) for run in await app.executions.list(job_id=id)]


async def test_async_and_sync_tasks_return_their_results(app: Mainspring) -> None:
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task
    def thread_name() -> str:
        return threading.current_thread().name

    async with app:
        first, second = await double.enqueue(21), await thread_name.enqueue()
        assert await app.drain() == 2
        assert await first.result() == 42
        assert (await second.result()).startswith("mainspring-task")


async def test_the_context_has_the_job_attempt_metadata_lease_and_deadline(
    app: Mainspring, clock: VirtualClock
) -> None:
    seen: list[Context] = []

    @app.task(timeout=60)
    async def look(ctx: Context, n: int) -> None:
        seen.append(ctx)

    async with app:
        handle = await look.using(metadata={"trace": "abc"}).enqueue(1)
        await app.drain()
    (ctx,) = seen
    assert (ctx.job.id, ctx.attempt, ctx.metadata) == (handle.id, 1, {"trace": "abc"})
    assert ctx.lease
    assert ctx.deadline == clock.now() + timedelta(seconds=60)
    assert ctx.cancelled is False


async def test_a_failing_task_is_retried_by_its_backoff_and_then_is_dead(app: Mainspring, clock: VirtualClock) -> None:
    starts: list[float] = []

    @app.task(max_retries=3, backoff=Backoff(initial=1, multiplier=2, jitter=0))
    async def fail() -> None:
        starts.append(clock.monotonic())
        raise ValueError("no")

    async with app:
        handle = await fail.enqueue()
        async with app.worker():
            await clock.elapse(seconds=30)
        assert starts == [0, 1, 3, 7]
        assert await endings(app, handle.id) == ["failed"] * 4
        job = await handle.job()
        assert job.state is State.DEAD
        assert job.failure is not None
        assert (job.failure.type, job.failure.message) == ("ValueError", "no")
        assert "raise ValueError" in job.failure.stack
        with pytest.raises(JobDead, match="ValueError: no"):
            await handle.result()


async def test_max_retries_of_a_job_overrides_the_task_and_that_of_a_task_the_app(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock, retry_max=1, retry_initial_delay=1)

    async def fail() -> None:
        raise ValueError

    by_app = app.task(name="by_app")(fail)
    by_task = app.task(name="by_task", max_retries=2)(fail)
    async with app:
        handles = [await by_app.enqueue(), await by_task.enqueue(), await by_task.using(max_retries=0).enqueue()]
        async with app.worker():
            await clock.elapse(minutes=1)
        assert [len(await endings(app, handle.id)) for handle in handles] == [2, 3, 1]


@pytest.mark.parametrize("returned", [True, False], ids=["returned", "raised"])
@pytest.mark.parametrize(
    ("steer", "state", "ending", "attempt"),
    [
        (Retry(after=7), State.PENDING, Ending.FAILED, 1),
        (Snooze(7), State.PENDING, Ending.SNOOZED, 0),
        (Discard("bad row"), State.DEAD, Ending.DISCARDED, 1),
        (Cancel("not wanted"), State.CANCELLED, Ending.CANCELLED, 1),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_task_may_return_or_raise_a_directive(
    app: Mainspring,
    clock: VirtualClock,
    steer: Exception,
    state: State,
    ending: Ending,
    attempt: int,
    returned: bool,
) -> None:
    @app.task
    async def steering() -> object:
        if returned:
            return steer
        raise steer

    async with app:
        handle = await steering.enqueue()
        await app.drain()
        job = await handle.job()
        assert (job.state, job.attempt, await endings(app, handle.id)) == (state, attempt, [ending])
        if state is State.PENDING:
            assert job.run_at == clock.now() + timedelta(seconds=7)


async def test_snoozing_for_ever_uses_up_no_retry(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def patient(ctx: Context) -> str:
        if ctx.job.runs <= 5:
            raise Snooze(60)
        return "at last"

    async with app:
        handle = await patient.enqueue()
        async with app.worker():
            await clock.elapse(minutes=6)
        assert await handle.result() == "at last"
        assert (await handle.job()).attempt == 1


async def test_chosen_errors_are_not_retried(app: Mainspring) -> None:
    @app.task(no_retry_on=KeyError)
    async def missing() -> None:
        raise KeyError("x")

    @app.task(retry_on=(OSError, TimeoutError))
    async def odd() -> None:
        raise ValueError

    async with app:
        handles = [await missing.enqueue(), await odd.enqueue()]
        await app.drain()
        assert [(await handle.job()).state for handle in handles] == [State.DEAD, State.DEAD]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
@pytest.mark.parametrize("sync", [False, True])
async def test_the_worker_survives_any_exception_of_a_task(app: Mainspring, error: BaseException, sync: bool) -> None:
    @app.task(max_retries=0)
    async def wild() -> None:
        raise error

    @app.task(max_retries=0)
    def wild_thread() -> None:
        raise error

    @app.task
    async def innocent() -> str:
        return "fine"

    async with app:
        bad = await (wild_thread if sync else wild).enqueue()
        good = await innocent.enqueue()
        await app.drain()
        assert await good.result() == "fine"
        assert (await bad.job()).state is State.DEAD


async def test_an_unreadable_payload_is_dead_at_once_with_the_reason(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def strict(n: int) -> None: ...

    async with app:
        job = strict.job(1)
        from msgspec.structs import replace

        (handle,) = await app.enqueue_many([replace(job, payload='{"n": "text"}')])
        await app.drain()
        record = await handle.job()
        assert record.state is State.DEAD
        assert record.failure is not None
        assert "does not fit task 'strict'" in record.failure.message


async def test_a_result_that_cannot_be_kept_does_not_fail_the_job(app: Mainspring) -> None:
    @app.task
    async def odd() -> object:
        return object()

    async with app:
        handle = await odd.enqueue()
        await app.drain()
        job = await handle.job()
        assert job.state is State.COMPLETED
        assert job.failure is not None
        assert job.failure.type == "ResultLost"
        assert await handle.result() is None


async def test_an_exception_with_a_broken_str_is_recorded(app: Mainspring) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @app.task(max_retries=0)
    async def fail() -> None:
        raise Broken

    async with app:
        handle = await fail.enqueue()
        await app.drain()
        failure = (await handle.job()).failure
    assert failure is not None
    assert "__str__ raised RuntimeError" in failure.message


async def test_a_delayed_job_starts_at_its_time_and_not_before(app: Mainspring, clock: VirtualClock) -> None:
    starts: list[float] = []

    @app.task
    async def later() -> None:
        starts.append(clock.monotonic())

    async with app:
        await later.using(delay=90.25).enqueue()
        async with app.worker():
            await clock.elapse(seconds=90.2)
            assert starts == []
            await clock.elapse(seconds=1)
            assert starts == [90.25]


async def test_a_job_enqueued_while_the_worker_sleeps_wakes_it(app: Mainspring, clock: VirtualClock) -> None:
    recorder = Recorder(app)

    @app.task
    async def now() -> None: ...

    async with app, app.worker():
        await clock.settle()
        handle = await now.enqueue()
        await recorder.wait(JobEnded, job=handle.id)
        assert clock.monotonic() == 0


async def test_an_expired_job_is_never_run_and_its_waiter_gets_job_expired(
    app: Mainspring, clock: VirtualClock
) -> None:
    from mainspring import JobExpired

    @app.task
    async def stale() -> None: ...

    async with app:
        handle = await stale.using(delay=10, expires=5).enqueue()
        await app.queues.pause("default")
        waiter = asyncio.create_task(handle.result())
        async with app.worker():
            await clock.elapse(seconds=20)
        with pytest.raises(JobExpired):
            await waiter
        assert (await handle.job()).state is State.EXPIRED


async def test_a_job_of_an_unknown_task_is_left_for_a_worker_that_has_the_task(url: str, clock: VirtualClock) -> None:
    client = Mainspring(url, clock=clock)
    store = await client.connect()
    old, new = Mainspring(store, clock=clock), Mainspring(store, clock=clock)

    @old.task
    async def known() -> None: ...

    @new.task
    async def brand_new() -> str:
        return "hello"

    async with client:
        handle = await client.enqueue("brand_new")
        assert await old.drain() == 0
        assert await new.drain() == 1
        assert await handle.result() == "hello"


async def test_a_stub_makes_jobs_without_the_code(url: str, clock: VirtualClock) -> None:
    web = Mainspring(url, clock=clock)
    back = Mainspring(await web.connect(), clock=clock)

    @web.stub(queue="mail")
    def send(to: str) -> str: ...  # type: ignore[empty-body]

    @back.task(name="send")
    async def send_for_real(to: str) -> str:
        return f"sent to {to}"

    async with web:
        handle = await send.enqueue("ada")
        await back.drain()
        assert await handle.result() == "sent to ada"
        assert (await handle.job()).queue == "mail"


async def test_every_start_and_end_of_a_job_emits_an_event(app: Mainspring) -> None:
    recorder = Recorder(app)

    @app.task
    async def quick() -> None: ...

    async with app:
        handle = await quick.enqueue()
        await app.drain()
    assert len(recorder.of(JobStarted, handle.id)) == 1
    (ended,) = recorder.of(JobEnded, handle.id)
    assert ended.outcome.state is State.COMPLETED
