"""Lists of the SQLite store use its indexes, and every search strategy returns the same page."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from crowd import FILTERS, SORTS, check, gather

from mainspring.records.job import SHOWN, Action
from mainspring.records.query import Cursor, Filter, Sort
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.stores.sqlite import lists, overview, state_counts
from mainspring.stores.sqlite.job_query import JobQuery
from mainspring.stores.sqlite.lists import job_page
from mainspring.testing.contract.build import NOW, act, later, new_job, put

US = 1_000_000_000_000_000


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{folder}/jobs.db")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def plans(folder: Path, *statements: tuple[str, object]) -> list[str]:
    with closing(sqlite3.connect(folder / "jobs.db")) as db:
        return [
            "\n".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)) for sql, values in statements
        ]


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", FILTERS)
async def test_every_list_uses_an_index(tmp_path: Path, name: str, sort: Sort) -> None:
    async with opened(tmp_path):
        query = JobQuery(FILTERS[name], US, 50, Cursor("x", NOW), True, sort)
        if query.empty:
            return
        sources = list(query.sources())
        ways = [query.nearby_page(9), query.full_walk(), *map(query.sorted_page, sources)]
        ways += [] if query.source_of_ids is None else [query.page_by_ids(query.source_of_ids, 9)]
        for plan in plans(tmp_path, *((sql, query.values) for sql in ways)):
            assert "SCAN mainspring_jobs\n" not in f"{plan}\n"
            assert "SCAN mainspring_jobs USING INDEX sqlite_autoindex" not in plan


@pytest.mark.parametrize(
    ("soon", "near", "few", "dear"),
    [(500, 0, -1, 0), (-1, 5000, -1, 0), (-1, 5, 9999, 0), (-1, 5, 9999, 9999), (-1, 5, -1, 0)],
    ids=["soon", "near", "few", "far", "whole"],
)
async def test_every_search_strategy_returns_the_same_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soon: int, near: int, few: int, dear: int
) -> None:
    for name, value in (
        ("MAX_INDEXED_ROWS", soon),
        ("FIRST_MERGED_ROWS", near),
        ("NEAR_ROWS", near),
        ("MAX_SORTED_ROWS", few),
        ("SORT_COST_ROWS", dear),
    ):
        monkeypatch.setattr(lists, name, value)
    async with opened(tmp_path) as store:
        jobs = await gather(store)
        for newest in (False, True):
            await check(store, jobs, newest)


async def test_lists_by_time_include_jobs_of_an_earlier_schema(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        everything = await gather(store)
        await store.migrate(5)
        await store.migrate()
        for newest in (False, True):
            await check(store, everything, newest)


async def test_a_job_that_is_enqueued_again_is_listed_once_by_its_first_created_at(tmp_path: Path) -> None:
    job = new_job(id="by-hand")
    async with opened(tmp_path) as store:
        await put(store, job)
        await put(store, job, now=later(3600))
        before = await store.jobs(Filter(created_before=later(60)), now=NOW, limit=9)
        after = await store.jobs(Filter(created_after=later(60)), now=NOW, limit=9)
    assert [[job.id for job in found] for found in (before, after)] == [["by-hand"], []]


async def test_deleting_an_out_of_order_job_deletes_its_entry(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        plain = new_job()
        await put(store, plain, new_job(id="by-hand"))
        await put(store, new_job(id="keyed", unique_key="key"))
        await put(store, plain, now=later(3600))
        await act(store, Action.DELETE, "by-hand", "keyed", plain.id)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        assert db.execute("SELECT * FROM mainspring_odd").fetchall() == []


async def steps_of(folder: Path, act: Callable[[sqlite3.Connection], object]) -> int:
    """The number of statements that the writer thread would wait for."""
    said: list[str] = []
    async with opened(folder) as store:
        await gather(store)
    with closing(sqlite3.connect(folder / "jobs.db")) as db:
        db.set_trace_callback(said.append)
        act(db)
    return len(said)


@pytest.mark.parametrize("sort", SORTS)
async def test_a_page_of_all_jobs_is_one_statement(tmp_path: Path, sort: Sort) -> None:
    assert await steps_of(tmp_path, lambda db: job_page(db, Filter(), US, 2, newest=True, sort=sort)) == 1


async def test_a_page_of_one_state_is_one_statement(tmp_path: Path) -> None:
    dead = Filter(states=("dead",))
    assert await steps_of(tmp_path, lambda db: job_page(db, dead, US, 2, newest=True, sort="finished")) == 1


async def test_a_page_of_one_queue_is_one_statement(tmp_path: Path) -> None:
    assert await steps_of(tmp_path, lambda db: job_page(db, Filter(queues=("mail",)), US, 2, newest=True)) == 1


async def test_a_page_of_a_tag_is_read_in_the_order_of_its_index(tmp_path: Path) -> None:
    query = JobQuery(Filter(tags=("a", "b")), US, 10, Cursor("x"), True, "created")
    async with opened(tmp_path):
        (plan,) = plans(tmp_path, (query.nearby_page(9), query.values))
    assert "mainspring_tags USING PRIMARY KEY (tag=? AND job_id<?)" in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("after", [None, Cursor("x")])
async def test_a_walk_by_id_uses_a_covering_index_and_no_sort(tmp_path: Path, after: Cursor | None) -> None:
    query = JobQuery(Filter(queues=("mail",)), US, 10, after, True, "created")
    async with opened(tmp_path):
        (plan,) = plans(tmp_path, (query.nearby_page(9), query.values))
    assert "CO-ROUTINE walk" in plan
    assert "mainspring_jobs USING COVERING INDEX sqlite_autoindex_mainspring_jobs_1" in plan
    assert "TEMP B-TREE" not in plan


async def test_page_larger_than_sqlite_allows_is_read_row_by_row(tmp_path: Path) -> None:
    """An earlier release accepted metadata of any size: 120 jobs with 8 MiB each exceed the longest text of SQLite."""
    async with opened(tmp_path) as store:
        large = [new_job(metadata={"note": "x" * 60_000}) for _ in range(4)]
        await put(store, *large)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
        rows = job_page(db, Filter(), US, 50, None, False, "created")
    assert [row[0] for row in rows] == [job.id for job in large]


@pytest.mark.parametrize(("counted", "state_rows"), [(10_000, 1_000), (-1, 1_000), (-1, 3)], ids=["few", "each", "cut"])
async def test_counts_by_state_are_those_of_the_list_or_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: int, state_rows: int
) -> None:
    monkeypatch.setattr(state_counts, "MAX_COUNTED_ROWS", counted)
    monkeypatch.setattr(state_counts, "STATE_ROWS", state_rows)
    monkeypatch.setattr(state_counts, "NEAR_ROWS", state_rows)
    left_out = 0
    async with opened(tmp_path) as store:
        await gather(store)
        for which in FILTERS.values():
            found = await store.count_by_state(which, now=NOW, up_to=2)  # type: ignore[attr-defined]
            jobs = await store.jobs(which, now=NOW, limit=10_000)
            for state in which.states or SHOWN:
                true = sum(job.shown(NOW) == state for job in jobs)
                assert found.get(state, min(true, 2)) == min(true, 2), (which, state)
            left_out += len(which.states or SHOWN) - len(found)
    assert (left_out > 0) == (state_rows < 1_000)


async def test_many_ready_jobs_are_estimated_from_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MAX_COUNTED_ROWS", 100)
    async with opened(tmp_path) as store:
        for queue in ("a", "b"):
            await put(store, *(new_job(queue=queue) for _ in range(1_500)))
        await put(store, *(new_job(queue="c") for _ in range(7)))
        found = {queue.name: queue.pending for queue in (await store.overview(now=later(1))).queues}
    assert found["c"] == 7
    assert all(1_300 <= found[name] <= 1_700 for name in ("a", "b"))
