"""Many schedules at once on PostgreSQL: the number of statements, the order of locks, the plans."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from mainspring.records.job import Action, State
from mainspring.records.outcome import Discard, Done, decide
from mainspring.records.query import Filter
from mainspring.schedule.record import MAX_KEPT_TICKS, Firing, Schedule
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres import fire
from mainspring.stores.postgres import schedules as series
from mainspring.stores.postgres.pool import SETTINGS, Session
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import (
    NOW,
    Contract,
    a_schedule,
    a_tick,
    beat,
    claim,
    later,
    new_job,
    next_revision,
    put,
    tick_job,
)
from servers import Postgres

SMALL_BATCH, LARGE_BATCH = 10, 500


class Served(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every statement that a store sends meanwhile; one that is sent for each row of a batch counts for each."""
    sent: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("rows", "row", "value", "run"):
            patch.setattr(Session, name, _noting(getattr(Session, name), sent))

        async def many(self: Session, sql: str, rows: Any, known: Any = Session.many) -> None:
            batch = list(rows)
            sent.extend([sql] * len(batch))
            await known(self, sql, batch)

        patch.setattr(Session, "many", many)
        yield sent
    sent[:] = [sql for sql in sent if "pg_notify" not in sql]  # notifications are sent now and then, whatever was fired


def _noting(known: Any, sent: list[str]) -> Any:
    async def noting(self: Session, sql: str, *values: Any) -> Any:
        sent.append(sql)
        return await known(self, sql, *values)

    return noting


def named(kind: str, size: int) -> list[str]:
    return [f"{kind}-{n:03}" for n in range(size)]


async def made(store: Store, names: list[str], **fields: Any) -> list[Schedule]:
    rows = [a_schedule(name, **fields) for name in names]
    assert all(done.stands for done in await store.fire([Firing(schedule=row) for row in rows], now=NOW))
    return rows


async def running(store: Store, names: list[str], **fields: Any) -> list[Any]:
    """A running job of each of these schedules."""
    rows = [a_schedule(name, **fields) for name in names]
    jobs = [tick_job(row, later(-60)) for row in rows]
    firings = [
        Firing(schedule=replace(row, active=(job.id,)), jobs=(job,)) for row, job in zip(rows, jobs, strict=True)
    ]
    assert all(done.stands for done in await store.fire(firings, now=NOW))
    await beat(store)
    return (await claim(store, limit=len(jobs))).jobs


