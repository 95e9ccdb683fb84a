"""Unknown fields in a JSON body, each with the nearest known one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType, inspect

from ..suggest import did_you_mean


class UnknownField(NamedTuple):
    """A field that its object's type does not have."""

    name: str
    path: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        where = "" if self.path == "$" else f" - at `{self.path}`"
        return f"Object contains unknown field `{self.name[:80]}`{where}; {did_you_mean(self.name, self.known)}"


class LenientMembers(NamedTuple):
    """The members of a body whose types ignore unknown fields, as stored records do."""

    decoder: msgspec.json.Decoder[Any]
    """Decodes these members as raw JSON, and ignores the others."""
    shapes: dict[str, inspect.Type]


def unknown_field(value: Any, kind: Any) -> UnknownField | None:
    """The first unknown field in a body that was decoded as plain data. None if there is none."""
    return next(_unknown(value, _shape(kind), "$"), None)


def unknown_in_member(value: Any, shape: inspect.Type, name: str) -> UnknownField | None:
    """The first unknown field in a member of a body. None if there is none."""
    return next(_unknown(value, shape, f"$.{name}"), None)


@cache
def is_lenient(kind: Any) -> bool:
    """Whether the type, or a part of it, ignores unknown fields."""
    return _lenient(_shape(kind), set())


@cache
def lenient_members(kind: Any) -> LenientMembers:
    """The lenient members of a struct, or of a union with one struct."""
    shape = _shape(kind)
    struct = _chosen({}, shape) if isinstance(shape, inspect.UnionType) else shape
    if not isinstance(struct, inspect.StructType) or not struct.forbid_unknown_fields:
        raise TypeError(f"{kind} ignores unknown fields: a request type must forbid them")
    shapes = {field.encode_name: field.type for field in struct.fields if _lenient(field.type, set())}
    members = msgspec.defstruct("Members", [(name, msgspec.Raw | UnsetType, UNSET) for name in shapes])
    return LenientMembers(msgspec.json.Decoder(members | None), shapes)


@cache
def _shape(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _unknown(value: Any, shape: inspect.Type, path: str) -> Iterator[UnknownField]:
    match shape:
        case inspect.Metadata(type=inner):
            yield from _unknown(value, inner, path)
        case inspect.UnionType():
            if (one := _chosen(value, shape)) is not None:
                yield from _unknown(value, one, path)
        case inspect.ListType(item_type=item) if isinstance(value, list):
            for n, one in enumerate(value):
                yield from _unknown(one, item, f"{path}[{n}]")
        case inspect.StructType() if isinstance(value, dict):
            yield from _of_struct(value, shape, path)


def _of_struct(value: dict[str, Any], shape: inspect.StructType, path: str) -> Iterator[UnknownField]:
    fields = {field.encode_name: field.type for field in shape.fields}
    for name, member in value.items():
        if name in fields:
            yield from _unknown(member, fields[name], f"{path}.{name}")
        elif name != shape.tag_field:
            yield UnknownField(name, path, tuple(fields))


def _chosen(value: Any, union: inspect.UnionType) -> inspect.Type | None:
    """The type of a union that the value is decoded as. None if it has no fields."""
    kinds = [one.type if isinstance(one, inspect.Metadata) else one for one in union.types]
    if isinstance(value, list):
        return next((one for one in kinds if isinstance(one, inspect.ListType)), None)
    structs = [one for one in kinds if isinstance(one, inspect.StructType)]
    if isinstance(value, dict) and len(structs) > 1:
        return next((one for one in structs if one.tag_field and value.get(one.tag_field) == one.tag), None)
    return structs[0] if structs and isinstance(value, dict) else None


def _lenient(shape: inspect.Type, seen: set[type]) -> bool:
    match shape:
        case inspect.Metadata(type=inner):
            return _lenient(inner, seen)
        case inspect.UnionType(types=types):
            return any(_lenient(one, seen) for one in types)
        case inspect.ListType(item_type=item):
            return _lenient(item, seen)
        case inspect.StructType():
            if shape.cls in seen:
                return False
            seen.add(shape.cls)
            return not shape.forbid_unknown_fields or any(_lenient(field.type, seen) for field in shape.fields)
    return False
