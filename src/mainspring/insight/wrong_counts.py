"""What recounts of limits have corrected: noted by workers in a document, and read by the doctor."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from ..mask import mask_text
from ..records.document import Document
from ..records.limit import RECOUNT_KIND, group_key, limit_name
from ..store import Store
from ..survived_errors import SurvivedErrors

NAME = "wrong"
# The doctor names wrong groups for this long.
KEPT = timedelta(days=7)
MAX_NAMED_GROUPS = 10
# Attempts to write the document while another worker writes it.
MAX_ATTEMPTS = 5

_logger = logging.getLogger("mainspring")
_undecoded = SurvivedErrors("recount", "what recounts of limits have corrected cannot be decoded, and is left out")


class WrongCounts(Struct, frozen=True):
    """What recounts have corrected lately."""

    at: datetime
    """The last time."""
    corrected: int
    names: tuple[str, ...]
    """The groups that were wrong last, at most MAX_NAMED_GROUPS."""


_decode = msgspec.json.Decoder(WrongCounts).decode
_encode = msgspec.json.Encoder().encode


async def note_wrong_counts(store: Store, limit_keys: Collection[str], now: datetime) -> None:
    """Logs the groups that were wrong, and stores them for the doctor."""
    names = [_shown(key) for key in limit_keys]
    some, more = ", ".join(names[:MAX_NAMED_GROUPS]), len(names) - MAX_NAMED_GROUPS
    rest = f" and {more} more" if more > 0 else ""
    _logger.error("limits were counted otherwise than their jobs, and corrected: %s%s", some, rest)
    for _ in range(MAX_ATTEMPTS):
        known, revision = await _read(store, now)
        named = dict.fromkeys([*names, *(known.names if known else ())])
        corrected = len(names) + (known.corrected if known else 0)
        text = _encode(WrongCounts(now, corrected, tuple(named)[:MAX_NAMED_GROUPS])).decode()
        new = Document(kind=RECOUNT_KIND, name=NAME, text=text, revision=revision + 1, expires_at=now + KEPT)
        if (await store.put_documents([new], now=now))[0]:
            return


async def wrong_counts(store: Store, now: datetime) -> WrongCounts | None:
    """What recounts have corrected lately; None if nothing was wrong."""
    return (await _read(store, now))[0]


async def _read(store: Store, now: datetime) -> tuple[WrongCounts | None, int]:
    """What is noted, and the revision of the note; 0 without one."""
    for document in await store.documents(RECOUNT_KIND, [NAME], now=now, limit=1):
        with _undecoded.survive(msgspec.DecodeError):
            return _decode(document.text), document.revision
        return None, document.revision
    return None, 0


def _shown(limit_key: str) -> str:
    """A group for people: `task:charge ada`."""
    return mask_text(f"{limit_name(limit_key)} {group_key(limit_key)}".rstrip())
