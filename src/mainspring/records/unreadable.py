"""Unreadable records: records that cannot be decoded are left out, logged, counted, and reported by the doctor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from ..survived_errors import count_unreadable
from .document import Document
from .finding import Finding
from .job import UnreadableRecord
from .tally import RunSums

_logger = logging.getLogger("mainspring")
T = TypeVar("T")
R = TypeVar("R")
# Names in one finding; further ones are counted.
MAX_NAMES = 3
# Logged records that this process remembers.
MAX_LOGGED_RECORDS = 10_000
# Characters of a decoding error.
MAX_ERROR_CHARACTERS = 300

_logged: set[tuple[str, str]] = set()
_sums = msgspec.json.Decoder(RunSums).decode


def unreadable_record(kind: str, name: str, error: Exception | str) -> UnreadableRecord:
    """The record by name, with its decoding error. It is logged once in each process."""
    found = _record_of(kind, name, error)
    _log_once(found)
    return found


def _record_of(kind: str, name: str, error: Exception | str) -> UnreadableRecord:
    from ..mask import mask_to_cut

    return UnreadableRecord(kind, name, mask_to_cut(_text(error))[:MAX_ERROR_CHARACTERS])


def _log_once(found: UnreadableRecord) -> bool:
    """Logs the record unless this process has logged it before. Returns whether it did."""
    if (found.kind, found.name) in _logged:
        return False
    if len(_logged) >= MAX_LOGGED_RECORDS:
        _logged.clear()
    _logged.add((found.kind, found.name))
    _logger.error("the record of %s %s cannot be decoded, and is left out: %s", found.kind, found.name, found.error)
    return True


def decoded_documents(
    documents: Iterable[Document], decode: Callable[[Document], T]
) -> tuple[list[T], list[UnreadableRecord]]:
    """The decoded documents, and those that cannot be decoded, which are logged and counted once in each process."""
    found: list[T] = []
    broken: list[UnreadableRecord] = []
    for document in documents:
        try:
            found.append(decode(document))
        except Exception as error:
            broken.append(_record_of(document.kind, document.name, error))
    for one in broken:
        if _log_once(one):
            count_unreadable(one.kind)
    return found, broken


def _text(error: Exception | str) -> str:
    return error if isinstance(error, str) else f"{type(error).__name__}: {error}"


def decoded(
    kind: str, pairs: Iterable[tuple[Any, R]], decode: Callable[[R], T]
) -> tuple[list[T], list[UnreadableRecord]]:
    """The decoded records, and those that cannot be decoded. `pairs` are names and stored values."""
    pairs = list(pairs)
    try:
        return [decode(raw) for _, raw in pairs], []
    except Exception:
        return _decoded_one_by_one(kind, pairs, decode)


def _decoded_one_by_one(
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
    """The decoded records, without those that cannot be decoded."""
    return decoded(kind, pairs, decode)[0]


def sums_of(text: bytes | str, name: object = "") -> RunSums:
    """The decoded sums of runs. Empty sums if they cannot be decoded, so that later ones can be added."""
    try:
        return _sums(text)
    except Exception:  # decoded once more, and logged and counted
        return next(iter(readable("tally", [(name, text)], _sums)), RunSums())


def sums_of_each(texts: Sequence[bytes]) -> list[RunSums]:
    """sums_of() of each text."""
    try:
        return [_sums(text) for text in texts]
    except Exception:  # some cannot be decoded
        return [sums_of(text) for text in texts]


def _name(name: Any) -> str:
    return name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name)


def record_finding(jobs: Collection[str], schedules: Sequence[str]) -> Finding:
    """The doctor's finding about jobs and schedules that were set aside."""
    if not jobs and not schedules:
        return Finding("records", "ok", "all records that were read can be decoded")
    texts, remedies = list[str](), list[str]()
    if jobs:
        first = min(jobs)
        texts.append(f"jobs set aside: {_first_names(sorted(jobs))}")
        remedies.append(
            f"mainspring jobs show {first} says why; upgrade mainspring here or repair the record, then "
            f"mainspring jobs resume {first}; or mainspring jobs delete {first}"
        )
    if schedules:
        texts.append(f"schedules that do not tick: {_first_names(schedules)}")
        remedies.append(f"mainspring schedules delete {schedules[0]}, then create or declare it again")
    return Finding("records", "bad", f"cannot be decoded; {'; '.join(texts)}", "; ".join(remedies))


def document_finding(broken: Collection[UnreadableRecord]) -> Finding:
    """The doctor's finding about webhooks, triggers and API keys. Each kind has its own command to delete one."""
    if not broken:
        return Finding("documents", "ok", "all webhooks, triggers and API keys can be decoded")
    named = sorted(broken, key=lambda one: (one.kind, one.name))
    remedies = [_DELETE_COMMANDS[one.kind].format(name=one.name) for one in named]
    names = _first_names([f"{one.kind} {one.name} ({one.error})" for one in named])
    remedy = f"upgrade mainspring here; or {_first_names(remedies)}, then create it again"
    return Finding("documents", "bad", f"cannot be decoded, and are left out: {names}", remedy)


# By kind of document.
_DELETE_COMMANDS = {
    "key": "mainspring keys revoke {name}",
    "trigger": "mainspring triggers delete {name}",
    "webhook": "mainspring webhooks delete {name}",
}


def _first_names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
