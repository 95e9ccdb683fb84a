"""Fields of a cron expression, parsed into sets of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from ..errors import BadInput
from .trigger import hash_below

MAX_EXPRESSION_CHARACTERS = 256
MAX_ITEMS = 100
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
UNRESTRICTED = ("*", "?", "*/1")
# The last day that every month has; H without a range stays within it.
LAST_COMMON_DAY = 28

_SPAN = re.compile(r"(?:(\*)|(\d+|[a-z]{3})(?:-(\d+|[a-z]{3}))?)(?:/(\d+))?")
_HASH = re.compile(r"h(?:\((\d+)-(\d+)\))?(?:/(\d+))?")
_LAST_DAY = re.compile(r"l(?:-(\d+))?(w)?")
_NEAREST = re.compile(r"(\d+)w")
_WEEKDAY = re.compile(r"(\d|[a-z]{3})(?:#([1-5])|l)")
_LONG_NUMBER = re.compile(r"\d{5}")

DrawBelow = Callable[[int], int]
"""Returns a number below the argument that is hashed from the schedule's name."""


class Special(NamedTuple):
    """A day that depends on the month: `L-2`, `LW`, `15W`, `5#2`, `5L`."""

    kind: Literal["last", "last weekday", "nearest weekday", "nth", "last of"]
    number: int
    """Days before the last, the day of the month, or the day of the week."""
    nth: int = 0


class CronField(NamedTuple):
    """The definition of one of the six columns: its range and its names."""

    name: str
    low: int
    high: int
    forms: str
    names: Mapping[str, int] = MappingProxyType({})

    @property
    def span(self) -> int:
        return self.high - self.low + 1


class Field(NamedTuple):
    """One parsed column of an expression."""

    text: str
    bits: int
    """Bit n is set if n matches; Sunday is 0."""
    specials: tuple[Special, ...] = ()

    @property
    def free(self) -> bool:
        """Whether it restricts nothing: it is exactly `*`, `?` or `*/1`."""
        return self.text in UNRESTRICTED

    @property
    def starred(self) -> bool:
        return self.text.startswith("*")

    @property
    def hashed(self) -> bool:
        return any(item.startswith("h") for item in self.text.split(","))


class Fields(NamedTuple):
    """The parsed columns of an expression."""

    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def follows(self) -> bool:
        """Whether it follows elapsed time (a wildcard expression) and not wall-clock times."""
        return self.second.starred or self.minute.starred or self.hour.starred

    @property
    def hashed(self) -> bool:
        return any(field.hashed for field in self)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PLAIN = "write *, 5, 1-5, */10, 5/10, H or a list of these"
SECOND = CronField("second", 0, 59, _PLAIN)
MINUTE = CronField("minute", 0, 59, _PLAIN)
HOUR = CronField("hour", 0, 23, _PLAIN)
DAY = CronField("day of month", 1, 31, "write *, ?, 5, 1-5, */10, L, L-2, LW, 15W, H or a list of these")
MONTH = CronField(
    "month", 1, 12, "write *, 5, 1-5, */3, jan, H or a list of these", {name: n for n, name in enumerate(_MONTHS, 1)}
)
WEEKDAY = CronField(
    "day of week",
    0,
    6,
    "write *, ?, 1-5, mon, fri#2, 5L, H or a list",
    {name: n for n, name in enumerate(_DAYS)},
)
KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def parse(expr: str, name: str = "") -> Fields:
    """Parses an expression without zone prefix; `H` is hashed from the name."""
    texts = _columns(expr)
    below = _draws_of(name)
    return Fields(*(_field(kind, text, below) for kind, text in zip(KINDS, texts, strict=True)))


def _columns(expr: str) -> list[str]:
    if not expr.isascii():
        raise BadInput("only ASCII characters are understood")
    text = expr.lower()
    if text.startswith("@"):
        if text.strip() not in MACROS:
            raise BadInput(f"{text.strip()!r} names no time; known: {', '.join(MACROS)}")
        text = MACROS[text.strip()]
    columns = text.split()
    if len(columns) not in (5, 6):
        count = f"{len(columns)} field{'s' * (len(columns) != 1)}"
        names = "minute, hour, day of month, month, day of week"
        raise BadInput(f"{count}: write 5 ({names}), or 6 with seconds first; there is no year")
    return columns if len(columns) == 6 else ["0", *columns]


