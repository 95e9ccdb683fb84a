"""Arguments of a task, parsed from KEY=VALUE words and from --args."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

UNNAMED_HINT = "arguments without a name go in --args '[…]'"


def parse_arguments(words: Sequence[str], hints: Mapping[str, Any], otherwise: str = UNNAMED_HINT) -> dict[str, Any]:
    """Arguments by name. `hints` are the types that the task declares; other values are text.

    Raises UsageError, with `otherwise` as the advice, for a word that is not KEY=VALUE.
    """
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip(":"):
            raise click.UsageError(f"{word!r} is not KEY=VALUE; {otherwise}")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if name in values:
            raise click.UsageError(f"{name!r} is given twice")
        values[name] = _parse_json(name, text) if is_json else _parse_text(text, hints.get(name, Any))
    return values


def parse_args_option(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The value of --args: a JSON array of positional arguments, or an object of named ones."""
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


def _parse_json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as bad:
        raise click.UsageError(f"{name}:={text} is not JSON ({bad}); {name}={text} sends text") from None


def _parse_text(text: str, hint: Any) -> Any:
    """The text itself if the task accepts it, else the text decoded as JSON if it is JSON."""
    try:
        msgspec.convert(text, hint)
    except (msgspec.ValidationError, TypeError):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    return text
