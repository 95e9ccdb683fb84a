"""The codec: arguments and results are decoded to the declared types unchanged, or they are refused."""

import dataclasses
import enum
import math
import re
import string
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import BadInput, BadPayload, BadTask, Context
from mainspring.codec import MAX_DEPTH, Arguments, ResultCodec, encode, encode_call, encode_result
from mainspring.config import Settings
from mainspring.records.run import Failure

LIMIT = Settings().payload_limit


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5


class Person(msgspec.Struct):
    name: str
    born: date
    friends: list["Person"] = []


class Order(pydantic.BaseModel):
    id: UUID
    total: Decimal
    lines: list[str] = []


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict):
    loud: bool


def send(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Encodes the call, decodes it, and returns the result of the function."""
    arguments = Arguments(fn, "mail", Context)
    args, kwargs = arguments.decode(arguments.encode(args, kwargs, LIMIT))  # type: ignore[assignment]
    return fn(*args, **kwargs)


def takes(hint: Any) -> Callable[[Any], Any]:
    """A function that returns its only argument, which has this type."""

    def echo(value: Any) -> Any:
        return value

    echo.__annotations__ = {"value": hint}
    return echo


IDENTITY = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 5),
        (int, -(2**63)),
        (int, 2**63 - 1),
        (str, "naïve ✓ 日本 🎉 \x01\u2028"),
        (str, ""),
        (float, 0.1),
        (bool, True),
        (None, None),
        (bytes, b"\x00\xff raw"),
        (datetime, datetime(2030, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)),
        (datetime, datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=-5)))),
        (datetime, datetime(2030, 1, 1)),
        (date, date(2030, 2, 28)),
        (time, time(12, 30)),
        (timedelta, timedelta(days=2, seconds=1.5)),
        (UUID, IDENTITY),
        (Decimal, Decimal("0.10000000000000000000001")),
        (Colour, Colour.RED),
        (Level, Level.HIGH),
        (Literal["a", "b"], "b"),
        (Point, Point(1)),
        (Person, Person("Ada", date(1815, 12, 10), [Person("Charles", date(1791, 12, 26))])),
        (Order, Order(id=IDENTITY, total=Decimal("9.90"), lines=["tea"])),
        (Pair, Pair(1, "one")),
        (Options, {"loud": True}),
        (list[int], [1, 2]),
        (list[Order], [Order(id=IDENTITY, total=Decimal(1))]),
        (dict[str, datetime], {"at": datetime(2030, 1, 1, tzinfo=UTC)}),
        (dict[int, str], {1: "one"}),
        (dict[UUID, Point], {IDENTITY: Point(1, 2.0)}),
        (tuple[int, str], (1, "one")),
        (tuple[int, ...], (1, 2, 3)),
        (set[int], {1, 2}),
        (frozenset[str], frozenset("ab")),
        (int | None, None),
        (Order | None, None),
        (Order | None, Order(id=IDENTITY, total=Decimal(1))),
        (Point | None, Point(2)),
        (int | str, "five"),
        (Annotated[int, msgspec.Meta(ge=0)], 0),
        (Any, {"a": [1, 2.5, None, True, "x"]}),
        (object, "anything"),
    ],
    ids=repr,
)
def test_an_argument_is_decoded_to_its_declared_type(hint: Any, value: Any) -> None:
    arrived = send(takes(hint), value)
    assert arrived == value
    assert type(arrived) is type(value)


def test_an_integer_argument_is_decoded_as_the_declared_float() -> None:
    assert type(send(takes(float), 5)) is float


def test_an_aware_datetime_stays_aware() -> None:
    assert send(takes(datetime), datetime(2030, 1, 1, tzinfo=UTC)).tzinfo is not None


def test_an_argument_without_annotation_is_decoded_as_plain_data() -> None:
    assert send(lambda value: value, Point(1)) == {"x": 1, "y": 0.5}


def test_annotations_may_be_strings() -> None:
    assert send(takes("Point | None"), Point(1)) == Point(1)


# the shapes of a signature


def plain(a: int, b: str = "b", *, c: float = 1.0) -> Any:
    return a, b, c


def keyword_only(*, a: int, b: int = 2) -> Any:
    return a, b


def positional_only(a: int, b: datetime, /, c: int = 3) -> Any:
    return a, b, c


def rest(a: int, *more: date, b: int = 2) -> Any:
    return a, more, b


def rest_after_defaults(a: int = 1, b: int = 2, *more: int) -> Any:
    return a, b, more


def extra(a: int, **more: Any) -> Any:
    return a, more


def everything(a: int, /, b: int = 2, *more: int, c: int = 3, **others: Any) -> Any:
    return a, b, more, c, others


def nothing() -> Any:
    return "called"


NEW_YEAR = date(2030, 1, 1)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        (plain, (1,), {}),
        (plain, (1, "x"), {"c": 2.0}),
        (plain, (), {"b": "x", "a": 1}),
        (keyword_only, (), {"a": 1}),
        (keyword_only, (), {"a": 1, "b": 5}),
        (positional_only, (1, NOON), {}),
        (positional_only, (1, NOON, 7), {}),
        (positional_only, (1, NOON), {"c": 7}),
        (rest, (1,), {}),
        (rest, (1, NEW_YEAR, NEW_YEAR), {}),
        (rest, (1, NEW_YEAR), {"b": 5}),
        (rest_after_defaults, (), {}),
        (rest_after_defaults, (5,), {}),
        (rest_after_defaults, (5, 6, 7, 8), {}),
        (extra, (1,), {}),
        (extra, (1,), {"x": 1, "y": [2]}),
        (everything, (1, 2, 3, 4), {"c": 5, "d": 6}),
        (everything, (1,), {}),
        (nothing, (), {}),
    ],
)
def test_decoded_arguments_make_the_same_call(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert send(fn, *args, **kwargs) == fn(*args, **kwargs)


def test_extra_keywords_are_decoded_to_their_declared_type() -> None:
    def dated(**dates: datetime) -> Any:
        return dates

    assert send(dated, at=NOON) == {"at": NOON}


def test_extra_keywords_of_another_type_are_refused() -> None:
    def counted(**counts: int) -> Any:
        return counts

    with pytest.raises(BadPayload, match="apples"):
        send(counted, apples="many")


def test_an_extra_keyword_named_args_is_not_taken_for_positional_arguments() -> None:
    def loose(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert send(loose, args=[1]) == ((), {"args": [1]})


def test_defaults_of_arguments_are_not_stored_in_the_payload() -> None:
    """A deploy may change a default: it is not stored in the payload."""
    assert Arguments(plain, "mail", Context).encode((1,), {}, LIMIT) == '{"a":1}'


def test_a_method_of_an_object_can_be_a_task() -> None:
    class Mailer:
        def send(self, to: str) -> str:
            return f"sent to {to}"

    assert send(Mailer().send, "ada") == "sent to ada"


@pytest.mark.parametrize("name", ["_private", "__mangled", "id", "encode", "payload"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def fn({name}: int = 1): return {name}", scope)
    assert send(scope["fn"], **{name: 5}) == 5


# Context


def test_the_context_is_not_part_of_the_payload() -> None:
    def fn(ctx: Context, a: int) -> None: ...

    arguments = Arguments(fn, "mail", Context)
    assert arguments.context == "ctx"
    assert arguments.decode(arguments.encode((5,), {}, LIMIT)) == ([], {"a": 5})


def test_the_context_cannot_be_passed_as_an_argument() -> None:
    def fn(ctx: Context, a: int) -> None: ...

    with pytest.raises(BadPayload) as refused:
        Arguments(fn, "mail", Context).encode((), {"a": 1, "ctx": None}, LIMIT)
    assert str(refused.value) == "task 'mail' has no argument 'ctx' (takes: a)"


def context_second(a: int, ctx: Context) -> None: ...
def context_by_keyword(*, ctx: Context) -> None: ...


@pytest.mark.parametrize("fn", [context_second, context_by_keyword])
def test_a_context_that_is_not_first_is_refused(fn: Callable[..., Any]) -> None:
    with pytest.raises(BadTask) as refused:
        Arguments(fn, "mail", Context)
    assert str(refused.value) == "task 'mail': the Context parameter 'ctx' must come first"


def context_or_none(ctx: Context | None = None, a: int = 1) -> None: ...
def context_annotated(ctx: Annotated[Context, "mine"], a: int = 1) -> None: ...


@pytest.mark.parametrize("fn", [context_or_none, context_annotated])
def test_an_optional_or_annotated_context_is_injected_or_refused(fn: Callable[..., Any]) -> None:
    try:
        arguments = Arguments(fn, "mail", Context)
    except BadTask:
        return
    assert arguments.context == "ctx"


# encoding and decoding

whole = st.integers(-(2**63), 2**63 - 1)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
plain_data = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=20,
)
people = st.builds(Person, words, st.dates(), st.just([]))
records = st.fixed_dictionaries(
    {
        "when": st.datetimes(timezones=st.just(UTC)),
        "who": st.uuids(),
        "price": st.decimals(allow_nan=False, allow_infinity=False),
        "raw": st.binary(),
        "colour": st.sampled_from(Colour),
        "point": st.builds(Point, whole, st.floats(allow_nan=False, allow_infinity=False)),
        "people": st.lists(people, max_size=3),
        "maybe": st.none() | people,
    }
)


def record(
    when: datetime,
    who: UUID,
    price: Decimal,
    raw: bytes,
    colour: Colour,
    point: Point,
    people: list[Person],
    maybe: Person | None = None,
) -> Any:
    return locals()


@given(plain_data)
def test_plain_data_survives_encoding_and_decoding(value: Any) -> None:
    assert send(takes(Any), value) == value


@given(records)
def test_typed_data_survives_encoding_and_decoding(values: dict[str, Any]) -> None:
    assert send(record, **values) == values


@given(st.lists(st.text() | st.integers() | st.floats()))
def test_encode_refuses_values_that_json_would_change(value: list[Any]) -> None:
    try:
        arrived = send(takes(Any), value)
    except BadPayload:
        return
    assert arrived == value


# refusals


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


class Strange:
    pass


UNSENDABLE = [
    (math.nan, "nan has no JSON form"),
    (math.inf, "inf has no JSON form"),
    (-math.inf, "-inf has no JSON form"),
    ([1, {"deep": math.nan}], "nan has no JSON form"),
    (Point(1, math.nan), "nan has no JSON form"),
    (2**63, "9223372036854775808 does not fit 64 bits"),
    (-(2**63) - 1, "-9223372036854775809 does not fit 64 bits"),
    (2**64, "18446744073709551616 does not fit 64 bits"),
    ({"n": 10**40}, "does not fit 64 bits"),
    ("a\x00b", "text with a NUL character cannot be stored"),
    ({"key\x00": 1}, "text with a NUL character cannot be stored"),
    ("a\ud800b", "text with a lone surrogate is not valid Unicode"),
    ({"\udfff": 1}, "text with a lone surrogate is not valid Unicode"),
    (nested(100_000), "nested too deeply"),
    (nested(MAX_DEPTH), "nested too deeply"),
    ([[], *nested(MAX_DEPTH), "]" * 1000], "nested too deeply"),
    ({'\\"[': nested(MAX_DEPTH)}, "nested too deeply"),
    (Strange(), "Strange is not a type JSON can carry"),
    ([Strange], "type is not a type JSON can carry"),
    (nothing, "function is not a type JSON can carry"),
    (1 + 2j, "complex is not a type JSON can carry"),
    ({(1, 2): 3}, "tuple is not a type JSON can carry"),
]


@pytest.mark.parametrize(("value", "reason"), UNSENDABLE, ids=[reason for _, reason in UNSENDABLE])
def test_an_argument_that_cannot_be_encoded_is_refused_by_name(value: Any, reason: str) -> None:
    with pytest.raises(BadPayload) as refused:
        Arguments(plain, "mail", Context).encode((1,), {"b": value}, LIMIT)
    assert str(refused.value).startswith("argument 'b' of task 'mail' cannot be sent: ")
    assert reason in str(refused.value)


@pytest.mark.parametrize(("value", "reason"), UNSENDABLE, ids=[reason for _, reason in UNSENDABLE])
def test_encode_call_refuses_arguments_that_cannot_be_encoded(value: Any, reason: str) -> None:
    with pytest.raises(BadPayload) as refused:
        encode_call("mail", {"a": 1, "b": value}, LIMIT)
    assert str(refused.value).startswith("argument 'b' of task 'mail' cannot be sent: ")
    assert reason in str(refused.value)


@pytest.mark.parametrize(("value", "reason"), UNSENDABLE, ids=[reason for _, reason in UNSENDABLE])
def test_a_refused_argument_has_a_remedy(value: Any, reason: str) -> None:
    with pytest.raises(BadPayload) as refused:
        encode_call("mail", {"b": value}, LIMIT)
    assert re.search(r"[:;,] (send|keep|use|give|remove|replace|flatten)\b", str(refused.value).partition(reason)[2])


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("one",), {}, "arguments of task 'mail' do not fit: Expected `int`, got `str` - at `$.a`"),
        ((True,), {}, "arguments of task 'mail' do not fit: Expected `int`, got `bool` - at `$.a`"),
        ((1.5,), {}, "arguments of task 'mail' do not fit: Expected `int`, got `float` - at `$.a`"),
        ((1, None), {}, "arguments of task 'mail' do not fit: Expected `str`, got `null` - at `$.b`"),
        ((), {}, "arguments of task 'mail' do not fit: Object missing required field `a`"),
        ((), {"b": "x"}, "arguments of task 'mail' do not fit: Object missing required field `a`"),
        ((1,), {"d": 5}, "task 'mail' has no argument 'd' (takes: a, b, c)"),
        ((1,), {"a": 5}, "task 'mail' got argument 'a' twice"),
        ((1, "b", 1.0), {}, "task 'mail' takes at most 2 positional arguments, got 3"),
    ],
)
def test_a_call_that_does_not_match_the_signature_is_refused(
    args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadPayload) as refused:
        Arguments(plain, "mail", Context).encode(args, kwargs, LIMIT)
    assert str(refused.value) == message


def test_positional_arguments_of_a_function_without_parameters_are_refused() -> None:
    with pytest.raises(BadPayload) as refused:
        Arguments(nothing, "mail", Context).encode((1,), {}, LIMIT)
    assert str(refused.value) == "task 'mail' takes no positional arguments, got 1"


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (Point, {"x": "one"}, r"Expected `int`, got `str` - at `\$.value.x`"),
        (list[int], [1, "two"], r"Expected `int`, got `str` - at `\$.value\[1\]`"),
        (Order, {"id": "?", "total": 1}, r"validation error for Order\nid\n.* - at `\$.value`"),
        (Colour, "blue", r"Invalid enum value 'blue' - at `\$.value`"),
        (datetime, "soon", r"Invalid RFC3339 encoded datetime - at `\$.value`"),
        (UUID, "?", r"Invalid UUID - at `\$.value`"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, r"Expected `int` >= 0 - at `\$.value`"),
        (Strange, 1, r"cannot make a Strange from JSON - at `\$.value`"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_with_its_path(hint: Any, value: Any, message: str) -> None:
    with pytest.raises(BadPayload, match=rf"(?s)^arguments of task 'mail' do not fit: .*{message}$"):
        Arguments(takes(hint), "mail", Context).encode((value,), {}, LIMIT)


def test_arguments_of_exactly_payload_limit_are_accepted() -> None:
    room = LIMIT - len('{"value":""}')
    assert send(takes(str), "x" * room) == "x" * room


def test_arguments_over_the_limit_are_refused_with_a_remedy() -> None:
    with pytest.raises(BadPayload) as refused:
        send(takes(str), "x" * (LIMIT - len('{"value":""}') + 1))
    assert str(refused.value) == (
        "the arguments of task 'mail' are 1,048,577 bytes, the limit is 1,048,576 (payload_limit): "
        "keep big data elsewhere and send its name"
    )


def test_payload_limit_counts_bytes_not_characters() -> None:
    with pytest.raises(BadPayload, match="are 24 bytes, the limit is 20"):
        encode_call("mail", {"value": "日本日本"}, 20)


def test_bad_payload_is_a_value_error() -> None:
    assert issubclass(BadPayload, ValueError)
    assert issubclass(BadPayload, BadInput)


# functions that cannot be tasks


def unresolvable(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def unresolvable_result() -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821
def ambiguous(a: datetime | str) -> None: ...


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (unresolvable, "task 'mail' has annotations that cannot be resolved: name 'Nowhere' is not defined"),
        (unresolvable_result, "task 'mail' has annotations that cannot be resolved: name 'Nowhere' is not defined"),
        (ambiguous, "task 'mail' has parameters that JSON cannot carry: Type unions may not contain more than one str"),
    ],
)
def test_a_function_that_cannot_be_a_task_is_refused_when_it_is_registered(
    fn: Callable[..., Any], message: str
) -> None:
    with pytest.raises(BadTask) as refused:
        Arguments(fn, "mail", Context)
    assert str(refused.value).startswith(message)


# payloads in the store may come from any client


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "{",
        "[]",
        "null",
        "1",
        '{"a":"x"}',
        '{"b":"b"}',
        '{"a":1,"d":1}',
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=lambda payload: payload[:12],
)
def test_decoding_a_payload_that_does_not_fit_raises_value_error_or_recursion_error(payload: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        Arguments(plain, "mail", Context).decode(payload)


@given(st.text(string.printable))
def test_decoding_any_stored_text_succeeds_or_raises_value_error(payload: str) -> None:
    try:
        args, kwargs = Arguments(plain, "mail", Context).decode(payload)
    except ValueError:
        return
    assert (args, type(kwargs["a"])) == ([], int)


# results


def returns(hint: Any) -> ResultCodec:
    fn = takes(Any)
    fn.__annotations__ = {"return": hint}
    return ResultCodec(fn, "mail")


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 5),
        (datetime, NOON),
        (Point, Point(1)),
        (Order, Order(id=IDENTITY, total=Decimal(1))),
        (list[Person], [Person("Ada", date(1815, 12, 10))]),
        (int | None, None),
        (None, None),
        (bytes, b"raw"),
    ],
    ids=repr,
)
def test_a_result_is_decoded_to_its_declared_type(hint: Any, value: Any) -> None:
    text, lost = encode_result(value, LIMIT)
    assert lost is None
    assert returns(hint).decode(text) == value


def test_a_result_without_annotation_is_decoded_as_plain_data() -> None:
    text, _ = encode_result(Point(1), LIMIT)
    assert ResultCodec(lambda: None, "mail").decode(text) == {"x": 1, "y": 0.5}


@pytest.mark.parametrize("hint", [int, Strange, datetime | str, Order])
def test_a_result_of_another_type_than_declared_is_decoded_as_plain_data(hint: Any) -> None:
    assert returns(hint).decode('["plain"]') == ["plain"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Strange(), "the result could not be kept: Strange is not a type JSON can carry"),
        (math.nan, "the result could not be kept: nan has no JSON form"),
        ("\ud800", "the result could not be kept: text with a lone surrogate is not valid Unicode"),
        ("\x00", "the result could not be kept: text with a NUL character cannot be stored"),
        (2**70, "the result could not be kept: 1180591620717411303424 does not fit 64 bits"),
        (nested(100_000), "the result could not be kept: nested too deeply"),
        ("x" * LIMIT, "the result is 1,048,578 bytes, the limit is 1,048,576 (result_limit)"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) > 3 and len(value) < 200 else "",
)
def test_a_result_that_cannot_be_stored_returns_a_result_lost_failure(value: Any, message: str) -> None:
    text, lost = encode_result(value, LIMIT)
    assert text is None
    assert lost is not None
    assert lost.type == "ResultLost"
    assert lost.message.startswith(message)


@pytest.mark.parametrize("value", [nested(MAX_DEPTH - 2), [[], {}] * 1000, "[" * 1000, ['\\"[{\\'] * 1000, {"[": None}])
def test_a_wide_argument_with_few_levels_is_accepted(value: Any) -> None:
    payload = encode_call("mail", {"b": value}, LIMIT)
    assert msgspec.json.decode(payload) == {"b": value}


def test_a_result_of_exactly_result_limit_is_kept() -> None:
    assert encode_result("x" * (LIMIT - 2), LIMIT) == ('"' + "x" * (LIMIT - 2) + '"', None)


def test_a_result_of_none_is_not_encoded() -> None:
    assert encode_result(None, LIMIT) == (None, None)


class Broken(pydantic.BaseModel):
    """A result whose own code raises while it is encoded."""

    @pydantic.model_serializer
    def write(self) -> Any:
        raise RuntimeError("no ink")


def test_a_result_whose_encoding_raises_returns_a_result_lost_failure() -> None:
    text, lost = encode_result(Broken(), LIMIT)
    assert text is None
    assert lost is not None
    assert "no ink" in lost.message


def test_an_argument_whose_encoding_raises_is_refused_by_name() -> None:
    with pytest.raises(BadPayload, match=r"argument 'b' of task 'mail' cannot be sent: .*no ink"):
        encode_call("mail", {"b": Broken()}, LIMIT)


def test_arguments_have_a_json_schema() -> None:
    def move(to: Point, colour: Colour = Colour.RED, *rest: int) -> None: ...

    schema = Arguments(move, "move", Context).schema()
    assert schema["required"] == ["to"]
    assert schema["properties"]["to"] == {"$ref": "#/$defs/Point"}
    assert schema["properties"]["*rest"] == {"type": "array", "items": {"type": "integer"}}
    assert schema["$defs"]["Colour"]["enum"] == ["red"]
    assert schema["additionalProperties"] is False


def test_a_type_without_a_schema_is_named_in_the_json_schema() -> None:
    class Model(pydantic.BaseModel):
        x: int

    def act(model: Model, **more: str) -> None: ...

    act.__annotations__["model"] = Model
    schema = Arguments(act, "act", Context).schema()
    assert schema["properties"] == {"model": {"title": "Model"}}
    assert "additionalProperties" not in schema


def test_a_parameter_type_named_arguments_has_a_json_schema() -> None:
    kind = msgspec.defstruct("Arguments", [("x", int)])

    def act(it: Any) -> None: ...

    act.__annotations__["it"] = kind
    assert "it" in Arguments(act, "act", Context).schema()["properties"]


def test_a_refused_argument_has_its_remedy_only_once() -> None:
    with pytest.raises(BadPayload) as refused:
        encode({"a": "b\x00"})
    assert str(refused.value) == "text with a NUL character cannot be stored: remove it, or send bytes"


def test_a_result_over_the_limit_is_not_validated() -> None:
    """Looking for values that cannot be stored, or too many levels, would block the interpreter for seconds."""
    result, lost = encode_result([float("nan")] * 1000, 100)
    assert (result, lost) == (None, Failure("ResultLost", "the result is 5,001 bytes, the limit is 100 (result_limit)"))
