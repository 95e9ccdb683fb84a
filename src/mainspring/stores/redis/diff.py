"""What a rule has changed, as commands, and what has to be as it was read for them to be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from ...clock import micros
from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import Job
from ...records.tally import sums_by_minute
from ...schedule.record import TICKS_KEPT, Schedule
from .index import Arguments, final_spots, held_keys, moves
from .records import Raw, claim_of, last_run, packed, record
from .shard import Shards
from .snapshot import Found, Snapshot
from .tables import NotRead, Tables
from .two_phase import Condition, Unit, has, has_members, lacks_member

_encode = msgspec.json.Encoder().encode
# Seconds for which a home remembers that a job was there: an enqueue is not repeated for longer.
REMEMBERED = 86_400


Changed = tuple[JobId, Found, Job | None]
"""A job's id, as it was read, and what has become of it."""


def unit_of(homes: Shards, tables: Tables, now: int) -> Unit:
    """What the rule has changed. Only what decides is compared: a job that was looked at and left alone is not."""
    snapshot, jobs = tables.snapshot, tables.jobs
    changed = [(id, was, new) for id, was in snapshot.jobs.items() if (new := dict.get(jobs, id)) is not was[1]]
    circuits = [] if snapshot.circuits is None else _of_circuits(homes, snapshot, tables.ledger.circuits)
    commands = [*_commands(homes, tables, changed, now), *(command for _, some in circuits for command in some)]
    if not commands:
        return Unit((), ())
    conditions = [*_conditions(homes, tables, changed), *(condition for condition, _ in circuits)]
    return Unit(conditions, commands)


def _commands(homes: Shards, tables: Tables, changed: Sequence[Changed], now: int) -> Iterator[Arguments]:
    base, series = homes.first.base, tables.jobs.series
    for id, (raw, old), new in changed:
        yield from _of_job(homes, tables.snapshot, id, raw, old, new, now)
    yield from _of_keys(homes, [(old, new) for _, (_, old), new in changed])
    yield from _told(homes, tables)
    for name, row in series.rows.items():
        if (was := tables.snapshot.schedules.get(name, (None, None))[1]) is not row:
            yield from schedule_moves(base, name, was is not None, was.waits_on if was else None, row)
    for name, ticks in series._ticks.items():
        for tick in ticks:
            yield "ZADD", f"{base}:ticks:{name}", tick.n, _encode(tick)
        if ticks:
            yield "ZREMRANGEBYRANK", f"{base}:ticks:{name}", 0, -TICKS_KEPT - 1
    for (at, queue, task), sums in sums_by_minute(tables.ledger.counted).items():
        yield "RPUSH", f"{homes.of(queue).base}:counting", _encode((micros(at), queue, task, sums))


def _conditions(homes: Shards, tables: Tables, changed: Sequence[Changed]) -> Iterator[Condition]:
    snapshot, jobs, base = tables.snapshot, tables.jobs, homes.first.base
    for id in dict.fromkeys([*(id for id, _, _ in changed), *tables.bound]):
        raw, old = snapshot.jobs[id]
        if old is not None:
            yield from _as_read(homes, id, raw, old)
    for id, (_, old), new in changed:
        if new is not None and (old is None or homes.of(old.queue) is not homes.of(new.queue)):
            yield has(f"{homes.of(new.queue).base}:job", packed(id), None)
    for key in jobs.asked:
        yield has(f"{homes.keeping(key).base}:key", key, snapshot.keys[key])
    for name in jobs.series.found.asked:
        yield has(f"{base}:schedule", name, snapshot.schedules[name][0])
    for name in jobs.series.asked:
        yield has_members(f"{base}:waits:{name}", snapshot.waiting[name])
    for id, text in snapshot.workers.items():
        yield has(f"{base}:worker", id, text)
    for queue in tables.taken_from:
        yield lacks_member(f"{homes.of(queue).base}:paused", queue)


def _as_read(homes: Shards, id: JobId, raw: Raw, job: Job) -> Iterator[Condition]:
    base, short = homes.of(job.queue).base, packed(id)
    return (has(f"{base}:{name}", short, value) for name, value in zip(("job", "run", "end"), raw, strict=True))


def job_as_read(homes: Shards, snapshot: Snapshot, id: JobId) -> list[Condition]:
    """The job has to be as it was found, or nowhere."""
    raw, job = snapshot.jobs[id]
    if job is None:
        return [has(f"{home.base}:job", packed(id), None) for home in homes.all]
    return list(_as_read(homes, id, raw, job))


def _told(homes: Shards, tables: Tables) -> Iterator[Arguments]:
    """Of runs that have ended, and of those that go on."""
    for id, runs in tables.ledger.executions.items():
        base = homes.of(tables.jobs[id].queue).base
        for run in runs:
            yield "HSET", f"{base}:exec:{id}", run.number, _encode(run)
    for id in tables.ledger.dropped:
        base = homes.of(_known(tables.snapshot, id).queue).base
        yield "DEL", f"{base}:exec:{id}", f"{base}:log:{id}"
    for id, told in tables.ledger.lines.items():
        base = homes.of(tables.jobs[id].queue).base
        for (number, n), line in told.items():
            yield "HSETNX", f"{base}:log:{id}", f"{number}:{n}", _encode(line)


