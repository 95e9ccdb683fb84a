"""Threads for sync tasks: values and errors are returned; a cancelled call is interrupted, or leaks its thread."""

import asyncio
import contextvars
import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from mainspring.executor.threads import INTERRUPT_GRACE_SECONDS, Threads, _raise_in
from mainspring.task.interruption import Interrupted
from mainspring.testing.clock import VirtualClock

BOUND = 10.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the wait of the virtual clock for threads, which these tests block on purpose."""
    monkeypatch.setattr("mainspring.testing.clock.THREAD_WAIT_SECONDS", 0.02)


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(VirtualClock())
    yield threads
    threads.close()


class Loop:
    """A task that runs Python code until it is interrupted, and records the exception."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.ended_by: BaseException | None = None

    def __call__(self) -> None:
        try:
            while True:
                self.running.set()
        except BaseException as error:
            self.ended_by = error
            raise


class Stuck:
    """A task that waits in C code, where no exception reaches it, until the test releases it."""

    def __init__(self) -> None:
        self.running = threading.Event()
        self.release = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> str:
        self.running.set()
        try:
            self.release.wait(BOUND)
            return "late"
        finally:
            self.ended.set()


async def started(threads: Threads, work: Loop | Stuck, tag: Any = None) -> asyncio.Task[Any]:
    call = asyncio.create_task(threads.call(work, tag))
    await asyncio.to_thread(work.running.wait, BOUND)
    return call


# values and errors


async def test_a_thread_call_returns_the_value_of_the_function(threads: Threads) -> None:
    assert await threads.call(lambda: 42) == 42


async def test_a_thread_call_runs_in_a_daemon_thread(threads: Threads) -> None:
    thread = await threads.call(threading.current_thread)
    assert thread is not threading.current_thread()
    assert thread.name.startswith("mainspring-task-")
    assert thread.daemon


class Custom(Exception):
    pass


