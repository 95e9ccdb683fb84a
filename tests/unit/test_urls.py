"""open_store: each URL opens a store, or is refused with the right form."""

import inspect
from urllib.parse import urlencode

import pytest
from asyncpg.connect_utils import _parse_connect_dsn_and_args

from mainspring import BadSetting, Mainspring
from mainspring.stores import open_store
from mainspring.stores.memory.store import MemoryStore
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.sqlite.store import SqliteStore

FILES = "sqlite:///file.db (relative) or sqlite:////var/lib/file.db (absolute)"
FORMS = (
    "memory://, sqlite:///file.db (relative), sqlite:////var/lib/file.db (absolute), "
    "postgresql://user@host/database, redis://host/0 or https://host of an API"
)
SLASHES = "needs three slashes before a relative path, four before an absolute one"


def test_open_store_memory_url() -> None:
    assert isinstance(open_store("memory://"), MemoryStore)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:///data/jobs.db", "data/jobs.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///my jobs.db", "my jobs.db"),
    ],
)
def test_sqlite_url_names_its_file(url: str, path: str) -> None:
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    assert store.path == path


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", f"no store named in URL '': use {FORMS}"),
        ("jobs.db", f"no store named in URL 'jobs.db': use {FORMS}"),
        ("/var/jobs.db", f"no store named in URL '/var/jobs.db': use {FORMS}"),
        ("mysql://host/db", f"unknown store 'mysql' in URL 'mysql://host/db': use {FORMS}"),
        ("sqlite3:///jobs.db", f"unknown store 'sqlite3' in URL 'sqlite3:///jobs.db': use {FORMS}"),
        ("ftp://[::1", f"unknown store 'ftp' in URL 'ftp://[::1': use {FORMS}"),
        ("sqlite://jobs.db", f"store URL 'sqlite://jobs.db' {SLASHES}: sqlite:///jobs.db"),
        ("sqlite://var/jobs.db", f"store URL 'sqlite://var/jobs.db' {SLASHES}: sqlite:///var/jobs.db"),
        ("sqlite://", f"store URL 'sqlite://' {SLASHES}: sqlite:///jobs.db"),
        ("sqlite:///", f"store URL 'sqlite:///' names no file: use {FILES}"),
        ("sqlite:///folder/", f"store URL 'sqlite:///folder/' names no file: use {FILES}"),
        ("sqlite:///a.db?mode=ro", f"store URL 'sqlite:///a.db?mode=ro' takes no query or fragment: use {FILES}"),
        ("sqlite:///a.db#b", f"store URL 'sqlite:///a.db#b' takes no query or fragment: use {FILES}"),
    ],
)
def test_bad_store_url_is_refused_with_the_right_form(url: str, message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        open_store(url)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:jobs.db",
        "sqlite:/jobs.db",
        "sqlite:///:memory:",
        "sqlite:///a\x00b.db",
        "memory://x",
    ],
    ids=repr,
)
def test_ambiguous_store_url_is_refused(url: str) -> None:
    with pytest.raises(BadSetting):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ada:lovelace@host/db",
        "postgresql://ada:lovelace@host",
        "postgresql://host/?user=ada&password=lovelace",
        "postgresql://ada:lovelace@host/db?prefix=No",
    ],
)
def test_refused_store_url_hides_the_password(url: str) -> None:
    with pytest.raises(BadSetting) as refused:
        open_store(url)
    assert "lovelace" not in str(refused.value)
    assert "sql://" in str(refused.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_postgres_url_has_schema_and_prefix_and_keeps_the_rest(scheme: str) -> None:
    store = open_store(f"{scheme}://ada@host:99/jobs?schema=shop&sslmode=require&prefix=job_")
    assert isinstance(store, PostgresStore)
    place = store.url
    assert (place.schema, place.prefix) == ("shop", "job_")
    assert place.dsn == f"{scheme}://ada@host:99/jobs?sslmode=require"
    assert place.sql("SELECT 1 FROM mainspring_jobs") == 'SELECT 1 FROM "shop"."job_jobs"'
    assert place.sql("CREATE INDEX mainspring_x ON mainspring_jobs") == 'CREATE INDEX "job_x" ON "shop"."job_jobs"'


@pytest.mark.parametrize("name", ["", "Shop", "a-b", "1a", 'a"b', "a" * 42, "a;drop table x", "ä", "a\n"])
@pytest.mark.parametrize("option", ["schema", "prefix"])
def test_postgres_schema_or_prefix_must_be_a_plain_name(option: str, name: str) -> None:
    with pytest.raises(BadSetting, match=option):
        open_store(f"postgresql://host/jobs?{urlencode({option: name})}")


def test_postgres_url_without_a_database_is_refused() -> None:
    with pytest.raises(BadSetting, match="names no database: use postgresql://user@host/database"):
        open_store("postgresql://host")


HOSTS = {
    "[::1]/jobs": [("::1", 5432)],
    "[::1]:99/jobs": [("::1", 99)],
    "one,[::1]:99/jobs": [("one", 5432), ("::1", 99)],
    "[::1],[::2]:99,three:7/jobs?sslmode=disable": [("::1", 5432), ("::2", 99), ("three", 7)],
    "one,[::1]:99/jobs?host=other&port=1": [("one", 5432), ("::1", 99)],
}


@pytest.mark.parametrize("option", ["", "listen"])
@pytest.mark.parametrize("where", HOSTS)
def test_postgres_driver_parses_ipv6_hosts(where: str, option: str) -> None:
    url = f"postgresql://ada:p[w@{where}"
    store = open_store(f"postgresql://host/jobs?{urlencode({'listen': url})}" if option else url)
    assert isinstance(store, PostgresStore)
    nothing = dict.fromkeys(inspect.signature(_parse_connect_dsn_and_args).parameters)
    dsn = store.url.listen if option else store.url.dsn
    addresses, known = _parse_connect_dsn_and_args(**nothing | {"dsn": dsn})
    assert (addresses, known.user, known.password, known.database) == (HOSTS[where], "ada", "p[w", "jobs")


@pytest.mark.parametrize("where", ["[::1/jobs", "one,::1/jobs", "host:http/jobs", "one,[::1]x/jobs"])
@pytest.mark.parametrize("option", ["", "listen"])
def test_postgres_url_with_a_bad_host_is_refused(where: str, option: str) -> None:
    url = f"postgresql://{where}"
    with pytest.raises(BadSetting, match="has a bad host or port: use postgresql://user@host:5432/database"):
        open_store(f"postgresql://host/jobs?{urlencode({'listen': url})}" if option else url)


def test_app_refuses_a_bad_store_url() -> None:
    with pytest.raises(BadSetting, match=r"no store named in URL 'jobs\.db'"):
        Mainspring("jobs.db")


@pytest.mark.parametrize("store", [5, b"memory://", object()])
def test_app_refuses_a_store_argument_of_another_type(store: object) -> None:
    with pytest.raises(BadSetting):
        Mainspring(store)  # type: ignore[arg-type]
