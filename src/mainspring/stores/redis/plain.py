"""Plain firings and plain ends of scheduled jobs with one shard: many at a time, with merged commands.

For speed this re-implements the rules rules.fire.fire_one and rules.finish.finish_one for the usual case;
test_redis_batches.py and the twin compare the two. The rules handle everything else, and items that lost a race.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, NewJob, State
from ...records.outcome import Outcome
from ...records.tally import sums_by_minute
from ...schedule.job_ended import after_job_ended
from ...schedule.record import MAX_KEPT_TICKS, Firing, Schedule
from ..rules import to_job
from ..rules.keys import keys_held_by
from .connection import Arg
from .diff import schedule_commands
from .index import Command, in_order_command, index_entries
from .records import job_from, new_record, packed, schedule_of
from .shard import Shard, Shards
from .two_phase import Condition, has, has_members

Item = TypeVar("Item")

# Items per call of the script: the server does nothing else meanwhile.
MAX_PLAIN = 250
# Arguments of a merged command.
MAX_MERGED = 2_000

_encode = msgspec.json.Encoder().encode


class ScheduleHead(msgspec.Struct, frozen=True):
    """The fields of a schedule that a firing needs when it replaces it."""

    revision: int = 1
    waits_on: str | None = None


_head = msgspec.json.Decoder(ScheduleHead).decode


class PlannedItem(msgspec.Struct, frozen=True):
    """The commands of an item, and the conditions for running them."""

    conditions: list[Condition]
    commands: list[Command]


async def write_planned(
    shard: Shard,
    items: Sequence[Item],
    planned: Sequence[PlannedItem],
    more: Callable[[Sequence[Item]], list[Command]],
    topic: str,
) -> set[int]:
    """The numbers of the items that were written. `more` returns additional commands for the items of one call."""

    async def write_batch(numbers: list[int]) -> list[int]:
        for _ in range(2):  # the second time without the items that lost a race
            args, owners = _unit([planned[n] for n in numbers], more([items[n] for n in numbers]))
            broken = await shard.script("write", [topic, *args])
            if not broken:
                return numbers
            lost = {owners[condition - 1] for condition in broken}
            if not (numbers := [n for at, n in enumerate(numbers) if at not in lost]):
                break
        return []

    starts = range(0, len(items), MAX_PLAIN)
    lots = [list(range(start, min(start + MAX_PLAIN, len(items)))) for start in starts]
    return {n for some in await asyncio.gather(*map(write_batch, lots)) for n in some}


def _unit(planned: Sequence[PlannedItem], more: Sequence[Command]) -> tuple[list[Arg], list[int]]:
    """A unit as prelude.lua reads it, and for each condition the number of its item."""
    args: list[Arg] = []
    owners: list[int] = []
    for n, one in enumerate(planned):
        for condition in one.conditions:
            args += condition
            owners.append(n)
    args.insert(0, len(owners))
    for command in (*merged(command for one in planned for command in one.commands), *more):
        args += (len(command), *command)
    return args, owners


def merged(commands: Iterable[Command]) -> Iterator[Command]:
    """The commands with the arguments of those that have the same name and key."""
    found: dict[tuple[Arg, Arg], list[Arg]] = {}
    for name, key, *values in commands:
        found.setdefault((name, key), []).extend(values)
    for command, values in found.items():
        for start in range(0, len(values), MAX_MERGED) if values else (0,):
            yield *command, *values[start : start + MAX_MERGED]


# firings


def all_plain(firings: Sequence[Firing]) -> bool:
    """Whether no firing cancels a job, reads another schedule or begins a flow, and no two have a name, id or key in
    common."""
    names, keys, ids = set[str](), list[str](), list[JobId]()
    for firing in firings:
        if firing.cancel or firing.reads:
            return False
        names.add(firing.schedule.name)
        for job in firing.jobs:
            if job.step is not None or job.plan is not None:
                return False
            ids.append(job.id)
            keys += [key for key in (job.unique_key, job.idempotency_key) if key is not None]
    return len(names) == len(firings) and len(set(ids)) == len(ids) and len(set(keys)) == len(keys)


async def fire_plain(
    shards: Shards, firings: Sequence[Firing], now: datetime, before: Callable[[], object]
) -> set[int]:
    """The numbers of the firings that were written: all but those that lost a race or do not fit."""
    shard, us = shards.first, micros(now)
    texts = await shard.call("HMGET", f"{shard.base}:schedule", *(firing.schedule.name for firing in firings))
    heads = [None if text is None else _head_of(text) for text in texts]
    fit = [
        n for n, head in enumerate(heads) if (0 if head is None else head.revision) == firings[n].schedule.revision - 1
    ]
    planned = [_plan_firing(shard.base, firings[n], texts[n], heads[n], now, us) for n in fit]
    before()
    written = await write_planned(shard, fit, planned, lambda some: [], "new final")
    return {fit[n] for n in written}


def _head_of(text: bytes) -> ScheduleHead:
    """The head; one that cannot be decoded gets a revision that fits no firing, and so is left to the rules."""
    try:
        return _head(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ScheduleHead(revision=-1)


def _plan_firing(
    base: str, firing: Firing, text: bytes | None, head: ScheduleHead | None, now: datetime, us: int
) -> PlannedItem:
    """The commands of a plain firing."""
    schedule = firing.schedule
    conditions = [has(f"{base}:schedule", schedule.name, text)]
    commands = list(schedule_commands(base, schedule.name, head is not None, head.waits_on if head else None, schedule))
    for new in firing.jobs:
        _plan_job(base, new, now, us, conditions, commands)
    for tick in firing.ticks:
        commands.append(("ZADD", f"{base}:ticks:{schedule.name}", tick.n, _encode(tick)))
    if firing.ticks and firing.ticks[-1].n > MAX_KEPT_TICKS:
        commands.append(("ZREMRANGEBYRANK", f"{base}:ticks:{schedule.name}", 0, -MAX_KEPT_TICKS - 1))
    return PlannedItem(conditions, commands)


def _plan_job(
    base: str, new: NewJob, now: datetime, us: int, conditions: list[Condition], commands: list[Command]
) -> None:
    """Adds the commands and conditions of a new job."""
    job, short = to_job(new, now), packed(new.id)
    conditions.append(has(f"{base}:job", short, None))
    commands.append(("HSET", f"{base}:job", short, new_record(new, us)))
    for key in keys_held_by(job):
        conditions.append(has(f"{base}:key", key, None))
        commands.append(("HSET", f"{base}:key", key, short))
    for entry in index_entries(job):
        match entry.kind:
            case "set":
                commands.append(("SADD", f"{base}:{entry.key}", entry.member))
            case "sorted":
                commands.append(("ZADD", f"{base}:{entry.key}", entry.score, entry.member))
            case "ready" | "limited":
                commands.append(in_order_command(base, entry, us))
                commands.append(("GROUP", f"{base}:{entry.key}"))


# ends of scheduled jobs


async def finish_plain(shards: Shards, outcomes: Sequence[Outcome], others: set[str]) -> set[JobId]:
    """The jobs whose end was written. `others` are schedules of outcomes that are finished in another way."""
    shard, base = shards.first, shards.first.base
    shorts = [packed(outcome.id) for outcome in outcomes]
    names = list(dict.fromkeys(outcome.schedule or "" for outcome in outcomes))
    jobs, runs, texts, circuits, *waiting = await shard.multi(
        [
            ("HMGET", f"{base}:job", *shorts),
            ("HMGET", f"{base}:run", *shorts),
            ("HMGET", f"{base}:schedule", *names),
            ("HKEYS", f"{base}:circuit"),
            *(("SMEMBERS", f"{base}:waits:{name}") for name in names),
        ]
    )
    times, rows = dict.fromkeys(names, 0), dict(zip(names, texts, strict=True))
    for outcome in outcomes:
        times[outcome.schedule or ""] += 1
    # A schedule that others wait on, or that waits on one of these, changes with more than its own jobs.
    shared = others | {name for name, some in zip(names, waiting, strict=True) if some}
    shared |= {member.decode() for some in waiting for member in some}
    tasks = {task.decode() for task in circuits}
    fit, planned = list[Outcome](), list[PlannedItem]()
    for outcome, short, record, claim in zip(outcomes, shorts, jobs, runs, strict=True):
        name = outcome.schedule or ""
        if times[name] > 1 or name in shared or record is None or claim is None or (text := rows[name]) is None:
            continue
        job = job_from(outcome.id, (record, claim, None))
        row = schedule_of(name, text)
        if row is not None and job is not None and _is_plain(job, outcome, tasks):
            fit.append(outcome)
            planned.append(_plan_end(base, job, outcome, short, claim, row, text))
    written = await write_planned(shard, fit, planned, lambda some: counts_of(base, some), "new final")
    return {fit[n].id for n in written}


def _is_plain(job: Job, outcome: Outcome, circuits: set[str]) -> bool:
    """Whether only the job and its schedule change. A completed job keeps its idempotency key."""
    runs = job.state is State.RUNNING and job.lease == outcome.lease and job.step is None and job.limit_key is None
    same = job.counted_schedule == outcome.schedule and job.unique_key is None and job.task not in circuits
    return runs and same and job.failure is None and job.crashes == 0 and job.attempt == 1


def _plan_end(
    base: str, job: Job, outcome: Outcome, short: bytes, claim: bytes, row: Schedule, text: bytes
) -> PlannedItem:
    """The commands of a plain end and of its effect on the schedule."""
    at = micros(outcome.finished_at)
    head = claim.split(b"\0", 3)
    result = b"0" if outcome.result is None else b"1" + outcome.result.encode()
    commands: list[Command] = [
        ("HDEL", f"{base}:run", short),
        ("HSET", f"{base}:end", short, b"\0".join((*head[:3], b"%d" % at, result))),
        ("SREM", f"{base}:held:{job.worker}", short),
        ("ZADD", f"{base}:ended:completed\0{job.task}", at, short),
        ("SADD", f"{base}:ends", f"completed\0{job.task}"),
    ]
    name, conditions = row.name, [has(f"{base}:run", short, claim)]
    if (after := after_job_ended(row, job.id, State.COMPLETED, outcome.finished_at, outcome.result)) is not row:
        conditions += (has(f"{base}:schedule", name, text), has_members(f"{base}:waits:{name}", ()))
        commands += schedule_commands(base, name, True, row.waits_on, after)
    return PlannedItem(conditions, commands)


def counts_of(base: str, outcomes: Sequence[Outcome]) -> list[Command]:
    counts = sums_by_minute(outcomes).items()
    return [("RPUSH", f"{base}:counting", _encode((micros(at), *key, sums))) for (at, *key), sums in counts]
