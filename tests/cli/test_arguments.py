"""KEY=VALUE is text if the task accepts text, else JSON."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import click
import pytest

from mainspring.cli.arguments import parse_args_option, parse_arguments


@pytest.mark.parametrize(
    ("word", "hint", "value"),
    [
        ("x=5", str, "5"),
        ("x=5", int, 5),
        ("x=5", float, 5),
        ("x=1.5", float, 1.5),
        ("x=five", int, "five"),
        ("x=true", bool, True),
        ("x=[1,2]", list[int], [1, 2]),
        ('x={"a": 1}', dict[str, int], {"a": 1}),
        ("x=null", int | None, None),
        ("x=null", str | None, "null"),
        ('x="quoted"', str, '"quoted"'),
        ("x=5", str | int, "5"),
        ("x=5", Any, "5"),
        ("x=", str, ""),
        ("x=a=b", str, "a=b"),
        ("x=red", Literal["red", "green"], "red"),
        ("x=2030-01-31T09:00:00Z", datetime, "2030-01-31T09:00:00Z"),
        ("x=2030-01-31", date | None, "2030-01-31"),
        ("x=5.10", Decimal, "5.10"),
        ("x=00000000-0000-0000-0000-000000000001", UUID, "00000000-0000-0000-0000-000000000001"),
        ("x:=5", str, 5),
        ("x:=null", str, None),
        ('x:="5"', int, "5"),
    ],
)
def test_key_value_is_typed_by_the_task(word, hint, value):
    assert parse_arguments([word], {"x": hint}) == {"x": value}


def test_unknown_parameter_is_text():
    assert parse_arguments(["y=5"], {"x": int}) == {"y": "5"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["5"], "'5' is not KEY=VALUE; arguments without a name go in --args"),
        (["=5"], "'=5' is not KEY=VALUE"),
        ([":=5"], "':=5' is not KEY=VALUE"),
        (["x=1", "x:=2"], "'x' is given twice"),
        (["x:=five"], "x:=five is not JSON"),
        (["x:="], "x=  sends text".replace("  ", " ")),
    ],
)
def test_invalid_argument_is_a_usage_error(words, said):
    with pytest.raises(click.UsageError, match=None) as refused:
        parse_arguments(words, {})
    assert said in refused.value.message


def test_args_option_takes_an_array_or_an_object():
    assert parse_args_option("[1, 2]") == ([1, 2], {})
    assert parse_args_option('{"a": 1}') == ([], {"a": 1})


@pytest.mark.parametrize(("text", "said"), [("5", "write '[5]'"), ("nope", "is not JSON")])
def test_args_option_refuses_a_scalar_and_invalid_json(text, said):
    with pytest.raises(click.UsageError) as refused:
        parse_args_option(text)
    assert said in refused.value.message
