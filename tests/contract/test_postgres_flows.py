"""Flows on PostgreSQL: statements, locks, releases side by side, lost connections, callers' transactions."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from further import MILD, REAL, Placed, after
from msgspec.structs import replace
from test_postgres_schedules import LARGE_BATCH, SMALL_BATCH, Served, statements

from mainspring.errors import SchemaMismatch, StoreUnavailable
from mainspring.ids import JobId
from mainspring.records.flow import AwaitedSignal
from mainspring.records.job import Action, Job, State
from mainspring.records.outcome import Discard, Done, Suspend, decide
from mainspring.records.plan import Plan, StepOptions
from mainspring.records.query import Filter
from mainspring.records.run import Ending
from mainspring.records.schema import Schema
from mainspring.records.unreadable import sums_of
from mainspring.store import Store
from mainspring.stores.migrations import Migrations
from mainspring.stores.postgres import completions, flow_rows, pool, tables
from mainspring.stores.postgres.flows import STEP_JOBS
from mainspring.stores.postgres.pool import SEPARATOR, SETTINGS
from mainspring.stores.postgres.script import FLOWS_VERSION
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import (
    NOW,
    a_schedule,
    a_worker,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    fire,
    later,
    new_job,
    put,
    read_job,
    start,
    tick_job,
)
from mainspring.testing.contract.flow import (
    DIAMOND,
    a_step,
    begin,
    chain,
    flows_of,
    row_of,
    run_step,
    step_job,
    steps_of,
)
from mainspring.testing.contract.job_signal import give, wait

# The schema of the release before flows.
BEFORE = Migrations(REAL.text.partition("-- up 6")[0])
# The release before this one, which knows flows.
LAST = Migrations(REAL.text.partition(f"-- up {FLOWS_VERSION}")[0])
# A later one that the oldest releases could work on, too.
FOR_ALL = after(REAL, MILD.replace("for {newest}", "for 1"))


async def begin_many(store: Store, plan: Plan, count: int) -> list[JobId]:
    ids = await put(store, *(new_job(plan=plan) for _ in range(count)))
    assert len(set(ids)) == count
    return ids


async def claimed(store: Store, *tasks: str, limit: int = 5000) -> list[Job]:
    await beat(store)
    return (await claim(store, tasks=list(tasks), limit=limit)).jobs


def flow_of(job: Job) -> JobId:
    assert job.step is not None
    return job.step.flow


def done(jobs: Sequence[Job], result: str = "1") -> list[Any]:
    return [decide(job, Done(result), now=NOW) for job in jobs]


class TestStatements(Served):
    """The number of statements does not depend on the size of a batch."""

    @pytest.fixture(autouse=True)
    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    async def counts_of(self, act: Any) -> list[int]:
        """The numbers of statements of a small and a large batch."""
        counts = []
        for size in (SMALL_BATCH, LARGE_BATCH):
            async with self.opened() as store:
                call = await act(store, size)
                with statements(self.monkeypatch) as sent:
                    await call()
                # The history is one row for each run, sent together.
                counts.append(len([sql for sql in sent if "INTO mainspring_executions" not in sql]))
        return counts

    async def test_ends_of_steps(self) -> None:
        async def prepare(store: Store, size: int) -> Any:
            await begin_many(store, chain("a", "b"), size)
            ends = done(await claimed(store, "a"))
            assert len(ends) >= size
            return lambda: store.finish(ends)

        few, many = await self.counts_of(prepare)
        assert many == 2 * few <= 16  # a large batch is two transactions

    async def test_last_ends_of_flows(self) -> None:
        async def prepare(store: Store, size: int) -> Any:
            await begin_many(store, chain("z"), size)
            ends = done(await claimed(store, "z"))
            return lambda: store.finish(ends)

        few, many = await self.counts_of(prepare)
        assert many == 2 * few <= 16

    async def test_plans(self) -> None:
        async def prepare(store: Store, size: int) -> Any:
            await put(store, *(new_job(task="flow") for _ in range(size)))
            ends = [decide(job, Suspend(chain("a", "b")), now=NOW) for job in await claimed(store, "flow")]
            return lambda: store.finish(ends)

        few, many = await self.counts_of(prepare)
        # The first of them shuts older releases out.
        assert few <= 21
        assert many <= 17

    async def test_cancels_and_deletions(self) -> None:
        for action in (Action.CANCEL, Action.DELETE):

            async def prepare(store: Store, size: int, action: Action = action) -> Any:
                ids = await begin_many(store, Plan(tuple(a_step("a", task="a") for _ in range(3))), size)
                which = Filter(ids=tuple(ids))
                return lambda: store.change(action, which, now=NOW, limit=size)

            few, many = await self.counts_of(prepare)
            assert few == many <= 22, action

    async def test_expired_steps(self) -> None:
        async def prepare(store: Store, size: int) -> Any:
            await begin_many(store, Plan((a_step("a", options=StepOptions(expires=1.0)),)), size)
            await beat(store, until=later(60))
            return lambda: claim(store, tasks=["none"], now=later(2))

        few, many = await self.counts_of(prepare)
        assert few == many <= 22

    async def test_a_signal_locks_and_writes_its_row_and_its_job(self) -> None:
        async with self.opened() as store:
            id = await wait(store, AwaitedSignal("approval", None))
            with statements(self.monkeypatch) as sent:
                assert await give(store, id) is None
            words = [sql.split()[0] for sql in sent]
            assert words == ["BEGIN", "SELECT", "SELECT", "SELECT", "UPDATE", "INSERT", "COMMIT"]

    async def test_jobs_of_given_ids_are_one_statement(self) -> None:
        async with self.opened() as store:
            jobs = [await start(store) for _ in range(3)]
            await finish_run(store, jobs[1], Done())
            ids = tuple(job.id for job in reversed(jobs))
            with statements(self.monkeypatch) as sent:
                found = await store.jobs(Filter(ids=(*ids, ids[0])), now=NOW, limit=4)
                newest = await store.jobs(Filter(ids=ids), now=NOW, limit=3, newest=True)
            assert len(sent) == 2
            assert [job.id for job in found] == [job.id for job in newest][::-1] == [job.id for job in jobs]

    async def test_flows_cached_plans_are_read_once(self) -> None:
        async with self.opened() as store:
            ids = await begin_many(store, chain("a", "b", "c"), 3)
            await store.finish(done(await claimed(store, "a")))
            ends = done(await claimed(store, "b"))
            with statements(self.monkeypatch) as sent:
                await store.finish(ends)
            assert [sql for sql in sent if "FROM mainspring_plans" in sql] == []
            assert [(await row_of(store, id)).statuses for id in ids] == ["ccr"] * 3

    async def test_the_plans_of_a_finish_are_not_read_again(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(task="flow") for _ in range(3)))
            runs = await claimed(store, "flow")
            await store.finish([decide(job, Suspend(chain("a", "b")), now=NOW) for job in runs])
            with statements(self.monkeypatch) as sent:
                await store.finish(done(await claimed(store, "a")))
            assert [sql for sql in sent if "FROM mainspring_plans" in sql] == []
            assert [(await row_of(store, id)).statuses for id in ids] == ["cr"] * 3

    @pytest.mark.parametrize("late", [0, 150])
    async def test_a_late_end_among_many_is_refused_and_the_others_move_their_flows(self, late: int) -> None:
        async with self.opened() as store:
            ids = await begin_many(store, chain("a", "b"), 200)
            jobs = sorted(await claimed(store, "a"), key=lambda job: ids.index(flow_of(job)))
            stale = replace(jobs[late], lease="stale")
            others = [job for job in jobs if job.id != stale.id]
            assert await store.finish(done([stale, *others])) == {job.id for job in others}
            assert [(await row_of(store, id)).statuses for id in ids] == [
                "rw" if n == late else "cr" for n in range(200)
            ]
            assert (await read_job(store, stale.id)).state is State.RUNNING

    async def test_ends_of_several_steps_of_many_flows_are_one_move_each(self) -> None:
        async with self.opened() as store:
            ids = await begin_many(store, DIAMOND, 100)
            await store.finish(done(await claimed(store, "a"), '{"part":1}'))
            jobs = await claimed(store, "b", "c")
            assert await store.finish(done(jobs)) == {job.id for job in jobs}
            assert {((row := await row_of(store, id)).statuses, row.revision) for id in ids} == {("cccr", 3)}

    async def test_each_end_of_a_step_is_counted_once(self) -> None:
        async with self.opened() as store:
            await begin_many(store, chain("a", "b"), 3)
            await store.finish(done(await claimed(store, "a")))
            ((sums,),) = self.server.run("SELECT sums FROM fresh.mainspring_counting WHERE task = 'a'")
            assert sums_of(sums).endings == {"completed": 3}

    async def test_the_end_of_a_step_closes_the_circuit_of_its_task(self) -> None:
        async with self.opened() as store:
            (id,) = await begin_many(store, chain("a", "b"), 1)
            ends = done(await claimed(store, "a"))
            self.server.run("INSERT INTO fresh.mainspring_circuits (task, failures) VALUES ('a', 2)")
            assert await store.finish(ends) == {end.id for end in ends}
            assert self.server.run("SELECT count(*) FROM fresh.mainspring_circuits") == [(0,)]
            assert (await row_of(store, id)).statuses == "cr"

    async def test_plain_ends_beside_ends_of_steps_keep_their_statement(self) -> None:
        async with self.opened() as store:
            (id,) = await begin_many(store, chain("a", "b"), 1)
            await put(store, *(new_job(task="plain") for _ in range(3)))
            jobs = await claimed(store, "a", "plain")
            with statements(self.monkeypatch) as sent:
                assert await store.finish(done(jobs)) == {job.id for job in jobs}
            assert sent[0] == completions.COMPLETE_ALL
            assert (await row_of(store, id)).statuses == "cr"
            # None of the claim's jobs is forgotten if the process ends between the two.
            assert self.server.run("SELECT cardinality(ids) FROM fresh.mainspring_leases") == [(4,)]
            with statements(self.monkeypatch) as sent:
                assert await store.finish(done(jobs)) == {job.id for job in jobs}
            assert (await row_of(store, id)).revision == 2


class TestPlans(Served):
    async def test_statements_on_flows_use_indexes_on_tables_that_were_never_analysed(self) -> None:
        async with self.opened() as store:
            for _ in range(5):
                ids = await begin_many(store, chain("a", "b"), 1000)
            connection = await asyncpg.connect(self.server.dsn, server_settings=SETTINGS)
            some, zeros = ids[:500], ["0"] * 500
            most = [str(2**63 - 1)] * 500
            try:
                for sql, values in (
                    (flow_rows._LOCK_FLOWS, (some,)), (flow_rows._PLANS, (some,)), (flow_rows.FAMILIES, (some,)),
                    (flow_rows.UNFINISHED_STEPS, (some, zeros, most, 1000)),
                    (flow_rows.FAILED_STEPS, (some, zeros, most, 1000)),
                    (flow_rows.ALL_STEPS, (some, zeros, most, 1000)),
                    (flow_rows._DROP_JOBS, (some,)), (STEP_JOBS, (ids[0], 0, 2**63 - 1, 100)),
                    (flow_rows._WRITE, (SEPARATOR.join(some), some)),
                ):  # fmt: skip
                    lines = await connection.fetch(f"EXPLAIN {PostgresUrl(self.url, '').sql(sql)}", *values)
                    plan = "\n".join(line for (line,) in lines)
                    assert not re.search(r"Seq Scan|Hash|Merge Join", plan), plan
            finally:
                await connection.close()


class TestConcurrency(Served):
    @pytest.fixture(autouse=True)
    def _no_deadlock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A deadlock is an error here, instead of another try."""
        monkeypatch.setattr(pool, "RETRIED_SQLSTATES", ())

    async def test_two_connections_that_end_the_last_two_steps_at_once_release_one_step(self) -> None:
        async with self.opened() as one, self.opened() as other:
            ids = await begin_many(one, DIAMOND, 200)
            await one.finish(done(await claimed(one, "a"), '{"part":1}'))
            pairs: dict[JobId, list[Job]] = {id: [] for id in ids}
            for job in await claimed(one, "b", "c"):
                assert job.step is not None
                pairs[job.step.flow].append(job)
            for left, right in pairs.values():
                ended = await asyncio.gather(one.finish(done([left])), other.finish(done([right])))
                assert ended == [{left.id}, {right.id}]
            assert [len(await steps_of(one, id)) for id in ids] == [4] * 200
            assert {(await row_of(one, id)).statuses for id in ids} == {"cccr"}

    async def test_batches_of_several_connections_that_meet_in_many_flows_end_each_step_once(self) -> None:
        async with self.opened() as one, self.opened() as other:
            ids = await begin_many(one, DIAMOND, 50)
            await one.finish(done(await claimed(one, "a"), '{"part":1}'))
            jobs = await claimed(one, "b", "c")
            random.Random(7).shuffle(jobs)
            halves = done(jobs[::2]), done(jobs[1::2])
            stands = await asyncio.gather(one.finish(halves[0]), other.finish(halves[1]))
            assert set.union(*stands) == {job.id for job in jobs}
            assert {(await row_of(one, id)).statuses for id in ids} == {"cccr"}

    async def test_finishes_cancels_and_retries_of_one_flow_do_not_deadlock(self) -> None:
        many = (a_step(f"s{n}", task="s" if n else "inner") for n in range(20))
        plan = Plan((*many, a_step("last", after=tuple(range(20)), on="end")))
        async with self.opened() as one, self.opened() as two, self.opened() as three, asyncio.timeout(60):
            (id,) = await begin_many(one, plan, 1)
            (inner,) = [job.id for job in await steps_of(one, id) if job.step and job.step.number == 0]
            await finish_run(
                one, await claim_job(one, inner, tasks=["inner"]), Suspend(chain("deep", "deeper")), now=NOW
            )
            chance = random.Random(3)

            async def work(store: Store) -> None:
                for _ in range(40):
                    jobs = (await claim(store, tasks=["s", "inner", "deep", "deeper", "last", "task"], limit=3)).jobs
                    ends = [Done("1"), Discard("no"), ValueError("no")]
                    outcomes = [decide(job, chance.choice(ends), now=NOW) for job in jobs]
                    await store.finish(outcomes)

            async def operate(store: Store, *actions: Action) -> None:
                for _ in range(40):
                    chosen = chance.sample([id, inner, *(job.id for job in await steps_of(store, id))], 5)
                    which = Filter(ids=tuple(chosen))
                    await store.change(chance.choice(actions), which, now=NOW, limit=9, reason="test")

            await beat(one)
            await asyncio.gather(work(one), work(two), operate(two, Action.CANCEL), operate(three, Action.RETRY))
            graph_row = await row_of(one, id)
            jobs = {job.step.number: job for job in await steps_of(one, id) if job.step}
            for n, status in enumerate(graph_row.statuses):
                if status == "r" and n in jobs:
                    assert not jobs[n].state.final, (n, jobs[n].state)


