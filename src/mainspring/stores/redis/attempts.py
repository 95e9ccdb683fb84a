"""Attempts of an optimistic write: growing pauses after each lost race, and a deadline."""

from __future__ import annotations

import asyncio
import random

from ...errors import StoreUnavailable
from .shard import Shards

# Upper limit of the random pause after the first lost race; it doubles with each.
FIRST_PAUSE_SECONDS = 0.0005
MAX_PAUSE_SECONDS = 0.05
# A call gives up after this time without progress. The lock of a dead process expires sooner.
GIVE_UP_SECONDS = 10.0


class Attempts:
    """The attempts of one call."""

    def __init__(self, shards: Shards, action: str) -> None:
        self._shards, self._action = shards, action
        self.lost_races = 0
        """Races lost since the call began."""
        self.progressed()

    def progressed(self) -> None:
        """Restarts the deadline after a part of the call was written."""
        self._deadline = asyncio.get_running_loop().time() + GIVE_UP_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    async def pause(self) -> None:
        """Waits before the next attempt. Raises StoreUnavailable after the deadline."""
        self.lost_races += 1
        if asyncio.get_running_loop().time() >= self._deadline:
            raise StoreUnavailable(
                f"{self._shards.url.shown} is contended: {self._action} lost {self.lost_races} races to other writers, "
                f"and nothing was written for {GIVE_UP_SECONDS:g} s; try again"
            )
        await asyncio.sleep(random.uniform(0, self._pause))
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
