"""Crontab files, parsed into triggers and commands. Differences in meaning are flagged, never guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from ..errors import BadInput
from .cron import Cron, cron
from .cron_description import members
from .cron_fields import MACROS
from .zone import changes, offset_at, zone_of

_SETTING = re.compile(r"\s*[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*=\s*(.*?)\s*")
_ZONES = ("CRON_TZ", "TZ")
_SETTINGS = {
    "MAILTO": "mails what a command prints to {value}; Mainspring keeps it with the run",
    "MAILFROM": "mails come from {value}; Mainspring sends none",
    "SHELL": "commands run in {value}",
    "PATH": "commands are found in {value}",
    "HOME": "commands start in {value}",
    "RANDOM_DELAY": "starts up to {value} minutes late; a schedule has jitter= for that",
}
_OTHER_SETTING = "commands have ${name} set to {value}"
_WORD = re.compile(r"[A-Za-z0-9]+")
_MAX_NAME_CHARACTERS = 64
# Zone rules repeat every year; those of Morocco, which follow the moon, are known for decades.
_SAMPLE = datetime(2025, 1, 1, tzinfo=UTC)
_SAMPLE_SPAN = timedelta(days=366 * 30)
_SECONDS_PER_DAY = 86_400


class CrontabEntry(NamedTuple):
    """A line of a crontab: a command with its schedule, or a setting that affects others."""

    line: int
    source: str
    name: str
    """A unique name for the schedule."""
    command: str
    user: str
    trigger: Cron | None
    """None if it cannot be converted; `flags` tell why."""
    flags: tuple[str, ...] = ()
    """Differences that a person should check."""
    interval: int | None = None
    """Seconds of an interval with exactly the same ticks, anchored at 1970 in UTC."""


def parse(text: str, *, system: bool = False, tz: str = "UTC", as_intervals: bool = False) -> list[CrontabEntry]:
    """Parses the entries of a crontab. With `system`, lines name a user, as in /etc/crontab.

    A CRON_TZ line applies to the lines below it. With `as_intervals`, entries that equal an interval have its
    seconds, and the others a flag that tells why they do not.
    """
    names: set[str] = set()
    found: list[CrontabEntry] = []
    for number, source in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not source.strip() or source.lstrip().startswith("#"):
            continue
        if setting := _SETTING.fullmatch(source):
            name, value = setting[1], setting[2].strip("\"'")
            tz = value if name in _ZONES else tz
            if meaning := _meaning(name, value):
                found.append(CrontabEntry(number, source, "", "", "", None, (f"{name}: {meaning}",)))
        else:
            found.append(_entry(number, source, tz, system, names))
    return list(map(_with_interval, found)) if as_intervals else found


def _meaning(name: str, value: str) -> str:
    """What a setting does in cron; empty if it means the same here."""
    if name not in _ZONES:
        return _SETTINGS.get(name, _OTHER_SETTING).format(name=name, value=value or "nobody")
    try:
        zone_of(value)
    except BadInput as bad:
        return str(bad)
    return "read as the zone of the times below; many crons mean only that of the commands" if name == "TZ" else ""


def _entry(number: int, source: str, tz: str, system: bool, names: set[str]) -> CrontabEntry:
    expr, rest = _split_line(source.strip())
    user, _, command = rest.partition(" ") if system else ("", "", rest)
    command = command.strip()
    flags = [*_dialect(expr), *_percent(command)]
    if not command:
        flags.insert(0, "no command follows the expression" + (" and the user" if system else ""))
    trigger, reason = _trigger(expr, tz)
    if reason:
        flags.insert(0, reason)
    elif trigger is not None:
        flags += [*trigger.warnings(), *_clocks(trigger)]
    usable = trigger if command else None
    return CrontabEntry(number, source, _name(command, number, names), command, user, usable, tuple(flags))


def _split_line(line: str) -> tuple[str, str]:
    """The expression, of five fields or a macro such as @daily, and the rest of the line."""
    fields = 1 if line.startswith("@") else 5
    words = line.split(None, fields)
    rest = words[fields] if len(words) > fields else ""
    return " ".join(words[:fields]), re.sub(r"^(\S+)\s+", r"\1 ", rest)


def _trigger(expr: str, tz: str) -> tuple[Cron | None, str]:
    if expr.lower() == "@reboot":
        return None, "@reboot runs when the machine starts: that is not a time; enqueue the job where it starts instead"
    if "~" in expr:
        return None, "~ means a random time, drawn again whenever cron starts; H draws one for good: H(a-b)"
    try:
        return cron(expr, tz=tz), ""
    except BadInput as bad:
        return None, str(bad)


def _dialect(expr: str) -> Iterator[str]:
    """Flags expressions that other crons read differently."""
    columns = MACROS.get(expr.lower(), expr).split()
    if len(columns) != 5:
        return
    day, weekday = columns[2], columns[4]
    stars = [text for text in (day, weekday) if text.startswith("*") and text not in ("*", "*/1")]
    if stars and day not in ("*", "?", "*/1") and weekday not in ("*", "?", "*/1"):
        yield f"Vixie cron takes {stars[0]} for a star, and then both day fields must match: day_match='and' is that"
    for text in columns:
        if re.search(r"(?:^|,)\d+/\d", text):
            yield f"{text}: Vixie cron takes a step only behind a range or a star; here it goes on to the end"
        if re.search(r"[hHlLwW#?]", re.sub(r"[A-Za-z]{3}", "", text)):
            yield f"{text}: is not POSIX cron; it means what docs/cron.md says"


def _clocks(rule: Cron) -> Iterator[str]:
    if effects := rule.effects(after=_SAMPLE, until=_SAMPLE + timedelta(days=4 * 366)):
        yield f"clocks in {rule.tz} change at its time, and crons differ in what they do then; here: {effects[0].note}"


def _percent(command: str) -> Iterator[str]:
    if re.search(r"(?<!\\)%", command):
        yield "% ends the command and begins its input in cron, and is a new line there; write the input out"
    elif "\\%" in command:
        yield "\\% is a plain % in cron; take the backslash away"


def _name(command: str, number: int, names: set[str]) -> str:
    """The name of the program; with the line number if that is taken."""
    program = next((word for word in command.split() if "=" not in word), "")
    words = _WORD.findall(program.rpartition("/")[2].partition(".")[0])
    name = "-".join(words).lower()[:_MAX_NAME_CHARACTERS] or f"line-{number}"
    name = name if name not in names else f"{name}-{number}"
    names.add(name)
    return name


# intervals


def _with_interval(entry: CrontabEntry) -> CrontabEntry:
    if entry.trigger is None:
        return entry
    seconds, reason = interval(entry.trigger)
    return entry._replace(interval=seconds, flags=(*entry.flags, *([f"not an interval: {reason}"] if reason else [])))


def interval(rule: Cron) -> tuple[int | None, str]:
    """The seconds of an interval, anchored at 1970 in UTC, with exactly the ticks of `rule`; or None, and why."""
    plan = rule.plan
    if plan.fields.month.bits.bit_count() < 12 or not (plan.fields.day.free and plan.fields.weekday.free):
        return None, "it does not run on every day"
    hours, minutes, seconds = members(plan.hours), members(plan.minutes), members(plan.seconds)
    times = [3600 * hour + 60 * minute + second for hour in hours for minute in minutes for second in seconds]
    step = _SECONDS_PER_DAY // len(times)
    if times != list(range(0, _SECONDS_PER_DAY, step)):
        return None, "its times are not evenly spread from midnight to midnight"
    offsets = _offsets(rule.tz)
    if len(offsets) > 1 and not plan.fields.follows:
        return None, f"it means times on the wall, and clocks in {rule.tz} change"
    if any(offset % step for offset in offsets):
        return None, f"clocks in {rule.tz} are not ahead of UTC by a multiple of it"
    return step, ""


@lru_cache(maxsize=64)
def _offsets(tz: str) -> frozenset[int]:
    """The zone's offsets from UTC in seconds, over the coming decades."""
    zone = zone_of(tz)
    found = {offset_at(_SAMPLE, zone)} | {change.after for change in changes(_SAMPLE, _SAMPLE + _SAMPLE_SPAN, zone)}
    return frozenset(int(span.total_seconds()) for span in found)
