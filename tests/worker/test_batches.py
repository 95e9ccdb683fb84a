"""Batches: jobs of any task that belong together, with callbacks when they fail, succeed and end."""

from __future__ import annotations

import asyncio
import pickle
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import (
    BadInput,
    BatchCounts,
    BatchEnded,
    BatchFailed,
    BatchSummary,
    Collect,
    Context,
    Filter,
    JobCancelled,
    Mainspring,
    NewJob,
    Retry,
    State,
)
from mainspring.records.flow import CLOSE_BATCH
from mainspring.testing import VirtualClock


class Told:
    """What callbacks were told, by name."""

    def __init__(self, app: Mainspring) -> None:
        self.calls: list[tuple[str, BatchSummary | None]] = []

        @app.task
        async def report(batch: BatchSummary) -> None:
            self.calls.append(("success", batch))

        @app.task
        async def alert(batch: BatchSummary) -> None:
            self.calls.append(("failure", batch))

        @app.task
        def tidy() -> None:
            self.calls.append(("complete", None))

        self.callbacks: Any = {"on_success": report, "on_failure": alert, "on_complete": tidy}

    @property
    def names(self) -> list[str]:
        return sorted(name for name, _ in self.calls)

    def summary(self, name: str) -> BatchSummary:
        return next(summary for called, summary in self.calls if called == name and summary is not None)


async def worked(app: Mainspring, clock: VirtualClock, **span: float) -> None:
    async with app.worker():
        await clock.elapse(**(span or {"minutes": 2}))


async def test_jobs_of_several_tasks_complete_and_callbacks_are_told_once(app: Mainspring, clock: VirtualClock) -> None:
    told = Told(app)

    @app.task
    async def send(to: str) -> None: ...

    @app.task
    def print_(to: str) -> None: ...

    async def more() -> AsyncIterator[NewJob]:
        for n in range(3):
            yield send.job(f"{n}@later")

    async with app:
        async with app.batch("newsletter", metadata={"issue": 7}, **told.callbacks) as batch:
            assert await batch.enqueue_many(send.job(f"{n}@here") for n in range(2_500)) == 2_500
            assert await batch.enqueue_many(more()) == 3
            letter = await batch.enqueue(print_.using(queue="paper").job("attic"))
            assert (await letter.job()).queue == "paper"
            assert await batch.counts() == BatchCounts(total=2_504, unfinished=2_504)
        await worked(app, clock, minutes=5)
        counts = BatchCounts(total=2_504, completed=2_504)
        assert await batch.result(timeout=1) == counts
        assert told.names == ["complete", "success"]
        assert told.summary("success") == BatchSummary(
            id=batch.id, name="newsletter", counts=counts, metadata={"issue": 7}
        )
        assert str(counts) == "2,504 jobs (2,504 completed)"
        assert await app.jobs.list(Filter(tasks=(CLOSE_BATCH,))) == []
        with pytest.raises(BatchEnded, match="has ended"):
            await batch.enqueue(send.job("late"))


async def test_batch_without_jobs_completes(app: Mainspring, clock: VirtualClock) -> None:
    told = Told(app)
    async with app:
        async with app.batch("empty", **told.callbacks) as batch:
            pass
        await worked(app, clock)
        assert await batch.result(timeout=1) == BatchCounts()
        assert str(await batch.counts()) == "no jobs"
        assert told.names == ["complete", "success"]


async def test_first_death_is_told_at_once_and_a_redriven_job_leads_to_success(
    app: Mainspring, clock: VirtualClock
) -> None:
    told, broken = Told(app), {1, 2}

    @app.task(max_retries=0)
    async def send(n: int) -> None:
        if n in broken:
            raise ValueError(f"no {n}")

    async with app:
        async with app.batch("letters", **told.callbacks) as batch:
            await batch.enqueue_many(send.job(n) for n in range(4))
            await worked(app, clock)
            assert told.names == ["failure"]
            counts = await batch.counts()
            assert counts == BatchCounts(total=4, completed=2, dead=2)
        await worked(app, clock)
        assert told.names == ["complete", "failure"]
        with pytest.raises(BatchFailed, match=r"4 jobs \(2 completed, 2 dead\)") as failed:
            await batch.result(timeout=1)
        assert failed.value.counts == counts
        assert str(pickle.loads(pickle.dumps(failed.value))) == str(failed.value)
        broken.clear()
        await app.dead.redrive(Filter(tasks=("send",)))
        await worked(app, clock)
        assert await batch.result(timeout=1) == BatchCounts(total=4, completed=4)
        assert told.names == ["complete", "complete", "failure", "success"]


