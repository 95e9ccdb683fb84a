"""Weekdays: their names, and texts such as "mon-fri"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import BadInput
from .bounds import MAX_WEEKDAY_CHARACTERS, MAX_WEEKDAYS, check_count, quoted

NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WORKDAYS = (0, 1, 2, 3, 4)
WEEKEND = (5, 6)
_ALIASES = {name.lower(): n for n, name in enumerate(NAMES)} | {name[:3].lower(): n for n, name in enumerate(NAMES)}
_ALIASES |= {"tues": 1, "thur": 3, "thurs": 3}

Days = str | int | Iterable[str | int]


def weekdays(days: Days) -> tuple[int, ...]:
    """Parses "mon-fri", "sat, sun", ["monday", 3] or 0 to sorted numbers; Monday is 0."""
    found = tuple(sorted(set(_each(days))))
    if not found:
        raise BadInput("no weekday is given: give some, as 'mon-fri' or ('sat', 'sun')")
    return found


def _each(days: Days) -> Iterator[int]:
    if isinstance(days, str):
        if len(days) > MAX_WEEKDAY_CHARACTERS:
            raise BadInput(f"{quoted(days)} are too many weekdays: at most {MAX_WEEKDAY_CHARACTERS} characters")
        for part in days.split(","):
            yield from _range(part)
    elif isinstance(days, int):
        yield _number(days)
    elif isinstance(days, Iterable):
        several = tuple(days)
        check_count("weekdays", several, MAX_WEEKDAYS, "write each once")
        for day in several:
            yield from _each(day)
    else:
        raise BadInput(f"{days!r:.80} names no weekdays: write them as 'mon-fri' or ('sat', 'sun')")


def _range(text: str) -> Iterator[int]:
    first, dash, last = (part.strip().lower() for part in text.partition("-"))
    start = _named(first)
    end = _named(last) if dash else start
    yield from ((start + n) % 7 for n in range((end - start) % 7 + 1))


def _named(name: str) -> int:
    if name in _ALIASES:
        return _ALIASES[name]
    import difflib  # needed for a message only

    near = difflib.get_close_matches(name, _ALIASES, 1)
    raise BadInput(f"{name!r} is not a weekday; write {repr(near[0]) if near else 'monday … sunday, or mon … sun'}")


def _number(day: int) -> int:
    if isinstance(day, bool) or not 0 <= day <= 6:
        raise BadInput(f"weekday {day!r} is not known: 0 is Monday and 6 is Sunday; or use its name")
    return day


def join_words(words: Iterable[str]) -> str:
    """a, b and c."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
