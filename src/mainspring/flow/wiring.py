"""The wiring of a flow: whether a value of one type can go where another is declared, and the types of parts.

Only what is certainly wrong is refused: types are compared by the JSON that they become.
"""

from __future__ import annotations

import typing
from typing import Any

from msgspec import Struct

from ..errors import BadFlow
from ..suggest import did_you_mean
from .json_types import class_of, converts, element_of, fields_of, kinds, members, remembered, shown, union_of

# Types inside types that are compared; below that, everything passes.
MAX_TYPE_DEPTH = 8
_NONE = type(None)
# JSON kinds that a type accepts beside its own.
_ACCEPTED = {"number": {"integer"}}


@remembered
def is_assignable(source: Any, target: Any) -> bool:
    """Whether a value declared as `source` may go where `target` is declared. None of an optional source is ignored."""
    return _any_fits(source, target, 0)


def _any_fits(source: Any, target: Any, depth: int) -> bool:
    have, want = members(source), members(target)
    have = tuple(one for one in have if one is not _NONE) or have
    return depth > MAX_TYPE_DEPTH or any(_fits(one, other, depth) for one in have for other in want)


def _fits(source: Any, target: Any, depth: int) -> bool:
    if source is target or Any in (source, target):
        return True
    have, want = kinds(source), kinds(target)
    if have is None or want is None:
        return True
    if all(have.isdisjoint({kind, *_ACCEPTED.get(kind, ())}) for kind in want):
        return _is_decimal(target) and not have.isdisjoint({"integer", "number"})
    if have == {"list"}:
        return _elements_fit(source, target, depth)
    if have == {"object"}:
        return _fields_fit(source, target, depth)
    return not (_values(source) and _values(target) and _values(source).isdisjoint(_values(target)))


def _is_decimal(target: Any) -> bool:
    from decimal import Decimal

    return class_of(target) is Decimal


def _values(hint: Any) -> set[Any]:
    """The values of a Literal."""
    return set(typing.get_args(hint)) if class_of(hint) is typing.Literal else set()


def _elements_fit(source: Any, target: Any, depth: int) -> bool:
    if fields_of(source) or fields_of(target):  # structs that are lists
        return True
    return _any_fits(element_of(source), element_of(target), depth + 1)


def _fields_fit(source: Any, target: Any, depth: int) -> bool:
    have, want = fields_of(source), fields_of(target)
    if converts(target) or (want is not None and class_of(target) in class_of(source).__mro__):
        return True
    if have is None or want is None:
        return _entries_fit(source, target, depth)
    by_name = {field.name: field for field in have.values()}
    return all(
        _any_fits(by_name[field.name].type, field.type, depth + 1) if field.name in by_name else not field.required
        for field in want.values()
    )


def _entries_fit(source: Any, target: Any, depth: int) -> bool:
    """As _fields_fit(), where one of the two is a mapping or has fields that are not known."""
    if fields_of(target) is not None or len(typing.get_args(target)) != 2:
        return True
    wanted = typing.get_args(target)[1]
    if (have := fields_of(source)) is not None:
        return all(_any_fits(field.type, wanted, depth + 1) for field in have.values())
    entries = typing.get_args(source)
    return len(entries) != 2 or _any_fits(entries[1], wanted, depth + 1)


# parts


class Part(Struct, frozen=True):
    """A part of a value."""

    key: str | int
    """In JSON."""
    type: Any


def part_of(hint: Any, key: str | int, *, attribute: bool) -> Part:
    """The part of a value of this type that value.key, or value[key], is. Raises BadFlow if there certainly is none."""
    several = [one for one in members(hint) if one is not _NONE]
    parts: list[Part] = []
    reason = BadFlow(f"None has no part {key!r}")
    for one in several:
        try:
            parts.append(_part_of(one, key, attribute))
        except BadFlow as bad:
            reason = bad
    if not parts:
        raise reason
    return Part(parts[0].key, union_of(part.type for part in parts))


def _part_of(hint: Any, key: str | int, attribute: bool) -> Part:
    kind = None if hint is Any else kinds(hint)
    if kind is None:
        return Part(key, Any)
    if (fields := fields_of(hint)) is not None:
        return _field_of(hint, fields, key, attribute, is_list=kind == {"list"})
    if "object" in kind:
        if isinstance(key, int):
            raise BadFlow(f"{shown(hint)} has no part of number {key}")
        entries = typing.get_args(hint)
        return Part(key, entries[1] if len(entries) == 2 else Any)
    if "list" in kind:
        return _element_of(hint, key)
    raise BadFlow(f"{shown(hint)} has no parts, so there is no {key!r}: compute it in a task")


def _field_of(hint: Any, fields: Any, key: str | int, attribute: bool, *, is_list: bool) -> Part:
    by_name = {field.name: field for field in fields.values()}
    field = fields.get(key) if attribute or is_list else by_name.get(key)
    if field is None and isinstance(key, str):
        field = by_name.get(key) or fields.get(key)
    if field is None:
        if is_list and isinstance(key, int):
            return Part(key, Any)
        raise BadFlow(f"{shown(hint)} has no field {key!r}; {did_you_mean(key, fields)}")
    if is_list:
        return Part(list(fields.values()).index(field) + _is_tagged(hint), field.type)
    return Part(field.name, field.type)


def _is_tagged(hint: Any) -> bool:
    config = getattr(class_of(hint), "__struct_config__", None)
    return config is not None and config.tag is not None


def _element_of(hint: Any, key: str | int) -> Part:
    names = getattr(class_of(hint), "_fields", ())
    if isinstance(key, str):
        if key not in names:
            raise BadFlow(f"{shown(hint)} is a list in JSON, and has no field {key!r}: take a part by its number")
        key = names.index(key)
        return Part(key, Any)
    args = typing.get_args(hint)
    if class_of(hint) is not tuple or Ellipsis in args or not args:
        return Part(key, element_of(hint))
    if not -len(args) <= key < len(args):
        raise BadFlow(f"{shown(hint)} has {len(args)} parts, and none of number {key}")
    return Part(key, args[key])
