"""Job ids: UUIDv7, minted by the caller, so that a repeated request is the same job."""

from __future__ import annotations

import os
import threading
from datetime import datetime
from random import Random

_lock = threading.Lock()
_last = 0
_random = Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_id(now: datetime) -> str:
    """A UUIDv7 that sorts after every one this process has minted before."""
    global _last
    # 48 bits of milliseconds and 12 bits that count on within one: RFC 9562, method 1.
    stamp = int(now.timestamp() * 1000) << 12
    with _lock:
        _last = stamp = stamp if stamp > _last else _last + 1
        tail = _random.getrandbits(62)
    return (
        f"{stamp >> 28:08x}-{stamp >> 12 & 0xFFFF:04x}-7{stamp & 0xFFF:03x}"
        f"-{0x8000 | tail >> 48:04x}-{tail & 0xFFFF_FFFF_FFFF:012x}"
    )
