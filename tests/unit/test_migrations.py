"""The numbered migrations of a schema, and whether a release can work on the tables it finds."""

import pytest

from mainspring.errors import BadInput, SchemaMismatch
from mainspring.records.schema import Schema
from mainspring.stores.migrations import Migrations
from mainspring.stores.postgres import schema
from mainspring.stores.sqlite import file

STEPS = Migrations("""-- What comes before the first step belongs to none.
-- up 1
one;
-- down 1
not one;
-- up 2, for 1
two;  -- with a comment
-- down 2
not two;
-- up 3
three;
-- down 3
not three;
-- up 4, for 2
four;
-- down 4
not four;
""")


def test_migrations_between_versions_go_up_and_down_in_order() -> None:
    assert STEPS.between(0, 2) == [(1, "one;"), (2, "two;  -- with a comment")]
    assert STEPS.between(3, 1) == [(2, "not three;"), (1, "not two;")]
    assert STEPS.between(2, 2) == []


@pytest.mark.parametrize(("version", "oldest"), [(0, 0), (1, 1), (2, 1), (3, 3)])
def test_oldest_is_the_oldest_schema_that_can_still_work(version: int, oldest: int) -> None:
    assert STEPS.oldest(version) == oldest


def test_oldest_never_decreases_with_later_migrations() -> None:
    assert STEPS.oldest(4) == 3


def test_schema_without_oldest_is_for_its_own_version() -> None:
    assert STEPS.schema(9, None) == Schema(9, 4, 9)


def test_target_defaults_to_the_newest_version() -> None:
    assert (STEPS.target(None), STEPS.target(0), STEPS.target(3)) == (4, 0, 3)


@pytest.mark.parametrize("target", [-1, 5])
def test_unknown_target_is_refused(target: int) -> None:
    with pytest.raises(BadInput, match=f"there is no schema version {target}; this release knows 0 to 4"):
        STEPS.target(target)


def test_migrating_from_an_unknown_version_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="the store has schema 5, this release knows 4 at most"):
        STEPS.between(5, 4)


@pytest.mark.parametrize("migrations", [schema.MIGRATIONS, file.MIGRATIONS], ids=["postgres", "sqlite"])
def test_every_real_migration_goes_up_and_down(migrations: Migrations) -> None:
    for version in range(1, migrations.newest + 1):
        ((up, _),), ((down, _),) = migrations.between(version - 1, version), migrations.between(version, version - 1)
        assert (up, down) == (version, version - 1)
        assert 1 <= migrations.oldest(version) <= version


@pytest.mark.parametrize(
    ("schema", "trouble"),
    [
        (Schema(3, 3, 3), None),
        (Schema(5, 3, 3), None),
        (Schema(5, 3, 1), None),
        (Schema(2, 3, 1), "the store has schema 2, this release works with 3: mainspring migrate up"),
        (Schema(0, 3, 0), "the store has schema 0, this release works with 3: mainspring migrate up"),
        (
            Schema(5, 3, 4),
            "the store has schema 5, for releases that know schema 4 or a later one; this one knows 3: "
            "upgrade mainspring",
        ),
    ],
)
def test_release_works_on_newer_compatible_tables_only(schema: Schema, trouble: str | None) -> None:
    assert (schema.trouble, schema.usable) == (trouble, trouble is None)
