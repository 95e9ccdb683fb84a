"""Plain firings and plain ends of scheduled jobs on one server: many at a time, with commands that are merged.

These are the rules memory.fire.fire_one and memory.finish.finish_one for what nearly all schedules do, written by hand
for speed: test_redis_batches.py and the twin compare the two. What is not plain, and what another writer has changed
meanwhile, is left to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, NewJob, State
from ...records.outcome import Outcome
from ...records.tally import sums_by_minute
from ...schedule.job_ended import after_job_ended
from ...schedule.record import TICKS_KEPT, Firing, Schedule
from ..rules import to_job
from .connection import Word
from .diff import schedule_moves
from .index import Arguments, held_keys, spots
from .known import schedule_of
from .records import job_from, new_record, packed
from .shard import Shard, Shards
from .two_phase import Condition, has, has_members

Item = TypeVar("Item")

# Items that go in one script: others wait for as long. Words of a command that was merged.
MAX_PLAIN, MAX_MERGED = 250, 2_000

_encode = msgspec.json.Encoder().encode


class Head(msgspec.Struct, frozen=True):
    """What a firing has to know of the schedule that it replaces."""

    revision: int = 1
    waits_on: str | None = None


_head = msgspec.json.Decoder(Head).decode


class Planned(msgspec.Struct, frozen=True):
    """What an item takes, as long as its conditions hold."""

    conditions: list[Condition]
    commands: list[Arguments]


async def write(
    home: Shard,
    items: Sequence[Item],
    planned: Sequence[Planned],
    more: Callable[[Sequence[Item]], list[Arguments]],
    word: str,
) -> set[int]:
    """Numbers of the items that were written; `more` says what comes with these together."""

    async def one(numbers: list[int]) -> list[int]:
        for _ in range(2):  # once more without those that another writer has changed
            words, owners = _unit([planned[n] for n in numbers], more([items[n] for n in numbers]))
            broken = await home.script("write", [word, *words])
            if not broken:
                return numbers
            lost = {owners[condition - 1] for condition in broken}
            if not (numbers := [n for at, n in enumerate(numbers) if at not in lost]):
                break
        return []

    starts = range(0, len(items), MAX_PLAIN)
    lots = [list(range(start, min(start + MAX_PLAIN, len(items)))) for start in starts]
    return {n for some in await asyncio.gather(*map(one, lots)) for n in some}


def _unit(planned: Sequence[Planned], more: Sequence[Arguments]) -> tuple[list[Word], list[int]]:
    """As share.lua takes it, and to which of them each condition belongs."""
    words: list[Word] = []
    owners: list[int] = []
    merged: dict[tuple[Word, Word], list[Word]] = {}
    for n, one in enumerate(planned):
        for condition in one.conditions:
            words += condition
            owners.append(n)
        for command in one.commands:
            merged.setdefault((command[0], command[1]), []).extend(command[2:])
    words.insert(0, len(owners))
    for command, args in merged.items():
        for start in range(0, len(args), MAX_MERGED) if args else (0,):
            some = args[start : start + MAX_MERGED]
            words += (2 + len(some), *command, *some)
    for command in more:
        words += (len(command), *command)
    return words, owners


# firings


def all_plain(firings: Sequence[Firing]) -> bool:
    """Whether none of them cancels anything or reads another schedule, and no two have anything in common."""
    names, keys, ids = set[str](), list[str](), list[JobId]()
    for firing in firings:
        if firing.cancel or firing.reads:
            return False
        names.add(firing.schedule.name)
        for job in firing.jobs:
            ids.append(job.id)
            keys += [key for key in (job.unique_key, job.idempotency_key) if key is not None]
    return len(names) == len(firings) and len(set(ids)) == len(ids) and len(set(keys)) == len(keys)


async def fire(homes: Shards, firings: Sequence[Firing], now: datetime, before: Callable[[], object]) -> set[int]:
    """Numbers of the firings that were written: all of them but those that another writer was in the way of."""
    home, us = homes.first, micros(now)
    texts = await home.call("HMGET", f"{home.base}:schedule", *(firing.schedule.name for firing in firings))
    heads = [None if text is None else _head_of(text) for text in texts]
    fit = [
        n for n, head in enumerate(heads) if (0 if head is None else head.revision) == firings[n].schedule.revision - 1
    ]
    planned = [_fired(home.base, firings[n], texts[n], heads[n], now, us) for n in fit]
    before()
    written = await write(home, fit, planned, lambda some: [], "new final")
    return {fit[n] for n in written}


def _head_of(text: bytes) -> Head:
    """One that cannot be decoded fits no firing, and so is left to the rules."""
    try:
        return _head(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Head(revision=-1)


def _fired(
    base: str, firing: Firing, text: bytes | None, head: Head | None, now: datetime, us: int
) -> Planned:  # fmt: skip
    schedule = firing.schedule
    conditions = [has(f"{base}:schedule", schedule.name, text)]
    commands = list(schedule_moves(base, schedule.name, head is not None, head.waits_on if head else None, schedule))
    for new in firing.jobs:
        _enqueued(base, new, now, us, conditions, commands)
    for tick in firing.ticks:
        commands.append(("ZADD", f"{base}:ticks:{schedule.name}", tick.n, _encode(tick)))
    if firing.ticks and firing.ticks[-1].n > TICKS_KEPT:
        commands.append(("ZREMRANGEBYRANK", f"{base}:ticks:{schedule.name}", 0, -TICKS_KEPT - 1))
    return Planned(conditions, commands)


def _enqueued(
    base: str, new: NewJob, now: datetime, us: int, conditions: list[Condition], commands: list[Arguments]
) -> None:
    job, short = to_job(new, now), packed(new.id)
    conditions.append(has(f"{base}:job", short, None))
    commands.append(("HSET", f"{base}:job", short, new_record(new, us)))
    for key in held_keys(job):
        conditions.append(has(f"{base}:key", key, None))
        commands.append(("HSET", f"{base}:key", key, short))
    for spot in spots(job):
        match spot.kind:
            case "set":
                commands.append(("SADD", f"{base}:{spot.key}", spot.member))
            case "sorted":
                commands.append(("ZADD", f"{base}:{spot.key}", spot.score, spot.member))
            case "ready":
                where, score = ("ready", 0) if spot.score <= us else ("later", spot.score)
                commands.append(("ZADD", f"{base}:{where}:{spot.key}", score, spot.member))
                commands.append(("GROUP", f"{base}:{spot.key}"))


# ends of scheduled jobs


async def finish(homes: Shards, outcomes: Sequence[Outcome], others: set[str]) -> set[JobId]:
    """Jobs whose end was written. `others` are the schedules of outcomes that are settled in another way."""
    home, base = homes.first, homes.first.base
    shorts = [packed(outcome.id) for outcome in outcomes]
    names = list(dict.fromkeys(outcome.schedule or "" for outcome in outcomes))
    jobs, runs, texts, circuits, *waiting = await home.many([
        ("HMGET", f"{base}:job", *shorts), ("HMGET", f"{base}:run", *shorts),
        ("HMGET", f"{base}:schedule", *names), ("HKEYS", f"{base}:circuit"),
        *(("SMEMBERS", f"{base}:waits:{name}") for name in names),
    ])  # fmt: skip
    times, rows = dict.fromkeys(names, 0), dict(zip(names, texts, strict=True))
    for outcome in outcomes:
        times[outcome.schedule or ""] += 1
    # A schedule on which others wait, or that waits itself on such a one, is changed by more than its own jobs.
    shared = others | {name for name, some in zip(names, waiting, strict=True) if some}
    shared |= {member.decode() for some in waiting for member in some}
    tasks = {task.decode() for task in circuits}
    fit, planned = list[Outcome](), list[Planned]()
    for outcome, short, record, said in zip(outcomes, shorts, jobs, runs, strict=True):
        name = outcome.schedule or ""
        if times[name] > 1 or name in shared or record is None or said is None or (text := rows[name]) is None:
            continue
        job = job_from(outcome.id, (record, said, None))
        row = schedule_of(name, text)
        if row is not None and job is not None and _plain(job, outcome, tasks):
            fit.append(outcome)
            planned.append(_ended(base, job, outcome, short, said, row, text))
    written = await write(home, fit, planned, lambda some: _counts(base, some), "new final")
    return {fit[n].id for n in written}


def _plain(job: Job, outcome: Outcome, circuits: set[str]) -> bool:
    """Whether only the job and its schedule change. An idempotency key stays with a job that has completed."""
    runs = job.state is State.RUNNING and job.lease == outcome.lease
    same = job.counted_schedule == outcome.schedule and job.unique_key is None and job.task not in circuits
    return runs and same and job.failure is None and job.crashes == 0 and job.attempt == 1


def _ended(
    base: str, job: Job, outcome: Outcome, short: bytes, said: bytes, row: Schedule, text: bytes
) -> Planned:  # fmt: skip
    at = micros(outcome.finished_at)
    head = said.split(b"\0", 3)
    result = b"0" if outcome.result is None else b"1" + outcome.result.encode()
    commands: list[Arguments] = [
        ("HDEL", f"{base}:run", short),
        ("HSET", f"{base}:end", short, b"\0".join((*head[:3], b"%d" % at, result))),
        ("SREM", f"{base}:held:{job.worker}", short),
        ("ZADD", f"{base}:ended:completed\0{job.task}", at, short),
        ("SADD", f"{base}:ends", f"completed\0{job.task}"),
    ]
    name, conditions = row.name, [has(f"{base}:run", short, said)]
    if (after := after_job_ended(row, job.id, State.COMPLETED, outcome.finished_at, outcome.result)) is not row:
        conditions += (has(f"{base}:schedule", name, text), has_members(f"{base}:waits:{name}", ()))
        commands += schedule_moves(base, name, True, row.waits_on, after)
    return Planned(conditions, commands)


def _counts(base: str, outcomes: Sequence[Outcome]) -> list[Arguments]:
    counts = sums_by_minute(outcomes).items()
    return [("RPUSH", f"{base}:counting", _encode((micros(at), *key, sums))) for (at, *key), sums in counts]
