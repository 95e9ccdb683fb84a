"""Signals by hand: why one was refused, and how a delivery is named."""

from __future__ import annotations

from datetime import datetime

from ..errors import BadInput, MainspringError, SignalLate, SignalRefused, SignalTwice, SignalUnknown, StoreUnavailable
from ..ids import new_id
from ..records.query import Refusal

MAX_DELIVERY_CHARACTERS = 200
_ERRORS = {"twice": SignalTwice, "late": SignalLate, "unknown": SignalUnknown, "full": SignalRefused}


def signal_error(refusal: Refusal) -> MainspringError:
    """The error of a signal that was not taken."""
    text = refusal.error or f"the job is {refusal.state}"
    # Without a reason of its own it is no answer for good: workers of an older release are alive.
    return StoreUnavailable(text) if refusal.signal is None else _ERRORS[refusal.signal](text)


def checked_delivery(delivery: str | None, now: datetime) -> str:
    """The name of this delivery; a new one if it has none."""
    if delivery is None:
        return new_id(now)
    if not isinstance(delivery, str) or not 0 < len(delivery) <= MAX_DELIVERY_CHARACTERS or "\x00" in delivery:
        raise BadInput(f"delivery= is text of 1 to {MAX_DELIVERY_CHARACTERS} characters, got {delivery!r:.80}")
    return delivery
