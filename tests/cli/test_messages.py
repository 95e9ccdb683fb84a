"""Messages and rendered text are safe, short and readable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.cli import job_page, render
from mainspring.cli.messages import clean, redacted
from mainspring.cli.render import facts
from mainspring.records.job import SHOWN
from mainspring.records.run import PARTIAL, Ending

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pw@host/db", "postgresql://me:***@host/db"),
        ("redis://:pw@host", "redis://:***@host"),
        ("x://me:p@w@host", "x://me:***@host"),
        ("x://me:p/w@host", "x://me:***@host"),
        ("x://host/db?user=me&password=pw&a=1", "x://host/db?user=me&password=***&a=1"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
    ],
)
def test_a_url_is_shown_without_its_password(text, shown):
    assert redacted(f"cannot open {text!r} now") == f"cannot open {shown!r} now"


def test_control_characters_are_spelled_out():
    assert clean("a\x1b[2J\x07b\x7f\x9bz\n\tö") == "a\\x1b[2J\\x07b\\x7f\\x9bz\n\tö"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0ms"), (-1, "0ms"), (0.0304, "30ms"), (0.9994, "999ms"), (0.9999, "1.0s"), (9.94, "9.9s"),
        (9.96, "10s"), (59.4, "59s"), (59.9, "1m"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86400 * 400, "400d"),
    ],
)  # fmt: skip
def test_spans_are_short(seconds, shown):
    assert render.span(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.5, "now"), (-0.5, "now"), (5, "in 5s"), (-59.9, "59s ago"), (7300, "in 2h")]
)
def test_instants_are_relative_to_now(seconds, shown):
    assert render.when(NOW + timedelta(seconds=seconds), NOW) == shown


def test_every_state_has_its_own_symbol_and_every_ending_has_a_mark():
    assert set(render.STATES) == set(SHOWN)
    assert len({symbol for symbol, _ in render.STATES.values()}) == len(SHOWN)
    assert set(job_page.OUTCOME_MARKS) == {*Ending, PARTIAL}


def test_multiline_value_cannot_forge_a_fact() -> None:
    shown = facts({"cancel reason": "no\n  state          completed\r\nforged", "queue": "default"}).plain
    assert shown.splitlines() == [
        "  cancel reason  no",
        "                   state          completed\\x0d",
        "                 forged",
        "  queue          default",
    ]
