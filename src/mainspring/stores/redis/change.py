"""Change: jobs cancelled, deleted, retried, paused, resumed or updated by operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import UNSET

from ...ids import JobId
from ...records.job import Action, Job
from ...records.limit import limit_name
from ...records.query import Changed, Cursor, Filter, Refusal, Update, Updates
from .. import rules
from ..rules.change import ChangedJobs
from ..rules.change import change as change_by_rule
from ..rules.loaded import LoadedTables
from ..rules.read_sets import KnownValues, Name
from .aside import delete_queueless
from .handle import RedisHandle
from .lists import page
from .reads import of_moving_change
from .shard import Shards
from .transact import transact


class RedisChange(RedisHandle):
    """Changes the jobs that match a filter, a page at a time."""

    async def change(
        self,
        action: Action,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        reason: str = "",
        update: Updates | None = None,
        after: JobId | None = None,
    ) -> Changed:
        shards, cursor = self._open(), None if after is None else Cursor(after)
        with self._clock.outside():
            ids = [job.id for job in await page(shards, which, now, limit, cursor, False, "created")]
            done, refused = await _change(shards, action, which, ids, now, reason, update)
            changed = Changed(done, refused, ids[-1] if ids and len(ids) == limit else None)
            if action is Action.DELETE and any(refusal.error for refusal in refused.values()):
                changed = await delete_queueless(shards, changed)
        self._wakeups.notify("new", "final")
        return changed


def _limit_refusal(shards: Shards, job: Job, update: Update | None) -> Refusal | None:
    """Why a job does not move to that queue: another shard would count it for its limit."""
    if job.limit_key is None or update is None or update.queue is UNSET:
        return None
    if shards.of(update.queue) is shards.of(job.queue):
        return None
    name = limit_name(job.limit_key)
    error = f"its limit {name} is counted in the cluster's home of its queue, and {update.queue!r} is in another one"
    return Refusal(job.state, error=error)


async def _change(
    shards: Shards,
    action: Action,
    which: Filter,
    ids: Sequence[JobId],
    now: datetime,
    reason: str,
    update: Updates | None,
) -> ChangedJobs:
    """Changes these jobs by the rule, if they still match."""

    def needs(id: JobId, known: KnownValues) -> Iterator[Name]:
        return of_moving_change(shards, action, rules.update_of(update, id), id, known)

    def rule(tables: LoadedTables, id: JobId) -> ChangedJobs:
        job = tables.job(id)
        if job is not None and (refusal := _limit_refusal(shards, job, rules.update_of(update, id))) is not None:
            return [], {id: refusal}
        # A job that changed after it was listed is taken as it is now, or left out if it no longer matches.
        chosen = [job] if job is not None and rules.matches_filter(job, which, now) else []
        return change_by_rule(tables, action, chosen, now, reason, update)

    done, refused = list[JobId](), dict[JobId, Refusal]()
    for some, others in await transact(shards, f"change ({action.value})", ids, needs, rule, now):
        done += some
        refused |= others
    return done, refused