async def test_retry_of_an_open_batch_puts_its_dead_jobs_back_to_work(app: Mainspring, clock: VirtualClock) -> None:
    told, broken = Told(app), {1}

    @app.task(max_retries=0)
    async def send(n: int) -> None:
        if n in broken:
            raise ValueError(f"no {n}")

    async with app:
        async with app.batch("letters", **told.callbacks) as batch:
            await batch.enqueue_many(send.job(n) for n in range(3))
            await worked(app, clock)
            broken.clear()
            assert len((await app.flows.retry(batch.id)).done) == 1
            await worked(app, clock)
            assert await batch.counts() == BatchCounts(total=3, completed=3)
        await worked(app, clock)
        assert told.names == ["complete", "failure", "success"]


async def test_job_that_is_tried_again_keeps_the_batch_open(app: Mainspring, clock: VirtualClock) -> None:
    told, runs = Told(app), list[int]()

    @app.task
    async def send() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise Retry(60)

    async with app:
        async with app.batch("letters", **told.callbacks) as batch:
            await batch.enqueue(send.job())
        await worked(app, clock, seconds=70)
        assert (len(runs), told.names, (await batch.counts()).unfinished) == (2, [], 1)
        await worked(app, clock)
        assert told.names == ["complete", "success"]


async def test_batch_whose_maker_raises_is_cancelled_with_its_jobs(app: Mainspring, clock: VirtualClock) -> None:
    told = Told(app)

    @app.task
    async def send() -> None: ...

    async with app:
        batch = app.batch("letters", **told.callbacks)

        async def half_way() -> None:
            async with batch:
                await batch.enqueue_many(send.job() for _ in range(3))
                raise ValueError("half way")

        with pytest.raises(ValueError, match="half way"):
            await half_way()
        await worked(app, clock)
        assert told.names == ["complete"]
        assert await batch.counts() == BatchCounts(total=3, cancelled=3)
        with pytest.raises(JobCancelled, match="its maker raised ValueError: half way"):
            await batch.result(timeout=1)
        with pytest.raises(BatchEnded):
            await batch.enqueue(send.job())


async def test_batch_whose_maker_was_killed_is_closed_as_dead(app: Mainspring, clock: VirtualClock) -> None:
    told = Told(app)

    @app.task
    async def send() -> None: ...

    async with app:
        batch = app.batch("letters", **told.callbacks)
        await batch.begin()
        await batch.enqueue(send.job())
        async with app.worker():
            await clock.elapse(minutes=9)
            await batch.enqueue(send.job())
            await clock.elapse(minutes=9)
            assert told.names == []
            await clock.elapse(minutes=2)
        assert told.names == ["complete", "failure"]
        reason = told.summary("failure").reason
        assert reason == "it was never closed: its maker has gone"
        with pytest.raises(BatchFailed, match="never closed"):
            await batch.result(timeout=1)
        await app.flows.retry(batch.id)
        await worked(app, clock)
        assert await batch.result(timeout=1) == BatchCounts(total=2, completed=2)
        assert told.names == ["complete", "complete", "failure", "success"]


