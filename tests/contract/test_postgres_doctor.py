"""The doctor's findings on a PostgreSQL server, healthy and with each trouble, and the remedies it names."""

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


async def test_doctor_finds_nothing_on_a_healthy_server(url: str) -> None:
    found = await diagnosed(url)
    assert {about: found[about].verdict for about in WELL} == dict.fromkeys(WELL, "ok")


async def test_doctor_names_the_process_of_a_long_transaction(
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


def test_doctor_names_a_prepared_transaction_and_how_to_end_it() -> None:
    found = transactions([("prepared", "x1", "shop", 900.0)], True)
    assert (found.verdict, found.remedy) == ("warn", "COMMIT PREPARED or ROLLBACK PREPARED 'x1'")
    assert "prepared transaction 'x1' of shop is open for 900 s" in found.text


def test_doctor_names_an_unused_replication_slot_and_how_to_drop_it() -> None:
    found = transactions([("slot", "old", "12345", None)], True)
    assert (found.verdict, "12345 transactions behind" in found.text) == ("warn", True)
    assert "pg_drop_replication_slot('old')" in found.remedy


def test_doctor_says_if_it_cannot_see_other_users_transactions() -> None:
    assert "pg_read_all_stats" in transactions([], False).text


async def test_doctor_names_a_missing_index_and_its_create_statement(postgres: Postgres, url: str) -> None:
    await diagnosed(url)
    postgres.run(f"DROP INDEX {INDEX}")
    found = (await diagnosed(url))["indexes"]
    assert (found.verdict, found.text) == ("bad", "missing: mainspring_jobs_ready")
    postgres.run(found.remedy)
    assert (await diagnosed(url))["indexes"].verdict == "ok"


async def test_doctor_names_an_invalid_index_and_its_reindex_statement(postgres: Postgres, url: str) -> None:
    await diagnosed(url)
    postgres.run(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{INDEX}'::regclass")
    found = (await diagnosed(url))["indexes"]
    assert (found.verdict, found.text) == ("bad", "invalid: mainspring_jobs_ready")
    postgres.run(found.remedy)
    assert (await diagnosed(url))["indexes"].verdict == "ok"


async def test_doctor_checks_indexes_under_another_prefix(postgres: Postgres, url: str) -> None:
    assert (await diagnosed(f"{url}&prefix=shop_"))["indexes"].verdict == "ok"
    postgres.run("DROP INDEX sick.shop_jobs_ready")
    assert (await diagnosed(f"{url}&prefix=shop_"))["indexes"].text == "missing: shop_jobs_ready"


async def test_doctor_warns_of_many_dead_rows(postgres: Postgres, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_doctor_warns_if_autovacuum_is_off() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    off = dead_rows(0, 0, now - timedelta(days=3), "off", now)
    assert (off.verdict, off.text) == ("warn", "0 beside 0 live ones, cleared 3 days ago; autovacuum is off")


async def test_doctor_warns_if_connections_are_nearly_exhausted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONDITION}.MAX_CONNECTION_SHARE", 0.0)
    found = (await diagnosed(url))["connections"]
    assert (found.verdict, found.remedy) == ("warn", "raise max_connections, run fewer processes, or use a pooler")
    assert connections(10, 3, 97).text == "10 of 97 taken, 3 of them by mainspring"


async def test_doctor_reports_a_pooler_and_its_cost(
    postgres: Postgres, pgbouncer: PgBouncer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.listener.ECHO_TIMEOUT_SECONDS", 0.5)
    found = await diagnosed(pgbouncer.through(url))
    assert "transaction mode" in found["pooler"].text
    assert (found["listener"].verdict, "&listen=" in found["listener"].remedy) == ("warn", True)
    off = (await diagnosed(f"{pgbouncer.through(url)}&listen=off"))["listener"]
    assert (off.verdict, "switched off" in off.text) == ("ok", True)


async def test_doctor_says_why_the_listener_cannot_connect(url: str) -> None:
    found = (await diagnosed(f"{url}&listen=postgresql://ada@127.0.0.1:1/jobs"))["listener"]
    assert found.verdict == "warn"
    assert "cannot connect" in found.text
    assert "log" in listener(True, False, "x", False).remedy


def test_doctor_refuses_an_old_server_and_a_standby() -> None:
    assert (release(120000, "12.1", False).verdict, release(150000, "15", True).verdict) == ("bad", "bad")


def test_doctor_warns_of_commits_that_a_crash_may_lose() -> None:
    assert [commits(*said).verdict for said in (("on", "on"), ("off", "on"), ("on", "off"))] == ["ok", "warn", "bad"]
