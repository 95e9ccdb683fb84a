"""Records that cannot be decoded: what stands in for them, who hears of them, and what doctor says of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from ..mask import mask_to_cut
from ..survived_errors import count_unreadable
from .document import Document
from .finding import Finding
from .job import UnreadableRecord
from .tally import RunSums

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
_sums = msgspec.json.Decoder(RunSums).decode


def unreadable_record(kind: str, name: str, error: Exception | str) -> UnreadableRecord:
    """The record by its name and its decoding error; it is logged once in a process."""
    found = _undecoded(kind, name, error)
    _log_once(found)
    return found


def _undecoded(kind: str, name: str, error: Exception | str) -> UnreadableRecord:
    return UnreadableRecord(kind, name, mask_to_cut(_text(error))[:MAX_ERROR_CHARACTERS])


def _log_once(found: UnreadableRecord) -> bool:
    """Whether this was the first time in this process."""
    if (found.kind, found.name) in _logged:
        return False
    if len(_logged) >= MAX_LOGGED:
        _logged.clear()
    _logged.add((found.kind, found.name))
    _logger.error("the record of %s %s cannot be decoded, and is left out: %s", found.kind, found.name, found.error)
    return True


def decoded_documents(
    documents: Iterable[Document], decode: Callable[[Document], T]
) -> tuple[list[T], list[UnreadableRecord]]:
    """The documents that can be decoded; and those that cannot, logged and counted once in a process."""
    found: list[T] = []
    broken: list[UnreadableRecord] = []
    for document in documents:
        try:
            found.append(decode(document))
        except Exception as error:
            broken.append(_undecoded(document.kind, document.name, error))
    for one in broken:
        if _log_once(one):
            count_unreadable(one.kind)
    return found, broken


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
            broken.append(unreadable_record(kind, _name(name), error))
    return found, broken


def readable(kind: str, pairs: Iterable[tuple[Any, R]], decode: Callable[[R], T]) -> list[T]:
    """Only those that can be decoded."""
    return decoded(kind, pairs, decode)[0]


def sums_of(text: bytes | str, name: object = "") -> RunSums:
    """Counts of runs; none where they cannot be decoded, so that later ones can be added."""
    return next(iter(readable("tally", [(name, text)], _sums)), RunSums())


def _name(name: Any) -> str:
    return name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name)


def record_finding(jobs: Collection[str], schedules: Sequence[str]) -> Finding:
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


def document_finding(broken: Collection[UnreadableRecord]) -> Finding:
    """What doctor says of documents of the service. They are deleted by the commands for their kind."""
    if not broken:
        return Finding("documents", "ok", "all webhooks, triggers and API keys can be decoded")
    named = sorted(broken, key=lambda one: (one.kind, one.name))
    ways = [_DOCUMENT_WAYS[one.kind].format(name=one.name) for one in named]
    text = f"cannot be decoded, and are left out: {_few([f'{one.kind} {one.name} ({one.error})' for one in named])}"
    return Finding("documents", "bad", text, f"upgrade mainspring here; or {_few(ways)}, then create it again")


# By the kind of a document.
_DOCUMENT_WAYS = {
    "key": "mainspring keys revoke {name}",
    "trigger": "mainspring triggers delete {name}",
    "webhook": "mainspring webhooks delete {name}",
}


def _few(names: Sequence[str]) -> str:
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
