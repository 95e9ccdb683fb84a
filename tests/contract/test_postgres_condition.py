"""What mainspring doctor says of a PostgreSQL server, well and made sick on purpose, and the way out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from mainspring.records.finding import Finding
from mainspring.stores import open_store
from mainspring.stores.postgres.doctor import commits, connections, dead_rows, listener, release, transactions
from mainspring.testing.contract.build import new_job, put
from servers import PgBouncer, Postgres

CONDITION = "mainspring.stores.postgres.doctor"
WELL = ["PostgreSQL", "connections", "oldest transaction", "dead rows", "indexes", "tables", "pooler", "listener"]
INDEX = "sick.mainspring_jobs_ready"


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.own("sick")


async def diagnosed(url: str) -> dict[str, Finding]:
    store = open_store(url)
    await store.open()
    try:
        return {finding.about: finding for finding in await store.diagnose()}
    finally:
        await store.close()


@asynccontextmanager
async def connected(postgres: Postgres) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(postgres.dsn, server_settings={"application_name": "somebody"})
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_server_that_is_well_is_said_to_be(url: str) -> None:
    found = await diagnosed(url)
    assert {about: found[about].verdict for about in WELL} == dict.fromkeys(WELL, "ok")


async def test_a_transaction_that_stays_open_is_named_with_its_process(
    postgres: Postgres, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{CONDITION}.MAX_TRANSACTION_SECONDS", 0.0)
    async with connected(postgres) as other, other.transaction():
        await other.execute("SELECT 1")
        found = (await diagnosed(url))["oldest transaction"]
        assert found.verdict == "warn"
        assert f"process {other.get_server_pid()} (somebody, tests, idle in transaction) is open" in found.text
        assert found.remedy.startswith(f"SELECT pg_terminate_backend({other.get_server_pid()})")
    assert (await diagnosed(url))["oldest transaction"].text == "none is open"


def test_a_prepared_transaction_is_named_with_the_way_to_end_it() -> None:
    found = transactions([("prepared", "x1", "shop", 900.0)], True)
    assert (found.verdict, found.remedy) == ("warn", "COMMIT PREPARED or ROLLBACK PREPARED 'x1'")
    assert "prepared transaction 'x1' of shop is open for 900 s" in found.text


def test_a_replication_slot_that_nobody_uses_is_named_with_the_way_to_drop_it() -> None:
    found = transactions([("slot", "old", "12345", None)], True)
    assert (found.verdict, "12345 transactions behind" in found.text) == ("warn", True)
    assert "pg_drop_replication_slot('old')" in found.remedy


def test_who_sees_only_its_own_transactions_is_told_so() -> None:
    assert "pg_read_all_stats" in transactions([], False).text


async def test_an_index_that_is_gone_is_named_with_the_statement_that_makes_it(postgres: Postgres, url: str) -> None:
    await diagnosed(url)
    postgres.run(f"DROP INDEX {INDEX}")
    found = (await diagnosed(url))["indexes"]
    assert (found.verdict, found.text) == ("bad", "missing: mainspring_jobs_ready")
    postgres.run(found.remedy)
    assert (await diagnosed(url))["indexes"].verdict == "ok"


async def test_an_index_that_is_invalid_is_named_with_the_statement_that_mends_it(postgres: Postgres, url: str) -> None:
    await diagnosed(url)
    postgres.run(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{INDEX}'::regclass")
    found = (await diagnosed(url))["indexes"]
    assert (found.verdict, found.text) == ("bad", "invalid: mainspring_jobs_ready")
    postgres.run(found.remedy)
    assert (await diagnosed(url))["indexes"].verdict == "ok"


async def test_the_indexes_of_another_prefix_are_looked_for_by_their_own_names(postgres: Postgres, url: str) -> None:
    assert (await diagnosed(f"{url}&prefix=shop_"))["indexes"].verdict == "ok"
    postgres.run("DROP INDEX sick.shop_jobs_ready")
    assert (await diagnosed(f"{url}&prefix=shop_"))["indexes"].text == "missing: shop_jobs_ready"


async def test_dead_rows_beyond_measure_are_told(postgres: Postgres, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONDITION}.MAX_DEAD_ROWS", 50)
    store = open_store(url)
    await store.open()
    async with connected(postgres) as other, other.transaction(isolation="repeatable_read"):
        await other.execute("SELECT 1")  # keeps them
        await put(store, *(new_job() for _ in range(60)))
        postgres.run("DELETE FROM sick.mainspring_jobs")
        async with asyncio.timeout(20):
            while (found := (await diagnosed(url))["dead rows"]).verdict == "ok":
                postgres.run("SELECT 1")  # the server's statistics follow by and by
    await store.close()
    assert "VACUUM" in found.remedy


def test_a_server_that_does_not_clear_away_is_told_so() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    off = dead_rows(0, 0, now - timedelta(days=3), "off", now)
    assert (off.verdict, off.text) == ("warn", "0 beside 0 live ones, cleared 3 days ago; autovacuum is off")


async def test_a_server_that_is_almost_full_is_told_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONDITION}.MAX_CONNECTION_SHARE", 0.0)
    found = (await diagnosed(url))["connections"]
    assert (found.verdict, found.remedy) == ("warn", "raise max_connections, run fewer processes, or use a pooler")
    assert connections(10, 3, 97).text == "10 of 97 taken, 3 of them by mainspring"


async def test_a_pooler_and_what_it_costs_are_told(
    postgres: Postgres, pgbouncer: PgBouncer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.listener.ECHO_TIMEOUT_SECONDS", 0.5)
    found = await diagnosed(pgbouncer.through(url))
    assert "transaction mode" in found["pooler"].text
    assert (found["listener"].verdict, "&listen=" in found["listener"].remedy) == ("warn", True)
    off = (await diagnosed(f"{pgbouncer.through(url)}&listen=off"))["listener"]
    assert (off.verdict, "switched off" in off.text) == ("ok", True)


async def test_a_listener_that_cannot_connect_says_why(url: str) -> None:
    found = (await diagnosed(f"{url}&listen=postgresql://ada@127.0.0.1:1/jobs"))["listener"]
    assert found.verdict == "warn"
    assert "cannot connect" in found.text
    assert "log" in listener(True, False, "x", False).remedy


def test_an_old_server_and_one_that_only_reads_are_refused() -> None:
    assert (release(120000, "12.1", False).verdict, release(150000, "15", True).verdict) == ("bad", "bad")


def test_commits_that_a_crash_may_take_are_told() -> None:
    assert [commits(*said).verdict for said in (("on", "on"), ("off", "on"), ("on", "off"))] == ["ok", "warn", "bad"]
