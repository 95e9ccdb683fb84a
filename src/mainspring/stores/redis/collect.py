"""A single request for a job that collects items: collect.lua adds them in one call, unless the rule has to."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from ...records.job import Collecting, Enqueued, NewJob
from .connection import Arg
from .index import group
from .records import packed, unpacked
from .shard import Shards

_COUNT = '"count":'
_encode = msgspec.json.Encoder().encode


async def add_items(shards: Shards, job: NewJob, now: int) -> Enqueued | None:
    """The answer, if the items were added to a job. None: the request begins a job, or is one for the rule."""
    collect, key = job.collect, job.unique_key
    if collect is None or key is None or len(shards.all) > 1 or job.idempotency_key is not None or job.limit_key:
        return None
    head, begin, items = job.payload.partition("[")
    if not begin or job.fingerprint is None:
        return None
    # Other values than the fingerprint may differ: the job has those of its first request.
    tail = f'"fp":"{job.fingerprint}","collect":{_encode(collect).decode().rpartition(_COUNT)[0]}{_COUNT}'
    args: tuple[Arg, ...] = (
        f"u{key}",
        packed(job.id),
        group(job.queue, job.task),
        tail,
        collect.count,
        collect.size,
        collect.max_bytes,
        head + begin,
        items,
        now,
        *_spans(collect),
    )
    holder = await shards.of(job.queue).script("collect", args)
    return None if holder is None else Enqueued(unpacked(holder), "collected", key)


def _spans(collect: Collecting) -> tuple[int, int | str]:
    """In microseconds, as the rule adds them."""
    return _micros(collect.delay), "" if collect.grace is None else _micros(collect.grace)


def _micros(seconds: float) -> int:
    return timedelta(seconds=seconds) // timedelta(microseconds=1)
