"""Where the unfinished jobs of a shard begin: counts of index sets show that all jobs made before have finished."""

from __future__ import annotations

from .access_paths import RegisterNames, unfinished_beside_ready
from .index import Command
from .orders import LAST_RANK
from .scan import CLOCK_TOLERANCE_MICROS, SCAN_ROWS, IdScan
from .shard import Shard

# Ranks of a group whose first ready job is read.
MAX_RANKS = 4
# The beginning is this long before the first ready job was made: jobs of one instant have ids in any order.
MARGIN_MS = 1_000
# Unfinished jobs before the beginning, at most.
MAX_EARLIER_JOBS = 500


async def beginning(shard: Shard, names: RegisterNames) -> tuple[bytes, list[bytes]] | None:
    """An id, and the ids before it of all jobs that have not finished. None if that takes too long to tell.

    It needs ids that tell when their jobs were made.
    """
    first = await _first_ready(shard, names)
    if first is None or len(first) != 16:
        return None
    ms = max(0, int.from_bytes(first[:6], "big") - MARGIN_MS)
    start = ms.to_bytes(6, "big")
    unfinished = await _unfinished_before(shard, names, start)
    if unfinished is None or unfinished > MAX_EARLIER_JOBS:
        return None
    if not unfinished:
        return start, []
    scan = IdScan(shard, MAX_EARLIER_JOBS + 1, None, False, (b"-", b"(" + start), by_time=False)
    earlier = await scan.first(unfinished_beside_ready(shard.base, names))
    return (start, earlier) if len(earlier) == unfinished else None


async def _first_ready(shard: Shard, names: RegisterNames) -> bytes | None:
    """The first id among the first ready jobs of each group and rank."""
    found, lows = list[bytes](), dict.fromkeys(names.groups, b"-")
    for _ in range(MAX_RANKS):
        if not lows:
            break
        hops = [("ZRANGEBYLEX", f"{shard.base}:ready:{name}", low, "+", "LIMIT", 0, 1) for name, low in lows.items()]
        heads = {name: some[0] for name, some in zip(lows, await shard.multi(hops), strict=True) if some}
        found += [head[10:] for head in heads.values()]
        ranks = {name: int.from_bytes(head[:2], "big") + 1 for name, head in heads.items()}
        lows = {name: b"[" + rank.to_bytes(2, "big") for name, rank in ranks.items() if rank <= LAST_RANK}
    return min(found, default=None)


async def _unfinished_before(shard: Shard, names: RegisterNames, start: bytes) -> int | None:
    """The number of jobs that were made before and have not finished. None if too many finished at about that time.

    All jobs that had finished some time before were made before. What finished long after counts as unfinished.
    """
    at = int.from_bytes(start, "big") * 1000
    low, high = at - CLOCK_TOLERANCE_MICROS, at + CLOCK_TOLERANCE_MICROS
    ended = [f"{shard.base}:ended:{name}" for name in names.ends]
    commands: list[Command] = [("ZLEXCOUNT", f"{shard.base}:made:{name}", "-", b"(" + start) for name in names.groups]
    for bounds in (("-inf", f"({low}"), (low, high)):
        commands += [("ZCOUNT", key, *bounds) for key in ended]
    counts = await shard.multi(commands)
    made, sizes = sum(counts[: len(names.groups)]), counts[len(names.groups) :]
    left = made - sum(sizes[: len(ended)])
    if left and sum(sizes[len(ended) :]) > SCAN_ROWS:
        return None
    if left:
        near = [key for key, size in zip(ended, sizes[len(ended) :], strict=True) if size]
        found = await shard.multi([("ZRANGEBYSCORE", key, low, high) for key in near]) if near else []
        left -= sum(id < start for ids in found for id in ids)
    return left if left >= 0 else None
