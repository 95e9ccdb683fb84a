"""Deduplication keys: their parts, and when two calls have the same key."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import BadInput, Key
from mainspring.bounds import MAX_KEY_CHARACTERS
from mainspring.task.dedup_key import resolve_key

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
CALL = {"to": "ada", "subject": "hi"}


def make(key: Key, *, task: str = "mail", values: Any = CALL, queue: str = "default", now: datetime = NOON) -> str:
    return key.make(task, values, queue, now)


def test_a_key_without_parts_is_the_task_name() -> None:
    assert make(Key()) == "mail"


# The differences from the plain call.
ANOTHER: dict[str, dict[str, Any]] = {
    "task": {"task": "letter"},
    "argument": {"values": {"to": "bob", "subject": "hi"}},
    "other argument": {"values": {"to": "ada", "subject": "bye"}},
    "queue": {"queue": "low"},
    "minute": {"now": NOON + timedelta(minutes=1)},
    "hour": {"now": NOON + timedelta(hours=1)},
}


@pytest.mark.parametrize(
    ("key", "sees"),
    [
        (Key(), {"task"}),
        (Key(args=True), {"task", "argument", "other argument"}),
        (Key(args=("to",)), {"task", "argument"}),
        (Key(args=("to", "subject")), {"task", "argument", "other argument"}),
        (Key(queue=True), {"task", "queue"}),
        (Key(period=3600), {"task", "hour"}),
        (Key(period=60), {"task", "minute", "hour"}),
        (Key(period=timedelta(hours=1)), {"task", "hour"}),
        (Key(args=True, queue=True, period=3600), {"task", "argument", "other argument", "queue", "hour"}),
    ],
    ids=repr,
)
def test_a_key_differs_only_if_one_of_its_parts_differs(key: Key, sees: set[str]) -> None:
    assert make(key) == make(key)
    assert {name for name, change in ANOTHER.items() if make(key, **change) != make(key)} == sees


def test_a_key_does_not_depend_on_the_order_of_arguments() -> None:
    assert make(Key(args=True), values={"b": 1, "a": 2}) == make(Key(args=True), values={"a": 2, "b": 1})


def test_a_key_does_not_depend_on_the_order_inside_an_argument() -> None:
    key = Key(args=True)
    assert make(key, values={"a": {"x": 1, "y": {2, 3}}}) == make(key, values={"a": {"y": {3, 2}, "x": 1}})


@given(st.dictionaries(st.text(min_size=1), st.integers() | st.text(), max_size=3), st.data())
def test_different_arguments_have_different_keys(values: dict[str, Any], data: st.DataObject) -> None:
    other = data.draw(st.dictionaries(st.text(min_size=1), st.integers() | st.text(), max_size=3))
    same = make(Key(args=True), values=values) == make(Key(args=True), values=other)
    assert same == (values == other)


@pytest.mark.parametrize(
    ("one", "other"), [({"a": "1"}, {"a": 1}), ({"a": None}, {}), ({"a": ["b"]}, {"a": "b"}), ({"a": 1}, {"b": 1})]
)
def test_arguments_that_look_alike_have_different_keys(one: Any, other: Any) -> None:
    assert make(Key(args=True), values=one) != make(Key(args=True), values=other)


@pytest.mark.parametrize(
    ("at", "same"),
    [
        (datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC), True),
        (datetime(2030, 1, 1, 12, 59, 59, 999999, tzinfo=UTC), True),
        (datetime(2030, 1, 1, 13, 0, 0, tzinfo=UTC), False),
        (datetime(2030, 1, 1, 11, 59, 59, 999999, tzinfo=UTC), False),
    ],
)
def test_a_key_period_is_aligned_to_utc(at: datetime, same: bool) -> None:
    key = Key(period=3600)
    assert (make(key, now=at) == make(key, now=NOON + timedelta(minutes=30))) == same


def test_every_period_has_its_own_key() -> None:
    keys = [make(Key(period=60), now=NOON + timedelta(minutes=n)) for n in range(100)]
    assert len(set(keys)) == 100


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (Key(args=("cc",)), "key of task 'mail' names argument 'cc', which this call does not give"),
        (Key(period=0), "Key(period=…) must be more than 0 seconds"),
        (
            Key(period=-1),
            "Key(period=…) takes a span such as 30, '4s', '1h30m' or a timedelta, 0 or more; got -1",
        ),
        (
            Key(period="soon"),
            "Key(period=…) takes a span such as 30, '4s', '1h30m' or a timedelta, 0 or more; got 'soon'",
        ),
    ],
)
def test_a_key_that_cannot_be_composed_is_refused(key: Key, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        make(key)
    assert str(refused.value) == message


def test_key_args_given_as_a_string_are_one_argument_name() -> None:
    """It may also be refused by name."""
    try:
        said = make(Key(args="to"))  # type: ignore[arg-type]
    except BadInput as refused:
        said = str(refused)
    assert said == make(Key(args=("to",))) or "'to'" in said


# keys as options


def test_resolve_key_without_a_spec_is_none() -> None:
    assert resolve_key(None, "unique_key", "mail", CALL, "default", NOON) is None


def test_resolve_key_returns_a_text_unchanged() -> None:
    assert resolve_key("welcome:42", "unique_key", "mail", CALL, "default", NOON) == "welcome:42"


def test_resolve_key_composes_a_key_spec() -> None:
    assert resolve_key(Key(queue=True), "unique_key", "mail", CALL, "low", NOON) == make(Key(queue=True), queue="low")


def test_resolve_key_calls_a_key_function_with_the_arguments() -> None:
    assert resolve_key(lambda to, subject: f"to {to}", "unique_key", "mail", CALL, "default", NOON) == "to ada"


@pytest.mark.parametrize(
    "key",
    ["", "x" * (MAX_KEY_CHARACTERS + 1), "a\nb", "a\x00b", "a\ud800b", lambda to, subject: None, lambda to, subject: 5],
)
def test_a_key_that_cannot_be_stored_is_refused(key: Any) -> None:
    message = rf"^unique_key of task 'mail' must be 1 to {MAX_KEY_CHARACTERS} printable characters, got "
    with pytest.raises(BadInput, match=message):
        resolve_key(key, "unique_key", "mail", CALL, "default", NOON)


def test_the_longest_key_is_accepted() -> None:
    key = "x" * MAX_KEY_CHARACTERS
    assert resolve_key(key, "unique_key", "mail", CALL, "default", NOON) == key


@pytest.mark.parametrize("key", [5, b"bytes", ["a"]])
def test_a_key_spec_of_a_wrong_type_is_refused(key: Any) -> None:
    with pytest.raises(BadInput, match="unique_key of task 'mail'"):
        resolve_key(key, "unique_key", "mail", CALL, "default", NOON)


def test_a_key_function_with_other_parameters_is_refused_by_option_name() -> None:
    with pytest.raises(BadInput, match="unique_key of task 'mail'"):
        resolve_key(lambda user: user, "unique_key", "mail", CALL, "default", NOON)