def _known(snapshot: Snapshot, id: JobId) -> Job:
    job = snapshot.jobs[id][1]
    assert job is not None
    return job


def _of_job(
    homes: Shards, snapshot: Snapshot, id: JobId, raw: Raw, old: Job | None, new: Job | None, now: int
) -> Iterator[Arguments]:
    there = None if old is None else homes.of(old.queue)
    here = None if new is None else homes.of(new.queue)
    if there is not None and here is not there:
        if here is not None:
            yield from _leaving(there.base, here.base, snapshot, id)
        yield from _written(there.base, id, raw, old, None, now)
        raw, old = (None, None, None), None
    if here is not None:
        yield from _written(here.base, id, raw, old, new, now)


def _leaving(there: str, here: str, snapshot: Snapshot, id: JobId) -> Iterator[Arguments]:
    """What is told of a job goes with it. A repeated enqueue finds meanwhile that it was there."""
    if id not in snapshot.runs:
        raise NotRead("runs of", id)
    if id not in snapshot.lines:
        raise NotRead("log lines of", id)
    for run in snapshot.runs[id]:
        yield "HSET", f"{here}:exec:{id}", run.number, _encode(run)
    if snapshot.lines[id]:
        yield "HSET", f"{here}:log:{id}", *snapshot.lines[id]
    yield "DEL", f"{there}:exec:{id}", f"{there}:log:{id}"
    yield "HSET", f"{there}:moved", packed(id), ""
    yield "EXPIRE", f"{there}:moved", REMEMBERED


def _written(base: str, id: JobId, raw: Raw, old: Job | None, new: Job | None, now: int) -> Iterator[Arguments]:
    short = packed(id)
    if (run := last_run(id, raw)) is not None and new is not None:
        yield "HSETNX", f"{base}:exec:{id}", run.number, _encode(run)
    if new is None:
        yield "HDEL", f"{base}:job", short
    elif not new.unreadable:
        yield "HSET", f"{base}:job", short, record(new)
    if new is not None and new.lease is not None:
        yield "HSET", f"{base}:run", short, claim_of(new, 0 if new.started_at is None else micros(new.started_at))
    elif raw[1] is not None:
        yield "HDEL", f"{base}:run", short
    if raw[2] is not None:
        yield "HDEL", f"{base}:end", short
    yield from moves(base, old, new, now)
    if old is not None and old.unreadable and new is None:
        yield from (("ZREM", f"{base}:{spot.key}", short) for spot in final_spots(short, old.task))


def _of_keys(homes: Shards, changed: Sequence[tuple[Job | None, Job | None]]) -> Iterator[Arguments]:
    """A key that one of them lets go may be another's now."""
    freed = {key for old, _ in changed if old is not None for key in held_keys(old)}
    taken = {key: packed(new.id) for _, new in changed if new is not None for key in held_keys(new)}
    for key in freed - taken.keys():
        yield "HDEL", f"{homes.keeping(key).base}:key", key
    for key, short in taken.items():
        yield "HSET", f"{homes.keeping(key).base}:key", key, short


def _of_circuits(
    homes: Shards, snapshot: Snapshot, new: dict[str, Circuit]
) -> list[tuple[Condition, list[Arguments]]]:  # fmt: skip
    """Those that were changed: the first home has them, and every home until when open ones hold back their tasks."""
    old, base, found = snapshot.circuits or {}, homes.first.base, list[tuple[Condition, list[Arguments]]]()
    for task in [*old, *(new.keys() - old.keys())]:
        (text, was), now = old.get(task, (None, None)), new.get(task)
        if was == now:
            continue
        commands: list[Arguments] = [
            ("HDEL", f"{base}:circuit", task) if now is None else ("HSET", f"{base}:circuit", task, _encode(now))
        ]
        until = None if now is None else now.open_until
        if until != (None if was is None else was.open_until):
            commands += [_open(f"{home.base}:open", task, until) for home in homes.all]
        found.append((has(f"{base}:circuit", task, text), commands))
    return found


def _open(key: str, task: str, until: datetime | None) -> Arguments:
    return ("HDEL", key, task) if until is None else ("HSET", key, task, micros(until))


def schedule_moves(
    base: str, name: str, known: bool, waited_on: str | None, new: Schedule | None
) -> Iterator[Arguments]:  # fmt: skip
    """What it takes to write a schedule over one that was `known` and waited on that one, or over none."""
    if new is None:
        yield "HDEL", f"{base}:schedule", name
        yield "ZREM", f"{base}:schedules", name
    else:
        yield "HSET", f"{base}:schedule", name, _encode(new)
    if new is not None and not known:
        yield "ZADD", f"{base}:schedules", 0, name
    if new is None or new.due_at is None:
        yield "ZREM", f"{base}:due", name
    else:
        yield "ZADD", f"{base}:due", micros(new.due_at), name
    if waited_on is not None and (new is None or new.waits_on != waited_on):
        yield "SREM", f"{base}:waits:{waited_on}", name
    if new is not None and new.waits_on is not None:
        yield "SADD", f"{base}:waits:{new.waits_on}", name
