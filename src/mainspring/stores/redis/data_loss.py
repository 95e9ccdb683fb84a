"""Whether the server still knows what it knew: one that was restarted empty, or is an older copy, has lost jobs."""

from __future__ import annotations

import logging
import os
from datetime import datetime

from .shard import Shard

_logger = logging.getLogger("mainspring")


class DataLossDetector:
    """What the handles of one process have seen last: a mark that is written once, and a count that only grows."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bytes, int]] = {}
        self.losses: list[str] = []
        self.repaired = 0
        """After how many of them what is left was brought in line."""
        self.renumbered = 0
        """After how many of them news are numbered from beyond all that anybody has seen."""

    async def check(self, shard: Shard, now: datetime) -> None:
        """Adds one to the count, and says so loudly if it is not the one it was."""
        key = f"{shard.base}:meta"
        _, mark, count = await shard.multi(
            [("HSETNX", key, "mark", os.urandom(8).hex()), ("HGET", key, "mark"), ("HINCRBY", key, "turns", 1)]
        )
        seen, self._seen[shard.base] = self._seen.get(shard.base), (mark, count)
        if seen is None:
            return
        if mark != seen[0]:
            self._report(shard, now, "has begun anew: all jobs that it had are gone")
        elif count <= seen[1]:
            self._report(
                shard, now, f"is an older copy of itself, by {seen[1] - count + 1} beats: what came since is gone"
            )

    def _report(self, shard: Shard, now: datetime, what: str) -> None:
        text = f"{shard.shown} {what}"
        self.losses.append(f"{now:%Y-%m-%d %H:%M:%S} {text}")
        _logger.error("%s", text)
