"""The stored form of workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from ...clock import instant, micros
from ...records.unreadable import readable
from ...records.worker import WorkerCommands, WorkerInfo, WorkerRow

_encode = msgspec.json.Encoder().encode


class StoredWorker(msgspec.Struct, frozen=True):
    """A worker's record."""

    until: int
    info: WorkerInfo
    orders: WorkerCommands = WorkerCommands()
    flows: bool = False
    """Whether the worker's release knows flows."""
    limits: bool = False
    """Whether it knows limits."""


_stored = msgspec.json.Decoder(StoredWorker).decode


def worker_of(text: bytes) -> WorkerRow:
    row = _stored(text)
    return WorkerRow(row.info, instant(row.until), row.orders)


def workers_of(texts: Mapping[str, bytes | None]) -> dict[str, WorkerRow]:
    """Workers by id, without those that cannot be decoded."""
    rows = [(id, (id, text)) for id, text in texts.items() if text is not None]
    return dict(readable("worker", rows, lambda row: (row[0], worker_of(row[1]))))


class Known(NamedTuple):
    """What a worker's release knows."""

    flows: bool = True
    limits: bool = True


NOTHING_KNOWN = Known(flows=False, limits=False)


def worker_text(worker: WorkerRow, known: Known) -> bytes:
    return _encode(StoredWorker(micros(worker.until), worker.info, worker.orders, *known))


def known_by(text: bytes) -> Known:
    """What the worker's release knows. Of a row that cannot be decoded it is not known, so it knows nothing."""
    try:
        row = _stored(text)
    except msgspec.DecodeError:
        return NOTHING_KNOWN
    return Known(row.flows, row.limits)
