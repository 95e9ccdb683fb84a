"""Reads of jobs by their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ids import JobId
from ...records.job import Job
from ..rules import brief_job
from .records import Raw, job_from, packed
from .shard import Shard, Shards
from .snapshot import Found

# A larger record is read in a round trip of its own.
MAX_RECORD_BYTES = 64 << 10

Wanted = Callable[[Raw], bool]
"""Whether a job with these stored values is wanted."""


def every(raw: Raw) -> bool:
    return True


async def read_jobs(shards: Shards, ids: Sequence[JobId]) -> dict[JobId, Found]:
    """The jobs of these ids, each with its stored values; a consistent view in each shard."""
    return merge_shards(await shards.each(lambda shard: read_shard(shard, ids)))


def merge_shards(parts: Sequence[dict[JobId, Found]]) -> dict[JobId, Found]:
    """The results of all shards; each job is in one of them."""
    found = parts[0]
    for some in parts[1:]:
        found |= {id: one for id, one in some.items() if one[1] is not None}
    return found


async def read_shard(shard: Shard, ids: Sequence[JobId]) -> dict[JobId, Found]:
    """read_jobs() for one shard."""
    if not ids:
        return {}
    shorts = [packed(id) for id in ids]
    return found_in(ids, await shard.multi(columns(shard, shorts)))


async def read_if(shard: Shard, ids: Sequence[JobId], wanted: Wanted = every) -> list[Job]:
    """The jobs of these ids whose stored values are wanted, in their order."""
    if not ids:
        return []
    found = await shard.multi(columns(shard, [packed(id) for id in ids]))
    pairs = zip(ids, zip(*found, strict=True), strict=True)
    return [job for id, raw in pairs if wanted(raw) and (job := job_from(id, raw)) is not None]


async def read_brief(shard: Shard, ids: Sequence[JobId], wanted: Wanted = every) -> list[Job]:
    """As read_if(), but brief jobs. Large records are read one at a time, to bound memory."""
    if not ids:
        return []
    shorts = [packed(id) for id in ids]
    names = [f"{shard.base}:{name}" for name in ("job", "end")]
    sizes = await shard.multi([("HSTRLEN", name, short) for short in shorts for name in names])
    large = [id for n, id in enumerate(ids) if sizes[2 * n] + sizes[2 * n + 1] > MAX_RECORD_BYTES]
    alone = set(large)
    brief: dict[JobId, Job] = {}
    for some in ([id for id in ids if id not in alone], *([id] for id in large)):
        found = await shard.multi(columns(shard, [packed(id) for id in some])) if some else [[], [], []]
        for id, raw in zip(some, zip(*found, strict=True), strict=True):
            if wanted(raw) and (job := job_from(id, raw, brief=True)) is not None:
                brief[id] = brief_job(job)
    return [brief[id] for id in ids if id in brief]


def columns(shard: Shard, shorts: Sequence[bytes]) -> list[tuple[str | bytes, ...]]:
    """The commands that read the fields of these jobs in the hashes `job`, `run` and `end`."""
    return [("HMGET", f"{shard.base}:{name}", *shorts) for name in ("job", "run", "end")]


def found_in(ids: Sequence[JobId], columns: Sequence[Sequence[bytes | None]]) -> dict[JobId, Found]:
    """The jobs from the replies to columns()."""
    raws: dict[JobId, Raw] = dict(zip(ids, zip(*columns, strict=True), strict=True))
    return {id: (raw, job_from(id, raw)) for id, raw in raws.items()}
