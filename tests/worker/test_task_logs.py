"""Log lines of a task: kept with the run, capped, in order, from any thread, stored before the run has ended."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import BadInput, Context, Filter, JobNotFound, LogLine, Mainspring, State
from mainspring.records.run import RunReport
from mainspring.task.context import MAX_LINE_CHARACTERS
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.worker.report_buffer import MAX_LOG_LINES, ReportBuffer


async def logged(app: Mainspring, fn: Callable[..., Any], **options: Any) -> list[LogLine]:
    """What one run of the function leaves behind."""
    task = app.task(name="work", max_retries=0, **options)(fn)
    handle = await task.enqueue()
    await app.drain()
    return list(await app.jobs.logs(handle.id))


async def test_each_log_line_has_its_run_number_level_and_time(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=1)
    async def work(ctx: Context) -> None:
        ctx.log.info("try %d of %s", ctx.attempt, "two")
        ctx.log.warning("careful")
        raise ValueError

    async with app:
        start = clock.now()
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
        lines = await app.jobs.logs(handle.id)
        second = (await app.executions.get(handle.id, 2)).started_at
    info, warning = logging.INFO, logging.WARNING
    assert [(line.run, line.n, line.level, line.text, line.at) for line in lines] == [
        (1, 1, info, "try 1 of two", start),
        (1, 2, warning, "careful", start),
        (2, 1, info, "try 2 of two", second),
        (2, 2, warning, "careful", second),
    ]


async def test_a_debug_line_is_kept_if_the_log_level_of_the_process_allows_it(
    app: Mainspring, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(ctx: Context) -> None:
        ctx.log.debug("small print")

    async with app:
        assert await logged(app, work) == []
        del app.tasks["work"]
        with caplog.at_level(logging.DEBUG, "mainspring.task"):
            assert [line.text for line in await logged(app, work)] == ["small print"]


async def test_log_lines_go_to_the_log_of_the_process_too(app: Mainspring, caplog: pytest.LogCaptureFixture) -> None:
    async def work(ctx: Context) -> None:
        ctx.log.warning("seen %s", "twice", extra={"customer": 7})

    async with app:
        (line,) = await logged(app, work)
    (record,) = [record for record in caplog.records if record.name == "mainspring.task"]
    assert line.text == record.getMessage() == "seen twice"
    assert (record.__dict__["task"], record.__dict__["attempt"], record.__dict__["customer"]) == ("work", 1, 7)
    assert record.funcName == "work"


async def test_a_run_keeps_a_thousand_log_lines_and_counts_the_others(app: Mainspring) -> None:
    async def work(ctx: Context) -> None:
        for n in range(MAX_LOG_LINES + 7):
            ctx.log.info("line %d", n)

    async with app:
        task = app.task(work)
        handle = await task.enqueue()
        await app.drain()
        lines = await app.jobs.logs(handle.id)
        rest = await app.jobs.logs(handle.id, after=(1, MAX_LOG_LINES))
    assert [line.text for line in lines] == [f"line {n}" for n in range(1000)]
    assert [(line.n, line.level, line.text) for line in rest] == [
        (1001, logging.WARNING, "7 lines more were logged and not kept")
    ]


async def test_a_log_line_keeps_4096_characters(app: Mainspring) -> None:
    async def work(ctx: Context) -> None:
        ctx.log.info("x" * MAX_LINE_CHARACTERS)
        ctx.log.info("y" * (MAX_LINE_CHARACTERS + 5))

    async with app:
        whole, cut = await logged(app, work)
    assert whole.text == "x" * 4096
    assert cut.text == "y" * 4096 + " … 5 characters more"


class Broken:
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


async def test_a_task_may_log_anything_without_an_error(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    async def work(ctx: Context) -> str:
        ctx.log.info("%d", "no number")
        ctx.log.info(Broken())
        ctx.log.info("NUL \x00 and \ud800")
        ctx.log.info("%(name)s", {"name": "by name"})
        ctx.log.info("100%")
        ctx.log.log(10**30, "loud")
        return "fine"

    async with app:
        lines = [line.text for line in await logged(app, work)]
        assert (await app.jobs.list())[0].state is State.COMPLETED
    assert lines == [
        "'%d' ('no number',) (TypeError: %d format: a real number is required, not str)",
        "a Broken that cannot be written (ValueError)",
        "NUL \\x00 and \\ud800",
        "by name",
        "100%",
        "loud",
    ]


async def test_a_log_handler_that_raises_is_no_failure_of_the_task(app: Mainspring) -> None:
    class Bad(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    async def work(ctx: Context) -> None:
        ctx.log.warning("kept all the same")

    bad, logger = Bad(), logging.getLogger("mainspring.task")
    logger.addHandler(bad)
    try:
        async with app:
            assert [line.text for line in await logged(app, work)] == ["kept all the same"]
            assert (await app.jobs.list())[0].state is State.COMPLETED
    finally:
        logger.removeHandler(bad)


@pytest.mark.parametrize("how", ["exception", "exc_info", "its own"])
async def test_an_exception_is_kept_with_its_stack(app: Mainspring, how: str) -> None:
    async def work(ctx: Context) -> None:
        try:
            raise KeyError("lost")
        except KeyError as error:
            caught = error
            if how == "exception":
                ctx.log.exception("oh")
            elif how == "exc_info":
                ctx.log.error("oh", exc_info=True)
        if how == "its own":
            ctx.log.error("oh", exc_info=caught)

    async with app:
        (line,) = await logged(app, work)
    assert line.text.startswith("oh\nTraceback (most recent call last):")
    assert line.text.endswith("KeyError: 'lost'\n")


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
async def test_no_log_line_of_many_threads_is_lost(app: Mainspring, clock: VirtualClock) -> None:
    """Lines, counts and the report sender of the worker run in any order."""

    @app.task
    def work(ctx: Context) -> None:
        def speak(who: int) -> None:
            for n in range(100):
                ctx.log.info("%d %d", who, n)
                ctx.items(success=1)

        threads = [threading.Thread(target=speak, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=2)
        lines = await app.jobs.logs(handle.id)
        (run,) = await app.executions.list(job_id=handle.id)
    assert {line.text for line in lines} == {f"{who} {n}" for who in range(8) for n in range(100)}
    assert [line.n for line in lines] == list(range(1, 801))
    assert run.items is not None
    assert run.items.success == 800


@pytest.mark.usefixtures("restless")
async def test_report_buffer_loses_no_line_of_many_threads() -> None:
    clock = VirtualClock()
    desk, taken = ReportBuffer(clock), []
    app = Mainspring("memory://", clock=clock)
    async with app:
        app.task(name="work")(lambda: None)
        job = await (await app.enqueue("work")).job()
    going = threading.Barrier(5)

    def speak(n: int) -> None:
        context = Context(replace(job, id=str(n)), None, None, desk)
        going.wait()
        for k in range(500):
            context.log.info("%d %d", n, k)

    threads = [threading.Thread(target=speak, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    going.wait()
    while any(thread.is_alive() for thread in threads) or desk:
        taken += [line for _, report in desk.drain() for line in report.lines]
    assert len(taken) == 2000


async def test_log_lines_can_be_read_while_the_run_goes_on(app: Mainspring, clock: VirtualClock) -> None:
    go = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        ctx.log.info("begun")
        await go.wait()

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=1)
            assert [line.text for line in await app.jobs.logs(handle.id)] == ["begun"]
            go.set()


async def test_the_last_log_line_is_stored_when_the_job_has_ended(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(ctx: Context) -> None:
        ctx.log.info("the last words")
        raise ValueError

    async with app:
        handle = await work.enqueue()
        seen: list[list[str]] = []
        async with app.worker():
            while (await handle.job()).state is not State.DEAD:
                await asyncio.sleep(0)
            seen.append([line.text for line in await app.jobs.logs(handle.id)])
    assert seen == [["the last words"]]


async def test_a_report_that_failed_is_sent_again_before_the_outcome(app: Mainspring, clock: VirtualClock) -> None:
    faults = Faults()
    shaky = Mainspring(FaultStore(await app.connect(), faults), clock=clock)  # type: ignore[arg-type]

    @shaky.task
    async def work(ctx: Context) -> None:
        ctx.log.info("told in the end")

    async with shaky:
        handle = await work.enqueue()
        faults.fail("report", times=2)
        faults.fail("report", times=2, moment="after")
        async with shaky.worker():
            await clock.elapse(seconds=30)
        assert (await handle.job()).state is State.COMPLETED
        assert [line.text for line in await shaky.jobs.logs(handle.id)] == ["told in the end"]
    assert faults.injected == ["report"] * 4


async def test_log_lines_of_a_run_whose_process_died_are_kept_with_its_number(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        ctx.log.info("from the second run")

    async with app:
        handle, store = await work.enqueue(), await app.connect()
        gone, now = app.worker(), clock.now()
        await store.beat(gone._info, until=now + timedelta(seconds=1), now=now)
        (job,) = (await store.claim(None, worker=gone.id, tasks=["work"], limit=1, now=now)).jobs
        line = LogLine(job.runs, 1, now, logging.INFO, "and then it died")
        await store.report([RunReport(id=job.id, lease=job.lease or "", lines=(line,))])
        clock.advance(seconds=2)
        async with app.worker():
            await clock.elapse(seconds=10)
        lines = await app.jobs.logs(handle.id)
        # Reports of a zombie are refused.
        late = LogLine(job.runs, 2, now, logging.INFO, "not dead at all")
        assert await store.report([RunReport(id=job.id, lease=job.lease or "", lines=(late,))]) == set()
        assert await app.jobs.logs(handle.id) == lines
    assert [(line.run, line.text) for line in lines] == [(1, "and then it died"), (2, "from the second run")]


async def test_log_lines_of_a_run_that_lost_its_lease_are_refused_without_an_error(
    app: Mainspring, clock: VirtualClock
) -> None:
    go = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        if ctx.job.runs == 1:
            try:
                await go.wait()
            except asyncio.CancelledError:
                ctx.log.info("from beyond")
                ctx.progress(99)
                ctx.items(failed=1)
                raise
        ctx.log.info("heard")

    async with app:
        handle, store = await work.enqueue(), await app.connect()
        async with app.worker() as worker:
            await clock.elapse(seconds=1)
            await store.beat(worker._info, until=clock.now(), now=clock.now())  # as if it had left
            await app.worker(queues=["elsewhere"]).drain()  # another worker sweeps
            await clock.elapse(seconds=30)
        lines = await app.jobs.logs(handle.id)
        job = await handle.job()
    assert [(line.run, line.text) for line in lines] == [(2, "heard")]
    assert (job.state, job.progress) == (State.COMPLETED, None)


# reading


async def test_log_lines_are_read_in_pages(app: Mainspring) -> None:
    async def work(ctx: Context) -> None:
        for n in range(25):
            ctx.log.info("%d", n)

    async with app:
        await logged(app, work)
        (job,) = await app.jobs.list()
        seen: list[str] = []
        after = (0, 0)
        while page := await app.jobs.logs(job.id, limit=10, after=after):
            assert len(page) <= 10
            seen += [line.text for line in page]
            after = (page[-1].run, page[-1].n)
    assert seen == [str(n) for n in range(25)]


@pytest.mark.parametrize("limit", [0, -1, 1001, True, "10"])
async def test_a_bad_limit_of_log_lines_is_refused(app: Mainspring, limit: Any) -> None:
    async with app:
        app.task(name="work")(lambda: None)
        handle = await app.enqueue("work")
        with pytest.raises(BadInput, match="limit must be from 1 to 1000"):
            await app.jobs.logs(handle.id, limit=limit)


async def test_logs_of_an_unknown_job_raise_job_not_found(app: Mainspring) -> None:
    async with app:
        with pytest.raises(JobNotFound):
            await app.jobs.logs("nobody")
        with pytest.raises(JobNotFound):
            async for _ in app.jobs.tail("nobody"):
                pass


async def test_a_tail_replays_then_follows_over_retries_until_the_job_has_ended(
    app: Mainspring, clock: VirtualClock
) -> None:
    seen: list[tuple[int, str, float]] = []

    @app.task(max_retries=1)
    async def work(ctx: Context) -> None:
        for n in range(2):
            ctx.log.info("step %d", n)
            await clock.sleep(10)
        if ctx.attempt == 1:
            raise ValueError

    async def follow(id: str) -> None:
        async for line in app.jobs.tail(id):
            seen.append((line.run, line.text, clock.monotonic()))

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
            tail = asyncio.create_task(follow(handle.id))
            await clock.settle()
            assert seen == [(1, "step 0", 5)]
            await clock.elapse(seconds=8)
            assert [text for _, text, _ in seen] == ["step 0", "step 1"]
            assert seen[1][2] <= 12
            await clock.elapse(seconds=60)
            async with asyncio.timeout(5):
                await tail
    assert [(run, text) for run, text, _ in seen] == [(1, "step 0"), (1, "step 1"), (2, "step 0"), (2, "step 1")]


async def test_a_tail_can_continue_after_a_given_line(app: Mainspring) -> None:
    async def work(ctx: Context) -> None:
        for n in range(3):
            ctx.log.info("%d", n)

    async with app:
        await logged(app, work)
        (job,) = await app.jobs.list()
        assert [line.text async for line in app.jobs.tail(job.id, after=(1, 1))] == ["1", "2"]


async def test_log_lines_are_deleted_with_their_job(app: Mainspring) -> None:
    async def work(ctx: Context) -> None:
        ctx.log.info("gone soon")

    async with app:
        await logged(app, work)
        (job,) = await app.jobs.list()
        await app.jobs.delete(Filter())
        assert await (await app.connect()).logs(job.id, limit=10) == []


def test_a_thread_that_logs_after_the_loop_was_closed_gets_no_error() -> None:
    clock, spoken = VirtualClock(), threading.Event()
    app = Mainspring("memory://", clock=clock)
    go, contexts = threading.Event(), []

    @app.task
    def work(ctx: Context) -> None:
        contexts.append(ctx)

    async def main() -> None:
        async with app:
            await work.enqueue()
            async with app.worker():
                await clock.elapse(seconds=1)

    def speak() -> None:
        go.wait(10)
        contexts[0].log.info("is anybody there?")
        contexts[0].progress(1, 2)
        spoken.set()

    asyncio.run(main())
    thread = threading.Thread(target=speak)
    thread.start()
    go.set()
    thread.join(10)
    assert spoken.is_set()
