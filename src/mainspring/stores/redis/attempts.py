"""Attempts to write what others may change meanwhile: pauses that grow, and an end."""

from __future__ import annotations

import asyncio
import random

from ...errors import StoreUnavailable
from .shard import Shards

# Seconds: the longest pause after the first lost race, and after any.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.0005, 0.05
# Seconds without progress after which a call gives up. A lock whose owner has died ends sooner.
GIVE_UP_SECONDS = 10.0


class Attempts:
    """Of one call."""

    def __init__(self, homes: Shards, doing: str) -> None:
        self._homes, self._doing = homes, doing
        self.lost = 0
        """Races since the call began."""
        self.progressed()

    def progressed(self) -> None:
        """Some of it was written: the time that the rest may take begins again."""
        self._end = asyncio.get_running_loop().time() + GIVE_UP_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    async def again(self) -> None:
        """A pause before the next attempt. Raises StoreUnavailable where there is to be none."""
        self.lost += 1
        if asyncio.get_running_loop().time() >= self._end:
            raise StoreUnavailable(
                f"{self._homes.place.shown} is contended: {self._doing} lost {self.lost} races to other writers, "
                f"and nothing was written for {GIVE_UP_SECONDS:g} s; try again"
            )
        await asyncio.sleep(random.uniform(0, self._pause))
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
