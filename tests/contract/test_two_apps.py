"""Two apps in one PostgreSQL database are separate: jobs, notifications, locks, schemas."""

import asyncio
import re
from itertools import product

import pytest
from filled import fill, told
from further import NEXT, REAL, Placed

from mainspring.records.outcome import Done
from mainspring.stores.postgres.url import PostgresUrl
from mainspring.testing.contract.build import all_jobs, beat, claim, finish_run, new_job, put
from servers import Postgres

PAIRS = {
    "two schemas": ("own", "mainspring_", "other", "mainspring_"),
    "two prefixes": ("own", "shop_", "own", "mill_"),
    "a prefix of the other": ("own", "shop_", "own", "shop_jobs_"),
    "a prefix that ends in no _": ("own", "shop", "own", "shop_"),
    "a schema named as a table is": ("own", "mainspring_", "mainspring_jobs", "mainspring_"),
}


SCHEMAS = ("own", "other", "mainspring_jobs")


class Pair(Placed):
    left: str
    right: str

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _two(cls, postgres: Postgres, pair: str) -> None:
        for schema in SCHEMAS:
            postgres.own(schema)
        one, first, two, second = PAIRS[pair]
        cls.left = f"{postgres.dsn}&schema={one}&prefix={first}"
        cls.right = f"{postgres.dsn}&schema={two}&prefix={second}"

    @pytest.fixture(autouse=True)
    def _server(self, postgres: Postgres) -> None:
        self.server = postgres
        for schema in SCHEMAS:
            postgres.fresh(schema)


@pytest.mark.parametrize("pair", PAIRS, scope="class")
class TestTwoApps(Pair):
    async def test_two_apps_have_separate_jobs_keys_workers_and_schedules(self) -> None:
        async with self.opened(self.left) as left, self.opened(self.right) as right:
            await fill(left)
            before = await told(left)
            assert await all_jobs(right) == []
            running = await fill(right)
            await finish_run(right, running, Done())
            await beat(right)
            await claim(right, limit=99)
            assert await told(left) == before

    async def test_an_app_is_not_woken_by_jobs_of_the_other_app(self) -> None:
        async with self.opened(self.left) as left, self.opened(self.right) as right, asyncio.timeout(20):
            await left.wait("claimable", 50)  # ends when it begins to listen
            waiting = asyncio.create_task(left.wait("claimable", 50))
            async with self.opened(self.left) as beside:
                await put(right, new_job())
                await asyncio.wait([waiting], timeout=0.2)
                assert not waiting.done()
                await put(beside, new_job())
                await waiting

    async def test_an_app_does_not_wait_for_advisory_locks_of_the_other_app(self) -> None:
        async with asyncio.timeout(20), self.opened(self.left) as left, self.connected() as other, other.transaction():
            for n in (-1, *range(512)):
                await other.execute("SELECT pg_advisory_xact_lock($1, $2)", PostgresUrl(self.right, "").lock, n)
            await put(left, new_job(unique_key="key", idempotency_key="other"))
            await left.migrate(0)
            await left.migrate()

    async def test_doctor_reports_the_table_sizes_of_its_own_app_only(self) -> None:
        async with self.opened(self.left) as left, self.opened(self.right) as right:
            await put(right, *(new_job(payload='"' + "x" * 5000 + '"') for _ in range(200)))
            sizes = [
                next(found.text for found in await store.diagnose() if found.about == "tables")
                for store in (left, right)
            ]
            assert sizes[0] != sizes[1]


@pytest.mark.parametrize("pair", PAIRS, scope="class")
class TestMigrationOfTwoApps(Pair):
    async def test_migration_of_one_app_leaves_the_other_app_alone(self) -> None:
        async with self.opened(self.left, NEXT) as left, self.opened(self.right) as right:
            running = await fill(right)
            before = await told(right)
            assert [(await store.schema()).version for store in (left, right)] == [NEXT.newest, REAL.newest]
            assert (await left.migrate(0))[-1] == 0
            assert await told(right) == before
            assert await finish_run(right, running, Done()) == {running.id}
            assert (await left.schema()).version == 0
            found = [name for schema in SCHEMAS for name in self.tables(schema)]
            names = {name for name in found if not re.search(r"finished_\d", name)}  # days come by themselves
            assert names == {f"{PostgresUrl(self.right, '').prefix}{name}" for name in TABLES}


NAMES = set(re.findall(r"\bmainspring_(\w+)", re.sub(r"--.*", "", REAL.text))) | {"schema"}
TABLES = set(re.findall(r"^CREATE (?:UNLOGGED )?TABLE mainspring_(\w+)", REAL.text, re.MULTILINE)) | {
    "schema",
    "finished_rest",
}


def test_prefixed_table_names_do_not_collide() -> None:
    assert [(one, two) for one, two in product(NAMES, TABLES) if one.endswith(f"_{two}")] == []


def test_every_database_name_fits_behind_the_longest_prefix() -> None:
    assert max(len(name) for name in NAMES) <= 63 - 41
