"""Lists of the PostgreSQL store use its indexes; counts are exact if small, and else estimated closely."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from crowd import FILTERS, SORTS, check, gather

from mainspring.errors import StoreUnavailable
from mainspring.records.job import SHOWN, Action, NewJob
from mainspring.records.query import Cursor, Filter, Sort
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.postgres import count, job_query, jobs, lists, pool, state_counts
from mainspring.stores.postgres.job_groups import FINISHED, JOBS
from mainspring.stores.postgres.job_query import PostgresJobQuery
from mainspring.stores.postgres.pool import SETTINGS
from mainspring.stores.postgres.state_counts import CountQuery
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import NOW, Contract, act, claim_ids, later, new_job, put
from mainspring.testing.contract.lists import dead_job
from servers import Postgres

US = 1_000_000_000_000_000


class Served(Contract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server, self.url = postgres, postgres.fresh()

    def make_store(self) -> Store:
        return open_store(self.url)

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.server.dsn, server_settings=SETTINGS)
        try:
            await connection.execute(pool.READ_SETTINGS)
            yield connection
        finally:
            await connection.close()


class TestWays(Served):
    async def statements(self, which: Filter, sort: Sort, newest: bool) -> list[tuple[str, list[Any]]]:
        found = []
        for table in {"created": (JOBS, FINISHED), "due": (JOBS,), "finished": (FINISHED,)}[sort]:
            query = PostgresJobQuery(table, which, US, 50, None, newest, sort)
            if not query.empty:
                few = [sql for soon in (True, False) for sql, _ in query.indexed_pages(small_only=soon)]
                found += [query.bound(sql) for sql in (query.nearby_page(99), query.full_walk(), *few)]
        return found

    @pytest.mark.parametrize("name", FILTERS)
    async def test_every_list_uses_an_index(self, name: str) -> None:
        async with self.opened() as store, self.looking() as connection:
            await put(store, *(new_job() for _ in range(500)))
            for sort in SORTS:
                for sql, values in await self.statements(FILTERS[name], sort, True):
                    rows = await connection.fetch(f"EXPLAIN {PostgresUrl(self.url, '').sql(sql)}", *values)
                    plan = "\n".join(line for (line,) in rows)
                    assert "Seq Scan on mainspring_jobs" not in plan
                    assert "Seq Scan on mainspring_finished" not in plan

    @pytest.mark.parametrize(
        ("near", "few", "soon"),
        [(10, 0, 500), (10, 10_000, 0), (10, 0, 0), (20_000, 10_000, 0)],
        ids=["soon", "few", "whole", "near"],
    )
    async def test_every_search_strategy_returns_the_same_page(
        self, near: int, few: int, soon: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module, name, value in (
            (lists, "NEAR_ROWS", near),
            (lists, "FAR_ROWS", near),
            (job_query, "MAX_SORTED_ROWS", few),
            (job_query, "MAX_INDEX_ONLY_ROWS", few),
            (job_query, "MAX_INDEXED_ROWS", soon),
        ):
            monkeypatch.setattr(module, name, value)
        async with self.opened() as store:
            jobs = await gather(store)
            for newest in (False, True):
                await check(store, jobs, newest)

    @pytest.mark.parametrize("newest", [True, False])
    async def test_pages_over_many_days_have_every_job_once_in_order(self, newest: bool) -> None:
        ids = [f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7000-8000-000000000001" for ms in self.days(40)] + ["by-hand", "~"]
        async with self.opened() as store:
            await put(store, *(new_job(id=id, tags=("t",)) for id in ids))
            await act(store, Action.CANCEL, *ids[::3], ids[-1])
            for which in (Filter(tags=("t",)), Filter(states=("cancelled",)), Filter(states=("pending", "cancelled"))):
                expected = {*ids[::3], ids[-1]} if which.states == ("cancelled",) else ids
                assert await self.paged(store, which, newest) == sorted(expected, reverse=newest)

    @pytest.mark.parametrize("name", FILTERS)
    async def test_every_count_by_state_uses_an_index(self, name: str) -> None:
        async with self.opened() as store, self.looking() as connection:
            await put(store, *(new_job() for _ in range(500)))
            for table in (JOBS, FINISHED):
                query = CountQuery(table, FILTERS[name], US)
                every = query.possible(SHOWN)
                tags = [[query.tag_arm()]] if query.which.tags else []
                for arms in filter(None, ([*query.first_arms(every)], [*query.state_arms(every)], *tags)):
                    sql, values = query.bound(query.statement(arms))
                    rows = await connection.fetch(f"EXPLAIN {PostgresUrl(self.url, '').sql(sql)}", *values)
                    plan = "\n".join(line for (line,) in rows)
                    assert "Seq Scan on mainspring_jobs" not in plan
                    assert "Seq Scan on mainspring_finished" not in plan

    @pytest.mark.parametrize(("near", "each"), [(5_000, 2_000), (1, 2_000), (3, 3)], ids=["near", "each", "cut"])
    async def test_counts_by_state_are_those_of_the_list_or_left_out(
        self, near: int, each: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(state_counts, "NEAR_ROWS", near)
        monkeypatch.setattr(state_counts, "INDEX_ROWS", near)
        monkeypatch.setattr(state_counts, "STATE_ROWS", each)
        left_out = 0
        async with self.opened() as store:
            await gather(store)
            for which in FILTERS.values():
                found = await store.count_by_state(which, now=NOW, up_to=2)  # type: ignore[attr-defined]
                jobs = await store.jobs(which, now=NOW, limit=10_000)
                for state in which.states or SHOWN:
                    true = sum(job.shown(NOW) == state for job in jobs)
                    assert found.get(state, min(true, 2)) == min(true, 2), (which, state)
                left_out += len(which.states or SHOWN) - len(found)
        assert (left_out > 0) == (each < 2_000)

    def days(self, count: int) -> list[int]:
        """Milliseconds of an instant of each of the last days."""
        return [int(NOW.timestamp() * 1000) - n * 86_400_000 for n in range(count)]

    async def paged(self, store: Store, which: Filter, newest: bool) -> list[str]:
        found: list[str] = []
        while True:
            after = Cursor(found[-1]) if found else None
            page = await store.jobs(which, now=NOW, limit=4, after=after, newest=newest)
            if not page:
                return found
            found += [job.id for job in page]

    @pytest.mark.parametrize("counted", [-1, 20_000], ids=["hops", "read"])
    async def test_dead_groups_are_the_same_by_full_read_and_by_index_hops(
        self, counted: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(count, "MAX_DEAD_ROWS", counted)
        async with self.opened() as store:
            found = [await dead_job(store, message, at=at) for at, message in enumerate(("a", "b", "a"))]
            groups = await store.dead_groups(limit=9)
        assert [(one.error, one.count, one.newest, one.last_at) for one in groups] == [
            ("OSError: a", 2, found[2].id, later(2)),
            ("OSError: b", 1, found[1].id, later(1)),
        ]


class TestEstimates(Served):
    @pytest.fixture(autouse=True)
    def _small(self, _server: None, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = self.server.own("estimates")  # without the empty pages that other tests have left
        monkeypatch.setattr(count, "MAX_COUNTED_PAGES", 60)
        monkeypatch.setattr(count, "SAMPLE_PAGES", 60)

    async def many(self, store: Store, count: int, **options: Any) -> list[NewJob]:
        made = [new_job(**options) for _ in range(count)]
        await put(store, *made)
        return made

    async def test_large_counts_are_estimated_closely(self) -> None:
        async with self.opened() as store:
            await self.many(store, 15_000)
            found = (await store.overview(now=NOW)).states
        assert 10_000 <= found["pending"] <= 22_500
        assert set(found) == {"pending"}

    async def test_small_counts_are_exact_beside_large_ones(self) -> None:
        async with self.opened() as store:
            await self.many(store, 12_000)
            await self.many(store, 7, queue="rare")
            await self.many(store, 5, run_at=later(60))
            held = await self.many(store, 3)
            await act(store, Action.PAUSE, *(job.id for job in held))
            assert len(await claim_ids(store, limit=4)) == 4
            found = (await store.overview(now=NOW)).states
            queues = {queue.name: queue for queue in (await store.overview(now=NOW)).queues}
        assert (found["scheduled"], found["paused"], found["running"]) == (5, 3, 4)
        assert queues["rare"].pending == 7
        assert (queues["default"].running, queues["default"].scheduled) == (4, 5)


class TestLongLists(Served):
    async def test_list_that_takes_too_long_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slow = pool.READ_SETTINGS.replace("statement_timeout = 5000", "statement_timeout = 20")
        assert slow != pool.READ_SETTINGS
        monkeypatch.setattr(pool, "READ_SETTINGS", slow)
        async with self.opened() as store:
            connections = store._pool  # type: ignore[attr-defined]
            with pytest.raises(StoreUnavailable, match="narrow the filter"):
                await connections.read(lambda db: db.value("SELECT pg_sleep(9)"))
            monkeypatch.undo()
            assert (await store.overview(now=NOW)).states == {}


class TestMovedRows(Served):
    """A job moves to the other table while a change looks for it there and here."""

    async def test_change_finds_a_job_that_ends_between_its_two_looks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        look, met = lists._ended, list[str]()
        async with self.opened() as store, self.opened() as rival:
            (id,) = await put(store, new_job())

            async def ended(*given: Any) -> list[Any]:
                found = await look(*given)
                monkeypatch.undo()
                met.extend((await act(rival, Action.CANCEL, id)).done)
                return found

            monkeypatch.setattr(lists, "_ended", ended)
            changed = await act(store, Action.CANCEL, id)
        assert met == [id]
        assert (changed.done, changed.refused) == ([id], {})

    async def test_change_finds_a_job_that_is_put_back_between_its_two_looks(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        met = list[str]()
        async with self.opened() as store, self.opened() as rival:
            (id,) = await put(store, new_job())
            await act(store, Action.CANCEL, id)
            look = jobs._lock_in

            async def lock_in(db: pool.Session, table: str, ids: Any) -> Any:
                found = await look(db, table, ids)
                monkeypatch.undo()
                met.extend((await act(rival, Action.RETRY, id)).done)
                return found

            monkeypatch.setattr(jobs, "_lock_in", lock_in)
            changed = await act(store, Action.DELETE, id)
        assert met == [id]
        assert (changed.done, changed.refused) == ([id], {})
