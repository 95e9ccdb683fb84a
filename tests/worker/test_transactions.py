"""ctx.transaction(): a task's changes to the store's database and its job's completion are one commit."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring import BadInput, Breaker, Context, LeaseLost, Mainspring, Snooze, State, every
from mainspring.events import JobEnded, JobLost
from mainspring.middleware import Next
from mainspring.records.outcome import Released, decide
from mainspring.testing import Recorder, VirtualClock
from servers import Postgres


class Bank:
    """An app, and a table for effects in the same database."""

    def __init__(self, url: str, path: Path, server: Postgres | None) -> None:
        self.url, self.path, self.server = url, path, server
        self.app = Mainspring(url, retry_initial_delay=1e-6)

    def run(self, sql: str) -> list[Any]:
        """As another connection sees it."""
        if self.server is not None:
            return [tuple(row) for row in self.server.run(sql)]
        other = sqlite3.connect(self.path)
        try:
            with other:
                return other.execute(sql).fetchall()
        finally:
            other.close()

    def effects(self) -> list[int]:
        return [n for (n,) in self.run("SELECT n FROM effects ORDER BY n")]

    async def book(self, connection: Any, n: int) -> None:
        done = connection.execute(f"INSERT INTO effects VALUES ({n})")
        if inspect.isawaitable(done):
            await done

    async def lose(self, ctx: Context) -> None:
        """Another worker ends this run."""
        other = Mainspring(self.url)
        async with other:
            store = await other.connect()
            await store.finish([decide(ctx.job, Released(), now=other.clock.now())])


@pytest.fixture(params=["sqlite", "postgres"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    path = tmp_path / "bank.db"
    if request.param == "sqlite":
        bank = Bank(f"sqlite:///{path}", path, None)
    else:
        server: Postgres = request.getfixturevalue("postgres")
        bank = Bank(server.fresh(), path, server)
    bank.run("DROP TABLE IF EXISTS effects")
    bank.run("CREATE TABLE effects (n integer)")
    return bank


@pytest.fixture
def served(postgres: Postgres, tmp_path: Path) -> Bank:
    """On PostgreSQL, where others can write meanwhile."""
    bank = Bank(postgres.fresh(), tmp_path / "none", postgres)
    bank.run("DROP TABLE IF EXISTS effects")
    bank.run("CREATE TABLE effects (n integer)")
    return bank


async def endings(app: Mainspring, id: str) -> list[str]:
    return [str(run.ending) for run in await app.executions.list(job_id=id)]


# the commit


async def test_effect_and_completion_become_visible_together_with_the_commit(bank: Bank) -> None:
    seen: list[tuple[list[int], str]] = []

    async def look(id: str) -> None:
        seen.append((bank.effects(), (await bank.app.jobs.get(id)).state))

    @bank.app.task
    async def pay(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, n)
            await look(ctx.job.id)
        await look(ctx.job.id)

    async with bank.app:
        job = await pay.enqueue(7)
        assert await bank.app.drain() == 1
        assert seen == [([], "running"), ([7], "completed")]
        assert await job.result() is None


async def test_the_result_is_the_value_given_to_complete(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context) -> dict[str, int]:
        async with ctx.transaction():
            ctx.complete({"receipt": 7})
        return {"receipt": 8}

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        assert await job.result() == {"receipt": 7}


async def test_a_result_after_the_block_is_ignored_and_logged(bank: Bank, caplog: Any) -> None:
    @bank.app.task
    async def pay(ctx: Context) -> str:
        async with ctx.transaction():
            ctx.complete("first")
        return "second"

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        assert await job.result() == "first"
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.startswith(
        f"job {job.id} (pay) was completed in its transaction; a result that came after it is ignored"
    )


async def test_an_exception_in_the_block_rolls_back_and_is_retried(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, n)
            if ctx.attempt == 1:
                raise RuntimeError("no")

    async with bank.app:
        job = await pay.enqueue(7)
        assert await bank.app.drain() == 2
        assert bank.effects() == [7]
        assert await endings(bank.app, job.id) == ["failed", "completed"]


async def test_an_exception_after_the_block_leaves_the_job_completed_and_is_logged(bank: Bank, caplog: Any) -> None:
    @bank.app.task
    async def pay(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, n)
        raise RuntimeError("too late")

    async with bank.app:
        job = await pay.enqueue(7)
        assert await bank.app.drain() == 1
        assert ((await job.job()).state, bank.effects()) == (State.COMPLETED, [7])
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line.endswith("RuntimeError that came after it is ignored: too late")


async def test_a_failure_of_the_commit_itself_is_a_failed_run(served: Bank) -> None:
    served.run("DROP TABLE effects")
    served.run("CREATE TABLE effects (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    served.run("INSERT INTO effects VALUES (7)")

    @served.app.task(max_retries=0)
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await served.book(connection, 7)
            ctx.log.info("inside")

    async with served.app:
        job = await pay.enqueue()
        await served.app.drain()
        found = await job.job()
        assert found.state is State.DEAD
        assert [line.text for line in await served.app.jobs.logs(job.id)] == ["inside"]
        assert found.failure is not None
        assert found.failure.type == "UniqueViolationError"


async def test_a_statement_that_failed_and_was_caught_fails_the_run(served: Bank) -> None:
    @served.app.task(max_retries=0)
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await served.book(connection, 7)
            with pytest.raises(asyncpg.DivisionByZeroError):
                await connection.execute("SELECT 1 / 0")

    async with served.app:
        job = await pay.enqueue()
        await served.app.drain()
        assert ((await job.job()).state, served.effects()) == (State.DEAD, [])


# the fence


async def test_a_run_that_has_lost_its_lease_does_not_enter_its_transaction(bank: Bank) -> None:
    lost: list[LeaseLost] = []
    entered: list[int] = []

    @bank.app.task
    async def pay(ctx: Context, n: int) -> None:
        if ctx.job.runs == 1:
            await bank.lose(ctx)
        try:
            async with ctx.transaction() as connection:
                entered.append(ctx.job.runs)
                await bank.book(connection, n)
        except LeaseLost as error:
            lost.append(error)
            raise

    recorder = Recorder(bank.app)
    async with bank.app:
        job = await pay.enqueue(7)
        assert await bank.app.drain() == 2
        assert (bank.effects(), (await job.job()).state) == ([7], State.COMPLETED)
        assert entered == [2]
    assert str(lost[0]) == f"job {job.id} (pay) was taken from this run; its transaction is rolled back"
    assert (len(lost), len(recorder.of(JobLost)), len(recorder.of(JobEnded))) == (1, 1, 1)


async def test_a_run_that_loses_its_lease_in_its_transaction_applies_nothing(served: Bank) -> None:
    @served.app.task
    async def pay(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await served.book(connection, n)
            if ctx.job.runs == 1:
                await served.lose(ctx)

    async with served.app:
        job = await pay.enqueue(7)
        assert await served.app.drain() == 2
        assert (served.effects(), (await job.job()).state) == ([7], State.COMPLETED)
        assert await endings(served.app, job.id) == ["released", "completed"]


async def test_only_one_of_two_concurrent_runs_of_a_job_applies_its_effect(served: Bank) -> None:
    """The first is a zombie: it goes on, in its block, while the second runs from beginning to end."""
    entered, done = asyncio.Event(), asyncio.Event()

    @served.app.task
    async def pay(ctx: Context, n: int) -> None:
        first = ctx.job.runs == 1
        async with ctx.transaction() as connection:
            await served.book(connection, n if first else 10 * n)
            if first:
                entered.set()
                await done.wait()

    other = Mainspring(served.url)
    other.task(name="pay")(pay.fn)
    async with served.app, other, asyncio.timeout(20):
        job = await pay.enqueue(7)
        zombie = asyncio.create_task(served.app.worker(concurrency=1).drain())
        await entered.wait()
        (run,) = await served.app.jobs.list()
        store = await other.connect()
        await store.finish([decide(run, Released(), now=other.clock.now())])
        assert await other.drain() == 1
        done.set()
        await zombie
        assert (served.effects(), (await job.job()).state) == ([70], State.COMPLETED)


async def test_an_open_transaction_does_not_lock_its_job(served: Bank) -> None:
    @served.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            served.run("SELECT id FROM fresh.mainspring_jobs FOR UPDATE NOWAIT")

    async with served.app:
        job = await pay.enqueue()
        await served.app.drain()
        assert (await job.job()).state is State.COMPLETED


# what follows from an end


async def test_a_transactional_completion_has_the_events_and_statistics_of_any_completed_run(bank: Bank) -> None:
    @bank.app.task
    async def plainly(ctx: Context) -> str:
        return "done"

    @bank.app.task
    async def together(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.complete("done")

    recorder = Recorder(bank.app)
    async with bank.app:
        first, second = await plainly.enqueue(), await together.enqueue()
        await bank.app.drain()
        events = {event.job.task: event for event in recorder.of(JobEnded)}
        assert len(recorder.of(JobEnded)) == 2
        for name in ("state", "ending", "failure"):
            assert getattr(events["together"], name, None) == getattr(events["plainly"], name, None)
        stats = (await bank.app.stats()).by_task
        assert stats["together"].completed == stats["plainly"].completed == 1
        (one,), (other,) = [await bank.app.executions.list(job_id=job.id) for job in (first, second)]
        assert (one.ending, one.attempt, one.result_size) == (other.ending, other.attempt, other.result_size)
        assert await second.result() == await first.result() == "done"


async def test_items_and_notes_are_kept_with_the_run(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context) -> None:
        ctx.note(bank="first")
        async with ctx.transaction():
            ctx.items(success=3)

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        (run,) = await bank.app.executions.list(job_id=job.id)
        assert run.items is not None
        assert (run.items.success, run.metadata) == (3, {"bank": "first"})


async def test_too_many_failed_items_roll_back(bank: Bank) -> None:
    @bank.app.task(max_retries=0)
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, 7)
            ctx.items(success=1, failed=9)

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        found = await job.job()
        assert (found.state, bank.effects()) == (State.DEAD, [])
        assert found.failure is not None
        assert found.failure.type == "ItemsFailed"


async def test_a_snooze_given_as_the_result_rolls_back_and_snoozes(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, 7)
            if ctx.job.runs == 1:
                ctx.complete(Snooze(0))

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        assert bank.effects() == [7]
        assert await endings(bank.app, job.id) == ["snoozed", "completed"]


async def test_a_transactional_completion_is_counted_by_its_schedule(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, 7)

    bank.app.schedule("hourly", every(1).hours, pay)
    async with bank.app:
        await bank.app.drain()
        await bank.app.schedules.trigger("hourly")
        assert await bank.app.drain() == 1
        store = await bank.app.connect()
        (schedule,) = await store.schedules(["hourly"], limit=1)
        assert (schedule.completed, bank.effects()) == (1, [7])


async def test_a_transactional_completion_closes_the_circuit(bank: Bank) -> None:
    @bank.app.task(breaker=Breaker(5, 60))
    async def pay(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise OSError
        async with ctx.transaction():
            pass

    async with bank.app:
        await pay.enqueue()
        store = await bank.app.connect()
        assert await bank.app.worker().drain(1) == 1
        assert [circuit.failures for circuit in (await store.overview(now=bank.app.clock.now())).circuits] == [1]
        await bank.app.drain()
        assert (await store.overview(now=bank.app.clock.now())).circuits == []


async def test_middleware_sees_the_result_and_cannot_undo_a_transactional_completion(bank: Bank, caplog: Any) -> None:
    seen: list[Any] = []

    async def layer(ctx: Context, call_next: Next) -> Any:
        seen.append(await call_next(ctx))
        raise RuntimeError("too late")

    bank.app.middleware.append(layer)

    @bank.app.task
    async def pay(ctx: Context) -> str:
        async with ctx.transaction() as connection:
            await bank.book(connection, 7)
            ctx.complete("done")
        return "done"

    async with bank.app:
        job = await pay.enqueue()
        assert await bank.app.drain() == 1
        assert (seen, await job.result(), bank.effects()) == (["done"], "done", [7])


async def test_a_waiter_gets_the_result_of_a_transactional_completion(bank: Bank) -> None:
    go = asyncio.Event()

    @bank.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.complete("done")
        await go.wait()

    async with bank.app, asyncio.timeout(20), bank.app.worker():
        job = await pay.enqueue()
        assert await job.result(timeout=10) == "done"
        go.set()


async def test_jobs_enqueued_within_the_transaction_are_stored_with_its_commit(bank: Bank) -> None:
    @bank.app.task
    async def follow(n: int) -> None:
        pass

    @bank.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await follow.using(within=connection).enqueue(ctx.attempt)
            if ctx.attempt == 1:
                raise RuntimeError

    async with bank.app:
        await pay.enqueue()
        await bank.app.drain()
        payloads = [job.payload for job in await bank.app.jobs.list() if job.task == "follow"]
        assert payloads == ['{"n":2}']


# what a run says


async def test_reports_before_and_inside_the_block_are_kept(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context) -> None:
        ctx.log.info("before")
        async with ctx.transaction():
            ctx.log.info("inside")
            await ctx.progress(3, 4)

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        assert [line.text for line in await bank.app.jobs.logs(job.id)] == ["before", "inside"]
        progress = (await job.job()).progress
        assert progress is not None
        assert (progress.done, progress.total) == (3, 4)


async def test_reports_inside_a_failed_block_are_kept(bank: Bank) -> None:
    @bank.app.task(max_retries=0)
    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.log.info("inside")
            raise RuntimeError

    @bank.app.task(max_retries=0)
    async def miss(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.log.info("inside")
            ctx.items(failed=1)

    async with bank.app:
        for task in (pay, miss):
            job = await task.enqueue()
            await bank.app.drain()
            assert [line.text for line in await bank.app.jobs.logs(job.id)] == ["inside"]


async def test_reports_inside_a_long_block_are_stored_with_its_commit(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", clock=clock)

    @app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            ctx.log.info("inside")
            await clock.sleep(2)  # time enough for the report sender, which cannot write now

    async with app, asyncio.timeout(20):
        job = await pay.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
        assert [line.text for line in await app.jobs.logs(job.id)] == ["inside"]


# interruptions


async def test_a_timeout_in_the_block_rolls_back(bank: Bank) -> None:
    @bank.app.task(timeout=0.2, max_retries=0)
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, 7)
            await asyncio.Event().wait()

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        assert (await endings(bank.app, job.id), bank.effects()) == (["timeout"], [])


async def test_a_stop_after_the_block_changes_nothing(bank: Bank) -> None:
    passed = asyncio.Event()

    @bank.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, 7)
        passed.set()
        await asyncio.Event().wait()

    recorder = Recorder(bank.app)
    async with bank.app, asyncio.timeout(20):
        job = await pay.enqueue()
        worker = bank.app.worker()
        async with worker:
            await passed.wait()
            await worker.stop(grace=0)
        assert (await endings(bank.app, job.id), bank.effects()) == (["completed"], [7])
    assert (recorder.of(JobLost), len(recorder.of(JobEnded))) == ([], 1)


async def test_a_stop_during_the_commit_does_not_undo_it(served: Bank) -> None:
    """The commit waits for a lock; meanwhile the run is interrupted."""
    contexts: list[Context] = []

    @served.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await served.book(connection, 7)
            await other.execute("SELECT 1 FROM fresh.mainspring_jobs WHERE id = $1 FOR UPDATE", ctx.job.id)
            contexts.append(ctx)

    assert served.server is not None
    other = await asyncpg.connect(served.server.dsn)
    await other.execute("BEGIN")
    async with served.app, asyncio.timeout(20):
        job = await pay.enqueue()
        worker = served.app.worker()
        async with worker:
            while not contexts or not served.run("SELECT 1 FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0)
            stopping = asyncio.create_task(worker.stop(grace=0))
            while not contexts[0].cancelled:
                await asyncio.sleep(0)
            await other.execute("ROLLBACK")
            await stopping
        assert (await endings(served.app, job.id), served.effects()) == (["completed"], [7])
    await other.close()


@pytest.mark.parametrize("timeout", [30, 300])
async def test_neither_a_beat_nor_a_timeout_after_the_commit_changes_anything(tmp_path: Path, timeout: int) -> None:
    clock = VirtualClock()
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
    recorder, reached = Recorder(app), list[int]()

    @app.task(timeout=timeout)
    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            pass
        await clock.sleep(60)
        reached.append(timeout)

    async with app:
        job = await pay.enqueue()
        async with app.worker():
            await clock.elapse(seconds=90)
        assert reached == ([300] if timeout == 300 else [])
        assert (recorder.of(JobLost), len(recorder.of(JobEnded))) == ([], 1)
        assert (await job.job()).state is State.COMPLETED


# the connection


async def test_more_tasks_than_connections_or_threads_take_turns(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context, n: int) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, n)
            await asyncio.sleep(0)

    async with bank.app, asyncio.timeout(20):
        await bank.app.enqueue_many(pay.job(n) for n in range(80))
        async with bank.app.worker():
            while (await bank.app.stats()).completed < 80:
                await bank.app.connect()
        assert bank.effects() == list(range(80))


async def test_the_connection_of_a_transaction_has_the_settings_of_the_server_each_time(served: Bank) -> None:
    seen: list[tuple[str, str]] = []

    @served.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            seen.append(
                (await connection.fetchval("SHOW enable_seqscan"), await connection.fetchval("SHOW search_path"))
            )
            await connection.execute("SET search_path = pg_temp")

    async with served.app:
        for _ in range(2):
            await pay.enqueue()
            await served.app.drain()
    assert seen == [("on", '"$user", public')] * 2


async def test_a_task_may_nest_savepoints(served: Bank) -> None:
    @served.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await served.book(connection, 1)
            nested = connection.transaction()
            await nested.start()
            await served.book(connection, 2)
            await nested.rollback()

    async with served.app:
        await pay.enqueue()
        await served.app.drain()
        assert served.effects() == [1]


OURS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'mainspring'"


async def test_no_connection_is_left_open(served: Bank) -> None:
    before = served.run(OURS)

    @served.app.task(max_retries=0)
    async def pay(ctx: Context, good: bool) -> None:
        async with ctx.transaction():
            if not good:
                raise RuntimeError

    async with served.app:
        for good in (True, False):
            await pay.enqueue(good)
        await served.app.drain()
    for _ in range(500):  # a server process is gone a moment after its connection
        if not (left := [pid for pid in served.run(OURS) if pid not in before]):
            break
    assert left == []


# refusals


@asynccontextmanager
async def refusal(app: Mainspring, fn: Any, **options: Any) -> AsyncIterator[list[str]]:
    """The failure message of the task's run."""
    said: list[str] = []
    task = app.task(max_retries=0, **options)(fn)
    async with app:
        job = await task.enqueue()
        await app.drain()
        failure = (await job.job()).failure
        assert failure is not None
        said.append(f"{failure.type}: {failure.message}")
        yield said


