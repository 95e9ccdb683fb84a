"""Output of a task: in order, bounded, from any thread and process, stored before the run has ended, and followed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jobs_for_children as children
import pytest

from mainspring import BadInput, BadPayload, Context, Job, JobNotFound, Mainspring, OutputChunk, State
from mainspring.task.output import MAX_CHUNK_BYTES, MAX_OUTPUT_BYTES, MAX_OUTPUT_CHUNKS
from mainspring.testing import Faults, FaultStore, VirtualClock
from mainspring.worker.reports import OUTPUT_GATHER_SECONDS
from mainspring.worker.run_output import MAX_UNSENT_BYTES


async def written(app: Mainspring, clock: VirtualClock, fn: Callable[..., Any], **options: Any) -> list[OutputChunk]:
    """What the runs of one job have written."""
    task = app.task(name="work", **{"max_retries": 0} | options)(fn)
    handle = await task.enqueue()
    while not (await handle.job()).state.final:
        await app.drain()
        clock.advance(seconds=60)
    return [chunk async for chunk in app.jobs.read(handle.id)]


async def test_chunks_are_numbered_and_keep_their_values(app: Mainspring, clock: VirtualClock) -> None:
    values = ["word", "", "é 🕰\n", 1, 0.5, None, True, [1, "two"], {"token": 3, "text": "x"}]

    async def work(ctx: Context) -> None:
        for value in values:
            await ctx.write(value)

    async with app:
        start = clock.now()
        chunks = await written(app, clock, work)
    assert [chunk.value for chunk in chunks] == values
    assert [(chunk.n, chunk.run, chunk.at, chunk.full) for chunk in chunks] == [
        (n, 1, start, False) for n in range(1, len(values) + 1)
    ]


async def test_a_retry_begins_a_new_output_and_goes_on_counting(app: Mainspring, clock: VirtualClock) -> None:
    async def work(ctx: Context) -> None:
        await ctx.write(f"try {ctx.attempt}, one")
        await ctx.write(f"try {ctx.attempt}, two")
        if ctx.attempt < 3:
            raise ValueError

    async with app:
        chunks = await written(app, clock, work, max_retries=2)
    assert [(chunk.n, chunk.run, chunk.value) for chunk in chunks] == [
        (2 * run + k + 1, run + 1, f"try {run + 1}, {word}")
        for run in range(3)
        for k, word in enumerate(("one", "two"))
    ]


async def test_a_task_with_durable_steps_goes_on_with_its_output(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=1)
    async def work(ctx: Context) -> None:
        async def speak(text: str) -> None:
            await ctx.write(text)
            if text == "two" and ctx.attempt == 1:
                raise ValueError
            await ctx.write(f"{text}!")

        await ctx.step(speak, "one", name="one")
        await ctx.sleep(hours=1)
        await ctx.step(speak, "two", name="two")

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(hours=2)
        chunks = await app.jobs.output(handle.id)
    assert [(chunk.n, chunk.run, chunk.value, chunk.resumed) for chunk in chunks] == [
        (1, 1, "one", False),
        (2, 1, "one!", False),
        (3, 2, "two", True),
        (4, 3, "two", True),
        (5, 3, "two!", True),
    ]


async def test_a_chunk_without_json_or_too_large_is_refused_and_the_next_one_kept(
    app: Mainspring, clock: VirtualClock
) -> None:
    async def work(ctx: Context) -> None:
        with pytest.raises(BadInput, match=r"chunks of up to 65,536 bytes of JSON, got 65,537: write it in parts"):
            await ctx.write("x" * (MAX_CHUNK_BYTES - 1))
        with pytest.raises(BadPayload, match="object is not a type JSON can carry"):
            await ctx.write(object())
        await ctx.write("x" * (MAX_CHUNK_BYTES - 2))

    async with app:
        (chunk,) = await written(app, clock, work)
    assert len(chunk.text) == MAX_CHUNK_BYTES


@pytest.mark.parametrize(
    ("size", "kept"), [(MAX_CHUNK_BYTES, MAX_OUTPUT_BYTES // MAX_CHUNK_BYTES), (2, MAX_OUTPUT_CHUNKS)]
)
async def test_an_output_that_is_full_ends_with_a_mark(
    app: Mainspring, clock: VirtualClock, size: int, kept: int
) -> None:
    async def work(ctx: Context) -> str:
        for _ in range(kept + 5):
            await ctx.write("x" * (size - 2))
        await ctx.write("")
        return "done"

    async with app:
        *chunks, mark = await written(app, clock, work)
        assert (await app.jobs.list())[0].state is State.COMPLETED
    assert len(chunks) == kept
    assert not any(chunk.full for chunk in chunks)
    assert (mark.n, mark.full, mark.value) == (kept + 1, True, None)


async def test_a_run_after_a_full_one_has_room_again(app: Mainspring, clock: VirtualClock) -> None:
    async def work(ctx: Context) -> None:
        if ctx.attempt > 1:
            return await ctx.write("short")
        for _ in range(17):
            await ctx.write("x" * 65_000)
        raise ValueError

    async with app:
        *_, mark, last = await written(app, clock, work, max_retries=1)
    assert (mark.full, mark.run) == (True, 1)
    assert (last.value, last.run, last.n) == ("short", 2, mark.n + 1)


async def test_chunks_of_many_threads_are_all_kept_in_order(app: Mainspring, clock: VirtualClock) -> None:
    def work(ctx: Context) -> None:
        def speak(who: int) -> None:
            for n in range(100):
                ctx.write([who, n])

        threads = [threading.Thread(target=speak, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async with app:
        chunks = await written(app, clock, work)
    assert [chunk.n for chunk in chunks] == list(range(1, 801))
    for who in range(8):
        assert [chunk.value[1] for chunk in chunks if chunk.value[0] == who] == list(range(100))


async def test_output_is_there_soon_while_the_run_goes_on(app: Mainspring, clock: VirtualClock) -> None:
    going_on = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        ctx.log.info("first")
        await ctx.write("a")
        await going_on.wait()

    async with app:
        handle = await work.enqueue()
        async with app.worker():
            await clock.elapse(seconds=2 * OUTPUT_GATHER_SECONDS)
            assert [chunk.value for chunk in await app.jobs.output(handle.id)] == ["a"]
            going_on.set()


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "thread"])
async def test_a_writer_that_is_ahead_waits_until_the_store_is_back(plain: bool) -> None:
    """On the real clock: the thread waits in real time."""
    faults, away, tried, ahead = Faults(), threading.Event(), asyncio.Event(), threading.Event()
    app = Mainspring(FaultStore(await Mainspring("memory://").connect(), faults))  # type: ignore[arg-type]
    wrote: list[int] = []
    chunk = "x" * (MAX_UNSENT_BYTES // 4)

    def count(n: int) -> None:
        wrote.append(n)
        if len(wrote) == 3:  # the fourth one is beyond the bound
            ahead.set()

    def refuses() -> bool:
        if away.is_set() and faults.injected.count("report") > 2:
            tried.set()
        return away.is_set()

    async def work(ctx: Context) -> None:
        for n in range(8):
            await ctx.write(chunk)
            count(n)

    def work_in_thread(ctx: Context) -> None:
        for n in range(8):
            ctx.write(chunk)
            count(n)

    away.set()
    faults.when("report", refuses)
    async with app, asyncio.timeout(20):
        handle = await app.task(name="work")(work_in_thread if plain else work).enqueue()
        async with app.worker():
            await asyncio.to_thread(ahead.wait)
            await tried.wait()
            assert len(wrote) == 3
            away.clear()
            await handle.result()
        assert len(wrote) == len(await app.jobs.output(handle.id)) == 8


async def test_an_output_that_failed_to_be_sent_is_sent_again_before_the_outcome(
    app: Mainspring, clock: VirtualClock
) -> None:
    faults = Faults()
    shaky = Mainspring(FaultStore(await app.connect(), faults), clock=clock)  # type: ignore[arg-type]

    @shaky.task(max_retries=1)
    async def work(ctx: Context) -> None:
        for n in range(3):
            await ctx.write([ctx.attempt, n])
        if ctx.attempt == 1:
            raise ValueError

    async with shaky:
        handle = await work.enqueue()
        faults.fail("report", times=2)
        faults.fail("report", times=2, moment="after")
        faults.fail("output", times=2)
        async with shaky.worker():
            await clock.elapse(seconds=90)
        assert (await handle.job()).state is State.COMPLETED
        chunks = await shaky.jobs.output(handle.id)
    assert [(chunk.n, chunk.run, chunk.value) for chunk in chunks] == [
        (n, 1 + (n > 3), [1 + (n > 3), (n - 1) % 3]) for n in range(1, 7)
    ]
    assert sorted(faults.injected) == ["output"] * 2 + ["report"] * 4


async def test_output_of_a_process_task_is_kept(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        *chunks, mark = await written(app, clock, children.write_much, executor="process")
    assert [chunk.value for chunk in chunks[:3]] == ["one", {"two": 2}, "refused: ctx.write() takes chunks of"]
    assert [chunk.n for chunk in [*chunks, mark]] == list(range(1, len(chunks) + 2))
    assert mark.full


async def test_what_a_process_task_wrote_before_it_was_killed_is_kept(app: Mainspring, clock: VirtualClock) -> None:
    async with app:
        chunks = await written(app, clock, children.write_and_die, executor="process")
    assert [(chunk.run, chunk.value) for chunk in chunks] == [(run, n) for run in (1, 2, 3) for n in range(100)]


async def test_read_goes_on_beyond_a_chunk_and_follows_to_the_end(app: Mainspring, clock: VirtualClock) -> None:
    going_on = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        for n in range(1, 4):
            await ctx.write(n)
        await going_on.wait()
        await ctx.write("the end")

    async with app:
        handle = await work.enqueue()
        found: list[OutputChunk] = []

        async def follow() -> None:
            async for chunk in app.jobs.read(handle.id, after=2):
                found.append(chunk)

        following = asyncio.create_task(follow())
        async with app.worker():
            await clock.elapse(seconds=2)
            assert [chunk.value for chunk in found] == [3]
            going_on.set()
            await clock.elapse(seconds=2)
            await following
    assert [(chunk.n, chunk.value) for chunk in found] == [(3, 3), (4, "the end")]


async def test_read_misses_nothing_of_a_job_that_ends_between_two_reads(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        await ctx.write("in between")

    get = app.jobs.get

    async def get_later(id: str) -> Job:
        await app.drain()
        return await get(id)

    async with app:
        handle = await work.enqueue()
        monkeypatch.setattr(app.jobs, "get", get_later)
        assert [chunk.value async for chunk in app.jobs.read(handle.id)] == ["in between"]


async def test_read_of_an_unknown_job_or_below_nothing_is_an_error(app: Mainspring) -> None:
    async with app:
        with pytest.raises(JobNotFound):
            await anext(app.jobs.read("unknown"))
        with pytest.raises(JobNotFound):
            await app.jobs.output("unknown")
        with pytest.raises(BadInput, match="0 or more; got -1"):
            await anext(app.jobs.read("unknown", after=-1))


async def test_read_without_await(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def work(ctx: Context) -> None:
        await ctx.write("one")
        await ctx.write("two")

    def read(id: str) -> list[Any]:
        return [chunk.value for chunk in app.sync.jobs.read(id)]

    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert await asyncio.to_thread(read, handle.id) == ["one", "two"]


@pytest.mark.parametrize("attempts", [1, 2])
async def test_output_in_a_transaction_is_stored_with_its_commit(tmp_path: Path, attempts: int) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", retry_initial_delay=0.01)
    chunk = "x" * (MAX_UNSENT_BYTES // 4)

    @app.task(max_retries=1)
    async def work(ctx: Context) -> None:
        if ctx.attempt < attempts:
            await ctx.write("failed")
            raise ValueError
        async with ctx.transaction():
            for _ in range(5):
                await ctx.write(chunk)

    async with app, asyncio.timeout(20):
        handle = await work.enqueue()
        async with app.worker():
            await handle.result()
        chunks = await app.jobs.output(handle.id)
    assert [chunk.n for chunk in chunks] == list(range(1, attempts + 5))
    assert [chunk.value for chunk in chunks[attempts - 1 :]] == [chunk] * 5
