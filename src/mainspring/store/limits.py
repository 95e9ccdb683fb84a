"""Limits in the store: the groups of jobs that share a place, and what they wait for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from ..records.limit import LimitGroup, LimitUse, Recount, StoredLimit


class LimitStore(Protocol):
    """Limits of jobs that run at once or start in a time, over all workers.

    A job with a limit_key belongs to the group of that key, and the group to the limit that the key names. A line is
    the pending jobs of one group, queue, task and priority that are no poison suspects, in order of run_at and id.

    LM1. A job with a limit_key counts for its group and its limit while it is running, and at no other time. That
        changes in the transaction that changes the job.
    LM2. A claim starts a job with a limit_key only while fewer than `running` jobs of its group and fewer than `total`
        jobs of its limit run. So it is for probes and suspects.
    LM3. It starts one only when rules.limits.opens_at() of its group has come. So at most burst + t * rate / per jobs
        of a group start in any span of t seconds.
    LM4. In the order of claims the first job of a line has rules.limits.turn_of() instead of its run_at.
    LM5. Claims do not change a job that waits for its limit: it has no attempt and no run more. Jobs behind it are
        claimed.
    LM6. `next_at` of a claim counts such a job from its opens_at() if its group and its limit have room, and not at
        all if they have none.
    LM7. The end of a run wakes "claimable" if a job that waits for its limit can be claimed then.

    LM8. A limit that is not stored limits nothing: its groups take turns. Of a group whose limit is named AT_ONCE and a
        number at most that many jobs run.
    LM9. What a store remembers of a group that has no pending and no running jobs is gone after the first claim or
        recount for which rules.limits.is_forgotten().
    LM10. A job whose key is replaced or debounced (E11) gets the limit_key of the new request. It keeps its limit_key
        in every other change.
    LM11. A limit over queues that the store cannot count together, such as those of two nodes of a cluster, is refused:
        `enqueue` raises BadInput that names the limit and the queues, and stores nothing.
    LM12. A `finish` with carry_on starts no job with a limit_key.
    """

    async def set_limits(self, limits: Sequence[StoredLimit], *, removed: Collection[str] = (), now: datetime) -> None:
        """LM13. Writes these limits by name, and deletes those with the names `removed`. Waiting jobs follow them when
        the call returns; running jobs go on. It may work in several transactions: a call that was cut is repeated.
        """

    async def limits(self) -> list[LimitUse]:
        """LM14. The stored limits by name, each with its running jobs, and the groups that are remembered."""
        ...

    async def limit_groups(
        self, name: str, *, key: str | None = None, limit: int, count_up_to: int = 10_000
    ) -> list[LimitGroup]:
        """LM15. The limit's groups that have pending or running jobs, with `key` that of this key: those with the most
        running jobs first, then those with the most waiting ones, then by key.
        """
        ...

    async def recount_limits(self, *, after: str | None = None, limit: int, now: datetime) -> Recount:
        """LM16. Compares the next `limit` groups with their jobs, in order of limit_key behind `after`, and corrects
        and names those that differ.
        """
        ...
