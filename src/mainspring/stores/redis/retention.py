"""Retention: what pruning may delete, and what it deletes in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, State
from ...records.pruning import Pruning
from ...task.retention import Rules
from .count import register_sizes
from .documents import prune_documents
from .handle import RedisHandle
from .index import REGISTERS
from .job_reads import read_shard
from .records import unpacked
from .repair import repair_schedules
from .shard import Shard, Shards

# Names checked per round trip.
BATCH_NAMES = 500
# Finished jobs read per round trip.
BATCH_JOBS = 1_000


class RedisRetention(RedisHandle):
    """Finds the jobs to delete, and deletes the rest."""

    async def finished_groups(self) -> list[tuple[State, str]]:
        shards = self._open()
        with self._clock.outside():
            found = await shards.each(lambda shard: register_sizes(shard, "ends", "ended"))
        return sorted({(State(state), task) for some in found for state, task in some})

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        shards, name = self._open(), f"ended:{state.value}\0{task}"
        with self._clock.outside():
            spare = sum(await shards.each(lambda shard: shard.call("ZCARD", f"{shard.base}:{name}"))) - keep
            if spare <= 0:
                return []
            found = await shards.each(lambda shard: _ended_before(shards, shard, name, before, spare, limit))
        oldest = sorted((one for some in found for one in some), key=lambda one: one[:2])[:spare]
        return [job for *_, job in oldest if job is not None][:limit]

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        """Also removes empty names from the registers, and repairs schedules whose jobs were lost."""
        shards = self._open()
        with self._clock.outside():
            await shards.each(_tidy_registers)
            await repair_schedules(shards, now)
            return Pruning(0, await prune_documents(shards, audited_since, now))


Ended = tuple[datetime, bytes, Job | None]
"""When a job finished, its packed id, and the job; None for a step of a flow that is stored."""


async def _ended_before(
    shards: Shards, shard: Shard, name: str, before: datetime, spare: int, limit: int
) -> list[Ended]:
    """The first jobs of one shard, `limit` of them no steps of stored flows, and at most `spare` in all."""
    found, size, free = list[Ended](), min(limit, BATCH_JOBS), 0
    while len(found) < spare and free < limit:
        most = ("LIMIT", len(found), min(size, spare - len(found)))
        ids = await shard.call("ZRANGEBYSCORE", f"{shard.base}:{name}", "-inf", f"({micros(before)}", *most)
        if not ids:
            break
        jobs = [job for _, job in (await read_shard(shard, [unpacked(id) for id in ids])).values()]
        kept = await _steps_of_flows(shards, [job for job in jobs if job is not None])
        for id, job in zip(ids, jobs, strict=True):
            free += job is not None and job.id not in kept
            at = before if job is None or job.finished_at is None else job.finished_at
            found.append((at, id, None if job is None or job.id in kept else job))
    return found


async def _steps_of_flows(shards: Shards, jobs: Sequence[Job]) -> set[JobId]:
    """Which of these jobs are steps of a flow that is stored."""
    flows = {job.step.flow: shards.of(job.step.queue) for job in jobs if job.step is not None}
    stored = set[JobId]()
    for shard in dict.fromkeys(flows.values()):
        ids = [id for id, where in flows.items() if where is shard]
        found = await shard.call("HMGET", f"{shard.base}:flow", *ids)
        stored |= {id for id, text in zip(ids, found, strict=True) if text is not None}
    return {job.id for job in jobs if job.step is not None and job.step.flow in stored}


async def _tidy_registers(shard: Shard) -> None:
    """Removes queues, tasks, workers and errors without jobs from the registers."""
    names = await shard.multi([("SMEMBERS", f"{shard.base}:{register}") for register in REGISTERS])
    pairs = zip(REGISTERS.items(), names, strict=True)
    args = [word for (register, prefix), some in pairs for name in some for word in (register, prefix, name)]
    for start in range(0, len(args), 3 * BATCH_NAMES):
        await shard.script("tidy", args[start : start + 3 * BATCH_NAMES])
