"""Fingerprints: equal for tasks that take the same payloads, in every process, and different for other tasks."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import msgspec
import pydantic
import pytest

from mainspring import Context
from mainspring.codec import MAX_PARAMETERS_CHARACTERS, Arguments
from mainspring.stores.redis.records import new_record
from mainspring.stores.rows import MAX_CACHED_OPTIONS, _cached_options, _cached_texts, options_of, read_options
from mainspring.testing.contract.build import new_job


def arguments(fn: Callable[..., Any]) -> Arguments:
    return Arguments(fn, "task", Context)


@dataclass
class Mail:
    """A mail."""

    to: str
    cc: list[str] = field(default_factory=list)


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Tree(msgspec.Struct):
    leaves: int
    branches: "list[Tree]" = []


class Model(pydantic.BaseModel):
    n: int


def another(name: str, **fields: Any) -> Any:
    return msgspec.defstruct(name, list(fields.items()))


def plain(a: int, b: str = "x") -> None: ...


def other_default(a: int, b: str = "y") -> None: ...


def other_order(b: str = "x", *, a: int) -> None: ...


def positional(a: int, /, b: str = "x") -> None: ...


def with_context(ctx: Context, a: int, b: str = "x") -> None: ...


async def coroutine(a: int, b: str = "x") -> dict[str, int]:
    """With a docstring."""
    return {}


def as_text(a: "int", b: "str" = "x") -> None: ...


SAME = [plain, other_default, other_order, positional, with_context, coroutine, as_text]


@pytest.mark.parametrize("fn", SAME, ids=lambda fn: fn.__name__)
def test_tasks_that_accept_the_same_payloads_have_the_same_fingerprint(fn: Callable[..., Any]) -> None:
    # A literal: it must be the same in every process and every version of Python.
    assert arguments(fn).fingerprint == "2a6820ca28"


def optional_old(a: Optional[int], b: Optional[str] = None) -> None: ...  # noqa: UP045


def optional_new(a: int | None, b: str | None = None) -> None: ...


def optional_text(a: "int | None", b: "Optional[str]" = None) -> None: ...  # noqa: UP045


@pytest.mark.parametrize("fn", [optional_old, optional_new, optional_text], ids=lambda fn: fn.__name__)
def test_an_optional_type_has_one_fingerprint_however_it_is_written(fn: Callable[..., Any]) -> None:
    assert arguments(fn).fingerprint == "7e333e43cc"


def rich(mail: Mail, size: Size, tree: Tree, kind: Literal["b", "a"], *rest: int, **more: float) -> None: ...


def test_a_fingerprint_of_rich_types_is_the_same_everywhere() -> None:
    assert arguments(rich).fingerprint == "2ad93fcd1d"


def test_a_fingerprint_does_not_depend_on_the_hash_seed() -> None:
    program = "import test_fingerprint as t; print(t.arguments(t.rich).fingerprint)"
    made = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, check=True, timeout=60, text=True,
    ).stdout.strip()  # fmt: skip
    assert made == arguments(rich).fingerprint


def typed(hint: Any) -> Arguments:
    def fn(a: Any) -> None: ...

    fn.__annotations__["a"] = hint
    return arguments(fn)


DIFFERENT: list[Callable[..., Any]] = [
    lambda: None,
    lambda a: None,
    lambda a=1: None,
    lambda b: None,
    lambda a, b: None,
    lambda *a: None,
    lambda **a: None,
    lambda a, **b: None,
]
TYPES: list[Any] = [
    int, str, float, bool, bytes, int | None, list[int], list[str], set[int], dict[str, int], tuple[int, int],
    Literal["a"], Literal["a", "b"], Size, Mail, Tree, Model, Annotated[int, msgspec.Meta(gt=1)],
    another("Mail", to=str), another("Mail", to=str, cc=int), another("Other", to=str, cc=str),
    list[another("Mail", to=str)], list[another("Mail", to=int)],
    pydantic.create_model("Model", n=(str, ...)), pydantic.create_model("Model", n=(int, ...), m=(int, 1)),
]  # fmt: skip


def test_tasks_that_accept_different_payloads_have_different_fingerprints() -> None:
    made = [arguments(fn).fingerprint for fn in DIFFERENT] + [typed(hint).fingerprint for hint in TYPES]
    assert len(set(made)) == len(made)


def test_fingerprint_of_a_type_without_a_schema_depends_on_its_annotation() -> None:
    class Odd:
        @classmethod
        def model_validate(cls, value: Any) -> Any: ...

        @classmethod
        def model_json_schema(cls) -> Any:
            raise RuntimeError("no schema")

    assert typed(Odd).fingerprint != typed(list[Odd]).fingerprint


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda: None, "()"),
        (lambda a, b=1, *c, d, **e: None, "(a, b=…, *c, d, **e)"),
        (with_context, "(a: int, b: str = …)"),
        (as_text, "(a: int, b: str = …)"),
        (optional_old, "(a: Optional[int], b: Optional[str] = …)"),
        (rich, "(mail: test_fingerprint.Mail, size: test_fingerprint.Size, tree: test_fingerprint.Tree, "
               "kind: Literal['b', 'a'], *rest: int, **more: float)"),
    ],
    ids=["none", "unannotated", "context", "text", "optional", "rich"],
)  # fmt: skip
def test_parameters_are_shown_as_they_are_declared(fn: Callable[..., Any], text: str) -> None:
    if fn is optional_old and sys.version_info >= (3, 14):
        text = text.replace("Optional[int]", "int | None").replace("Optional[str]", "str | None")
    assert arguments(fn).parameters == text


def test_shown_parameters_are_truncated() -> None:
    fields = ", ".join(f"a_long_name_of_a_parameter_{n}" for n in range(100))
    shown = arguments(eval(f"lambda {fields}: None")).parameters
    assert len(shown) == MAX_PARAMETERS_CHARACTERS
    assert shown.endswith("…")


# stored options


class OptionsOfBefore(msgspec.Struct, omit_defaults=True, frozen=True):
    """The options of a job as the release before fingerprints knows them."""

    timeout: float | msgspec.UnsetType | None = msgspec.UNSET
    max_retries: int | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    schedule: str | None = None


@pytest.mark.parametrize("given", [{}, {"tags": ("a",), "metadata": {"b": 1}}, {"max_retries": 2}], ids=str)
def test_an_older_release_ignores_the_fingerprint_in_stored_options(given: dict[str, Any]) -> None:
    text = options_of(new_job(fingerprint="0011223344", **given))
    assert '"fp":"0011223344"' in text
    read = msgspec.json.decode(text, type=OptionsOfBefore)
    assert {name: getattr(read, name) for name in given} == given


@pytest.mark.parametrize("fingerprint", [None, "0011223344"])
def test_a_redis_record_with_a_fingerprint_has_a_field_count_of_older_releases(fingerprint: str | None) -> None:
    now = 1_893_499_200_000_000
    assert len(msgspec.msgpack.decode(new_record(new_job(fingerprint=fingerprint), now)[1:])) in (5, 11)


@pytest.fixture
def memories() -> Iterator[None]:
    """Restores the caches of options after the test."""
    before = [dict(one) for one in (_cached_options, _cached_texts)]
    yield
    for one, were in zip((_cached_options, _cached_texts), before, strict=True):
        one.clear()
        one.update(were)  # type: ignore[arg-type]


@pytest.mark.usefixtures("memories")
def test_the_cache_of_decoded_options_is_bounded() -> None:
    for n in range(MAX_CACHED_OPTIONS + 10):
        text = options_of(new_job(fingerprint=f"{n:010x}"))
        assert read_options(text).fingerprint == f"{n:010x}"
    assert len(_cached_options) <= MAX_CACHED_OPTIONS
    assert len(_cached_texts) <= MAX_CACHED_OPTIONS
