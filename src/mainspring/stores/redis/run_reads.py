"""Reads of runs, log lines, output and checkpoints of jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from ...errors import StoreError
from ...ids import JobId
from ...records.job import Job
from ...records.run import Checkpoint, Execution, LogLine, OutputChunk
from ...records.unreadable import readable
from ..rules import unique_ids
from .handle import RedisHandle
from .hashes import read_hash
from .job_reads import read_jobs
from .records import Raw, last_run
from .shard import Shard

_line = msgspec.json.Decoder(LogLine).decode
_chunk = msgspec.json.Decoder(OutputChunk).decode
_checkpoint = msgspec.json.Decoder(Checkpoint).decode
_execution = msgspec.json.Decoder(Execution).decode


class RedisRunReads(RedisHandle):
    """Lists of runs, log lines, chunks of output and checkpoints."""

    async def executions(
        self, job_id: JobId | Collection[JobId], *, after: int = 0, limit: int | None = None
    ) -> list[Execution]:
        """Two round trips to each shard. The runs of a single job are read in pages."""
        shards, ids = self._open(), sorted(unique_ids(job_id))
        with self._clock.outside():
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

    async def logs(self, job_id: JobId, *, limit: int, after: tuple[int, int] = (0, 0)) -> list[LogLine]:
        texts = await self._hash_of(job_id, "log")
        found = readable(f"log line of job {job_id}", texts.items(), _line)
        found.sort(key=lambda line: (line.run, line.n))
        return [line for line in found if (line.run, line.n) > after][:limit]

    async def checkpoints(self, job_id: JobId, *, after: int = 0, limit: int | None = None) -> list[Checkpoint]:
        texts = await self._hash_of(job_id, "checkpoint")
        found = readable(f"checkpoint of job {job_id}", texts.items(), _checkpoint)
        if len(found) < len(texts):  # a step whose checkpoint is left out would run again
            raise StoreError(f"{len(texts) - len(found)} checkpoints of job {job_id} cannot be decoded")
        return [one for one in sorted(found, key=lambda one: one.n) if one.n > after][:limit]

    async def _hash_of(self, job_id: JobId, kind: str) -> dict[str, bytes]:
        """The hash of this kind beside the job's record. Empty if there is no job."""
        shards = self._open()
        with self._clock.outside():
            _, job = (await read_jobs(shards, [job_id]))[job_id]
            if job is None:
                return {}
            shard = shards.of(job.queue)
            return await read_hash(shard, f"{shard.base}:{kind}:{job_id}")

    async def output(self, job_id: JobId, *, limit: int, after: int = 0, newest: bool = False) -> list[OutputChunk]:
        """The numbers are without gaps, so that a page is found by them."""
        shards = self._open()
        with self._clock.outside():
            _, job = (await read_jobs(shards, [job_id]))[job_id]
            if job is None:
                return []
            shard = shards.of(job.queue)
            key = f"{shard.base}:output:{job_id}"
            count = int(await shard.call("HLEN", key))
            begin = max(after, count - limit) if newest else after
            if not (numbers := range(begin + 1, min(begin + limit, count) + 1)):
                return []
            texts = await shard.call("HMGET", key, *numbers)
        pairs = ((n, text) for n, text in zip(numbers, texts, strict=True) if text is not None)
        return readable(f"chunk of output of job {job_id}", pairs, _chunk)


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
