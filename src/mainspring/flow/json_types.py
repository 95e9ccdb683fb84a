"""The JSON side of Python types: kinds of values, fields, and elements. Any where that is not certain."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections import abc
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import Struct

_WRAPPERS = (typing.Annotated, typing.Required, typing.NotRequired, typing.Final)
_TEXTS = (str, bytes, bytearray, memoryview, datetime, date, time, timedelta, UUID, Decimal)
_LISTS = (list, tuple, set, frozenset, abc.Sequence, abc.Set, abc.Iterable, abc.AsyncIterable)
# In order: a bool is an int, and a mapping is an iterable.
_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((type(None),), "null"),
    ((bool,), "boolean"),
    ((int,), "integer"),
    ((float,), "number"),
    (_TEXTS, "text"),
    ((abc.Mapping,), "object"),
    (_LISTS, "list"),
)

# Types of one process whose comparisons and fields are remembered.
MAX_REMEMBERED_TYPES_COUNT = 4096
C = TypeVar("C", bound=Callable[..., Any])


def remembered(fn: C) -> C:
    """A function of types that computes each answer once. Types that cannot be hashed are computed each time."""
    known = lru_cache(MAX_REMEMBERED_TYPES_COUNT)(fn)

    @wraps(fn)
    def answer(*types: Any) -> Any:
        try:
            return known(*types)
        except TypeError:
            return fn(*types)

    return cast("C", answer)


class JsonField(Struct, frozen=True):
    """A field of a class, as JSON has it."""

    name: str
    """In JSON."""
    type: Any
    required: bool = True


def unwrapped(hint: Any) -> Any:
    """The type without Annotated, aliases and the like; Any for what says nothing about the JSON."""
    while True:
        if hint is None:
            return type(None)
        if typing.get_origin(hint) in _WRAPPERS:
            hint = typing.get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):  # NewType
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            vague = hint is object or isinstance(hint, typing.TypeVar | str) or getattr(hint, "_is_protocol", False)
            return Any if vague else hint


def members(hint: Any) -> tuple[Any, ...]:
    """The members of a union; the type itself if it is none."""
    hint = unwrapped(hint)
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return (hint,)
    return tuple(one for member in typing.get_args(hint) for one in members(member))


@remembered
def accepts_none(hint: Any) -> bool:
    """Whether a parameter of this type says that it takes None."""
    return type(None) in members(hint)


def class_of(hint: Any) -> Any:
    return typing.get_origin(hint) or hint


def kinds(hint: Any) -> frozenset[str] | None:
    """The JSON kinds of the values of a type that is no union; None if they are not certain."""
    cls = class_of(hint)
    if cls is typing.Literal:
        return _kinds_of_values(typing.get_args(hint))
    if not isinstance(cls, type):
        return None
    if issubclass(cls, Enum):
        return _kinds_of_values(one.value for one in cls)
    if issubclass(cls, Struct) and cls.__struct_config__.array_like:
        return frozenset(["list"])
    if _has_fields(cls):
        return None if "root" in getattr(cls, "model_fields", ()) else frozenset(["object"])
    return next((frozenset([kind]) for classes, kind in _KINDS if issubclass(cls, classes)), None)


def _kinds_of_values(values: typing.Iterable[Any]) -> frozenset[str] | None:
    found = [kinds(type(value.value if isinstance(value, Enum) else value)) for value in values]
    return None if None in found else frozenset().union(*(one for one in found if one is not None))


def _has_fields(cls: type) -> bool:
    return (
        issubclass(cls, Struct)
        or dataclasses.is_dataclass(cls)
        or typing.is_typeddict(cls)
        or hasattr(cls, "model_fields")
        or hasattr(cls, "__attrs_attrs__")
    )


@remembered
def fields_of(hint: Any) -> dict[str, JsonField] | None:
    """The fields by attribute; None if the type has none, or may have others."""
    cls = class_of(hint)
    if not isinstance(cls, type) or not _has_fields(cls):
        return None
    if hasattr(cls, "model_fields"):
        return _model_fields(cls)
    if issubclass(cls, Struct):
        found = msgspec.structs.fields(cls)
        return {one.name: JsonField(one.encode_name, one.type, one.required) for one in found}
    return {name: JsonField(name, wanted, name in _required(cls)) for name, wanted in _hints_of(cls).items()}


def _model_fields(cls: Any) -> dict[str, JsonField] | None:
    """The fields of a pydantic model."""
    if getattr(cls, "model_config", {}).get("extra") == "allow":
        return None
    found = {name: JsonField(name, one.annotation, one.is_required()) for name, one in cls.model_fields.items()}
    computed = {name: JsonField(name, one.return_type, False) for name, one in cls.model_computed_fields.items()}
    return found | computed


def _hints_of(cls: type) -> dict[str, Any]:
    names = [one.name for one in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else None
    if names is None:
        names = [one.name for one in getattr(cls, "__attrs_attrs__", ())] or list(getattr(cls, "__annotations__", {}))
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # a name that cannot be resolved here
        hints = {}
    if typing.is_typeddict(cls):
        names = list(hints) or names
    return {name: hints.get(name, Any) for name in names}


def _required(cls: Any) -> typing.Container[str]:
    if dataclasses.is_dataclass(cls):
        missing = dataclasses.MISSING
        return {one.name for one in dataclasses.fields(cls) if one.default is missing is one.default_factory}
    if typing.is_typeddict(cls):  # annotations that are text hide NotRequired from __required_keys__
        hints = _hints_of(cls)
        return {name for name in cls.__required_keys__ if typing.get_origin(hints[name]) is not typing.NotRequired}
    return ()


def converts(hint: Any) -> bool:
    """Whether the class has code that makes its values from JSON of another form, or of other names."""
    cls = class_of(hint)
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if decorators is not None and (decorators.model_validators or decorators.root_validators):
        return True
    return any(one.validation_alias is not None for one in getattr(cls, "model_fields", {}).values())


def element_of(hint: Any) -> Any:
    """The type of the elements of a list."""
    args = typing.get_args(hint)
    if not args or (class_of(hint) is tuple and Ellipsis not in args):
        return union_of(args) if args else Any
    return args[0]


def union_of(hints: typing.Iterable[Any]) -> Any:
    several = tuple(hints)
    try:
        return typing.Union[several] if several else Any  # noqa: UP007
    except TypeError:  # a type that cannot be hashed
        return Any


def shown(hint: Any) -> str:
    """A type as its annotation has it."""
    if hint is type(None):
        return "None"
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return re.sub(r"(?<![\w'\"])(?:\w+\.)+(?=[^\W\d])", "", str(hint))
