"""Attempts to write what others may change meanwhile: pauses that grow, and an end."""

from __future__ import annotations

import asyncio
import random

from ...errors import StoreUnavailable
from .shard import Shards

# Seconds: the longest pause after the first lost race, and after any.
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.0005, 0.05
# Seconds without progress after which a call gives up. A lock whose owner has died ends sooner.
GIVE_UP_SECONDS = 10.0


class Attempts:
    """Of one call."""

    def __init__(self, shards: Shards, action: str) -> None:
        self._shards, self._action = shards, action
        self.lost_races = 0
        """Races since the call began."""
        self.progressed()

    def progressed(self) -> None:
        """Some of it was written: the time that the rest may take begins again."""
        self._deadline = asyncio.get_running_loop().time() + GIVE_UP_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    async def pause(self) -> None:
        """A pause before the next attempt. Raises StoreUnavailable where there is to be none."""
        self.lost_races += 1
        if asyncio.get_running_loop().time() >= self._deadline:
            raise StoreUnavailable(
                f"{self._shards.url.shown} is contended: {self._action} lost {self.lost_races} races to other writers, "
                f"and nothing was written for {GIVE_UP_SECONDS:g} s; try again"
            )
        await asyncio.sleep(random.uniform(0, self._pause))
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
