"""Executors: tasks in the event loop, in threads and in child processes behave alike."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import jobs_for_children as jobs
import pytest
from children import children, ends

from mainspring import (
    BadInput,
    BadTask,
    Context,
    Execution,
    Handle,
    Items,
    Job,
    JobCancelled,
    JobTimeout,
    LogLine,
    Mainspring,
    MainspringError,
    State,
    Task,
)
from mainspring.events import JobEnded, SlotLeaked
from mainspring.testing import Recorder, VirtualClock


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    """Whatever a test does, no child stays behind."""
    before = children()
    yield
    assert children() == before


@pytest.fixture
def app(clock: VirtualClock) -> Mainspring:
    """One slot, so that jobs share a child. Executors know of no store: what they report is stored in `ran`."""
    return Mainspring("memory://", clock=clock, concurrency=1)


class Said(logging.Handler):
    """The log lines of tasks, received in the worker at once; a test can wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: SimpleQueue[str] = SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.put(record.getMessage())

    async def line(self) -> str:
        """Returns the first line that was not returned yet."""
        return await asyncio.to_thread(self._lines.get, timeout=30)


@pytest.fixture
def said() -> Iterator[Said]:
    heard, logger = Said(), logging.getLogger("mainspring.task")
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    yield heard
    logger.removeHandler(heard)
    logger.setLevel(logging.NOTSET)


def process(app: Mainspring, fn: Callable[..., Any], **options: Any) -> Task[Any, Any]:
    return app.task(executor="process", **options)(fn)


async def endings(app: Mainspring, id: str) -> list[str]:
    return [str(run.ending) for run in await app.executions.list(job_id=id)]


# what a process task gets and gives


class Ran(NamedTuple):
    """A job after its first run, and what is known of that."""

    job: Job
    run: Execution
    lines: Sequence[LogLine]
    result: Any


KINDS = ("retry", "retry by backoff", "snooze", "discard", "cancel")
RULES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "none": ({}, {"offline", "reset", "value"}),
    "retry_on": ({"retry_on": (ConnectionError,)}, {"offline", "reset"}),
    "no_retry_on": ({"no_retry_on": (ConnectionResetError, ValueError)}, {"offline"}),
    "its own class": ({"retry_on": jobs.Offline}, {"offline"}),
    "both": ({"retry_on": (OSError,), "no_retry_on": (jobs.Offline,)}, {"reset"}),
}
CALLS: dict[Any, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "result": (jobs.add, (41,), {}),
    "result of a coroutine": (jobs.add_later, (41,), {}),
    "types": (jobs.day_after, (date(2029, 12, 31),), {}),
    "context": (jobs.whole_job, (), {"timeout": 60}),
    "telling": (jobs.tell, (), {}),
    "failed items": (jobs.tell_of_failures, (), {"max_retries": 0}),
    "usage": (jobs.burn, (0.1,), {}),
    "lost result": (jobs.unserialisable, (), {}),
    "error": (jobs.fail, ("not today",), {}),
    "memory": (jobs.allocate, (200,), {"memory_limit": "50MB"}),
    "cpu": (jobs.burn, (5,), {"cpu_limit": 0.1}),
    **{(kind, how): (jobs.steer, (kind, how), {"backoff": lambda n: 1}) for kind in KINDS for how in (True, False)},
    **{
        (rules, kind): (jobs.fail_as, (kind,), options) for rules, (options, _) in RULES.items() for kind in jobs.ERRORS
    },
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Ran]:
    """All CALLS, through one worker with one slot: starting children is what takes time here."""
    file = tmp_path_factory.mktemp("executors") / "jobs.db"
    return asyncio.run(_play(Mainspring(f"sqlite:///{file}", clock=VirtualClock(), concurrency=1)))


async def _play(app: Mainspring) -> dict[Any, Ran]:
    tasks = {call: process(app, fn, name=str(call), **options) for call, (fn, _, options) in CALLS.items()}
    async with app:
        handles = {
            call: await tasks[call].using(metadata={"a": [1]}).enqueue(*args) for call, (_, args, _) in CALLS.items()
        }
        assert await app.drain() == len(CALLS)
        return {call: await _look(app, handle) for call, handle in handles.items()}