def _draws_of(name: str) -> DrawBelow:
    """Draws numbers from the hash of the name, like digits: fields are as independent as possible, and an `H`
    keeps its value when another one is added behind it."""
    size = 1

    def below(limit: int) -> int:
        nonlocal size
        size *= limit
        return hash_below(name, size) % limit

    return below


def _field(kind: CronField, text: str, below: DrawBelow) -> Field:
    if text == "?" and kind in (DAY, WEEKDAY):
        return Field(text, _bits(range(kind.low, kind.high + 1)))
    if _LONG_NUMBER.search(text):
        raise BadInput(f"{kind.name} {text[:40]!r}: a number has at most 4 digits")
    items = text.split(",")
    if len(items) > MAX_ITEMS:
        raise BadInput(f"{kind.name}: {len(items)} items are too many: at most {MAX_ITEMS}")
    bits, specials = 0, []
    for item in items:
        if special := _special(kind, item):
            specials.append(special)
        else:
            bits |= _bits(_hashed(kind, item, below) if item.startswith("h") else _plain(kind, item))
    return Field(text, bits, tuple(dict.fromkeys(specials)))


def _bits(numbers: range | set[int]) -> int:
    return sum(1 << number for number in numbers)


def _plain(kind: CronField, item: str) -> set[int]:
    """`*`, `n`, `a-b`, each with or without `/step`; a range that wraps around keeps its phase."""
    match = _SPAN.fullmatch(item)
    if match is None:
        raise _not_understood(kind, item)
    star, first, last, by = match.groups()
    step = 1 if by is None else _step(kind, item, by)
    if star:
        return set(range(kind.low, kind.high + 1, step))
    start = _number(kind, first)
    if kind is WEEKDAY and start == 7:
        start = 0
    alone = start if by is None else kind.high
    end = alone if last is None else _number(kind, last)
    if end < start:
        end += kind.span
    return {(number - kind.low) % kind.span + kind.low for number in range(start, end + 1, step)}


def _hashed(kind: CronField, item: str, below: DrawBelow) -> set[int]:
    """`H`, `H/step`, `H(a-b)`, `H(a-b)/step`."""
    match = _HASH.fullmatch(item)
    if match is None:
        raise _not_understood(kind, item)
    first, last, by = match.groups()
    low, high = kind.low, LAST_COMMON_DAY if kind is DAY else kind.high
    if first is not None:
        low, high = _number(kind, first), _number(kind, last)
        if low > high:
            raise BadInput(f"{kind.name} {item!r}: {low} is after {high}; write H({high}-{low})")
    room = high - low + 1
    if by is None:
        return {(low + below(room) - kind.low) % kind.span + kind.low}
    step = _step(kind, item, by)
    return {number % 7 if kind is WEEKDAY else number for number in range(low + below(min(step, room)), high + 1, step)}


def _special(kind: CronField, item: str) -> Special | None:
    if kind is DAY:
        if match := _LAST_DAY.fullmatch(item):
            before = int(match[1] or 0)
            if before > 30:
                raise BadInput(f"{kind.name} {item.upper()!r}: no month has more than 31 days; L-30 is the most")
            return Special("last weekday" if match[2] else "last", before)
        if match := _NEAREST.fullmatch(item):
            return Special("nearest weekday", _number(kind, match[1]))
    if kind is WEEKDAY and (match := _WEEKDAY.fullmatch(item)):
        day = _number(kind, match[1]) % 7
        return Special("nth", day, int(match[2])) if match[2] else Special("last of", day)
    return None


def _number(kind: CronField, text: str) -> int:
    if not text[0].isdigit():
        if text not in kind.names:
            known = f"known: {', '.join(kind.names)}" if kind.names else "it has no names"
            raise BadInput(f"{kind.name} {text!r} is not understood; {known}")
        return kind.names[text]
    high = 7 if kind is WEEKDAY else kind.high
    if not kind.low <= int(text) <= high:
        raise BadInput(f"{kind.name} {text} is not within {kind.low}-{high}")
    return int(text)


def _step(kind: CronField, item: str, text: str) -> int:
    if not 1 <= int(text) <= kind.span:
        raise BadInput(f"{kind.name} {item!r}: a step is 1 to {kind.span}")
    return int(text)


def _not_understood(kind: CronField, item: str) -> BadInput:
    if not item:
        return BadInput(f"{kind.name}: an item of the list is empty; {kind.forms}")
    return BadInput(f"{kind.name} {item[:40]!r} is not understood; {kind.forms}")
