"""mainspring migrate, the same on every store that has a schema."""

from __future__ import annotations

import json
import subprocess

import pytest

from mainspring.stores.postgres.schema import MIGRATIONS
from servers import Postgres, program


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, store: str) -> str:
    """A store that was never opened."""
    return store if request.param == "sqlite" else request.getfixturevalue("postgres").own("cli")


@pytest.fixture
def newest(cli, url) -> int:
    return json.loads(cli("migrate", "status", "--store", url, "--json").stdout)["newest"]


def version(cli, url) -> int:
    return json.loads(cli("migrate", "status", "--store", url, "--json").stdout)["version"]


def test_migrate_status_shows_the_schema_version_and_changes_nothing(cli, url, newest):
    for _ in range(2):
        state = json.loads(cli("migrate", "status", "--store", url, "--json").stdout)
        assert state == {
            "store": url, "version": 0, "newest": newest, "oldest": 0, "current": False, "usable": False,
        }  # fmt: skip
    said = cli("migrate", "status", "--store", url).stdout
    assert said == f"{url} has schema 0 of {newest}: behind: mainspring migrate up\n"


def test_migrate_up_reaches_the_newest_schema_and_is_idempotent(cli, url, newest):
    steps = " -> ".join(map(str, range(newest + 1)))
    assert cli("migrate", "up", "--store", url).stdout == f"{url}: schema {steps}\n"
    assert cli("migrate", "status", "--store", url).stdout.endswith(": up to date\n")
    assert cli("migrate", "up", "--store", url).stdout == f"{url}: schema {newest}, nothing to do\n"


def test_migrate_up_stops_at_the_given_version(cli, url):
    assert cli("migrate", "up", "--to", "1", "--store", url).stdout == f"{url}: schema 0 -> 1\n"
    assert version(cli, url) == 1


def test_migrate_down_goes_one_version_back_or_to_the_given_version(cli, url, newest):
    cli("migrate", "up", "--store", url)
    assert cli("migrate", "down", "--yes", "--store", url).stdout == f"{url}: schema {newest} -> {newest - 1}\n"
    cli("migrate", "up", "--store", url)
    assert cli("migrate", "down", "--yes", "--to", "0", "--store", url).stdout.endswith("-> 0\n")
    assert version(cli, url) == 0


def test_opening_a_store_migrates_its_schema(cli, url, newest):
    assert cli("stats", "--store", url).exit_code == 0
    assert version(cli, url) == newest


def test_migrate_down_asks_for_confirmation_with_the_number_of_lost_jobs(cli, url, shop):
    for _ in range(2):
        assert cli("enqueue", "add", "--args", '{"a": 1}', "--store", url).exit_code == 0
    refused = cli("migrate", "down", "--to", "0", "--store", url, input="n\n")
    assert refused.exit_code == 1
    assert f"drop every table of {url}? 2 job(s) and their history are lost." in refused.stderr
    assert json.loads(cli("stats", "--store", url, "--json").stdout)["pending"] == 2
    assert cli("migrate", "down", "--to", "0", "--store", url, "--yes").stdout.endswith("-> 0\n")
    assert json.loads(cli("stats", "--store", url, "--json").stdout)["pending"] == 0


def test_migrate_down_asks_for_confirmation_if_it_cannot_count_the_jobs(cli, url):
    cli("migrate", "up", "--to", "1", "--store", url)
    asked = cli("migrate", "down", "--to", "0", "--store", url, input="n\n")
    assert asked.stderr.startswith(f"drop every table of {url}? ")
    assert version(cli, url) == 1


def test_migrate_down_is_refused_while_a_worker_needs_the_schema(cli, url, shop, process, here):
    text = here.joinpath("shop.py").read_text()
    here.joinpath("shop.py").write_text(text.replace("sqlite:///jobs.db", url))
    worker = process("worker", shop)
    worker.line("worker")
    refused = cli("migrate", "down", "--to", "0", "--store", url, "--yes")
    assert refused.exit_code == 1
    assert "workers are alive that cannot work with schema 0: " in refused.stderr
    assert refused.stderr.endswith("; stop them first\n")
    worker.signal(15)
    assert worker.end()[0] == 0
    assert cli("migrate", "down", "--to", "0", "--store", url, "--yes").exit_code == 0


def test_migrate_in_the_wrong_direction_suggests_the_right_command(cli, url):
    cli("migrate", "up", "--store", url)
    back = cli("migrate", "up", "--to", "0", "--store", url)
    assert (back.exit_code, back.stderr.endswith("mainspring migrate down --to 0 goes back\n")) == (1, True)
    on = cli("migrate", "down", "--to", "99", "--store", url)
    assert (on.exit_code, on.stderr.endswith("mainspring migrate up --to 99 goes on\n")) == (1, True)


def test_migrate_to_an_unknown_version_is_refused(cli, url):
    refused = cli("migrate", "up", "--to", "99", "--store", url)
    assert refused.exit_code == 1
    assert "there is no schema version 99" in refused.stderr


# --sql


def psql(server: Postgres, script: str) -> subprocess.CompletedProcess[str]:
    command = [program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", server.dsn]
    return subprocess.run(command, input=script, text=True, capture_output=True, timeout=60)


def test_migrate_sql_prints_a_script_that_migrates_in_psql(cli, postgres):
    url = f"{postgres.own('cli')}&prefix=shop_"
    up = cli("migrate", "up", "--sql", "--store", url)
    assert (up.exit_code, up.stderr, version(cli, url)) == (0, "", 0)
    assert psql(postgres, up.stdout).returncode == 0
    assert version(cli, url) == MIGRATIONS.newest
    down = cli("migrate", "down", "--to", "0", "--sql", "--store", url)
    assert (down.exit_code, version(cli, url)) == (0, MIGRATIONS.newest)
    assert psql(postgres, down.stdout).returncode == 0
    assert version(cli, url) == 0


def test_migrate_sql_with_the_from_option_needs_no_server(cli, postgres):
    nowhere, url = "postgresql://ada@127.0.0.1:1/jobs?schema=cli", postgres.own("cli")
    up = cli("migrate", "up", "--sql", "--from", "0", "--store", nowhere)
    assert (up.exit_code, up.stderr) == (0, "")
    assert up.stdout == cli("migrate", "up", "--sql", "--store", url).stdout
    down = cli("migrate", "down", "--sql", "--from", "1", "--to", "0", "--store", nowhere)
    assert down.stdout.startswith("-- cli.mainspring_*: from schema 1 to 0, all or nothing\nBEGIN;\n")


def test_migrate_from_option_is_refused_without_sql(cli, store):
    refused = cli("migrate", "up", "--from", "0", "--store", store)
    assert refused.exit_code == 2
    assert "it goes with --sql" in refused.stderr


def test_migrate_sql_is_refused_for_a_sqlite_file(cli, store):
    refused = cli("migrate", "up", "--sql", "--store", store)
    assert refused.exit_code == 1
    assert refused.stderr == "error: migrations of a SQLite file need this library: run mainspring migrate up\n"
