"""Stores in the databases of a Django project: which URL follows from DATABASES, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import BadSetting
from mainspring.django.database_url import database_url
from mainspring.stores import open_store

EMPTY = {"NAME": "shop", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}


def postgres(**given: Any) -> dict[str, Any]:
    return {**EMPTY, "ENGINE": "django.db.backends.postgresql", **given}


@pytest.mark.parametrize(
    ("database", "url"),
    [
        (postgres(), "postgresql:///shop"),
        (postgres(USER="ada", HOST="db", PORT=5433), "postgresql://ada@db:5433/shop"),
        (postgres(USER="a@b", PASSWORD="p:/?#", HOST="::1"), "postgresql://a%40b:p%3A%2F%3F%23@[::1]/shop"),
        (postgres(HOST="/run/pg", PORT="5433"), "postgresql:///shop?host=%2Frun%2Fpg&port=5433"),
        (postgres(PORT=5433), "postgresql:///shop?port=5433"),
        (postgres(OPTIONS={"sslmode": "require", "pool": True}), "postgresql:///shop?sslmode=require"),
        (EMPTY | {"ENGINE": "django.db.backends.sqlite3", "NAME": "/var/shop.db"}, "sqlite:////var/shop.db"),
    ],
)
def test_url_has_what_the_database_has(database: dict[str, Any], url: str) -> None:
    assert database_url("default", database) == url
    open_store(url)


@pytest.mark.parametrize(
    ("database", "text"),
    [
        (EMPTY | {"ENGINE": "django.db.backends.mysql"}, r"is of django\.db\.backends\.mysql; the store needs"),
        (
            postgres(OPTIONS={"service": "shop"}),
            "has the option 'service', which Mainspring cannot read: give the store's",
        ),
        (postgres(NAME=""), "has no NAME"),
        (EMPTY | {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, "in tests give it a file"),
        (
            EMPTY | {"ENGINE": "django.db.backends.sqlite3", "NAME": "file:memorydb_default?mode=memory&cache=shared"},
            "is in memory, where a worker cannot read it",
        ),
    ],
)
def test_databases_without_a_store_are_refused_with_the_way_out(database: dict[str, Any], text: str) -> None:
    with pytest.raises(BadSetting, match=text):
        database_url("jobs", database)
