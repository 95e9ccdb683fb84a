"""Retention: what pruning may delete, and what it deletes in bulk."""

from __future__ import annotations

from datetime import datetime

from ...clock import micros
from ...records.job import Job, State
from ...records.pruning import Pruning
from ...task.retention import Rules
from .count import register_sizes
from .documents import prune_documents
from .handle import RedisHandle
from .index import REGISTERS
from .job_reads import read_shard
from .records import packed, unpacked
from .repair import repair_schedules
from .shard import Shard

# Names checked per round trip.
BATCH_NAMES = 500


class RedisRetention(RedisHandle):
    """Finds the jobs to delete, and deletes the rest."""

    async def finished_groups(self) -> list[tuple[State, str]]:
        shards = self._open()
        with self._clock.outside():
            found = await shards.each(lambda shard: register_sizes(shard, "ends", "ended"))
        return sorted({(State(state), task) for some in found for state, task in some})

    async def prunable(self, state: State, task: str, *, keep: int, before: datetime, limit: int) -> list[Job]:
        shards = self._open()

        def key(shard: Shard) -> str:
            return f"{shard.base}:ended:{state.value}\0{task}"

        async def first(shard: Shard) -> list[Job]:
            most = ("LIMIT", 0, min(limit, spare))
            found = await shard.call("ZRANGEBYSCORE", key(shard), "-inf", f"({micros(before)}", *most)
            jobs = (await read_shard(shard, [unpacked(id) for id in found])).values()
            return [job for _, job in jobs if job is not None]

        with self._clock.outside():
            spare = sum(await shards.each(lambda shard: shard.call("ZCARD", key(shard)))) - keep
            if spare <= 0:
                return []
            found = [job for some in await shards.each(first) for job in some]
        found.sort(key=lambda job: (job.finished_at, packed(job.id)))
        return found[: min(limit, spare)]

    async def prune(self, rules: Rules, *, audited_since: datetime, now: datetime) -> Pruning:
        """Also removes empty names from the registers, and repairs schedules whose jobs were lost."""
        shards = self._open()
        with self._clock.outside():
            await shards.each(_tidy_registers)
            await repair_schedules(shards, now)
            return Pruning(0, await prune_documents(shards, audited_since, now))


async def _tidy_registers(shard: Shard) -> None:
    """Removes queues, tasks, workers and errors without jobs from the registers."""
    names = await shard.multi([("SMEMBERS", f"{shard.base}:{register}") for register in REGISTERS])
    pairs = zip(REGISTERS.items(), names, strict=True)
    args = [word for (register, prefix), some in pairs for name in some for word in (register, prefix, name)]
    for start in range(0, len(args), 3 * BATCH_NAMES):
        await shard.script("tidy", args[start : start + 3 * BATCH_NAMES])
