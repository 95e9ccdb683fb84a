"""The numbered steps of a schema, and what a release makes of tables it finds."""

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


def test_the_way_up_is_every_step_between_and_the_way_down_is_the_same_backwards() -> None:
    assert STEPS.between(0, 2) == [(1, "one;"), (2, "two;  -- with a comment")]
    assert STEPS.between(3, 1) == [(2, "not three;"), (1, "not two;")]
    assert STEPS.between(2, 2) == []


@pytest.mark.parametrize(("version", "oldest"), [(0, 0), (1, 1), (2, 1), (3, 3)])
def test_each_step_says_who_can_still_work_on_the_tables(version: int, oldest: int) -> None:
    assert STEPS.oldest(version) == oldest


def test_whom_an_earlier_step_has_left_behind_a_later_one_does_not_take_back() -> None:
    assert STEPS.oldest(4) == 3


def test_tables_that_do_not_say_for_whom_they_are_are_for_those_who_know_them() -> None:
    assert STEPS.schema(9, None) == Schema(9, 4, 9)


def test_the_target_is_the_newest_unless_one_is_named() -> None:
    assert (STEPS.target(None), STEPS.target(0), STEPS.target(3)) == (4, 0, 3)


@pytest.mark.parametrize("target", [-1, 5])
def test_a_target_nobody_knows_is_refused(target: int) -> None:
    with pytest.raises(BadInput, match=f"there is no schema version {target}; this release knows 0 to 4"):
        STEPS.target(target)


def test_there_is_no_way_from_a_version_nobody_knows() -> None:
    with pytest.raises(SchemaMismatch, match="the store has schema 5, this release knows 4 at most"):
        STEPS.between(5, 4)


@pytest.mark.parametrize("migrations", [schema.MIGRATIONS, file.MIGRATIONS], ids=["postgres", "sqlite"])
def test_every_real_step_goes_up_and_down_and_is_for_somebody(migrations: Migrations) -> None:
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
def test_a_release_works_on_tables_that_are_not_older_than_it_and_still_for_it(
    schema: Schema, trouble: str | None
) -> None:
    assert (schema.trouble, schema.usable) == (trouble, trouble is None)
