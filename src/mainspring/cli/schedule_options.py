"""Options of a schedule: its trigger, its policies, its jobs; and their parsers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import click
from msgspec.structs import replace

from ..records.job import MAX_PRIORITY, MIN_PRIORITY
from ..schedule.record import CATCH_UPS, OVERLAPS, Spec
from ..trigger import Every, Trigger, Window, at, cron
from .filters import combine_options
from .options import instant, interval, json_object, span

NONE = "none"
# A tuple, because None is a value of some options.
Given = tuple[Any]
_WINDOW = re.compile(r"([0-9:]+) *- *([0-9:]+)(?: +(.+))?")


def _or_none(none: Any, parse: Callable[[str], Any]) -> Callable[[str], Given]:
    """A parser that returns `none` for the text 'none'."""
    return lambda text: (none if text == NONE else parse(text),)


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise click.BadParameter(f"{text!r} is not a whole number of at least 1, nor {NONE!r}")
    return int(text)


def _parse_window(text: str) -> tuple[str, ...]:
    """A window from a text such as 08:00-18:00 or 08:00-18:00 mon-fri."""
    match = _WINDOW.fullmatch(text.strip())
    if not match:
        raise click.BadParameter(f"{text!r} is not a window such as '08:00-18:00' or '22:00-06:00 mon-fri'")
    return tuple(part for part in match.groups() if part)


def _parse_date(text: str) -> date | None:
    if text == NONE:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a date such as 2030-12-25, nor {NONE!r}") from None


trigger_options = combine_options(
    click.option("--cron", "expr", metavar="EXPR", help="A cron expression; see `mainspring cron`."),
    click.option("--every", type=interval, metavar="SPAN", help="An interval: 5m, 30 seconds, 1h30m."),
    click.option(
        "--at", "once", metavar="INSTANT", help="Once: 2030-01-31T09:00:00Z; without a zone, in that of --tz."
    ),
    click.option("--tz", metavar="ZONE", help="The time zone: Europe/London. Default: UTC."),
    click.option("--day-match", type=click.Choice(("or", "and")), help="With --cron: match either day field, or both."),
)
policy_options = combine_options(
    click.option("--kwargs", type=json_object, metavar="JSON", help="The arguments of its jobs, as a JSON object."),
    click.option(
        "--overlap", type=click.Choice(OVERLAPS), help="A tick while the previous run is running. Default: skip."
    ),
    click.option(
        "--catch-up", type=click.Choice(CATCH_UPS), help="Ticks missed while no worker was running. Default: latest."
    ),
    click.option(
        "--catch-up-window",
        type=_or_none(0.0, span),
        metavar="SPAN|none",
        help="Missed ticks older than this are skipped: 1d.",
    ),
    click.option(
        "--grace",
        type=_or_none(0.0, span),
        metavar="SPAN|none",
        help="A tick less late than this is on time. Default: 60s.",
    ),
    click.option(
        "--jitter", type=_or_none(0.0, span), metavar="SPAN|none", help="Fire later by a fixed offset below this."
    ),
    click.option(
        "--window",
        type=_or_none(None, _parse_window),
        metavar="HOURS|none",
        help="Fire only within: '08:00-18:00 mon-fri'.",
    ),
    click.option("--outside", type=click.Choice(("skip", "move")), help="Ticks outside the window. Default: skip."),
    click.option(
        "--exclude", type=_parse_date, metavar="DATE|none", multiple=True, help="No tick on this date. May be repeated."
    ),
    click.option("--start", type=_or_none(None, instant), metavar="INSTANT|none", help="No tick before."),
    click.option("--end", type=_or_none(None, instant), metavar="INSTANT|none", help="No tick after."),
    click.option(
        "--max-runs", type=_or_none(None, _parse_count), metavar="N|none", help="End after this number of runs."
    ),
    click.option(
        "--after", type=click.Choice(("start", "finish")), help="Count the interval from the start or the end of a run."
    ),
    click.option(
        "--pause-after-failures",
        type=_or_none(None, _parse_count),
        metavar="N|none",
        help="Pause after this number of failures in a row.",
    ),
    click.option(
        "--depends-on",
        metavar="NAME|none",
        multiple=True,
        help="Fire once this schedule has succeeded again. May be repeated.",
    ),
    click.option(
        "--adapt",
        type=_or_none(None, span),
        metavar="SPAN|none",
        help="Let its interval grow up to this while results stay the same.",
    ),
    click.option("--spread/--no-spread", default=None, help="Place its ticks where the fewest others are."),
)
job_options = combine_options(
    click.option("--queue", metavar="NAME", help="The queue of its jobs. Default: the task's own."),
    click.option("--priority", type=click.IntRange(MIN_PRIORITY, MAX_PRIORITY), metavar="N", help="Higher runs first."),
    click.option("--max-retries", type=click.IntRange(0), metavar="N", help="Retries after the first attempt."),
    click.option("--timeout", type=span, metavar="SPAN", help="Time limit of one attempt: 90, 5m."),
    click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag of its jobs. May be repeated."),
)
_JOB = ("queue", "priority", "max_retries", "timeout", "tags")
_PLAIN = ("kwargs", "overlap", "catch_up", "after", "spread")
_OPTIONAL = ("catch_up_window", "grace", "jitter", "window", "max_runs", "pause_after_failures", "adapt")


def take_job_options(given: dict[str, Any]) -> dict[str, Any]:
    """Removes the options of its jobs from `given` and returns them."""
    options = {name: given.pop(name) for name in _JOB}
    return {name: value for name, value in options.items() if value not in (None, ())}


def take_trigger(given: dict[str, Any], spec: Spec | None = None) -> Trigger | None:
    """Removes the trigger options from `given` and returns the trigger; None if there are none.

    `spec` is the schedule so far, whose time zone --tz alone replaces.
    """
    expr, span, once = (given.pop(name) for name in ("expr", "every", "once"))
    tz, day_match = given.pop("tz"), given.pop("day_match")
    if sum(one is not None for one in (expr, span, once)) > 1:
        raise click.UsageError("--cron, --every and --at exclude each other: a schedule has one rule")
    if day_match is not None and expr is None:
        raise click.UsageError("--day-match goes with --cron")
    if expr is not None:
        return cron(expr, tz=tz or "UTC", day_match=day_match or "or")
    if span is not None:
        return Every(seconds=span.total_seconds(), tz=tz or "UTC")
    if once is not None:
        return _once(once, tz)
    return None if tz is None or spec is None else replace(spec.trigger, tz=tz)


def _once(text: str, tz: str | None) -> Trigger:
    try:
        naive = datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        raise click.BadParameter(f"--at {text!r} is not an ISO 8601 instant such as 2030-01-31T09:00:00Z") from None
    if naive and tz is None:
        raise click.BadParameter(f"--at {text!r} has no time zone: add Z for UTC, or --tz Europe/London")
    return at(text, tz=tz)


def parse_policies(given: dict[str, Any], spec: Spec | None = None) -> dict[str, Any]:
    """The given policies, as keywords of app.schedules.create and update."""
    policies = {name: given[name] for name in _PLAIN if given[name] is not None}
    policies |= {name: given[name][0] for name in _OPTIONAL if given[name] is not None}
    policies |= {f"{name}_at": given[name][0] for name in ("start", "end") if given[name] is not None}
    for name, none in (("exclude", None), ("depends_on", NONE)):
        if given[name]:
            policies[name] = [one for one in given[name] if one != none]
    if given["outside"] is not None:
        policies["window"] = _outside(policies.get("window"), given["outside"], spec)
    return policies


def _outside(hours: tuple[str, ...] | None, outside: Any, spec: Spec | None) -> Window:
    window = Window.of(hours) if hours else None if spec is None else spec.window
    if window is None:
        raise click.UsageError("--outside goes with --window '08:00-18:00'")
    return replace(window, outside=outside)
