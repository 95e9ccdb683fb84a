"""Reads of jobs by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...ids import JobId
from ...records.job import Job
from ..rules import brief_job
from .records import Raw, job_from, packed, unpacked
from .shard import Shard, Shards
from .snapshot import Found

# A larger record is read in a round trip of its own.
MAX_RECORD_BYTES = 64 << 10
# Jobs read per call of read.lua: the server does nothing else meanwhile.
MAX_READ_JOBS = 1_000

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


async def read_if(shard: Shard, shorts: Sequence[bytes], wanted: Wanted = every) -> list[Job]:
    """The jobs of these packed ids whose stored values are wanted, in their order."""
    return [
        job
        for short, raw in (await _raws(shard, shorts) if shorts else ())
        if wanted(raw) and (job := job_from(unpacked(short), raw)) is not None
    ]


async def _raws(shard: Shard, shorts: Sequence[bytes]) -> Iterator[tuple[bytes, Raw]]:
    found = await shard.multi(columns(shard, shorts))
    return zip(shorts, zip(*found, strict=True), strict=True)


async def read_brief(
    shard: Shard, shorts: Sequence[bytes], wanted: Wanted = every, *, unfinished: bool = False
) -> list[Job]:
    """As read_if(), but brief jobs; with `unfinished`, those without an end that finish.lua wrote. Large records are
    read one at a time, to bound memory."""
    found = list[Job]()
    for start in range(0, len(shorts), MAX_READ_JOBS):
        some = shorts[start : start + MAX_READ_JOBS]
        flat = await shard.script("read", [MAX_RECORD_BYTES, int(unfinished), *some])
        for short, *values in zip(some, flat[::3], flat[1::3], flat[2::3], strict=True):
            raw = (values[0], values[1], values[2])
            if isinstance(raw[0], int):
                ((_, raw),) = await _raws(shard, [short])
            if raw[0] is not None and wanted(raw) and (job := job_from(unpacked(short), raw, brief=True)) is not None:
                found.append(brief_job(job))
    return found


def columns(shard: Shard, shorts: Sequence[bytes]) -> list[tuple[str | bytes, ...]]:
    """The commands that read the fields of these jobs in the hashes `job`, `run` and `end`."""
    return [("HMGET", f"{shard.base}:{name}", *shorts) for name in ("job", "run", "end")]


def found_in(ids: Sequence[JobId], columns: Sequence[Sequence[bytes | None]]) -> dict[JobId, Found]:
    """The jobs from the replies to columns()."""
    raws: dict[JobId, Raw] = dict(zip(ids, zip(*columns, strict=True), strict=True))
    return {id: (raw, job_from(id, raw)) for id, raw in raws.items()}
