"""Detection of data loss: a server that was restarted empty, or from an older copy, has lost jobs."""

from __future__ import annotations

import logging
import os
from datetime import datetime

from .releases import check_records_version
from .shard import Shard

_logger = logging.getLogger("mainspring")


class DataLossDetector:
    """Compares a mark that is written once, and a counter that only grows, with the values last seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bytes, int]] = {}
        self.losses: list[str] = []
        self.repaired = 0
        """Number of losses that were repaired."""
        self.renumbered = 0
        """Number of losses after which the feed was renumbered."""

    async def check(self, shard: Shard, now: datetime) -> None:
        """Increments the counter, and logs an error if the mark or the counter shows a loss.

        Raises SchemaMismatch if later releases have shut this one out.
        """
        key = f"{shard.base}:meta"
        _, mark, count, oldest = await shard.multi(
            [
                ("HSETNX", key, "mark", os.urandom(8).hex()),
                ("HGET", key, "mark"),
                ("HINCRBY", key, "beats", 1),
                ("HGET", key, "oldest"),
            ]
        )
        check_records_version(oldest, shard.shown)
        seen, self._seen[shard.base] = self._seen.get(shard.base), (mark, count)
        if seen is None:
            return
        if mark != seen[0]:
            self._report(shard, now, "was restarted empty: all jobs that it had are lost")
        elif count <= seen[1]:
            self._report(
                shard,
                now,
                f"was restored from an older copy: what the last {seen[1] - count + 1} beats wrote is lost",
            )

    def mark_repaired(self, losses: int) -> None:
        """Records that this number of losses has been repaired."""
        self.repaired = losses

    def mark_renumbered(self, losses: int) -> None:
        """Records that the feed was renumbered after this number of losses."""
        self.renumbered = losses

    def _report(self, shard: Shard, now: datetime, what: str) -> None:
        text = f"{shard.shown} {what}"
        self.losses.append(f"{now:%Y-%m-%d %H:%M:%S} {text}")
        _logger.error("%s", text)