async def test_batch_goes_on_elsewhere_by_its_id(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def send() -> None: ...

    async with app:
        begun = app.batch("letters", open_for="1m", queue="mail")
        with pytest.raises(BadInput, match="has not begun"):
            await begun.enqueue(send.job())
        await begun.begin()
        found = await app.batches.get(begun.id)
        with pytest.raises(BadInput, match="exists already"):
            await found.begin()
        await found.enqueue(send.job())
        await found.close()
        await found.close()
        await worked(app, clock)
        assert await found.result(timeout=1) == BatchCounts(total=1, completed=1)
        other = await send.enqueue()
        with pytest.raises(BadInput, match="is no batch"):
            await app.batches.get(other.id)


async def test_batch_in_a_batch_is_waited_for_with_its_callbacks(app: Mainspring, clock: VirtualClock) -> None:
    told = Told(app)

    @app.task
    async def send() -> None: ...

    async with app:
        async with app.batch("year") as outer:
            for month in range(3):
                async with outer.batch(f"month {month}", on_success=told.callbacks["on_success"]) as inner:
                    await inner.enqueue_many(send.job() for _ in range(month))
        await worked(app, clock)
        assert await outer.result(timeout=1) == BatchCounts(total=3, completed=3)
        assert sorted(batch.name for _, batch in told.calls if batch is not None) == ["month 0", "month 1", "month 2"]


async def test_batch_in_a_transaction_is_there_with_its_jobs_or_not_at_all(tmp_path: Path, clock: VirtualClock) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    told = Told(app)

    @app.task
    async def send(n: int) -> None: ...

    async with app:
        db = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        for end in ("ROLLBACK", "COMMIT"):
            db.execute("BEGIN IMMEDIATE")
            async with app.batch("orders", within=db, **told.callbacks) as batch:
                await batch.enqueue_many(send.job(n) for n in range(5))
            db.execute(end)
            if end == "ROLLBACK":
                assert await app.jobs.list(Filter()) == []
        db.close()
        await worked(app, clock)
        assert await batch.result(timeout=1) == BatchCounts(total=5, completed=5)
        assert told.names == ["complete", "success"]


async def test_what_cannot_be_a_batch_is_refused_before_anything_is_stored(app: Mainspring) -> None:
    @app.task
    async def needs(to: str) -> None: ...

    @app.task(collect=Collect(size=2, delay=5))
    async def gather(items: list[str]) -> None: ...

    other = Mainspring("memory://")

    @other.task
    async def foreign() -> None: ...

    async with app:
        for options, match in (
            ({"on_success": needs}, "nothing gives task 'needs' its argument 'to'"),
            ({"on_success": "needs"}, "takes a task"),
            ({"on_failure": foreign}, "of another app"),
            ({"open_for": 0}, "open_for="),
            ({"on_sucess": needs}, "on_success"),
            ({"delay": 5}, "delay"),
        ):
            with pytest.raises((BadInput, TypeError), match=match):
                app.batch("bad", **options)  # type: ignore[arg-type]
        with pytest.raises(BadInput):
            app.batch("")
        async with app.batch("good") as batch:
            with pytest.raises(BadInput, match="collects items"):
                await batch.enqueue(gather.job("a"))  # type: ignore[arg-type]
            with pytest.raises(BadInput, match=r"what task\.job"):
                await batch.enqueue_many(["a"])  # type: ignore[list-item]
            assert (await batch.counts()).total == 0
        job = await app.jobs.get(batch.id)
        assert (job.state, job.metadata) == (State.PENDING, {"batch": "good"})


async def test_jobs_add_to_their_own_batch_until_it_has_ended(app: Mainspring, clock: VirtualClock) -> None:
    told = Told(app)

    @app.task
    async def crawl(ctx: Context, depth: int) -> None:
        if depth:
            assert await ctx.batch.enqueue_many(crawl_in_thread.job(depth - 1) for _ in range(2)) == 2

    @app.task
    def crawl_in_thread(ctx: Context, depth: int) -> None:
        assert ctx.batch.sync.counts().unfinished > 0
        if depth:
            ctx.batch.sync.enqueue(crawl.job(depth - 1))

    @app.task
    async def alone(ctx: Context) -> str:
        with pytest.raises(BadInput, match="is in no batch"):
            await ctx.batch.counts()
        return "alone"

    async with app:
        async with app.batch("site", **told.callbacks) as batch:
            await batch.enqueue(crawl.job(4))
        other = await alone.enqueue()
        await worked(app, clock)
        assert await batch.result(timeout=1) == BatchCounts(total=13, completed=13)
        assert await other.result(timeout=1) == "alone"
        assert told.names == ["complete", "success"]
        assert (await app.jobs.get(batch.id)).result is not None


async def test_job_of_a_flow_that_is_no_batch_cannot_add_to_it(app: Mainspring, clock: VirtualClock) -> None:
    refused: list[str] = []

    @app.task
    async def send() -> None: ...

    @app.task
    async def step(ctx: Context) -> None:
        try:
            await ctx.batch.enqueue(send.job())
        except BatchEnded as ended:
            refused.append(str(ended))

    @app.flow
    def plain() -> None:
        step.step()

    async with app:
        run = await plain.enqueue()
        await worked(app, clock)
        assert await run.result(timeout=1) is None
        assert len(refused) == 1
        assert "is no batch" in refused[0]


def test_batch_of_code_that_does_not_await(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def send(n: int) -> None: ...

    with app.batch("letters").sync as batch:
        assert batch.enqueue_many(send.job(n) for n in range(1_500)) == 1_500
        with batch.batch("inner") as inner:
            assert inner.enqueue(send.job(1)).status == "new"
    app.sync.drain()
    assert batch.result(timeout=5) == BatchCounts(total=1_501, completed=1_501)
    found = app.sync.batches.get(batch.id)
    assert found.counts().completed == 1_501
    with pytest.raises(ZeroDivisionError), app.batch("other").sync as other:
        other.enqueue(send.job(1 // 0))
    assert other.counts() == BatchCounts()
    app.sync.close()


async def test_why_says_how_far_a_batch_is_and_that_it_is_open(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def send(later: bool) -> None: ...

    async with app:
        async with app.batch("letters") as batch:
            await batch.enqueue_many([send.job(False), send.using(delay=3600).job(True)])
            async with app.worker():
                await clock.elapse(seconds=5)
                text = (await app.flows.why(batch.id))[0].text
                assert text.startswith("waits for jobs: 1 of 2 have ended; open: its maker adds more; the next one: ")
        async with app.worker():
            await clock.elapse(seconds=5)
            assert (await app.flows.why(batch.id))[0].text.startswith(
                "waits for jobs: 1 of 2 have ended; the next one:"
            )


async def test_failure_of_a_batch_names_its_first_dead_job(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def send(n: int) -> None:
        raise ValueError(f"no {n}")

    async with app:
        async with app.batch("letters") as batch:
            await batch.enqueue_many(send.job(n) for n in range(3))
        await worked(app, clock)
        job = await app.jobs.get(batch.id)
        first = (await app.flows.items(batch.id, "jobs"))[0]
        assert job.failure is not None
        assert job.failure.line == (
            f"BatchFailed: 3 of 3 jobs are dead, the first one {first.id} (send): ValueError: no 0"
        )


MAKER = """
import asyncio, sys
from mainspring import Mainspring

app = Mainspring(f"sqlite:///{sys.argv[1]}/jobs.db")

@app.task
async def send(n: int) -> None: ...

async def main() -> None:
    async with app, app.batch("letters", open_for=float(sys.argv[2])) as batch:
        for start in range(0, 10**9, 100):
            await batch.enqueue_many(send.job(n) for n in range(start, start + 100))
            print(batch.id, flush=True)

asyncio.run(main())
"""


async def test_maker_that_is_killed_leaves_whole_pages_and_the_batch_is_closed_as_dead(tmp_path: Path) -> None:
    maker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MAKER, str(tmp_path), "1", stdout=asyncio.subprocess.PIPE
    )
    assert maker.stdout is not None
    id = (await maker.stdout.readline()).decode().strip()
    for _ in range(3):
        await maker.stdout.readline()
    maker.kill()
    await maker.wait()
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def send(n: int) -> None: ...

    async with app:
        batch = await app.batches.get(id)
        async with app.worker(concurrency=50):
            with pytest.raises(BatchFailed, match="it was never closed: its maker has gone"):
                await batch.result(timeout=20)
        counts = await batch.counts()
        assert counts.total >= 400
        assert counts == BatchCounts(total=counts.total, completed=counts.total)
        assert counts.total % 100 == 0
