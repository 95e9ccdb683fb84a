"""Parsers of option values, and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

import click
import msgspec

from ..config import read_span as seconds
from ..errors import BadSetting
from ..span import parse_span

F = TypeVar("F", bound=Callable[..., Any])


def span(text: str) -> float:
    """Seconds from a text such as 30, 30s, 5m, 1h30m or 2d."""
    try:
        return seconds(text, "it")
    except BadSetting as bad:
        raise click.BadParameter(str(bad)) from None


def interval(text: str) -> timedelta:
    """An interval from a text such as 5m, 30 seconds or 1 hour and 30 minutes; a number alone is in seconds."""
    found = parse_span(text)
    if found is None:
        way = "; those differ in length: --cron '0 9 1 * *'" if re.search("month|year", text.lower()) else ""
        raise click.BadParameter(f"{text[:60]!r} is not an interval such as 5m, 30 seconds or 1h30m{way}")
    try:
        return timedelta(seconds=found)
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long: an interval is at most 36525 days") from None


def instant(text: str) -> datetime:
    """An instant from ISO 8601 text with a time zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not an ISO 8601 instant such as 2030-01-31T09:00:00Z") from None
    if at.tzinfo is None:
        zone = f"write {text}T00:00:00Z" if _is_date(text) else "add Z for UTC, or one such as +02:00"
        raise click.BadParameter(f"{text!r} has no time zone: {zone}")
    return at


def moment(text: str) -> datetime | timedelta:
    """An instant, or the time since then."""
    try:
        return timedelta(seconds=seconds(text, "it"))
    except BadSetting:
        pass
    if not text[:4].isdigit():
        raise click.BadParameter(
            f"{text!r} is neither an instant such as 2030-01-31T09:00:00Z nor a span such as 90, 5m, 2h or 1d"
        )
    return instant(text)


def json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as bad:
        raise click.BadParameter(f"""takes a JSON object such as '{{"who": "ada"}}', got {text!r}: {bad}""") from None


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def as_json(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def yes(command: F) -> F:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)
