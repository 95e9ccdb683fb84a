"""Job ids: UUIDv7, made by the caller, so that a repeated request is the same job."""

from __future__ import annotations

import os
import threading
from datetime import datetime
from functools import lru_cache

JobId = str
WorkerId = str
Lease = str

# Texts of the counter's last digits: to format them would cost a fifth of an id.
_DIGITS = tuple(f"{n:02x}" for n in range(0x100))

_lock = threading.Lock()
_last = 0
_tail = ""


def _draw_random_bits() -> None:
    """Draws 62 random bits, once for this process: drawing them for each id would cost more than the id."""
    global _lock, _tail
    _lock = threading.Lock()  # another thread may have held it when this process was forked
    bits = int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    _tail = f"-{bits >> 48:04x}-{bits & 0xFFFF_FFFF_FFFF:012x}"


_draw_random_bits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_draw_random_bits)


def new_id(now: datetime) -> str:
    """A UUIDv7 that sorts after every other one this process has made."""
    global _last
    # 48 bits of milliseconds and 12 bits that count within a millisecond: RFC 9562, method 1.
    stamp = int(now.timestamp() * 1000) << 12
    with _lock:
        _last = stamp = stamp if stamp > _last else _last + 1
    return _head(stamp >> 8) + _DIGITS[stamp & 0xFF] + _tail


def new_id_series(now: datetime) -> str:
    """The first id of a series. nth_id() computes the others from it; no other caller makes ids of the series."""
    bits = int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    return f"{new_id(now)[:19]}{bits >> 48:04x}-{bits & 0xFFFF_FFFF_FFFF:012x}"


def nth_id(first: str, n: int) -> str:
    """The n-th id after the first of a series. n is less than a million."""
    stamp = (int(first[:8], 16) << 28) + (int(first[9:13], 16) << 12) + int(first[15:18], 16) + n
    return f"{_head(stamp >> 8)}{stamp & 0xFF:02x}{first[18:]}"


@lru_cache(maxsize=4)
def _head(stamp: int) -> str:
    """The first part of an id: milliseconds, and the counter's first digit. Cached, since a bulk enqueue makes many ids
    in one millisecond."""
    return f"{stamp >> 20:08x}-{stamp >> 4 & 0xFFFF:04x}-7{stamp & 0xF:x}"
