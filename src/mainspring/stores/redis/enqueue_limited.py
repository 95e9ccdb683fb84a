"""What is checked of jobs with a limit before they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...errors import BadInput, StoreUnavailable
from ...ids import WorkerId
from ...records.job import NewJob
from ...records.limit import AT_ONCE, limit_name
from ..rules.loaded import LoadedTables
from .index import Command
from .releases import workers_without_limits
from .shard import Shards


async def admit_limited(shards: Shards, jobs: Sequence[NewJob], now: datetime) -> None:
    """Raises StoreUnavailable while workers of older releases live, and BadInput for a limit over several shards."""
    if alive := await workers_without_limits(shards, now):
        raise StoreUnavailable(_text(alive))
    if error := await limit_elsewhere(shards, jobs):
        raise BadInput(error)


async def limit_elsewhere(shards: Shards, jobs: Sequence[NewJob]) -> str:
    """Why these jobs are not stored: the limit of one is counted in another shard than that of its queue. Else ''."""
    if len(shards.all) == 1:
        return ""
    # All jobs of a group of AT_ONCE are items of one map, and so in one queue.
    named = [(limit_name(job.limit_key), job) for job in jobs if job.limit_key is not None]
    named = [(name, job) for name, job in named if not name.startswith(AT_ONCE)]
    homes = await _homes(shards, {name: job.queue for name, job in reversed(named)})
    for name, job in named:
        if shards.of(homes[name]) is not shards.of(job.queue):
            return _elsewhere(name, homes[name], job.queue)
    return ""


def check_holders(shards: Shards, jobs: Sequence[NewJob], tables: LoadedTables) -> None:
    """Raises BadInput if one of these jobs has given its limit to the holder of its key, in another shard's queue."""
    homes = {limit_name(job.limit_key): job.queue for job in jobs if job.limit_key is not None}
    for one in tables.changed_jobs() if homes and len(shards.all) > 1 else ():
        if one.new is None or one.new.limit_key is None:
            continue
        name, queue = limit_name(one.new.limit_key), one.new.queue
        if name in homes and not name.startswith(AT_ONCE) and shards.of(homes[name]) is not shards.of(queue):
            raise BadInput(_elsewhere(name, homes[name], queue))


def _elsewhere(name: str, home: str, queue: str) -> str:
    return (
        f"the limit {name} is counted in the cluster's home of the queue {home!r}, and the queue {queue!r} is in "
        "another one: give its jobs one queue, or limit each queue by itself"
    )


async def _homes(shards: Shards, queues: dict[str, str]) -> dict[str, str]:
    """By limit the queue whose shard has its jobs: that of the first job."""
    key = f"{shards.first.base}:limit-home"
    commands: list[Command] = []
    for name, queue in queues.items():
        commands += (("HSETNX", key, name, queue), ("HGET", key, name))
    found = await shards.first.multi(commands) if commands else []
    return {name: queue.decode() for name, queue in zip(queues, found[1::2], strict=True)}


def _text(alive: Sequence[WorkerId]) -> str:
    shown = ", ".join(alive[:5])
    return (
        f"workers of an older release are alive, which do not know limits: {shown}; "
        "jobs with a limit are accepted when they have stopped"
    )