class TestFiringStatements(Served):
    async def mixed(self, store: Store, size: int) -> list[Firing]:
        """Firings of every kind, `size` of each."""
        firings: list[Firing] = []
        stopping = await running(store, named("stopping", size))
        known = {row.name: row for row in await store.schedules(limit=size)}
        firings += [Firing(schedule=next_revision(known[job.schedule]), cancel=(job.id,)) for job in stopping]
        for row in await made(store, named("plain", size)):
            firings.append(Firing(schedule=next_revision(row), jobs=(tick_job(row),), ticks=(a_tick(),)))
        for row in await made(store, named("full", size), ticks=MAX_KEPT_TICKS):
            firings.append(Firing(schedule=next_revision(row), ticks=(a_tick(MAX_KEPT_TICKS + 1),)))
        held, lapsed = await made(store, named("held", size)), await made(store, named("lapsed", size))
        await put(store, *(tick_job(row) for row in held), *(tick_job(row, expires_at=later(1)) for row in lapsed))
        firings += [Firing(schedule=next_revision(row), jobs=(tick_job(row),)) for row in (*held, *lapsed)]
        for row in await made(store, named("reading", size), spec={"depends_on": ("plain-000",)}):
            firings.append(Firing(schedule=next_revision(row), jobs=(tick_job(row),), reads=(("plain-000", 2),)))
        cancelling = await made(store, named("cancelling", size))
        waiting = await put(store, *(tick_job(row, later(-9)) for row in cancelling))
        for row, old in zip(cancelling, waiting, strict=True):
            firings.append(Firing(schedule=next_revision(row, active=(old,)), jobs=(tick_job(row),), cancel=(old,)))
        return firings

    async def count(self, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
        async with self.opened() as store:
            firings = await self.mixed(store, size)
            with statements(monkeypatch) as sent:
                done = await store.fire(firings, now=later(5))
            stood = [
                firing.schedule.name.split("-")[0] for firing, one in zip(firings, done, strict=True) if one.stands
            ]
            assert len(stood) == 6 * size
            assert "held" not in stood
            gone = await store.jobs(Filter(states=("cancelled", "expired")), now=later(5), limit=9999)
            assert len(gone) == 2 * size
        return len(sent)

    async def test_the_number_of_statements_does_not_grow_with_the_firings(
        self, monkeypatch: pytest.MonkeyPatch, postgres: Postgres
    ) -> None:
        few = await self.count(SMALL_BATCH, monkeypatch)
        self.url = postgres.fresh()
        assert few == await self.count(LARGE_BATCH, monkeypatch) <= 25

    async def test_firings_without_cancels_take_ten_statements(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with self.opened() as store:
            rows = await made(store, named("plain", LARGE_BATCH))
            firings = [Firing(schedule=next_revision(row), jobs=(tick_job(row),), ticks=(a_tick(),)) for row in rows]
            with statements(monkeypatch) as sent:
                assert all(done.stands for done in await store.fire(firings, now=NOW))
            assert len(sent) <= 10

    async def test_a_batch_of_stale_firings_writes_nothing_and_passes_no_failpoint(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        passed: list[str] = []
        async with self.opened() as store:
            (row,) = await made(store, ["plain"])
            monkeypatch.setattr(fire, "failpoint", passed.append)
            for stands in (True, False):  # the second is planned on the revision that the first has replaced
                (done,) = await store.fire([Firing(schedule=next_revision(row))], now=NOW)
                assert done.stands is stands
        assert passed == ["fire.mid_step", "fire.after_commit"]


class TestFinishStatements(Served):
    async def count(self, size: int, monkeypatch: pytest.MonkeyPatch) -> int:
        """Jobs that completed, and dead jobs that a schedule waited for, in one batch."""
        async with self.opened() as store:
            jobs = await running(store, named("s", size))
            waiting = [
                a_schedule(name, spec={"depends_on": (on,)}, held_at=NOW, waits_on=on, due_at=None)
                for name, on in zip(named("waiting", size), named("s", size), strict=True)
            ]
            await store.fire([Firing(schedule=row) for row in waiting], now=NOW)
            outcomes = [decide(job, Discard() if n % 2 else Done(), now=NOW) for n, job in enumerate(jobs)]
            with statements(monkeypatch) as sent:
                assert len(await store.finish(outcomes)) == size
            rows = await store.schedules(limit=9999)
            assert [row.last_outcome for row in rows if row.name.startswith("s")] == [
                State.COMPLETED, State.DEAD] * (size // 2)  # fmt: skip
            roused = [row.name for row in rows if row.name.startswith("waiting") and row.waits_on is None]
            assert roused == named("waiting", size)[::2]
        # The history of the runs that died is one row each, sent together.
        return len([sql for sql in sent if "INTO mainspring_executions" not in sql])

    async def test_the_number_of_statements_does_not_grow_with_the_outcomes(
        self, monkeypatch: pytest.MonkeyPatch, postgres: Postgres
    ) -> None:
        few = await self.count(SMALL_BATCH, monkeypatch)
        self.url = postgres.fresh()
        assert few == await self.count(LARGE_BATCH, monkeypatch) <= 20

    async def test_the_number_of_statements_does_not_grow_with_the_jobs_that_follow(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counts = []
        async with self.opened() as store:
            await beat(store)
            for size in (SMALL_BATCH, LARGE_BATCH):
                await put(store, *(new_job(unique_key=f"{size} {n}") for n in range(size)))
                jobs = (await claim(store, limit=size)).jobs
                # Each asks for the key of the job that ends before it.
                follow = [new_job(unique_key=job.unique_key) for job in [jobs[-1], *jobs[:-1]]]
                outcomes = [
                    replace(decide(job, Done(), now=NOW), then=(new,)) for job, new in zip(jobs, follow, strict=True)
                ]
                with statements(monkeypatch) as sent:
                    assert len(await store.finish(outcomes)) == size
                # The history is one row for each run, sent together; a look at the backlog may come in between.
                counts.append(len([sql for sql in sent if not re.search("INTO mainspring_executions|RECURSIVE", sql)]))
                made = await store.jobs(Filter(ids=tuple(new.id for new in follow)), now=NOW, limit=size)
                assert {job.id for job in made} == {new.id for new in follow[1:]}
                await store.change(Action.CANCEL, Filter(ids=tuple(job.id for job in made)), now=NOW, limit=size)
        assert counts[0] == counts[1] <= 15


class TestLockOrder(Served):
    async def test_finish_locks_its_schedules_and_the_waiting_ones_in_order_of_name(self) -> None:
        """A fire of `a`, which reads `z`, locks `a` first: a finish of `z` must not lock `z` and then wait for `a`."""
        async with self.opened() as store, asyncio.timeout(30):
            (job,) = await running(store, ["z"])
            waiting = a_schedule("a", spec={"depends_on": ("z",)}, held_at=NOW, waits_on="z", due_at=None)
            await store.fire([Firing(schedule=waiting)], now=NOW)
            table = PostgresUrl(self.url, "").sql("mainspring_schedules")
            first, second = await asyncpg.connect(self.server.dsn), await asyncpg.connect(self.server.dsn)
            try:
                async with first.transaction():
                    await first.execute(f"SELECT 1 FROM {table} WHERE name = 'a' FOR UPDATE")
                    finishing = asyncio.create_task(store.finish([decide(job, Done(), now=NOW)]))
                    blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    while not await second.fetchval(blocked):
                        await asyncio.sleep(0)
                    await second.fetch(f"SELECT 1 FROM {table} WHERE name = 'z' FOR UPDATE NOWAIT")
                assert await finishing == {job.id}
            finally:
                await first.close()
                await second.close()
            (row,) = await store.schedules(["a"], limit=1)
            assert row.waits_on is None


class TestSchedulePlans(Served):
    async def test_schedule_statements_use_indexes_on_tables_that_were_never_analysed(self) -> None:
        async with self.opened() as store:
            for n in range(0, 5000, 500):
                rows = [a_schedule(f"s-{n + k:05}", due_at=later(n + k)) for k in range(500)]
                await store.fire([Firing(schedule=row, ticks=(a_tick(),)) for row in rows], now=NOW)
            names = [f"s-{n:05}" for n in range(500)]
            other = await asyncpg.connect(self.server.dsn, server_settings=SETTINGS)
            try:
                for sql, values in (
                    (series._LOCK_SOME, ([], names, names)), (series._LATECOMERS, (names, names)),
                    (series._LOCK, (names,)), (series._TRIM, (names, ["0"] * len(names))), (series._DUE, ([], 1, 500)),
                ):  # fmt: skip
                    lines = await other.fetch(f"EXPLAIN {PostgresUrl(self.url, '').sql(sql)}", *values)
                    plan = "\n".join(line for (line,) in lines)
                    assert "Seq Scan" not in plan, plan
                    assert "Hash" not in plan, plan
                    assert "Merge" not in plan, plan
            finally:
                await other.close()
