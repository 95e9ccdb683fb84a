"""Daily partitions of the PostgreSQL store: created ahead, and dropped whole when their jobs are prunable."""

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from kept import Kept
from msgspec.structs import replace
from test_postgres import Served

from mainspring import Archived, Mainspring
from mainspring.clock import EPOCH, SystemClock
from mainspring.events import JobsPruned
from mainspring.ids import JobId, new_id
from mainspring.records.job import Action, NewJob, State
from mainspring.records.outcome import Discard, Done, decide
from mainspring.records.plan import Plan
from mainspring.records.step import MAX_POSITION
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres import enqueue, partition_pruning, pruning
from mainspring.stores.postgres.completions import COMPLETE_ALL
from mainspring.stores.postgres.partitions import DAY, DAYS_AHEAD, DayPartition
from mainspring.stores.postgres.pool import SEPARATOR, SETTINGS
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.task.retention import Rules
from mainspring.testing import VirtualClock
from mainspring.testing.contract import StoreContract
from mainspring.testing.contract.build import (
    NOW,
    a_line,
    act,
    all_jobs,
    beat,
    claim,
    claim_job,
    finish_run,
    job_in_state,
    new_job,
    put,
    send_report,
    start,
)
from mainspring.testing.contract.checkpoint import CheckpointContract
from mainspring.testing.contract.flow import FlowContract, a_step, chain, flows_of
from mainspring.testing.contract.flow_actions import FlowActionsContract
from mainspring.testing.contract.flow_requests import FlowRequestsContract
from mainspring.testing.contract.signal import SignalContract
from servers import Postgres

TODAY = DayPartition(NOW.date())
COMPLETED, DEAD = State.COMPLETED, State.DEAD
LONG_AGO = NOW - 100 * DAY


class Then(SystemClock):
    """Real, but set to the contract's instant."""

    def __init__(self, at: datetime = NOW) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


class Dated(Served):
    """In their own schema, so that elsewhere the same jobs are in the default partition."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh("dated")
        days = [f"dated.mainspring_finished_{name}" for name in self.parts() if name != "rest"]
        if days:
            postgres.run(f"DROP TABLE {', '.join(days)}")

    def make_store(self, at: datetime = NOW) -> Store:
        return open_store(self.url, clock=Then(at))

    @asynccontextmanager
    async def opened(self, at: datetime = NOW) -> AsyncIterator[Store]:
        store = self.make_store(at)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    def parts(self) -> list[str]:
        """The daily partitions, and the other partitions of the history."""
        sql = """SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
            WHERE inhparent = to_regclass('dated.mainspring_finished') ORDER BY 1"""
        return [name.removeprefix("mainspring_finished_") for (name,) in self.server.run(sql)]

    def lies_in(self, *ids: str) -> list[str]:
        sql = "SELECT id, tableoid::regclass::text FROM dated.mainspring_finished"
        places = {id: place.removeprefix("dated.mainspring_finished_") for id, place in self.server.run(sql)}
        return [places[id] for id in ids]


def names(days: Iterable[DayPartition]) -> list[str]:
    return [f"{day.date:%Y%m%d}" for day in days]


def following(first: DayPartition, count: int) -> list[DayPartition]:
    return [DayPartition(first.date + n * DAY) for n in range(count)]


def an_id(at: datetime, n: int) -> str:
    """new_id() never goes back in time."""
    ms = int(at.timestamp() * 1000)
    return f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7000-8000-{n:012x}"


class TestPostgresByDay(
    Kept,
    Served,
    StoreContract,
    CheckpointContract,
    FlowContract,
    FlowActionsContract,
    FlowRequestsContract,
    SignalContract,
):
    """All of the contract's jobs are of one day, as they are in use, and a handle serves many tests."""

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh("by_day")

    def make_store(self) -> Store:
        return open_store(self.url, clock=Then())