@pytest.mark.parametrize("error", [ValueError("no"), Custom(), KeyboardInterrupt(), SystemExit(3)], ids=repr)
async def test_a_thread_call_raises_the_error_of_the_function(threads: Threads, error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(BaseException) as raised:
        await threads.call(fail)
    assert raised.value is error


async def test_stop_iteration_in_a_thread_becomes_a_runtime_error(threads: Threads) -> None:
    with pytest.raises(RuntimeError, match="the task raised StopIteration"):
        await threads.call(lambda: next(iter(())))


async def test_an_error_in_a_thread_does_not_affect_the_next_call(threads: Threads) -> None:
    with pytest.raises(ZeroDivisionError):
        await threads.call(lambda: 1 / 0)
    assert await threads.call(lambda: "fine") == "fine"


async def test_a_thread_call_has_the_context_variables_of_the_caller(threads: Threads) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    who.set("ada")
    assert await threads.call(who.get) == "ada"


async def test_context_variables_set_in_a_thread_call_do_not_leak(threads: Threads) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    await threads.call(lambda: who.set("ada"))
    assert who.get() == "nobody"
    assert await threads.call(who.get) == "nobody"


async def test_thread_calls_run_concurrently(threads: Threads) -> None:
    together = threading.Barrier(5)
    await asyncio.gather(*(threads.call(lambda: together.wait(BOUND)) for _ in range(5)))


async def test_an_idle_thread_is_reused(threads: Threads) -> None:
    used = {await threads.call(threading.get_ident) for _ in range(50)}
    assert len(used) < 10


async def test_an_idle_thread_keeps_no_reference_to_its_last_call(threads: Threads) -> None:
    class Big:
        pass

    big = Big()
    gone = weakref.ref(big)
    await threads.call(lambda big=big: None)
    del big
    for _ in range(100):  # the thread may be a moment behind the value
        await asyncio.to_thread(gc.collect)
        if gone() is None:
            break
    assert gone() is None


# interruption


async def test_a_cancelled_call_is_interrupted_at_its_next_bytecode(threads: Threads) -> None:
    loop = Loop()
    call = await started(threads, loop)
    call.cancel()
    async with asyncio.timeout(BOUND):
        await asyncio.wait([call])
    assert call.cancelled()
    assert isinstance(loop.ended_by, Interrupted)


async def test_a_call_cancelled_while_its_thread_starts_it_is_cancelled(threads: Threads) -> None:
    """The interruption may come before or after the first bytecode."""
    for _ in range(100):
        call = asyncio.create_task(threads.call(Loop()))
        await asyncio.sleep(0)
        call.cancel()
        async with asyncio.timeout(BOUND):
            await asyncio.wait([call])
        assert call.cancelled()


async def test_interrupted_is_not_a_subclass_of_exception(threads: Threads) -> None:
    assert not issubclass(Interrupted, Exception)


async def test_an_interrupted_task_runs_its_finally_block(threads: Threads) -> None:
    cleaned = threading.Event()
    running = threading.Event()

    def work() -> None:
        try:
            while True:
                running.set()
        finally:
            cleaned.set()

    call = asyncio.create_task(threads.call(work))
    await asyncio.to_thread(running.wait, BOUND)
    call.cancel()
    await asyncio.wait([call])
    assert cleaned.is_set()


async def test_a_thread_that_was_interrupted_serves_the_next_call(threads: Threads) -> None:
    for _ in range(20):
        call = await started(threads, Loop())
        call.cancel()
        await asyncio.wait([call])
        assert await threads.call(lambda: sum(range(1000))) == 499500


async def test_an_interruption_never_reaches_the_next_call(threads: Threads) -> None:
    """A call may be cancelled at any moment of its run, even the last."""
    for n in range(200):
        running = threading.Event()

        def work(running: threading.Event = running, n: int = n) -> None:
            running.set()
            sum(range(n * 10))

        call = asyncio.create_task(threads.call(work))
        await asyncio.sleep(0)
        running.wait(BOUND)
        call.cancel()
        await asyncio.wait([call])
        assert await threads.call(lambda: sum(range(100))) == 4950


async def test_an_interrupted_task_that_raises_another_error_is_still_cancelled(threads: Threads) -> None:
    running = threading.Event()

    def work() -> None:
        try:
            while True:
                running.set()
        except Interrupted:
            raise ValueError("on the way out") from None

    call = asyncio.create_task(threads.call(work))
    await asyncio.to_thread(running.wait, BOUND)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()


class Tag:
    """A tag: the pool sets `interrupt`, which interrupts only its own call."""

    interrupt: Any = None


class Trap:
    """A lock that raises the interruption when first acquired: after the function, before its result is set."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._armed = True

    def __enter__(self) -> None:
        if self._armed:
            self._armed = False
            _raise_in(threading.get_ident(), Interrupted)
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


async def test_an_interruption_just_after_the_function_returned_keeps_its_value(threads: Threads) -> None:
    tag = Tag()

    def work() -> str:
        call = tag.interrupt.__self__
        call.interrupted, call.lock = True, Trap(call.lock)
        return "done"

    async with asyncio.timeout(BOUND):
        assert await threads.call(work, tag) == "done"


async def test_a_thread_is_reused_after_a_late_interruption(threads: Threads) -> None:
    tag = Tag()

    def work() -> int:
        tag.interrupt.__self__.lock = Trap(tag.interrupt.__self__.lock)
        return threading.get_ident()

    async with asyncio.timeout(BOUND):
        first = await threads.call(work, tag)
        while not threads._idle:
            await asyncio.sleep(0)
        assert await threads.call(threading.get_ident) == first


async def test_a_call_interrupted_before_its_start_never_runs(threads: Threads) -> None:
    ran: list[int] = []

    class Eager(Tag):
        def __setattr__(self, name: str, interrupt: Any) -> None:
            interrupt()

    with pytest.raises(Interrupted):
        await threads.call(lambda: ran.append(1), Eager())
    assert ran == []


# leaks


async def given_up(work: Stuck) -> list[tuple[str, str]]:
    """Cancels the started task and lets INTERRUPT_GRACE_SECONDS pass; returns leaks and late returns as reported."""
    clock, told = VirtualClock(), []
    threads = Threads(clock)
    threads.watch_leaks(lambda tag, stack: told.append((tag, stack)), lambda tag: told.append((tag, "returned")))
    call = await started(threads, work, "this call")
    call.cancel()
    await clock.settle()
    await clock.elapse(seconds=INTERRUPT_GRACE_SECONDS)
    await clock.settle()
    assert call.cancelled()
    return told


async def test_a_task_stuck_in_c_is_leaked_after_its_grace() -> None:
    stuck = Stuck()
    told = await given_up(stuck)
    assert not stuck.ended.is_set()
    ((tag, stack),) = told
    assert tag == "this call"
    assert "self.release.wait(BOUND)" in stack
    stuck.release.set()


async def test_a_leaked_call_that_returns_is_reported_once() -> None:
    stuck = Stuck()
    told = await given_up(stuck)
    stuck.release.set()
    await asyncio.to_thread(stuck.ended.wait, BOUND)
    async with asyncio.timeout(BOUND):
        while len(told) < 2:
            await asyncio.sleep(0)
    assert told[1:] == [("this call", "returned")]


async def test_a_stuck_task_is_not_leaked_within_its_grace() -> None:
    clock, stuck = VirtualClock(), Stuck()
    call = await started(Threads(clock), stuck)
    call.cancel()
    await clock.settle()
    await clock.elapse(seconds=INTERRUPT_GRACE_SECONDS - 0.001)
    assert not call.done()
    stuck.release.set()
    async with asyncio.timeout(BOUND):
        await asyncio.wait([call])


async def test_a_stuck_task_that_ends_within_its_grace_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clock, stuck = VirtualClock(), Stuck()
    call = await started(Threads(clock), stuck)
    call.cancel()
    await clock.settle()
    stuck.release.set()
    async with asyncio.timeout(BOUND):
        await asyncio.wait([call])
    assert call.cancelled()
    assert caplog.text == ""


async def test_a_leaked_task_may_end_later() -> None:
    stuck = Stuck()
    await given_up(stuck)
    stuck.release.set()
    assert await asyncio.to_thread(stuck.ended.wait, BOUND)


async def test_a_stuck_task_does_not_block_other_calls() -> None:
    clock, stuck = VirtualClock(), Stuck()
    threads = Threads(clock)
    call = await started(threads, stuck)
    assert await threads.call(lambda: "beside") == "beside"
    stuck.release.set()
    assert await call == "late"


# closing


async def test_closing_the_thread_pool_ends_idle_threads() -> None:
    threads = Threads(VirtualClock())
    thread = await threads.call(threading.current_thread)
    threads.close()
    await asyncio.to_thread(thread.join, BOUND)
    assert not thread.is_alive()


async def test_closing_the_thread_pool_lets_a_busy_thread_finish_its_call() -> None:
    threads, stuck = Threads(VirtualClock()), Stuck()
    call = await started(threads, stuck)
    threads.close()
    stuck.release.set()
    assert await call == "late"


def test_a_leaked_task_that_outlives_its_event_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    stuck = Stuck()
    noted = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: noted.set() if "event loop was closed" in record.getMessage() else None  # type: ignore[method-assign]
    logging.getLogger("mainspring").addHandler(handler)
    try:
        asyncio.run(given_up(stuck))
        stuck.release.set()
        assert noted.wait(BOUND)
    finally:
        logging.getLogger("mainspring").removeHandler(handler)
