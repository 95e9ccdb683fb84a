"""Patience: how long who waits for a store's news may go without looking."""

from __future__ import annotations

import random

from .store import Store

# Seconds between two looks where word of everything is heard; beats look for what a lost word was about.
LISTENING_POLL_SECONDS = 90.0


def poll_interval(store: Store, poll: float) -> float:
    """`poll`, or far longer where news come by themselves; then not the same for all, so that nobody looks together."""
    return max(poll, random.uniform(0.8, 1.0) * LISTENING_POLL_SECONDS) if store.hears() else poll
