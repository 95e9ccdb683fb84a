"""Workers: their heartbeats, their commands, and the jobs of silent workers."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ...clock import micros
from ...errors import StoreError
from ...ids import WorkerId
from ...records.job import Job, State
from ...records.unreadable import unreadable_record
from ...records.worker import BeatReply, WorkerCommands, WorkerInfo, WorkerRow
from ...survived_errors import SurvivedErrors
from ..rules.workers import WorkerTable
from .aside import set_aside
from .document_snapshot import instant_of, watched_command
from .handle import RedisHandle
from .hashes import read_hash, to_dict
from .index import Command
from .job_reads import read_brief, read_shard
from .records import unpacked
from .repair import repair_losses
from .shard import Shard, Shards
from .tally import fold
from .transact import contend_one
from .two_phase import Condition, Unit, has, sweep
from .worker_rows import NOTHING_KNOWN, Known, known_by, worker_text, workers_of

_fold_errors = SurvivedErrors("tally", "the next beat folds the counts and ends transactions that were left behind")


class RedisWorkers(RedisHandle):
    """The rows of workers, in the first shard."""

    async def beat(self, worker: WorkerInfo, *, until: datetime, now: datetime) -> BeatReply:
        """Also looks for data losses, folds the counts of runs, and ends transactions that were left behind."""
        shards = self._open()
        with self._clock.outside():
            await shards.each(lambda shard: self._wakeups.data_loss.check(shard, now))
            reply = await _beat(shards, worker, until, now)
            with _fold_errors.survive(StoreError):
                await fold(shards)
                await sweep(shards)
        return reply

    async def orphaned(self, *, now: datetime, limit: int) -> list[Job]:
        """Unreadable jobs are set aside instead. Repairs the store first if a beat noticed a data loss."""
        shards = self._open()
        with self._clock.outside():
            await repair_losses(shards, self._wakeups.data_loss, now)
            # By expiry times, not by rows: a row may be unreadable.
            rows = await read_hash(shards.first, f"{shards.first.base}:until")
            alive = {name for name, until in rows.items() if int(until) > micros(now)}
            found = await shards.each(lambda shard: _orphans(shard, alive, limit))
            jobs = sorted((job for some in found for job in some), key=lambda job: job.id)[:limit]
            for job in jobs:
                if job.unreadable and job.failure is not None:
                    one = unreadable_record("job", job.id, job.failure.message)
                    await set_aside(shards, [one], job.worker or "", micros(now))
        return [job for job in jobs if not job.unreadable]

    async def command_workers(
        self,
        workers: Collection[WorkerId] | None,
        commands: WorkerCommands,
        *,
        now: datetime,
        seen: WorkerCommands | None = None,
    ) -> list[WorkerId]:
        shards = self._open()

        async def propose() -> tuple[list[WorkerId], Unit]:
            known: dict[WorkerId, bytes | None] = {**await read_hash(shards.first, f"{shards.first.base}:worker")}
            rows = WorkerTable(workers_of(known))
            return rows.set_commands(workers, commands, now, seen), _worker_unit(shards.first.base, known, rows)

        with self._clock.outside():
            return await contend_one(shards, "order", propose)

    async def workers(self, *, now: datetime) -> list[WorkerRow]:
        shard = self._open().first
        with self._clock.outside():
            found = workers_of(await read_hash(shard, f"{shard.base}:worker"))
        return sorted((worker for worker in found.values() if worker.until > now), key=lambda worker: worker.info.id)


async def _beat(shards: Shards, worker: WorkerInfo, until: datetime, now: datetime) -> BeatReply:
    """Records the beat: the worker's row in the first shard, then its expiry in the others, never beyond the row's."""
    base = shards.first.base

    async def propose() -> tuple[tuple[WorkerCommands, WorkerRow | None, bytes | None], Unit]:
        rows, watched_until = await shards.first.multi([("HGETALL", f"{base}:worker"), watched_command(shards.first)])
        known: dict[WorkerId, bytes | None] = {worker.id: None, **to_dict(rows)}
        workers = WorkerTable(workers_of(known))
        orders = workers.beat(worker, until, now)
        return (orders, workers.row(worker.id), watched_until), _worker_unit(base, known, workers, worker.id)

    orders, row, watched_until = await contend_one(shards, "beat", propose)
    held = await shards.each(
        lambda shard: _extend_and_read_held(shards, shard, worker.id, None if row is None else row.until)
    )
    mine = [job for some in held for job in some]
    cancels = {job.id: job.cancel_reason for job in mine if job.cancel_reason is not None}
    leases = {job.id: job.lease or "" for job in mine}
    return BeatReply(leases, cancels, orders, watched_until=instant_of(watched_until))


async def _extend_and_read_held(shards: Shards, shard: Shard, worker: WorkerId, until: datetime | None) -> list[Job]:
    """Writes the worker's expiry into this shard, and returns the jobs that it runs here."""
    key, commands = f"{shard.base}:until", list[Command]()
    if shard is not shards.first:
        commands.append(("HDEL", key, worker) if until is None else ("HSET", key, worker, micros(until)))
    *_, ids = await shard.multi([*commands, ("SMEMBERS", f"{shard.base}:held:{worker}")])
    # Brief jobs are enough: records may be large, and there is one for each slot of the worker.
    return [job for job in await read_brief(shard, ids) if job.state is State.RUNNING]


def _worker_unit(
    base: str, known: dict[WorkerId, bytes | None], workers: WorkerTable, mine: WorkerId | None = None
) -> Unit:
    """The changes of worker rows; a condition for each changed row only. `mine` is a worker of this release."""
    conditions, commands = list[Condition](), list[Command]()
    for id, text in known.items():
        new = workers.row(id)
        knows = Known() if id == mine else NOTHING_KNOWN if text is None else known_by(text)
        fresh = None if new is None else worker_text(new, knows)
        if fresh == text or (new is None and text is not None and not workers_of({id: text})):
            continue
        conditions.append(has(f"{base}:worker", id, text))
        if new is None or fresh is None:
            commands += (("HDEL", f"{base}:worker", id), ("HDEL", f"{base}:until", id))
        else:
            commands += (("HSET", f"{base}:worker", id, fresh), ("HSET", f"{base}:until", id, micros(new.until)))
    return Unit(conditions, commands)


async def _orphans(shard: Shard, alive: set[WorkerId], limit: int) -> list[Job]:
    """Running jobs in this shard whose workers are not alive."""
    holders = [name.decode() for name in await shard.call("SMEMBERS", f"{shard.base}:holders")]
    silent = [name for name in holders if name not in alive]
    sets = await shard.multi([("SMEMBERS", f"{shard.base}:held:{name}") for name in silent]) if silent else []
    ids = sorted({id for some in sets for id in some})[:limit]
    found = (await read_shard(shard, [unpacked(id) for id in ids])).values()
    return [job for _, job in found if job is not None and job.state is State.RUNNING]