class TestTrouble(Served):
    @pytest.mark.parametrize("module", [completions, tables])
    async def test_a_finish_whose_connection_is_lost_is_repeated_and_moves_the_flow_once(
        self, module: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with self.opened() as store:
            (id,) = await begin_many(store, chain("a", "b"), 1)
            ends = done(await claimed(store, "a"))
            cut: list[str] = []

            def lose(name: str) -> None:
                if not cut:
                    cut.append(name)
                    self.server.run("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE application_name = 'mainspring' AND state = 'idle in transaction'""")

            monkeypatch.setattr(module, "failpoint", lose)
            with pytest.raises(StoreUnavailable):
                await store.finish(ends)
            assert cut == ["finish.mid_batch"]
            assert (await row_of(store, id)).statuses == "rw"
            assert [job.task for job in await steps_of(store, id)] == ["a"]
            assert await store.finish(ends) == {ends[0].id}
            assert await store.finish(ends) == {ends[0].id}
            row = await row_of(store, id)
            assert (row.statuses, row.revision) == ("cr", 2)
            assert [job.task for job in await steps_of(store, id)] == ["a", "b"]

    async def test_a_step_that_expires_beside_plain_jobs_and_those_of_schedules_ends_its_step(self) -> None:
        async with self.opened() as store:
            (id,) = await begin_many(store, Plan((a_step("a", options=StepOptions(expires=1.0)), a_step("b"))), 1)
            schedule = a_schedule("s")
            job = replace(tick_job(schedule, later(-60)), expires_at=later(1))
            await fire(store, replace(schedule, active=(job.id,)), jobs=(job,))
            (plain,) = await put(store, new_job(expires_at=later(1), metadata={"step": {"flow": id}}))
            await beat(store, until=later(60))
            expired = (await claim(store, tasks=["none"], now=later(2))).expired
            assert sorted(expired) == sorted([plain, job.id, (await step_job(store, id, 0)).id])
            assert (await row_of(store, id)).statuses == "dr"
            assert (await store.schedules(["s"], limit=1))[0].last_outcome == State.EXPIRED

    async def test_deleted_flows_leave_no_rows(self) -> None:
        async with self.opened() as store:
            ids = await begin_many(store, DIAMOND, 3)
            await store.finish(done(await claimed(store, "a"), '{"part":1}'))
            await act(store, Action.DELETE, *ids)
            assert await all_jobs(store) == []
            for table in ("flows", "plans", "steps", "jobs", "finished"):
                assert self.server.run(f"SELECT count(*) FROM fresh.mainspring_{table}") == [(0,)]


class TestWithin(Served):
    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.server.dsn)
        try:
            yield connection
        finally:
            await connection.close()

    async def test_a_flow_enqueued_within_a_transaction_begins_with_its_commit(self) -> None:
        async with self.opened() as store, self.connected() as mine:
            async with mine.transaction():
                job = new_job(plan=chain("a", "b"))
                await store.enqueue([job], now=NOW, within=mine)
                assert await flows_of(store).flows([job.id]) == []
            assert (await row_of(store, job.id)).statuses == "rw"
            await run_step(store, job.id, 0, Done("1"))
            assert (await row_of(store, job.id)).statuses == "cr"

    async def test_a_flow_enqueued_within_a_transaction_that_is_rolled_back_leaves_nothing(self) -> None:
        async with self.opened() as store, self.connected() as mine:
            transaction = mine.transaction()
            await transaction.start()
            await store.enqueue([new_job(plan=chain("a", "b"))], now=NOW, within=mine)
            await beat(store)  # does not wait for the caller
            await transaction.rollback()
            for table in ("flows", "plans", "steps", "jobs"):
                assert self.server.run(f"SELECT count(*) FROM fresh.mainspring_{table}") == [(0,)]

    async def test_a_step_that_ends_in_its_own_transaction_moves_the_flow_with_the_commit(self) -> None:
        async with self.opened() as store:
            (id,) = await begin_many(store, chain("a", "b"), 1)
            (job,) = await claimed(store, "a")
            async with store.transaction() as transaction:  # type: ignore[attr-defined]
                assert await transaction.holds(job.id, job.lease)
                assert (await row_of(store, id)).statuses == "rw"
                assert await transaction.commit(done([job])[0], [])
            assert (await row_of(store, id)).statuses == "cr"


