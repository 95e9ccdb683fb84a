"""KEY=VALUE words as the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

UNNAMED = "arguments without a name go in --args '[…]'"


def read(words: Sequence[str], hints: Mapping[str, Any], otherwise: str = UNNAMED) -> dict[str, Any]:
    """Arguments by name. `hints` are the types the task declares; what it does not name is text."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip(":"):
            raise click.UsageError(f"{word!r} is not KEY=VALUE; {otherwise}")
        literal = name.endswith(":")
        name = name.removesuffix(":")
        if name in values:
            raise click.UsageError(f"{name!r} is given twice")
        values[name] = _literal(name, text) if literal else _plain(text, hints.get(name, Any))
    return values


def read_all(text: str) -> tuple[list[Any], dict[str, Any]]:
    """--args: a JSON array of positional arguments, or an object of named ones."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as bad:
        raise click.UsageError(f"--args {text!r} is not JSON: {bad}") from None
    match value:
        case list():
            return value, {}
        case dict():
            return [], value
    raise click.UsageError(f"--args takes a JSON array or object, got {text!r}: write '[{text}]'")


def _literal(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as bad:
        raise click.UsageError(f"{name}:={text} is not JSON ({bad}); {name}={text} sends text") from None


def _plain(text: str, hint: Any) -> Any:
    """Text where the task takes this text, else what it says as JSON; the task judges the rest."""
    try:
        msgspec.convert(text, hint)
    except (msgspec.ValidationError, TypeError):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    return text