async def _look(app: Mainspring, handle: Handle[Any]) -> Ran:
    job, (run,) = await handle.job(), await app.executions.list(job_id=handle.id)
    result = await handle.result() if job.state is State.COMPLETED else None
    return Ran(job, run, await app.jobs.logs(handle.id), result)


def failure(of: Job | Execution) -> tuple[str, str]:
    assert of.failure is not None
    return of.failure.type, of.failure.message


@pytest.mark.parametrize("call", ["result", "result of a coroutine"])
def test_a_process_task_returns_its_result(ran: dict[Any, Ran], call: str) -> None:
    job, run, _, result = ran[call]
    assert (job.state, result, run.result_size, str(run.ending)) == (State.COMPLETED, 42, 2, "completed")


def test_arguments_and_results_have_their_types(ran: dict[Any, Ran]) -> None:
    assert ran["types"].result == date(2030, 1, 1)


def test_the_context_of_a_process_task_is_that_of_the_run(ran: dict[Any, Ran]) -> None:
    job, run, _, told = ran["context"]
    assert told["job"]["id"] == job.id
    assert (told["attempt"], told["lease"], told["metadata"]) == (1, run.lease, {"a": [1]})
    assert (told["timeout"], told["cancelled"]) == (60.0, False)
    assert told["deadline"] == (run.started_at + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")


def test_log_lines_of_a_process_task_are_kept_with_the_run(ran: dict[Any, Ran]) -> None:
    lines = ran["telling"].lines
    assert [(line.run, line.n, line.level) for line in lines] == [(1, 1, 30), (1, 2, 40)]
    assert lines[0].text.startswith("xxx")
    assert "ValueError: invalid literal" in lines[1].text


def test_progress_items_and_notes_are_kept_with_the_run(ran: dict[Any, Ran]) -> None:
    job, run, _, _ = ran["telling"]
    assert job.progress is not None
    assert (job.progress.done, job.progress.total, job.progress.note) == (1, 4, "rows")
    assert (run.items, run.metadata) == (Items(success=3, skipped=1), {"model": "v2"})


def test_too_many_failed_items_fail_the_run(ran: dict[Any, Ran]) -> None:
    job, run, _, _ = ran["failed items"]
    assert (job.state, run.items) == (State.DEAD, Items(success=1, failed=3))
    assert failure(job)[0] == "ItemsFailed"


def test_cpu_time_and_peak_memory_are_kept_with_the_run(ran: dict[Any, Ran]) -> None:
    usage = ran["usage"].run.usage
    assert usage is not None
    assert 0.09 < usage.cpu < 2
    assert 2**20 < usage.memory < 2**30


@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_a_generator_that_is_returned_is_a_result_that_cannot_be_kept(executor: Any) -> None:
    app = Mainspring("memory://")
    work = app.task(executor=executor, max_retries=0)(jobs.generator)
    async with app:
        handle = await work.enqueue()
        await app.drain()
        job = await handle.job()
    assert (job.state, job.failure and job.failure.type) == (State.COMPLETED, "ResultLost")


async def test_a_generator_function_is_no_job_of_its_own() -> None:
    """A call of it would run none of its code, and the job would be completed: its items are those of a map."""
    app = Mainspring("memory://")

    def pages() -> Iterator[int]:
        yield 1

    async def pages_later() -> AsyncIterator[int]:
        yield 1

    for n, fn in enumerate((pages, pages_later, partial(pages))):
        task = app.task(name=f"work-{n}")(fn)
        with pytest.raises(BadInput, match=f"'work-{n}' yields items, and no map takes them"):
            await task.enqueue()
    with pytest.raises(BadTask, match="process"):
        app.task(name="work", executor="process")(pages)


def test_a_result_that_cannot_be_kept_is_noted(ran: dict[Any, Ran]) -> None:
    job = ran["lost result"].job
    assert (job.state, job.result) == (State.COMPLETED, None)
    assert failure(job)[0] == "ResultLost"


async def test_middleware_sees_the_value_and_the_failure() -> None:
    seen: list[Any] = []

    async def look(ctx: Context, call_next: Any) -> Any:
        try:
            seen.append(await call_next(ctx))
        except Exception as error:
            seen.append(str(error))
            raise
        return 2 * seen[-1]

    app = Mainspring("memory://", middleware=[look], concurrency=1)
    tasks = [process(app, fn, max_retries=0) for fn in (jobs.add, jobs.fail, jobs.crash)]
    async with app:
        sum, *_ = [await task.enqueue(given) for task, given in zip(tasks, (41, "not today", "exit 3"), strict=True)]
        await app.drain()
        assert await sum.result() == 84
    assert seen == [42, "not today", "exited with status 3"]


# how it ends


STEERED = {
    "retry": ("failed", State.PENDING, 5, 1),
    "retry by backoff": ("failed", State.PENDING, 1, 1),
    "snooze": ("snoozed", State.PENDING, 60, 0),
    "discard": ("discarded", State.DEAD, None, 1),
    "cancel": ("cancelled", State.CANCELLED, None, 1),
}


@pytest.mark.parametrize("how", [True, False], ids=["returned", "raised"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_task_may_return_or_raise_a_directive(ran: dict[Any, Ran], kind: str, how: bool) -> None:
    job, run, _, _ = ran[kind, how]
    wait = None if job.state.final else (job.run_at - run.finished_at).total_seconds()
    assert (str(run.ending), job.state, wait, job.attempt) == STEERED[kind]


@pytest.mark.parametrize("rules", RULES)
def test_retry_rules_of_a_process_task_decide_which_errors_are_retried(ran: dict[Any, Ran], rules: str) -> None:
    states = {kind: ran[rules, kind].job.state for kind in jobs.ERRORS}
    retried = RULES[rules][1]
    assert states == {kind: State.PENDING if kind in retried else State.DEAD for kind in jobs.ERRORS}


def test_an_error_of_a_process_is_recorded_with_its_stack(ran: dict[Any, Ran]) -> None:
    run = ran["error"].run
    assert failure(run) == ("ValueError", "not today")
    assert run.failure is not None
    assert "jobs_for_children.py" in run.failure.stack


@pytest.mark.parametrize(
    ("call", "type", "text"),
    [
        ("memory", "MemoryLimitExceeded", "needed more than its memory_limit of 50 MB"),
        ("cpu", "CpuLimitExceeded", "used more than its cpu_limit of 0.1 s"),
    ],
)
def test_an_exceeded_memory_or_cpu_limit_is_recorded_and_retried(
    ran: dict[Any, Ran], call: str, type: str, text: str
) -> None:
    job, run, _, _ = ran[call]
    assert (job.state, str(run.ending)) == (State.PENDING, "failed")
    assert failure(run)[0] == type
    assert text in failure(run)[1]
    assert run.usage is not None


async def test_a_crash_uses_up_no_retry_and_waits_for_its_backoff(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        task = process(app, jobs.crash, max_retries=0, backoff=lambda n: 10 * n)
        handle = await task.enqueue("segfault")
        await app.drain()
        job = await handle.job()
        assert (job.state, job.crashes, await endings(app, job.id)) == (State.PENDING, 1, ["crashed"])
        assert job.run_at == clock.now() + timedelta(seconds=10)
        assert failure(job) == ("ProcessDied", "its process ended: killed by SIGSEGV")
        for wait in (10, 20):
            clock.advance(seconds=wait)
            await app.drain()
        job = await app.jobs.get(job.id)
    assert (job.state, job.crashes) == (State.DEAD, 3)
    assert failure(job) == ("PoisonPill", "its process ended: killed by SIGSEGV; crash 3 of 3 allowed")


# time


async def test_a_timeout_kills_and_is_retried_by_the_rules(app: Mainspring, clock: VirtualClock, said: Said) -> None:
    recorder = Recorder(app)
    task = process(app, jobs.wait_in_c, timeout=5, max_retries=1, backoff=lambda n: 5)
    async with app:
        handle = await task.enqueue()
        async with app.worker():
            for run in (1, 2):
                pid = int(await said.line())
                clock.advance(seconds=5)
                await recorder.wait(JobEnded, run)
                assert ends(pid, 0)
                clock.advance(seconds=5)
        job, runs = await handle.job(), await app.executions.list(job_id=handle.id)
    assert (job.state, [str(run.ending) for run in runs]) == (State.DEAD, ["timeout", "timeout"])
    assert [run.duration.total_seconds() for run in runs] == [5, 5]
    assert failure(job) == ("JobTimeout", "took longer than its timeout of 5 s")
    assert all(run.usage is not None and run.usage.cpu > 0 and run.usage.memory > 2**20 for run in runs)


async def test_no_retry_on_job_timeout_makes_a_timeout_final(app: Mainspring, clock: VirtualClock, said: Said) -> None:
    recorder = Recorder(app)
    task = process(app, jobs.stopped, soft_timeout=5, no_retry_on=JobTimeout)
    async with app:
        handle = await task.enqueue()
        async with app.worker():
            await said.line()
            clock.advance(seconds=5)
            await recorder.wait(JobEnded)
        assert (await handle.job()).state is State.DEAD


async def answers_later(ctx: Context) -> str:
    ctx.log.info("waiting")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return f"cancelled: {ctx.cancelled}"
    return "never"


ANSWERS = {"async": answers_later, "thread": jobs.until_told, "process": jobs.until_told}
STOPS = {"async": jobs.await_for_ever, "thread": jobs.stopped, "process": jobs.stopped}


@pytest.mark.parametrize("timeout", [60, None])
@pytest.mark.parametrize("executor", ANSWERS)
async def test_the_result_after_a_soft_timeout_counts(
    app: Mainspring, clock: VirtualClock, said: Said, executor: Any, timeout: float | None
) -> None:
    recorder = Recorder(app)
    async with app:
        handle = await app.task(executor=executor, soft_timeout=5, timeout=timeout)(ANSWERS[executor]).enqueue()
        async with app.worker():
            await said.line()
            clock.advance(seconds=5)
            await recorder.wait(JobEnded)
        assert (await handle.job()).result == '"cancelled: True"'


@pytest.mark.parametrize("executor", STOPS)
async def test_an_unhandled_soft_timeout_is_a_timeout(
    app: Mainspring, clock: VirtualClock, said: Said, executor: Any
) -> None:
    recorder = Recorder(app)
    async with app:
        task = app.task(executor=executor, soft_timeout=5, timeout=60, max_retries=0)(STOPS[executor])
        handle = await task.enqueue()
        async with app.worker():
            await said.line()
            clock.advance(seconds=5)
            await recorder.wait(JobEnded)
        (run,) = await app.executions.list(job_id=handle.id)
    assert (str(run.ending), run.duration) == ("timeout", timedelta(seconds=5))
    assert failure(run) == ("JobTimeout", "took longer than its soft_timeout of 5 s")


async def test_a_process_that_ignores_its_soft_timeout_is_killed_at_the_hard_one(
    app: Mainspring, clock: VirtualClock, said: Said
) -> None:
    recorder = Recorder(app)
    async with app:
        handle = await process(app, jobs.swallow, soft_timeout=2, timeout=4, max_retries=0).enqueue()
        async with app.worker():
            await said.line()
            clock.advance(seconds=2)
            await clock.settle()
            assert recorder.of(JobEnded) == []
            clock.advance(seconds=2)
            await recorder.wait(JobEnded)
        (run,) = await app.executions.list(job_id=handle.id)
    assert (str(run.ending), run.duration) == ("timeout", timedelta(seconds=4))


# cancels


@pytest.mark.parametrize("executor", STOPS)
async def test_a_cancel_ends_a_running_job_for_the_first_reason_and_for_good(
    app: Mainspring, clock: VirtualClock, said: Said, executor: Any
) -> None:
    recorder = Recorder(app)
    async with app:
        handle = await app.task(executor=executor)(STOPS[executor]).enqueue()
        async with app.worker():
            await said.line()
            await app.jobs.cancel(handle.id, "wrong customer")
            await app.jobs.cancel(handle.id, "told twice")
            clock.advance(seconds=5)
            async with asyncio.timeout(2):
                await recorder.wait(JobEnded)
            await app.jobs.cancel(handle.id, "told too late")
            await clock.elapse(seconds=60)
            with pytest.raises(JobCancelled, match="wrong customer"):
                await handle.result(1)
        assert await endings(app, handle.id) == ["cancelled"]


@pytest.mark.parametrize("executor", ANSWERS)
async def test_a_cancelled_job_is_cancelled_whatever_it_returns(
    app: Mainspring, clock: VirtualClock, said: Said, executor: Any
) -> None:
    recorder = Recorder(app)
    async with app:
        handle = await app.task(executor=executor)(ANSWERS[executor]).enqueue()
        async with app.worker():
            await said.line()
            await app.jobs.cancel(handle.id, "enough")
            clock.advance(seconds=5)
            await recorder.wait(JobEnded)
        job = await handle.job()
    assert (job.state, job.result) == (State.CANCELLED, None)


@pytest.mark.parametrize("fn", [jobs.wait_in_c, jobs.wait_with_a_helper], ids=lambda fn: fn.__name__)
async def test_a_cancel_kills_the_process_within_two_seconds_of_the_beat(
    app: Mainspring, clock: VirtualClock, said: Said, fn: Any
) -> None:
    recorder, loop = Recorder(app), asyncio.get_running_loop()
    async with app:
        handle = await process(app, fn).enqueue()
        async with app.worker():
            pid = int(await said.line())
            await app.jobs.cancel(handle.id, "enough")
            clock.advance(seconds=5)
            began = loop.time()
            await recorder.wait(JobEnded)
            assert ends(pid)
            assert loop.time() - began < 2
        (run,) = await app.executions.list(job_id=handle.id)
    assert str(run.ending) == "cancelled"
    assert run.usage is not None


# stops


async def test_a_stop_without_grace_kills_and_releases(app: Mainspring, said: Said) -> None:
    async with app:
        handle = await process(app, jobs.wait_in_c).enqueue()
        worker = app.worker()
        async with worker:
            pid = int(await said.line())
            async with asyncio.timeout(2):
                await worker.stop(grace=0)
            assert ends(pid, 0)
        job = await handle.job()
        assert (job.state, job.attempt, job.runs) == (State.PENDING, 0, 1)
        assert await endings(app, handle.id) == ["released"]


async def test_a_stop_lets_a_process_finish_within_grace(app: Mainspring, clock: VirtualClock, said: Said) -> None:
    async with app:
        handle = await process(app, jobs.until_told, soft_timeout=5).enqueue()
        worker = app.worker()
        async with worker:
            await said.line()
            stopping = asyncio.create_task(worker.stop(grace=30))
            clock.advance(seconds=5)
            await stopping
        assert (await handle.job()).result == '"cancelled: True"'


# leaked slots


@pytest.mark.parametrize("fn", [jobs.swallow_later, jobs.swallow], ids=["async", "thread"])
@pytest.mark.parametrize("why", ["timeout", "cancelled"])
async def test_a_run_that_ignores_its_interruption_is_finished_once_and_leaks_its_slot(
    app: Mainspring, clock: VirtualClock, said: Said, fn: Any, why: str
) -> None:
    recorder = Recorder(app)
    jobs.released.clear()
    async with app:
        handle = await app.task(timeout=10 if why == "timeout" else None, max_retries=0)(fn).enqueue()
        async with app.worker(concurrency=3) as worker:
            await said.line()
            try:
                if why == "cancelled":
                    await app.jobs.cancel(handle.id, "enough")
                await clock.elapse(seconds=20)
                (leak,) = await recorder.wait(SlotLeaked)
                await recorder.wait(JobEnded)
                assert (leak.job.id, "jobs_for_children.py" in leak.stack) == (handle.id, True)
                await clock.elapse(seconds=5)
                (live,) = await app.workers.list()
                assert (live.info.leaked, live.info.running, worker.recycled) == (1, 0, None)
            finally:
                jobs.released.set()
            async with asyncio.timeout(10):
                while (await app.workers.list())[0].info.leaked:
                    await clock.elapse(seconds=5)
        job = await handle.job()
        assert await endings(app, handle.id) == [why]
    assert job.state is (State.DEAD if why == "timeout" else State.CANCELLED)
    assert len(recorder.of(JobEnded)) == 1


# what does not fit


def local() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


@pytest.mark.parametrize(
    ("fn", "options", "text"),
    [
        (jobs.add, {"memory_limit": "1GB"}, "memory_limit and cpu_limit need a process of its own: executor='process'"),
        (jobs.add_later, {"cpu_limit": 5}, "memory_limit and cpu_limit need a process of its own: executor='process'"),
        (jobs.add, {"executor": "async"}, "is a plain function: it runs with executor='thread' or 'process'"),
        (jobs.add_later, {"executor": "thread"}, "is a coroutine function: it runs with executor='async' or 'process'"),
        (lambda: None, {"executor": "process"}, "define it at the top of a module"),
        (local(), {"executor": "process"}, "define it at the top of a module"),
        (partial(jobs.add), {"executor": "process"}, "define it at the top of a module"),
        (jobs.add, {"executor": "fork"}, "is one of async, thread, process; got 'fork'"),
        (jobs.add, {"executor": "process", "memory_limit": 0}, "must be more than 0; leave it out for no limit"),
        (jobs.add, {"executor": "process", "memory_limit": "lots"}, "option memory_limit of task 't'"),
        (jobs.add, {"executor": "process", "cpu_limit": 0}, "0 seconds, got 0; leave it out for no limit"),
        (jobs.add, {"soft_timeout": 0}, "0 seconds, got 0; leave it out for no limit"),
    ],
)  # fmt: skip
def test_an_option_that_does_not_fit_the_executor_is_refused_with_a_remedy(fn: Any, options: Any, text: str) -> None:
    with pytest.raises((BadTask, BadInput)) as refused:
        Mainspring("memory://").task(name="t", **options)(fn)
    assert isinstance(refused.value, MainspringError)
    assert text in str(refused.value)
    assert "'t'" in str(refused.value)


@pytest.mark.parametrize("fn", [jobs.Shelf().name, jobs.add_again], ids=["bound method", "another's name"])
def test_a_function_whose_name_is_another_object_in_the_child_is_refused(fn: Any) -> None:
    app = Mainspring("memory://")
    app.task(name="t", executor="process")(fn)
    with pytest.raises(BadTask, match="would find something else as jobs_for_children"):
        app.worker()


# scripts

SCRIPT = """
from mainspring import Mainspring

app = Mainspring("memory://")


class Own(Exception):
    pass


@app.task(executor="process", no_retry_on=Own)
def double(n: int) -> int:
    if n < 0:
        raise Own
    return 2 * n


def main():
    good, bad = double.sync.enqueue(21), double.sync.enqueue(-1)
    app.sync.drain()
    print(good.result(), bad.job().state)
    app.sync.close()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("command", [["script.py"], ["-m", "script"]], ids=["script", "module"])
def test_a_task_in_main_runs_and_its_own_errors_are_known(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-W", "error", *command], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "42 dead\n", done.stderr
    assert "Warning" not in done.stderr


# in a harness


@pytest.mark.parametrize("soft_timeout", [None, 30])
@pytest.mark.parametrize("how", ["drain", "process_one", "advance"])
async def test_harness_waits_for_a_task_in_a_process(how: str, soft_timeout: float | None) -> None:
    """A timer of the pool or of the run's own limit is no sleep of the task: time stands still meanwhile."""
    app = Mainspring("memory://")
    options = {} if soft_timeout is None else {"soft_timeout": soft_timeout}
    task = process(app, jobs.add, **options)
    async with app.testing() as harness:
        handle = await task.enqueue(2, 3)
        await (harness.advance(seconds=1) if how == "advance" else getattr(harness, how)())
        assert await handle.result() == 5
        job = await handle.job()
        assert job.finished_at == job.started_at
