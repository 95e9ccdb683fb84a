"""Pauses of queues, stored as documents: who paused a queue, when, why, and until when."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..bounds import MAX_NAME_CHARACTERS, MAX_NOTE_CHARACTERS
from ..errors import BadInput, StoreUnavailable
from ..records.document import Document
from ..records.outcome import clean
from ..records.unreadable import decoded_documents
from ..store import Store

KIND = "queue_pauses"
# Number of pauses kept per queue.
MAX_PAUSES = 20
# How long they are kept after the last of them has ended.
PAUSE_RETENTION = timedelta(days=90)
# Attempts to change a record that others change at the same time.
MAX_ATTEMPTS = 50
PAGE_DOCUMENTS = 500


class Pause(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A time in which nothing was claimed from a queue."""

    at: datetime
    who: str | None = None
    """None: the caller gave no name."""
    note: str = ""
    until: datetime | None = None
    """None: the queue is still paused."""


class Pauses(Struct, frozen=True):
    """The pauses of one queue, oldest first."""

    pauses: tuple[Pause, ...] = ()


def checked_note(note: object) -> str:
    if not isinstance(note, str) or len(note) > MAX_NOTE_CHARACTERS:
        raise BadInput(f"a note is text of at most {MAX_NOTE_CHARACTERS:,} characters")
    return clean(note, MAX_NOTE_CHARACTERS)


async def pauses_of(store: Store, queues: Collection[str], now: datetime) -> dict[str, tuple[Pause, ...]]:
    """The recorded pauses by queue, oldest first. Pauses made by earlier releases have no record."""
    found: dict[str, tuple[Pause, ...]] = {}
    names = sorted(set(queues))
    for begin in range(0, len(names), PAGE_DOCUMENTS):
        some = names[begin : begin + PAGE_DOCUMENTS]
        for document in await store.documents(KIND, some, now=now, limit=PAGE_DOCUMENTS):
            found[document.name] = _pauses_in(document)
    return found


def open_pause(pauses: tuple[Pause, ...]) -> Pause | None:
    """The pause that has not ended; None if there is none."""
    return pauses[-1] if pauses and pauses[-1].until is None else None


async def begin_pause(store: Store, queue: str, who: str | None, note: str, *, paused: bool, now: datetime) -> None:
    """Records a pause. If the queue is `paused` already, its open pause only gets the new name and note."""
    who = who and clean(who, MAX_NAME_CHARACTERS)

    def with_pause(pauses: tuple[Pause, ...]) -> tuple[Pause, ...]:
        last = open_pause(pauses)
        ended = pauses if last is None else pauses[:-1]
        if last is None or not paused:  # an open pause of a queue that is not paused: an earlier release resumed it
            return (*ended, Pause(at=now, who=who, note=note))
        return (*ended, replace(last, who=who, note=note)) if note else pauses

    await _change(store, queue, with_pause, now)


async def end_pause(store: Store, queue: str, now: datetime) -> None:
    def ended(pauses: tuple[Pause, ...]) -> tuple[Pause, ...]:
        last = open_pause(pauses)
        return pauses if last is None else (*pauses[:-1], replace(last, until=now))

    await _change(store, queue, ended, now)


async def _change(
    store: Store, queue: str, act: Callable[[tuple[Pause, ...]], tuple[Pause, ...]], now: datetime
) -> None:
    for _ in range(MAX_ATTEMPTS):
        documents = await store.documents(KIND, [queue], now=now, limit=1)
        before = _pauses_in(documents[0]) if documents else ()
        after = act(before)[-MAX_PAUSES:]
        if after == before:
            return
        revision = documents[0].revision + 1 if documents else 1
        if (await store.put_documents([_document_of(queue, after, revision, now)], now=now))[0]:
            return
    raise StoreUnavailable(f"queue {queue!r} was paused or resumed by others {MAX_ATTEMPTS} times in a row; try again")


def _document_of(queue: str, pauses: tuple[Pause, ...], revision: int, now: datetime) -> Document:
    text = msgspec.json.encode(Pauses(pauses)).decode()
    expires_at = None if open_pause(pauses) else now + PAUSE_RETENTION
    return Document(kind=KIND, name=queue, text=text, revision=revision, expires_at=expires_at)


def _pauses_in(document: Document) -> tuple[Pause, ...]:
    """The pauses of a record; empty if this release cannot decode it, which is logged and counted."""
    found, _ = decoded_documents([document], lambda one: msgspec.json.decode(one.text, type=Pauses).pauses)
    return found[0] if found else ()
