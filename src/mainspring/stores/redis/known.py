"""Reads of jobs, workers, runs and log lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ...clock import instant, micros
from ...ids import JobId
from ...records.job import Job
from ...records.run import Execution, LogLine
from ...records.unreadable import readable
from ...records.worker import WorkerCommands, WorkerInfo, WorkerRow
from ...schedule.record import Schedule
from ..rules import brief_job
from .records import Raw, job_from, last_run, packed
from .shard import Shard, Shards
from .snapshot import Found

# A larger record is read in a round trip of its own.
MAX_RECORD_BYTES = 64 << 10

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_line = msgspec.json.Decoder(LogLine).decode
_execution = msgspec.json.Decoder(Execution).decode


class Row(msgspec.Struct, frozen=True):
    """The stored form of a worker."""

    until: int
    info: WorkerInfo
    orders: WorkerCommands = WorkerCommands()


_row = msgspec.json.Decoder(Row).decode


def worker_of(text: bytes) -> WorkerRow:
    row = _row(text)
    return WorkerRow(row.info, instant(row.until), row.orders)


def workers_of(texts: Mapping[str, bytes | None]) -> dict[str, WorkerRow]:
    """Workers by id, without those that cannot be decoded."""
    rows = [(id, (id, text)) for id, text in texts.items() if text is not None]
    return dict(readable("worker", rows, lambda row: (row[0], worker_of(row[1]))))


def schedule_of(name: str, text: bytes | None) -> Schedule | None:
    """The schedule; None if there is none, or it cannot be decoded."""
    return None if text is None else next(iter(readable("schedule", [(name, text)], _schedule)), None)


def worker_text(worker: WorkerRow) -> bytes:
    return _encode(Row(micros(worker.until), worker.info, worker.orders))


async def read_hash(shard: Shard, key: str) -> dict[str, bytes]:
    return to_dict(await shard.call("HGETALL", key))


def to_dict(pairs: Sequence[bytes]) -> dict[str, bytes]:
    """The reply to HGETALL as a dict."""
    return {field.decode(): value for field, value in zip(pairs[::2], pairs[1::2], strict=True)}


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


async def read_brief(shard: Shard, ids: Sequence[JobId]) -> list[Job]:
    """The brief jobs of these ids, in their order. Large records are read one at a time, to bound memory."""
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
            if (job := job_from(id, raw, brief=True)) is not None:
                brief[id] = brief_job(job)
    return [brief[id] for id in ids if id in brief]


def columns(shard: Shard, shorts: Sequence[bytes]) -> list[tuple[str | bytes, ...]]:
    """The commands that read the fields of these jobs in the hashes `job`, `run` and `end`."""
    return [("HMGET", f"{shard.base}:{name}", *shorts) for name in ("job", "run", "end")]


def found_in(ids: Sequence[JobId], columns: Sequence[Sequence[bytes | None]]) -> dict[JobId, Found]:
    """The jobs from the replies to columns()."""
    raws: dict[JobId, Raw] = dict(zip(ids, zip(*columns, strict=True), strict=True))
    return {id: (raw, job_from(id, raw)) for id, raw in raws.items()}


async def read_executions(shards: Shards, ids: Sequence[JobId], after: int, limit: int | None) -> list[Execution]:
    """Runs of these jobs, in two round trips to each shard. The runs of a single job are read in pages."""
    found = {id: (raw, job) for id, (raw, job) in (await read_jobs(shards, ids)).items() if job is not None}
    if len(found) == 1 and limit is not None:
        ((id, (raw, job)),) = found.items()
        if not job.unreadable:
            return await _runs_page(shards.of(job.queue), job, raw, after, limit)
    shares: dict[Shard, list[JobId]] = {}
    for id, (_, job) in found.items():
        shares.setdefault(shards.of(job.queue), []).append(id)
    texts: dict[JobId, Sequence[bytes]] = {}
    for some in await shards.each(lambda shard: _run_texts(shard, shares[shard]), shares):
        texts |= some
    runs = (run for id in ids if id in found for run in runs_in(id, found[id][0], texts[id]))
    return [run for run in runs if run.number > after][:limit]


async def _runs_page(shard: Shard, job: Job, raw: Raw, after: int, limit: int) -> list[Execution]:
    """A page of a job's runs. Numbers without an ended run are skipped, so that a page is full if there are more."""
    found: list[Execution] = []
    while after < job.runs and len(found) < limit:
        numbers = range(after + 1, min(job.runs, after + limit - len(found)) + 1)
        texts = await shard.call("HMGET", f"{shard.base}:exec:{job.id}", *numbers)
        ended = runs_in(job.id, raw, (text for text in texts if text is not None))
        found += [run for run in ended if run.number in numbers]
        after = numbers[-1]
    return found


async def _run_texts(shard: Shard, ids: Sequence[JobId]) -> dict[JobId, Sequence[bytes]]:
    answers = await shard.multi([("HVALS", f"{shard.base}:exec:{id}") for id in ids])
    return dict(zip(ids, answers, strict=True))


def runs_in(id: JobId, raw: Raw, texts: Iterable[bytes]) -> list[Execution]:
    """The recorded runs, and the one that finish.lua ended, by number."""
    found = readable(f"run of job {id}", ((text, text) for text in texts), _execution)
    runs = {run.number: run for run in found}
    if (last := last_run(id, raw)) is not None:
        runs.setdefault(last.number, last)
    return [runs[number] for number in sorted(runs)]


async def read_lines(shards: Shards, id: JobId) -> list[LogLine]:
    _, job = (await read_jobs(shards, [id]))[id]
    if job is None:
        return []
    shard = shards.of(job.queue)
    return readable(f"log line of job {id}", (await read_hash(shard, f"{shard.base}:log:{id}")).items(), _line)
