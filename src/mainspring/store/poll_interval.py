"""The poll interval: how long a waiting loop may go without asking the store."""

from __future__ import annotations

import random

from .life import StoreLife

# Seconds between two polls while the store's notifications arrive. Beats find what a lost notification was about.
LISTENING_POLL_SECONDS = 90.0


def poll_interval(store: StoreLife, poll: float) -> float:
    """Seconds: `poll`, or much longer while the store's notifications arrive. Randomised, so that processes do not poll
    together.
    """
    return max(poll, random.uniform(0.8, 1.0) * LISTENING_POLL_SECONDS) if store.listening == "ok" else poll
