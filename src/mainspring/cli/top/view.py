"""TopView: the last snapshot, the trouble since then, and what the user has chosen."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from .snapshot import SnapshotFailure, TopSnapshot

PANE_NAMES = ("running", "failures", "dead", "next")
_KEYS = {str(n + 1): n for n in range(len(PANE_NAMES))}


class TopView(Struct):
    title: str = "mainspring top"
    note: str = ""
    """A message beside the title."""
    snapshot: TopSnapshot | None = None
    trouble: str = ""
    """Why the last snapshot failed; empty if it did not."""
    since: datetime | None = None
    """When the trouble began."""
    store: str = ""
    now: datetime | None = None
    pane: int = 0
    paused: bool = False
    interval: float = 1.0

    def update(self, taken: TopSnapshot | SnapshotFailure) -> None:
        """A snapshot ends the trouble; a failure leaves the last snapshot."""
        self.store, self.now = taken.store, taken.now
        if isinstance(taken, TopSnapshot):
            self.snapshot, self.trouble, self.since = taken, "", None
        else:
            self.trouble, self.since = taken.reason, self.since or taken.now

    def press(self, key: str) -> None:
        """Handles a key; others than those of the view have no effect."""
        if key == "p":
            self.paused = not self.paused
        elif key == "\t":
            self.pane = (self.pane + 1) % len(PANE_NAMES)
        else:
            self.pane = _KEYS.get(key, self.pane)