@pytest.fixture(autouse=True)
def _ids_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are never older than the newest one of the process, and a test before these may have been at a later time."""
    monkeypatch.setattr("mainspring.ids._last", 0)


@pytest.mark.parametrize("day", [TODAY, DayPartition((NOW - 9999 * DAY).date())])
def test_partition_bounds_contain_the_ids_of_its_day(day: DayPartition) -> None:
    begin, instant = day.end - DAY, timedelta(milliseconds=1)
    assert day.low <= an_id(begin, 0) <= an_id(day.end - instant, 999) < day.high
    assert an_id(begin - instant, 999) < day.low < day.high <= an_id(day.end, 0)
    assert day.high == DayPartition(day.end.date()).low


def test_ids_begin_with_their_milliseconds() -> None:
    assert TODAY.low <= new_id(NOW) < TODAY.high


class TestDays(Dated):
    async def test_open_creates_the_partitions_of_today_and_the_next_days(self) -> None:
        async with self.opened():
            assert self.parts() == [*names(following(TODAY, DAYS_AHEAD + 1)), "rest"]
        async with self.opened(NOW + DAY):
            assert self.parts() == [*names(following(TODAY, DAYS_AHEAD + 2)), "rest"]

    async def test_finished_job_is_in_the_partition_of_its_creation(self) -> None:
        async with self.opened() as store:
            done = await job_in_state(store, COMPLETED)
            (late,) = await put(store, new_job(id=an_id(NOW + 3 * DAY, 1)))
            await finish_run(store, await claim_job(store, late), Done())
            days = following(TODAY, 4)
            assert self.lies_in(done.id, late) == names([days[0], days[3]])

    async def test_job_outside_all_days_is_in_the_default_partition(self) -> None:
        async with self.opened() as store:
            ids = await put(store, *(new_job(id=id) for id in (an_id(LONG_AGO, 1), an_id(NOW + 99 * DAY, 1), "zzz")))
            await beat(store)
            for job in (await claim(store)).jobs:
                await finish_run(store, job, Done())
            assert self.lies_in(*ids) == ["rest"] * 3
            assert [job.state for job in await all_jobs(store)] == [COMPLETED] * 3

    async def test_beat_creates_one_missing_partition_at_a_time(self) -> None:
        async with self.opened() as store:
            before = self.parts()
            await beat(store, now=NOW + timedelta(hours=2))
            assert self.parts() == before
            for made in (1, 2, 2):
                await beat(store, now=NOW + 2 * DAY)
                assert self.parts() == [*names(following(TODAY, DAYS_AHEAD + 1 + made)), "rest"]

    async def test_partition_is_not_created_if_the_default_one_has_its_rows(self) -> None:
        async with self.opened(NOW + DAYS_AHEAD * DAY) as store:
            done = await job_in_state(store, COMPLETED)
        async with self.opened():
            assert self.parts() == [*names(following(TODAY, 2 * DAYS_AHEAD + 1)[1:]), "rest"]
            assert self.lies_in(done.id) == ["rest"]

    async def test_concurrent_opens_create_each_partition_once(self) -> None:
        async with self.opened(LONG_AGO):
            stores = [self.make_store() for _ in range(6)]
            await asyncio.gather(*(store.open() for store in stores))
            assert set(names(following(TODAY, 1))) <= set(self.parts())
            await asyncio.gather(*(store.close() for store in stores))

    async def test_store_opens_without_partitions_while_the_default_one_is_locked(self) -> None:
        async with self.opened(LONG_AGO), self.connected() as other, other.transaction():
            before = self.parts()
            await other.fetch("SELECT 1 FROM dated.mainspring_finished_rest")
            began = time.perf_counter()
            async with self.opened() as store:
                assert time.perf_counter() - began < 5
                assert self.parts() == before
                assert self.lies_in((await job_in_state(store, COMPLETED)).id) == ["rest"]

    async def test_role_without_create_rights_uses_existing_partitions(self) -> None:
        async with self.opened(LONG_AGO):
            before = self.parts()
        self.server.run("DROP ROLE IF EXISTS reader")
        self.server.run("CREATE ROLE reader LOGIN")
        self.server.run("GRANT USAGE ON SCHEMA dated TO reader")
        self.server.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dated TO reader")
        try:
            store = open_store(self.url.replace("tests@", "reader@"), clock=Then())
            await store.open()
            done = await job_in_state(store, COMPLETED)
            assert (self.parts(), self.lies_in(done.id)) == (before, ["rest"])
            assert await pruned_in_bulk(store, {(COMPLETED, "task"): (0, NOW)}, now=NOW) == 0
            assert self.parts() == before
            await store.close()
        finally:
            self.server.run("DROP OWNED BY reader")
            self.server.run("DROP ROLE reader")

    async def test_doctor_sums_the_sizes_of_all_partitions(self) -> None:
        async with self.opened() as store:
            (tables,) = [finding.text for finding in await store.diagnose() if finding.about == "tables"]
            assert not tables.endswith(" 0 B")


class TestSteps(Dated):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> Iterator[None]:
        self.server, self.url = postgres, postgres.own("dated")
        yield
        postgres.own("dated")

    def indexes(self) -> list[str]:
        sql = """SELECT indexdef FROM pg_indexes
            WHERE schemaname = 'dated' AND tablename = 'mainspring_finished' ORDER BY indexname"""
        return [text.replace(" ONLY ", " ") for (text,) in self.server.run(sql)]

    async def test_rows_of_all_partitions_survive_migration_down_and_up(self) -> None:
        async with self.opened() as store:
            for state in (COMPLETED, DEAD, State.CANCELLED):
                await job_in_state(store, state, tags=("x",), idempotency_key=f"key {state}", metadata={"é": 1})
            await put(store, new_job(id=an_id(NOW + 3 * DAY, 1)), new_job(id="zzz"))
            await beat(store)
            for job in (await claim(store)).jobs:
                await finish_run(store, job, Done('"x"'))
            self.server.run("ALTER TABLE dated.mainspring_finished_20300103 RENAME TO whatever")
            jobs = await all_jobs(store)
            runs = [await store.executions(job.id) for job in jobs]
            newest = (await store.schema()).newest
            for _ in range(2):
                assert await store.migrate(1) == list(range(newest - 1, 0, -1))
                assert await all_jobs(store) == jobs
                assert await store.migrate() == list(range(2, newest + 1))
                assert await all_jobs(store) == jobs
                assert [await store.executions(job.id) for job in jobs] == runs
            assert self.lies_in(*(job.id for job in jobs)) == ["rest"] * 5

    async def test_migration_down_restores_the_first_schema(self) -> None:
        async with self.opened() as store:
            await store.migrate(0)
            await store.migrate(1)
            before = self.indexes()
            await store.migrate()
            later = [sql for sql in self.indexes() if "mainspring_finished_ended" not in sql]
            assert (len(later), len(self.indexes())) == (len(before) - 1, len(before))
            await store.migrate(1)
            assert self.indexes() == before

    async def test_database_of_the_first_schema_gets_partitions_when_opened(self) -> None:
        async with self.opened(LONG_AGO) as store:
            done = await job_in_state(store, COMPLETED)
            await store.migrate(1)
        async with self.opened(NOW + DAY) as store:
            assert self.parts() == [*names(following(DayPartition((NOW + DAY).date()), DAYS_AHEAD + 1)), "rest"]
            assert await all_jobs(store) == [done]


async def ended(store: Store, jobs: Sequence[NewJob], at: datetime, *, dead: bool = False) -> None:
    """Jobs that were enqueued, claimed and ended at one instant; all have log lines, and the dead ones a failed run."""
    await store.enqueue(jobs, now=at)
    await beat(store, until=at + DAY, now=at)
    tasks = {job.task for job in jobs}
    runs = (await claim(store, tasks=tasks, limit=len(jobs), now=at)).jobs
    for run in runs:
        await send_report(store, run, a_line(1))
    await store.finish([decide(run, Discard() if dead else Done(), now=at) for run in runs])


def some(at: datetime, count: int, first: int = 0, **fields: Any) -> list[NewJob]:
    return [new_job(id=an_id(at, first + n), **fields) for n in range(count)]


async def remains(store: Store) -> list[Any]:
    """Every job with its runs and log lines, without values that each store generates."""
    found = []
    for job in await all_jobs(store):
        runs = [(run.number, run.ending, run.finished_at) for run in await store.executions(job.id)]
        found.append((job.id, job.state, job.finished_at, job.runs, runs, await store.logs(job.id, limit=99)))
    return found


async def pruned_in_bulk(store: Store, rules: Rules, *, now: datetime) -> int:
    return (await store.prune(rules, audited_since=EPOCH, now=now)).jobs


async def prune(store: Store, rules: Rules) -> int:
    """Row by row, as the pruner does."""
    gone = 0
    for (state, task), (keep, before) in rules.items():
        while old := await store.prunable(state, task, keep=keep, before=before, limit=50):
            gone += len((await act(store, Action.DELETE, *(job.id for job in old))).done)
    return gone


EVERYTHING: Rules = {(state, "task"): (0, NOW - DAY) for state in State if state.final}
THEN = NOW - 40 * DAY
OLDEST = DayPartition(THEN.date())


class TestForgetting(Dated):
    """On a store that was opened long ago, and has the days of that time."""

    async def test_pruned_partition_is_dropped_with_runs_and_log_lines(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 5), THEN)
            await ended(store, some(THEN, 3, 5), THEN, dead=True)
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 8
            assert names([OLDEST])[0] not in self.parts()
            assert await all_jobs(store) == await store.finished_groups() == []
            for table in ("executions", "logs"):
                assert self.server.run(f"SELECT 1 FROM dated.mainspring_{table}") == []

    async def test_newest_jobs_to_keep_stay_with_runs_and_log_lines(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 6), THEN, dead=True)
            before = await remains(store)
            assert await pruned_in_bulk(store, {(DEAD, "task"): (2, NOW)}, now=NOW) == 4
            assert await remains(store) == before[4:]
            assert self.lies_in(*(row[0] for row in before[4:])) == ["rest"] * 2
            assert names([OLDEST])[0] not in self.parts()

    async def test_jobs_to_keep_are_counted_over_all_partitions(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 3), THEN)
            await ended(store, some(THEN + DAY, 2, 3), THEN + DAY)
            before = await remains(store)
            assert await pruned_in_bulk(store, {(COMPLETED, "task"): (3, NOW)}, now=NOW) == 2
            assert await remains(store) == before[2:]

    async def test_jobs_that_finished_after_the_limit_stay(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 2), THEN)
            await ended(store, some(THEN, 2, 2), NOW - timedelta(hours=1))
            before = await remains(store)
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 2
            assert await remains(store) == before[2:]

    async def test_jobs_without_a_retention_rule_stay(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 2), THEN)
            await ended(store, some(THEN, 2, 2, task="other"), THEN)
            await ended(store, some(THEN, 2, 4), THEN, dead=True)
            before = await remains(store)
            assert await pruned_in_bulk(store, {(COMPLETED, "task"): (0, NOW)}, now=NOW) == 2
            assert await remains(store) == before[2:]

    async def test_unfinished_jobs_keep_their_runs_and_log_lines(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 3), THEN, dead=True)
            await act(store, Action.RETRY, an_id(THEN, 1))
            _, retried, _ = await remains(store)
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 2
            assert await remains(store) == [retried]
            assert len(retried[4]) == len(retried[5]) == 1

    async def test_partition_with_many_jobs_to_keep_is_not_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mainspring.stores.postgres.partition_pruning.MAX_ROWS_MOVED", 2)
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 6), THEN)
            before = await remains(store)
            assert await pruned_in_bulk(store, {(COMPLETED, "task"): (3, NOW)}, now=NOW) == 0
            assert (await remains(store), self.lies_in(before[0][0])) == (before, names([OLDEST]))
            assert await pruned_in_bulk(store, {(COMPLETED, "task"): (2, NOW)}, now=NOW) == 4

    async def test_partition_with_recent_jobs_is_not_dropped(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 2), THEN)
            assert await pruned_in_bulk(store, {(COMPLETED, "task"): (0, OLDEST.end - DAY / 4)}, now=THEN + DAY) == 0
            assert names([OLDEST])[0] in self.parts()
            assert await pruned_in_bulk(store, {(COMPLETED, "task"): (0, OLDEST.end)}, now=THEN + DAY) == 2

    async def test_old_empty_partitions_are_dropped(self) -> None:
        async with self.opened(THEN) as store:
            assert await pruned_in_bulk(store, {}, now=OLDEST.end + 29 * DAY) == 0
            assert names([OLDEST])[0] in self.parts()
            assert await pruned_in_bulk(store, {}, now=OLDEST.end + 31 * DAY) == 0
            assert self.parts() == [*names(following(OLDEST, DAYS_AHEAD + 1)[2:]), "rest"]

    async def test_default_partition_is_not_dropped(self) -> None:
        async with self.opened(NOW) as store:
            await ended(store, some(THEN, 2), THEN)
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 0
            assert await prune(store, EVERYTHING) == 2

    async def test_idempotency_key_is_free_after_its_partition_is_dropped(self) -> None:
        async with self.opened(THEN) as store:
            await ended(store, some(THEN, 1, idempotency_key="key"), THEN)
            (known,) = await put(store, new_job(idempotency_key="key"))
            assert known == an_id(THEN, 0)
            await pruned_in_bulk(store, EVERYTHING, now=NOW)
            (fresh,) = await put(store, new_job(idempotency_key="key"))
            assert fresh != known

    # The first three draw different limits of rows to move.
    @pytest.mark.parametrize("seed", [0, 1, 5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
    async def test_dropping_partitions_leaves_the_same_jobs_as_deleting_rows(
        self, seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        draw = random.Random(seed)
        monkeypatch.setattr("mainspring.stores.postgres.partition_pruning.MAX_ROWS_MOVED", draw.choice([0, 3, 1000]))
        rules = {
            (state, task): (draw.choice([0, 0, 1, 3, 9]), THEN + draw.uniform(0, 9) * DAY)
            for state in (COMPLETED, DEAD) for task in ("a", "b", "c") if draw.random() < 0.8
        }  # fmt: skip
        twin = open_store("memory://")
        await twin.open()
        async with self.opened(THEN) as store:
            for n in range(12):
                created = THEN + draw.randrange(9) * DAY
                jobs = some(created, draw.randrange(1, 6), 10 * n, task=draw.choice("abc"))
                end, dead = created + draw.choice([0, 0, 0.4, 3, 8]) * DAY, draw.random() < 0.4
                retried = [job.id for job in jobs if dead and draw.random() < 0.2]
                for one in (store, twin):
                    await ended(one, jobs, end, dead=dead)
                    await act(one, Action.RETRY, *retried)
            assert await remains(store) == await remains(twin)
            gone = await pruned_in_bulk(store, rules, now=NOW)
            assert gone + await prune(store, rules) == await prune(twin, rules)
            assert await remains(store) == await remains(twin)
            assert await store.finished_groups() == await twin.finished_groups()
        await twin.close()


class TestFlowsOfPastDays(Dated):
    """A flow that ended long ago, with its steps; ids as if they had been made then."""

    async def flow(self, store: Store, n: int) -> tuple[JobId, JobId]:
        """A flow of one step, both completed, and its step."""
        (new,) = some(THEN, 1, n, plan=Plan((a_step("a", task="task"),)), task="task")
        await store.enqueue([new], now=THEN)
        await beat(store, until=THEN + DAY, now=THEN)
        for _ in range(2):
            (run,) = (await claim(store, now=THEN)).jobs
            concludes = 2 if run.id == new.id else None
            await store.finish([replace(decide(run, Done(), now=THEN), concludes=concludes)])
        (step,) = await flows_of(store).step_jobs(new.id, first=0, last=MAX_POSITION, limit=9)
        return new.id, step.id

    def counts(self) -> list[int]:
        tables = ("flows", "plans", "steps")
        return [self.server.run(f"SELECT count(*) FROM dated.mainspring_{table}")[0][0] for table in tables]

    async def test_partition_is_dropped_without_flows_and_their_steps(self) -> None:
        async with self.opened(THEN) as store:
            flow, step = await self.flow(store, 0)
            await ended(store, some(THEN, 5, 10), THEN)
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 5
            assert names([OLDEST])[0] not in self.parts()
            assert self.lies_in(flow, step) == ["rest"] * 2
            assert [job.id for job in await all_jobs(store)] == sorted([flow, step])
            assert self.counts() == [1, 1, 1]
            assert await prune(store, EVERYTHING) == 1  # the step goes with its flow
            assert await all_jobs(store) == []
            assert self.counts() == [0, 0, 0]

    async def test_steps_of_an_unfinished_flow_stay(self) -> None:
        async with self.opened(THEN) as store:
            (new,) = some(THEN, 1, 90, plan=chain("task", "other"))  # ids of flows are not used again
            await store.enqueue([new], now=THEN)
            await beat(store, until=THEN + DAY, now=THEN)
            (run,) = (await claim(store, now=THEN)).jobs
            await store.finish([decide(run, Done("1"), now=THEN)])
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == await prune(store, EVERYTHING) == 0
            assert len(await flows_of(store).step_jobs(new.id, first=0, last=MAX_POSITION, limit=9)) == 2

    async def test_steps_of_a_deleted_flow_are_dropped_with_their_rows(self) -> None:
        async with self.opened(THEN) as store:
            await self.flow(store, 0)
            for table in ("flows", "plans"):
                self.server.run(f"DELETE FROM dated.mainspring_{table}")
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 2
            assert await all_jobs(store) == []
            assert self.counts() == [0, 0, 0]

    async def test_partition_with_many_flows_is_pruned_row_by_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(partition_pruning, "MAX_ROWS_MOVED", 3)
        async with self.opened(THEN) as store:
            for n in range(2):
                await self.flow(store, n)
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 0
            assert await prune(store, EVERYTHING) == 2
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 0
            assert names([OLDEST])[0] not in self.parts()


class TestForgettingBesideWork(Dated):
    async def test_reader_prevents_a_drop_and_blocks_finishes_only_briefly(self) -> None:
        async with self.opened(THEN) as store, self.connected() as other, asyncio.timeout(20):
            await ended(store, some(THEN, 4), THEN)
            run = await start(store)
            async with other.transaction():
                await other.fetch("SELECT 1 FROM dated.mainspring_finished")
                pruning = asyncio.create_task(pruned_in_bulk(store, EVERYTHING, now=NOW))
                began = time.perf_counter()
                await asyncio.wait([pruning], timeout=0.2)
                assert await finish_run(store, run, Done()) == {run.id}
                assert await pruning == 0
                assert time.perf_counter() - began < 2
                assert len(await all_jobs(store)) == 5
            assert (
                await pruned_in_bulk(store, EVERYTHING, now=NOW) == 0
            )  # a drop that failed is not tried again at once
            assert await pruned_in_bulk(store, EVERYTHING, now=NOW + timedelta(minutes=11)) == 4

    async def test_writer_prevents_the_drop_of_its_partition(self) -> None:
        async with self.opened(THEN) as store, self.connected() as other, asyncio.timeout(20):
            await ended(store, some(THEN, 4), THEN)
            async with other.transaction():
                await other.execute("UPDATE dated.mainspring_finished SET result = 'x'")
                assert await pruned_in_bulk(store, EVERYTHING, now=NOW) == 0
            assert len(await all_jobs(store)) == 4

    async def test_concurrent_pruning_counts_each_job_once(self) -> None:
        async with self.opened(THEN) as left, self.opened(THEN) as right:
            for n in range(3):
                await ended(left, some(THEN + n * DAY, 4), THEN + n * DAY)
            gone = await asyncio.gather(
                pruned_in_bulk(left, EVERYTHING, now=NOW), pruned_in_bulk(right, EVERYTHING, now=NOW)
            )
            assert sum(gone) == 12
            assert await all_jobs(left) == []

    async def test_jobs_finish_and_are_retried_while_partitions_are_dropped(self) -> None:
        async with self.opened(THEN) as store, self.opened(THEN) as other, asyncio.timeout(60):
            for n in range(6):
                await ended(store, some(THEN + n * DAY, 10), THEN + n * DAY, dead=True)
            await put(store, *(new_job(id=an_id(THEN + n * DAY, 99)) for n in range(6)))
            await beat(store)
            runs = (await claim(store)).jobs
            ends = [finish_run(other, run, Done(), now=NOW) for run in runs]
            retries = [act(other, Action.RETRY, an_id(THEN + n * DAY, 5)) for n in range(6)]
            gone, *_ = await asyncio.gather(pruned_in_bulk(store, EVERYTHING, now=NOW), *ends, *retries)
            later = await pruned_in_bulk(store, EVERYTHING, now=NOW + timedelta(minutes=11))
            jobs = await all_jobs(store)
            assert {run.id for run in runs} <= {job.id for job in jobs if job.state is COMPLETED}
            assert gone + later + len(jobs) == 66
            for job in jobs:
                assert len(await store.executions(job.id)) == 1


class TestPruner(Dated):
    @asynccontextmanager
    async def app(self) -> AsyncIterator[Mainspring]:
        """An app with forty jobs that ended long ago; two of them are to be kept."""
        clock = VirtualClock(THEN)
        app = Mainspring(self.url, clock=clock, history_keep=2, history_days=1)

        async with app:
            await ended(await app.connect(), some(THEN, 40), THEN)
            clock.advance(days=40)
            yield app

    async def test_pruner_drops_partitions(self) -> None:
        async with self.app() as app:
            assert await app.prune() == 38
            assert self.lies_in(*(job.id for job in await app.jobs.list())) == ["rest"] * 2
            assert names([OLDEST])[0] not in self.parts()

    async def test_pruner_publishes_an_event_for_each_job_if_subscribed(self) -> None:
        async with self.app() as app:
            told: list[str] = []
            app.events.subscribe(JobsPruned, lambda event: told.extend(event.ids))
            assert await app.prune() == len(told) == 38

    async def test_pruner_archives_each_job(self) -> None:
        async with self.app() as app:
            kept: list[Archived] = []
            app.archive(kept.extend)
            assert await app.prune() == len(kept) == 38
            assert {len(one.lines) for one in kept} == {1}

    async def test_partitions_are_dropped_after_archiving(self) -> None:
        async with self.app() as app:
            app.archive(lambda leaving: None)
            assert await app.prune() == 38
            assert await app.prune() == 0
            assert names([OLDEST])[0] not in self.parts()
            assert len(await app.jobs.list()) == 2


NEWEST = "SELECT id FROM mainspring_finished ORDER BY id DESC LIMIT 50"


class TestPlans(Dated):
    """With the partitions of a month, on tables without statistics."""

    @asynccontextmanager
    async def explained(self) -> AsyncIterator[Callable[..., Awaitable[str]]]:
        place = PostgresUrl(self.url, "")
        for n in range(4):
            async with self.opened(NOW - n * (DAYS_AHEAD + 1) * DAY) as store:
                await ended(store, some(NOW - n * (DAYS_AHEAD + 1) * DAY, 20, 100 * n, tags=("x",)), NOW)
        async with self.connected(**SETTINGS) as connection:

            async def explain(sql: str, *values: Any) -> str:
                return "\n".join(line for (line,) in await connection.fetch(f"EXPLAIN {place.sql(sql)}", *values))

            yield explain

    def parts_in(self, plan: str) -> set[str]:
        return set(re.findall(r"on mainspring_finished_(\d{8}|rest)\b", plan))

    async def test_lookup_by_id_searches_one_partition(self) -> None:
        async with self.explained() as explain:
            ids = [job.id for job in some(NOW, 50)]
            columns: list[Any] = [["x"] * 50, ["x"] * 50, ["0"] * 50, ["1"] * 50, *[[None] * 50] * 3, ["{}"] * 50]
            assert len(self.parts()) == 4 * (DAYS_AHEAD + 1) + 1
            today = set(names([TODAY]))
            assert self.parts_in(await explain(enqueue._INSERT, ids, *columns, ["{}"] * 50, 1)) == today
            assert self.parts_in(await explain(enqueue._FINISHED_IDS, ids[0], ids[-1])) == today
            by_id = "SELECT * FROM mainspring_finished WHERE id = ANY($1) ORDER BY id LIMIT 9"
            assert self.parts_in(await explain(by_id, ids)) == today
            columns = [SEPARATOR.join(column) for column in (sorted(ids), ["0"] * 50, ["x"] * 50)]
            done = await explain(COMPLETE_ALL, *columns[:2], [], [], [], [], "ada", [], columns[2], None)
            assert self.parts_in(done) == set()

    async def test_lookups_in_all_partitions_use_their_indexes(self) -> None:
        async with self.explained() as explain:
            for sql, values in (
                (pruning._GROUPS, ()),
                (pruning._SURPLUS, ("completed", "task", 10**15, 3, 200)),
                (NEWEST, ()),
                ("SELECT id FROM mainspring_finished WHERE tags @> $1 LIMIT 50", (["x"],)),
            ):
                plan = await explain(sql, *values)
                assert "Seq Scan" not in plan
                assert len(self.parts_in(plan)) == len(self.parts())

    async def test_a_list_in_order_of_id_reads_no_more_than_its_page(self) -> None:
        async with self.explained() as explain:
            plan = await explain(NEWEST)
            assert plan.splitlines()[1].strip().startswith("->  Merge Append")
            assert "Sort  " not in plan
