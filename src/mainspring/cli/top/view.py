"""What the person at the terminal sees and has chosen: the last scene, trouble since, the pane, paused or not."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from .snapshot import Scene, TopTrouble

PANES = ("running", "failures", "dead", "next")
_KEYS = {str(n + 1): n for n in range(len(PANES))}


class TopView(Struct):
    title: str = "mainspring top"
    note: str = ""
    """A message beside the title."""
    scene: Scene | None = None
    trouble: str = ""
    since: datetime | None = None
    """When the trouble began."""
    store: str = ""
    now: datetime | None = None
    pane: int = 0
    paused: bool = False
    interval: float = 1.0

    def see(self, seen: Scene | TopTrouble) -> None:
        """A scene ends the trouble; trouble leaves the last scene to look at."""
        self.store, self.now = seen.store, seen.now
        if isinstance(seen, Scene):
            self.scene, self.trouble, self.since = seen, "", None
        else:
            self.trouble, self.since = seen.reason, self.since or seen.now

    def press(self, key: str) -> None:
        """Keys that mean nothing do nothing."""
        if key == "p":
            self.paused = not self.paused
        elif key == "\t":
            self.pane = (self.pane + 1) % len(PANES)
        else:
            self.pane = _KEYS.get(key, self.pane)
