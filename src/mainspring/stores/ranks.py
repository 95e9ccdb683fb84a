"""The rank of a job in an index: its negated priority, so that one ascending index has the claim order."""

from __future__ import annotations

# SQLite adds this to the rank of a job with a limit, so that it stands behind all others in the index of ready jobs.
LIMITED_RANK = 1 << 20
# Above all ranks without LIMITED_RANK, and below all with it.
MAX_PLAIN_RANK = 1 << 19


def priority_of(rank: int) -> int:
    return -rank if rank < MAX_PLAIN_RANK else LIMITED_RANK - rank


def plain_rank(rank: int) -> int:
    return rank if rank < MAX_PLAIN_RANK else rank - LIMITED_RANK