async def test_a_transaction_that_was_ended_inside_its_block_fails_the_run(bank: Bank) -> None:
    async def pay(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await bank.book(connection, 7)
            done = connection.execute("COMMIT")
            if inspect.isawaitable(done):
                await done

    async with refusal(bank.app, pay) as said:
        text = "ctx.transaction() was ended inside its block: leave COMMIT and ROLLBACK to the block"
        assert said == [f"BadInput: {text}"]


async def test_a_run_has_one_transaction(bank: Bank) -> None:
    told: list[str] = []

    @bank.app.task
    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            with pytest.raises(BadInput) as inside:
                ctx.transaction()
        with pytest.raises(BadInput) as after:
            ctx.transaction()
        told.extend([str(inside.value), str(after.value)])

    async with bank.app:
        await pay.enqueue()
        await bank.app.drain()
    assert told == [
        "a ctx.transaction() of this run is open already: there is one, and it comes last",
        "a ctx.transaction() of this run has completed its job already: there is one, and it comes last",
    ]


async def test_a_run_may_begin_another_transaction_after_a_rollback(bank: Bank) -> None:
    @bank.app.task
    async def pay(ctx: Context) -> None:
        try:
            async with ctx.transaction() as connection:
                await bank.book(connection, 1)
                raise RuntimeError
        except RuntimeError:
            pass
        async with ctx.transaction() as connection:
            await bank.book(connection, 2)

    async with bank.app:
        await pay.enqueue()
        await bank.app.drain()
        assert bank.effects() == [2]


async def test_complete_outside_of_a_transaction_is_refused(bank: Bank) -> None:
    async def pay(ctx: Context) -> None:
        ctx.complete(1)

    async with refusal(bank.app, pay) as said:
        assert said == [
            "BadInput: ctx.complete() gives a result to an open ctx.transaction(): call it inside the block"
        ]


async def test_an_enqueue_beside_an_open_sqlite_transaction_is_refused(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")

    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            await app.tasks["pay"].enqueue()

    async with refusal(app, pay) as said:
        assert said == [
            "BadInput: inside ctx.transaction() nothing else can write to the file: enqueue with within=connection, "
            "and do the rest before or after the block"
        ]


async def test_a_transaction_on_the_memory_store_is_refused() -> None:
    async def pay(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    async with refusal(Mainspring("memory://", clock=VirtualClock()), pay) as said:
        assert said == [
            "BadInput: the memory store has no transactions for ctx.transaction(): use sqlite:///… or postgresql://…"
        ]


async def test_a_transaction_in_a_synchronous_task_is_refused(bank: Bank) -> None:
    def pay(ctx: Context) -> None:
        ctx.transaction()

    async with refusal(bank.app, pay) as said:
        assert said == [
            "BadInput: ctx.transaction() is awaited, and task 'pay' is a plain function: make it `async def`"
        ]


async def in_process(ctx: Context) -> None:
    async with ctx.transaction():
        pass


async def test_a_transaction_in_a_process_task_is_refused(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")
    async with refusal(app, in_process, executor="process") as said:
        assert said == [
            "BadInput: ctx.transaction() is for tasks in a worker's own process, not for executor='process'"
        ]


# durable steps in a transaction


async def test_a_step_in_a_transaction_and_its_checkpoint_are_one_commit(bank: Bank) -> None:
    seen = list[Any]()

    async def grant(connection: Any, n: int) -> int:
        await bank.book(connection, n)
        seen.append((bank.effects(), ctx_of_run.job.id))
        return n + 1

    @bank.app.task(max_retries=1)
    async def pay(ctx: Context, n: int) -> int:
        nonlocal ctx_of_run
        ctx_of_run = ctx
        value = await ctx.step_in_transaction(grant, n)
        seen.append(bank.effects())
        if not ctx.resumed:
            raise OSError("after the commit")
        return await ctx.step_in_transaction(grant, value)  # type: ignore[no-any-return]

    ctx_of_run: Context
    async with bank.app:
        job = await pay.enqueue(7)
        await bank.app.drain()
        assert await job.result() == 9
        assert seen == [([], job.id), [7], [7], ([7], job.id)]
    assert bank.effects() == [7, 8]


async def test_a_step_in_a_transaction_that_fails_leaves_neither_effect_nor_checkpoint(bank: Bank) -> None:
    tries = 0

    async def grant(connection: Any) -> None:
        nonlocal tries
        tries += 1
        await bank.book(connection, tries)
        if tries == 1:
            raise OSError("inside")

    @bank.app.task(max_retries=1)
    async def pay(ctx: Context) -> None:
        await ctx.step_in_transaction(grant)

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        assert (await bank.app.jobs.get(job.id)).state is State.COMPLETED
    assert (tries, bank.effects()) == (2, [2])


async def test_a_step_of_a_run_that_lost_its_job_commits_nothing(bank: Bank) -> None:
    def grant(connection: Any, n: int) -> None:
        connection.execute(f"INSERT INTO effects VALUES ({n})")

    async def grant_in_postgres(connection: Any, n: int) -> None:
        await connection.execute(f"INSERT INTO effects VALUES ({n})")

    reached = list[str]()

    @bank.app.task(max_retries=0)
    async def pay(ctx: Context) -> str:
        if ctx.resumed:
            return "again"
        await bank.lose(ctx)
        await ctx.step_in_transaction(grant if bank.server is None else grant_in_postgres, 1, name="grant")
        reached.append("behind it")
        return "first"

    async with bank.app:
        job = await pay.enqueue()
        await bank.app.drain()
        assert await job.result() == "again"
    assert (bank.effects(), reached) == ([], [])


async def test_a_step_may_be_lost_while_its_transaction_is_open(served: Bank) -> None:
    async def grant(connection: Any) -> None:
        await served.book(connection, 1)
        await served.lose(ctx_of_run)

    @served.app.task(max_retries=0)
    async def pay(ctx: Context) -> str:
        nonlocal ctx_of_run
        if ctx.resumed:
            return "again"
        ctx_of_run = ctx
        await ctx.step_in_transaction(grant)
        return "first"

    ctx_of_run: Context
    async with served.app:
        job = await pay.enqueue()
        await served.app.drain()
        assert await job.result() == "again"
    assert served.effects() == []


async def test_steps_beside_one_in_a_transaction_are_stored(bank: Bank) -> None:
    async def grant(connection: Any, n: int) -> int:
        await bank.book(connection, n)
        return n

    def plain(n: int) -> int:
        return -n

    @bank.app.task(max_retries=0)
    async def pay(ctx: Context) -> list[int]:
        return await asyncio.gather(
            *(ctx.step_in_transaction(grant, n) for n in (1, 2)), *(ctx.step(plain, n) for n in (1, 2))
        )

    async with bank.app, asyncio.timeout(20):
        job = await pay.enqueue()
        await bank.app.drain()
        assert await job.result() == [1, 2, -1, -2]
        store: Any = await bank.app.connect()
        names = {one.name for one in await store.checkpoints(job.id)}
    assert names == {"grant", "grant#2", "plain", "plain#2"}
    assert bank.effects() == [1, 2]


async def test_a_store_without_transactions_refuses_such_a_step_by_name() -> None:
    app = Mainspring("memory://")

    @app.task(max_retries=0)
    async def pay(ctx: Context) -> None:
        await ctx.step_in_transaction(print)

    async with app:
        job = await pay.enqueue()
        await app.drain()
        failure = (await app.jobs.get(job.id)).failure
    assert failure is not None
    assert failure.message.startswith("the memory store has no transactions for ctx.step_in_transaction()")
