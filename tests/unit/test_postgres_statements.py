"""The statements of the PostgreSQL store, kept in tests/golden/statements so that a review shows each change of them.

`MAINSPRING_TEST_STATEMENTS=write .venv/bin/python -m pytest tests/unit/test_postgres_statements.py` writes them again.
"""

import ast
import os
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from mainspring.clock import instant
from mainspring.records.query import Filter
from mainspring.stores.postgres import completions
from mainspring.stores.postgres.job_groups import FINISHED, JOBS
from mainspring.stores.postgres.job_query import PostgresJobQuery
from mainspring.stores.postgres.lists import NEAR_ROWS
from mainspring.stores.postgres.pool import SEPARATOR
from mainspring.stores.postgres.statement_file import StatementFile
from source_tree import SOURCE, TESTS, tree_of

GOLDEN = TESTS / "golden" / "statements"
STORE = SOURCE / "stores" / "postgres"
WRITE = os.environ.get("MAINSPRING_TEST_STATEMENTS") == "write"
HOW = "MAINSPRING_TEST_STATEMENTS=write .venv/bin/python -m pytest tests/unit/test_postgres_statements.py"
# The driver prepares a longer statement again for each call.
MAX_PREPARED_BYTES = 15 * 1024
NOW = 1_000_000_000_000_000
_VERBS = r"(SELECT|WITH|INSERT|UPDATE|DELETE)\s"


def constants(module: str) -> Iterator[tuple[str, str]]:
    """The statements that a module assigns to constants, by name; those of a dict also by key."""
    values = vars(import_module(f"mainspring.stores.postgres.{module}"))
    for node in tree_of(STORE / f"{module}.py").body:
        if isinstance(node, ast.Assign) and isinstance(name := node.targets[0], ast.Name):
            value, shown = values[name.id], name.id.strip("_").lower()
            named = (
                {f"{shown}[{key}]": text for key, text in value.items()} if isinstance(value, dict) else {shown: value}
            )
            yield from ((title, text) for title, text in named.items() if re.match(_VERBS, str(text)))


def lists() -> Iterator[tuple[str, str]]:
    """The statements for some pages: each way to a page, once for each table where they differ."""
    days = Filter(created_after=instant(NOW), created_before=instant(2 * NOW))
    ordered = PostgresJobQuery(JOBS, Filter(), NOW, 50, None, True, "created")
    due = PostgresJobQuery(JOBS, Filter(queues=("mail",)), NOW, 50, None, False, "due")
    dead = PostgresJobQuery(FINISHED, Filter(states=("dead",)), NOW, 50, None, True, "finished")
    tagged = PostgresJobQuery(JOBS, Filter(queues=("mail",), tags=("red",)), NOW, 50, None, True, "created", brief=True)
    created = PostgresJobQuery(FINISHED, days, NOW, 50, None, True, "created")
    keyed = PostgresJobQuery(JOBS, Filter(key_prefix="order-"), NOW, 50, None, True, "created")
    for name, query, sql in (
        ("walk along the ids", ordered, ordered.full_walk()),
        ("walk along the groups of unfinished jobs", due, due.full_walk()),
        ("walk along the groups of finished jobs", dead, dead.full_walk()),
        ("nearby page of brief jobs", tagged, tagged.nearby_page(NEAR_ROWS)),
        ("nearby page between two times of creation", created, created.nearby_page(NEAR_ROWS)),
        ("page by a small index", keyed, next(keyed.indexed_pages(small_only=True))[0]),
        ("page by groups", tagged, next(tagged.indexed_pages(small_only=False))[0]),
    ):
        yield name, query.bound(sql)[0]


STATEMENTS = {
    "claim": dict(constants("claim")),
    "count": dict(constants("count")),
    "finish": {name: getattr(completions, name.upper()) for name in ("complete", "complete_all", "complete_limited")},
    "limits": {
        name: sql
        for module in ("limit_lines", "limited_claim", "locked_groups", "limits")
        for name, sql in constants(module)
    },
    "lists": dict(lists()),
    "workers": dict(constants("workers")),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_are_those_of_the_golden_text(name: str) -> None:
    shown = {title: text.replace(SEPARATOR, r"\x1f") for title, text in STATEMENTS[name].items()}
    text = "\n".join(f"-- {title}\n{sql};\n" for title, sql in shown.items())
    path = GOLDEN / f"{name}.sql"
    if WRITE:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"statements have changed; if that is meant: {HOW}"


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_driver_prepares_each_statement_once(name: str) -> None:
    assert [title for title, sql in STATEMENTS[name].items() if len(sql.encode()) > MAX_PREPARED_BYTES] == []


def test_all_variants_of_a_claim_are_in_the_golden_text() -> None:
    assert {"take_plain", "take_known", "take_rest", "take_one", "read_view", "expire"} <= set(STATEMENTS["claim"])
    words = [node.value for node in ast.walk(tree_of(STORE / "claim.py")) if isinstance(node, ast.Constant)]
    documentation = ast.get_docstring(tree_of(STORE / "claim.py"), clean=False)
    assert [word for word in words if "mainspring_" in str(word) and word != documentation] == []


@pytest.mark.parametrize("name", ["claim", "count", "workers"])
def test_statements_and_fragments_are_used(name: str) -> None:
    text, module = ((STORE / f"{name}{suffix}").read_text(encoding="utf-8") for suffix in (".sql", ".py"))
    heads = re.findall(r"^-- (?:statement|fragment) (.+)$", text, re.MULTILINE)
    assert len(heads) == len(set(heads))
    assert [head for head in heads if f'"{head}"' not in module and f"{{{head}}}" not in text] == []


# the file


def test_names_stand_for_fragments_and_given_texts() -> None:
    sql = StatementFile(
        "-- About all.\n\n-- fragment due\n-- A reason.\nat <= $1\nAND {ready}\n\n"
        "-- statement take\nSELECT {what} FROM job\n    -- Only these.\n    WHERE {due}\n\n"
        "-- statement other\nSELECT 1\n",
        ready="n ~ '[0-9]{1,18}'",
    )
    assert sql.fragments == {"due": "at <= $1\nAND n ~ '[0-9]{1,18}'"}
    assert sql.statement("take", what="id") == ("SELECT id FROM job\n    WHERE at <= $1\n    AND n ~ '[0-9]{1,18}'")
    assert sql.statement("other") == "SELECT 1"


def test_a_name_without_a_text_is_an_error() -> None:
    with pytest.raises(KeyError, match="what"):
        StatementFile("-- statement take\nSELECT {what}\n").statement("take")


def test_a_fragment_contains_no_other_fragment() -> None:
    with pytest.raises(KeyError, match="inner"):
        StatementFile("-- fragment inner\ntrue\n-- fragment outer\n{inner} AND true\n")


def test_comments_are_not_sent() -> None:
    sent = STATEMENTS["claim"] | STATEMENTS["count"]
    assert [name for name, sql in sent.items() if "--" in sql] == []