class TestWrites(Placed):
    async def test_a_change_of_a_flow_writes_no_index(self) -> None:
        async with self.opened() as store:
            ids = await begin_many(store, Plan(tuple(a_step("a", task="a") for _ in range(9))), 3)
            for _ in range(9):
                await store.finish(done(await claimed(store, "a", limit=3)))
            assert {(await row_of(store, id)).state for id in ids} == {"over"}
        for _ in range(500):  # a connection counts what it wrote when it is closed
            counts = self.server.run("""SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
                WHERE schemaname = 'own' AND relname = 'mainspring_flows'""")
            if counts[0][0]:
                break
        updated, hot = counts[0]
        assert updated == hot >= 9


class TestReleases(Placed):
    """The release before flows, and this one, on the same tables."""

    async def test_both_releases_work_until_the_first_flow_is_stored(self) -> None:
        async with self.opened() as new, self.opened(migrations=BEFORE) as old:
            assert (await old.schema()).usable
            running = await start(old)
            assert await finish_run(old, running, Done(), now=NOW) == {running.id}
            await begin(new, chain("a"))
            with pytest.raises(SchemaMismatch):
                await beat(old)
            with pytest.raises(SchemaMismatch):
                await self.store(migrations=BEFORE).open()
            assert (await new.schema()).oldest == FLOWS_VERSION

    async def test_a_flow_waits_for_older_workers_to_stop(self) -> None:
        async with self.opened() as store:
            older = a_worker("old", schema=BEFORE.newest)
            await store.beat(older, until=later(60), now=NOW)
            job = await start(store)
            await store.finish([decide(job, Suspend(chain("a")), now=NOW)])
            (run,) = await store.executions(job.id)
            assert (run.ending, run.failure and run.failure.type) == (Ending.RELEASED, "OlderRelease")
            assert await flows_of(store).flows([job.id]) == []
            with pytest.raises(StoreUnavailable, match="older release"):
                await put(store, new_job(plan=chain("a")))
            assert (await store.schema()).oldest == REAL.oldest(REAL.newest)
            await store.beat(older, until=NOW, now=NOW)
            (id,) = await put(store, new_job(plan=chain("a")))
            assert (await read_job(store, id)).state is State.WAITING
            assert (await store.schema()).oldest == FLOWS_VERSION

    async def test_a_worker_without_a_release_or_with_an_undecodable_record_is_no_older_one(self) -> None:
        async with self.opened() as store:
            await store.beat(a_worker("none", schema=0), until=later(60), now=NOW)
            self.server.run("INSERT INTO own.mainspring_workers VALUES ('broken', 9000000000000000, '{')")
            await begin(store, chain("a"))

    async def test_migration_below_flows_is_refused_while_flows_are_stored(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            for target in (LAST.newest, BEFORE.newest):
                reason = f"1 flows are stored, which schema {target} cannot keep: delete their jobs first"
                with pytest.raises(StoreUnavailable, match=reason):
                    await store.migrate(target)
            await act(store, Action.DELETE, id)
            assert await store.migrate(BEFORE.newest) == list(range(REAL.newest - 1, BEFORE.newest - 1, -1))
            assert (await store.schema()).oldest == BEFORE.oldest(BEFORE.newest)

    async def test_flows_of_the_release_before_go_on_beside_it_until_this_one_stores_a_flow(self) -> None:
        async with self.opened() as new, self.opened(migrations=LAST) as old:
            id = await begin(old, chain("a"))
            await new.migrate(FLOWS_VERSION)
            # As that one had it. From there on the tables are the same.
            self.server.run(f"UPDATE own.mainspring_schema SET version = {LAST.newest}, oldest = {LAST.newest}")
            await new.migrate()
            assert (await new.schema()).oldest == LAST.newest
            await beat(old)
            await run_step(new, id, 0, Done())
            assert (await row_of(new, id)).state == "over"
            await old.beat(a_worker("old", schema=LAST.newest), until=later(60), now=NOW)
            with pytest.raises(StoreUnavailable, match="older release"):
                await put(new, new_job(plan=chain("a")))

    async def test_later_migrations_keep_older_releases_out_while_flows_are_stored(self) -> None:
        async with self.opened() as store:
            id = await begin(store, chain("a"))
            async with self.opened(migrations=FOR_ALL) as new:
                assert await new.schema() == Schema(FOR_ALL.newest, FOR_ALL.newest, FLOWS_VERSION)
                await act(new, Action.DELETE, id)
                await new.migrate(REAL.newest)
            assert (await store.schema()).oldest == REAL.oldest(REAL.newest) < FLOWS_VERSION
