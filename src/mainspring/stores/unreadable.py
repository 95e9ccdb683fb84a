"""Records that cannot be decoded: what stands in for them, who hears of them, and what doctor says of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from ..finding import Finding
from ..job import UnreadableRecord
from ..mask import mask_to_cut
from ..tally import Sums

_logger = logging.getLogger("mainspring")
T = TypeVar("T")
R = TypeVar("R")
# Names in one finding; the rest are counted.
MAX_NAMED = 3
# Records that this process remembers to have logged.
MAX_LOGGED = 10_000
# Characters of a decoding error that are kept.
MAX_ERROR_CHARACTERS = 300

_logged: set[tuple[str, str]] = set()
_sums = msgspec.json.Decoder(Sums).decode


def unreadable(kind: str, name: str, error: Exception | str) -> UnreadableRecord:
    """The record by its name and its decoding error; it is logged once in a process."""
    found = UnreadableRecord(kind, name, mask_to_cut(_text(error))[:MAX_ERROR_CHARACTERS])
    if (kind, name) not in _logged:
        if len(_logged) >= MAX_LOGGED:
            _logged.clear()
        _logged.add((kind, name))
        _logger.error("the record of %s %s cannot be decoded, and is left out: %s", kind, name, found.error)
    return found


def _text(error: Exception | str) -> str:
    return error if isinstance(error, str) else f"{type(error).__name__}: {error}"


def decoded(
    kind: str, pairs: Iterable[tuple[Any, R]], decode: Callable[[R], T]
) -> tuple[list[T], list[UnreadableRecord]]:
    """The records, by name and as they are kept, that can be decoded; and those that cannot."""
    pairs = list(pairs)
    try:
        return [decode(raw) for _, raw in pairs], []
    except Exception:
        return _each_decoded(kind, pairs, decode)


def _each_decoded(
    kind: str, pairs: Iterable[tuple[Any, R]], decode: Callable[[R], T]
) -> tuple[list[T], list[UnreadableRecord]]:
    found: list[T] = []
    broken: list[UnreadableRecord] = []
    for name, raw in pairs:
        try:
            found.append(decode(raw))
        except Exception as error:
            broken.append(unreadable(kind, _name(name), error))
    return found, broken


def readable(kind: str, pairs: Iterable[tuple[Any, R]], decode: Callable[[R], T]) -> list[T]:
    """Only those that can be decoded."""
    return decoded(kind, pairs, decode)[0]


def sums_of(text: bytes | str, name: object = "") -> Sums:
    """Counts of runs; none where they cannot be decoded, so that later ones can be added."""
    return next(iter(readable("tally", [(name, text)], _sums)), Sums())


def _name(name: Any) -> str:
    return name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name)


def finding(jobs: Collection[str], schedules: Sequence[str]) -> Finding:
    """What doctor says of records that were set aside."""
    if not jobs and not schedules:
        return Finding("records", "ok", "all that were met can be decoded")
    said, ways = list[str](), list[str]()
    if jobs:
        first = min(jobs)
        said.append(f"jobs set aside: {_few(sorted(jobs))}")
        ways.append(f"mainspring jobs show {first} says why; upgrade mainspring here or repair the record, then "
                    f"mainspring jobs resume {first}; or mainspring jobs delete {first}")  # fmt: skip
    if schedules:
        said.append(f"schedules that do not tick: {_few(schedules)}")
        ways.append(f"mainspring schedules delete {schedules[0]}, then create or declare it again")
    return Finding("records", "bad", f"cannot be decoded; {'; '.join(said)}", "; ".join(ways))


def _few(names: Sequence[str]) -> str:
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
