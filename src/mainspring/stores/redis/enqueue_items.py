"""Items of maps, added a page at a time and counted with their flow: by add_items.lua, or as a unit of commands.

Both repeat the rule rules.enqueue.enqueue for plain items; test_redis_flows.py compares them with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...clock import micros
from ...records.job import NewJob
from ...records.step import MAX_INDEX
from ..rules.batch_jobs import number_jobs
from ..rules.flows import may_add_item
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Name
from .connection import Arg
from .diff import unit_of
from .flow_rows import locks_of_flow
from .index import group, has_creation_time, step_entry, steps_key
from .item_counts import map_key
from .new_jobs import MAX_JOBS, unit_of_jobs
from .reads import fetch
from .records import claim_key, new_record, packed
from .shard import Shard, Shards
from .snapshot import Snapshot
from .transact import settle
from .two_phase import Unit, commit_one

# Times that items are added, since their flow may change meanwhile, before they are left to the rule.
MAX_TRIES = 3


def plain_items(jobs: Sequence[NewJob], now: int) -> list[bytes] | None:
    """The packed ids of plain items of one flow's maps, few enough for one unit; None if these are others.

    A plain item has nothing but a step: its index entries are those of a plain job, and one more.
    """
    flow, ids, time = None if jobs[0].step is None else jobs[0].step.flow, list[bytes](), b""
    if flow is None or len(jobs) > MAX_JOBS:
        return None
    for job in jobs:
        if job.step is None or job.step.flow != flow or not job.step.position & MAX_INDEX:
            return None
        if (
            job.unique_key
            or job.idempotency_key
            or job.schedule
            or job.expires_at
            or job.plan
            or job.tags
            or job.limit_key
        ):
            return None
        ids.append(id := packed(job.id))
        if id[:6] != time:  # else as the one before
            if not has_creation_time(id, now):
                return None
            time = id[:6]
    return ids


async def enqueue_items(shards: Shards, jobs: Sequence[NewJob], ids: Sequence[bytes], now: datetime) -> bool:
    """Adds items of maps set-wise, and counts them with their flow. False, having added none, if that is for the rule:
    the flow makes no more of them, one is given twice, or too many races were lost.
    """
    if len(set(ids)) < len(ids):
        return False
    flow = Name("flow", jobs[0].step.flow if jobs[0].step is not None else "")
    names = [flow]
    for _ in range(MAX_TRIES):
        snapshot, tables = Snapshot(), LoadedTables(flows=True)
        await fetch(shards, snapshot, names)
        snapshot.fill(tables, [flow])
        if not _may_add(tables, jobs):
            return False
        if not (looked := len(names) > 1):
            new = list(zip(jobs, ids, strict=True))
        else:
            new = [(job, id) for job, id in zip(jobs, ids, strict=True) if snapshot.jobs[job.id][0][0] is None]
        numbered = number_jobs(tables, [job for job, _ in new], now)
        new = list(zip(numbered, (id for _, id in new), strict=True))
        for job in numbered:
            if job.step is not None:
                tables.flow_changes.note_made_item(job.step, now)
        await settle(shards, snapshot, [tables])
        moved = unit_of(shards, snapshot, tables, micros(now))
        if not looked:
            if (args := _script_args(shards, moved, new, micros(now))) is not None:
                shard = shards.of(jobs[0].queue)
                if await shard.script("add_items", args):
                    return True
            names += [Name("seen_job", job.id) for job in jobs]
        elif not new or await commit_one(shards, _unit(shards, snapshot, moved, new, micros(now)), "new"):
            return True
    return False


def _may_add(tables: LoadedTables, jobs: Sequence[NewJob]) -> bool:
    """Whether the flow still makes items of all of these maps."""
    refs = {map_key(job.step.position): job.step for job in jobs if job.step is not None}
    return all(may_add_item(tables, ref) for ref in refs.values())


def _script_args(shards: Shards, moved: Unit, new: Sequence[tuple[NewJob, bytes]], now: int) -> list[Arg] | None:
    """The arguments of add_items.lua, if the items are alike, and the move writes only the row of their flow, which is
    in their shard."""
    first, base = new[0][0], shards.of(new[0][0].queue).base
    run_at = now if first.run_at is None else micros(first.run_at)
    which, score = ("ready", 0) if run_at <= now else ("later", run_at)
    (row, *others), (write, *more) = moved.conditions, moved.commands
    if others or more or row.key != f"{base}:flow" or write[:2] != ("HSET", row.key):
        return None
    key = None if first.step is None else map_key(first.step.position)
    args: list[Arg] = ["new", row.field, row.value, write[3], group(first.queue, first.task), which, score]
    args.append(claim_key(first.priority, run_at, b""))
    for job, id in new:
        step = job.step
        if step is None or map_key(step.position) != key or job.run_at != first.run_at:
            return None
        if job.queue != first.queue or job.task != first.task or job.priority != first.priority:
            return None
        args += (step_entry(step.position, id), new_record(job, now))
    return args


def _unit(shards: Shards, snapshot: Snapshot, moved: Unit, new: Sequence[tuple[NewJob, bytes]], now: int) -> Unit:
    """The unit that adds items that may be in several groups and shards."""
    shares = dict[Shard, list[tuple[NewJob, bytes]]]()
    for job, id in new:
        shares.setdefault(shards.of(job.queue), []).append((job, id))
    added = unit_of_jobs(shares, now)
    conditions, commands = [*moved.conditions, *added.conditions], [*moved.commands, *added.commands]
    for shard, some in shares.items():
        members = dict[str, list[str | bytes]]()
        for job, id in some:
            if job.step is not None:
                key = f"{shard.base}:{steps_key(job.step.flow, 'open')}"
                members.setdefault(key, []).extend(("0", step_entry(job.step.position, id)))
        commands += [("ZADD", key, *pairs) for key, pairs in members.items()]
    for flow in {job.step.flow for job, _ in new if job.step is not None}:
        conditions += locks_of_flow(snapshot.flows, flow, (shard.base for shard in shares))
    return Unit(conditions, commands)
