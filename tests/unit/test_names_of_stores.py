"""Schema and prefixes as settings, and environment variables that are not settings."""

import logging
from typing import Any, cast

import pytest

from mainspring import BadSetting, Mainspring
from mainspring.config import _warned, load
from mainspring.stores import open_store
from mainspring.stores.postgres.store import PostgresStore
from mainspring.stores.redis.store import RedisStore

POSTGRES, REDIS = "postgresql://ada@localhost/jobs", "redis://localhost/0"


def postgres(url: str = POSTGRES, **names: Any) -> tuple[str, str]:
    place = cast(PostgresStore, open_store(url, **names)).url
    return place.schema, place.prefix


def redis(url: str = REDIS, **names: Any) -> str:
    return cast(RedisStore, open_store(url, **names)).url.prefix


def test_schema_and_prefixes_come_from_settings_the_url_or_defaults() -> None:
    assert postgres() == ("public", "mainspring_")
    assert postgres(postgres_schema="shop", postgres_table_prefix="jobs_") == ("shop", "jobs_")
    assert postgres(f"{POSTGRES}?schema=shop", postgres_table_prefix="jobs_") == ("shop", "jobs_")
    assert postgres(f"{POSTGRES}?schema=shop", postgres_schema="shop") == ("shop", "mainspring_")
    assert redis() == "mainspring"
    assert redis(redis_key_prefix="shop") == redis(redis_key_prefix="shop:") == redis(f"{REDIS}?prefix=shop") == "shop"


@pytest.mark.parametrize(
    ("url", "setting", "value"),
    [
        (f"{POSTGRES}?schema=shop", "postgres_schema", "mill"),
        (f"{POSTGRES}?prefix=a_", "postgres_table_prefix", "b_"),
        (f"{REDIS}?prefix=shop", "redis_key_prefix", "mill"),
    ],
)
def test_a_setting_that_contradicts_the_store_url_is_refused(url: str, setting: str, value: str) -> None:
    names: dict[str, Any] = {setting: value}
    with pytest.raises(BadSetting, match=f"the setting {setting} is '{value}': give one of them, or the same to both"):
        open_store(url, **names)


@pytest.mark.parametrize("name", ["Shop", 'a"b', "a;drop", "1a", "x" * 42, "a b", "ä"])
def test_a_bad_postgres_schema_or_table_prefix_is_refused_by_name(name: str) -> None:
    for setting in ("postgres_schema", "postgres_table_prefix"):
        names: dict[str, Any] = {setting: name}
        with pytest.raises(BadSetting, match=f"{setting}=.*: use lower-case letters, digits and _, 41 at most"):
            open_store(POSTGRES, **names)


@pytest.mark.parametrize("name", ["a b", "{a}", "x" * 65, "a*"])
def test_a_bad_redis_key_prefix_is_refused(name: str) -> None:
    with pytest.raises(BadSetting, match=r"redis_key_prefix=.*: use letters, digits and"):
        open_store(REDIS, redis_key_prefix=name)


def test_environment_variables_set_the_schema_and_prefixes_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_STORE", POSTGRES)
    monkeypatch.setenv("MAINSPRING_POSTGRES_SCHEMA", "shop")
    monkeypatch.setenv("MAINSPRING_POSTGRES_TABLE_PREFIX", "jobs_")
    place = cast(PostgresStore, Mainspring()._engine._root).url
    assert (place.schema, place.prefix) == ("shop", "jobs_")
    monkeypatch.setenv("MAINSPRING_STORE", REDIS)
    monkeypatch.setenv("MAINSPRING_REDIS_KEY_PREFIX", "shop:")
    assert cast(RedisStore, Mainspring()._engine._root).url.bases == ["{shop}"]


def test_a_setting_for_another_store_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    open_store("memory://", postgres_schema="shop", redis_key_prefix="shop")
    assert [record.message for record in caplog.records] == [
        "the setting postgres_schema='shop' does not apply to the store memory://, and is ignored",
        "the setting redis_key_prefix='shop' does not apply to the store memory://, and is ignored",
    ]


def test_an_unknown_environment_variable_is_warned_of_once_with_a_suggestion(caplog: pytest.LogCaptureFixture) -> None:
    _warned.clear()
    environ = {
        "MAINSPRING_CONCURENCY": "5", "MAINSPRING_TEST_REDIS": "x", "MAINSPRING_APP": "a:b", "MAINSPRING_BEAT": "5s",
        "MAINSPRING_SUPERVISED": "1:2", "OTHER": "1",
    }  # fmt: skip
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            load({}, environ)
    (record,) = caplog.records
    text = "the variable MAINSPRING_CONCURENCY is not a setting, and means nothing"
    assert record.message == f"{text}: did you mean 'MAINSPRING_CONCURRENCY'?"
