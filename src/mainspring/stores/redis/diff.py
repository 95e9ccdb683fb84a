"""The changes of a rule as a unit: commands, and the conditions under which they are still right."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from ...clock import micros
from ...ids import JobId
from ...records.circuit import Circuit
from ...records.job import Job
from ...records.tally import sums_by_minute
from ...schedule.record import MAX_KEPT_TICKS, Schedule
from ..rules.keys import keys_held_by
from ..rules.loaded import ChangedJob, LoadedTables, NotRead
from .flow_rows import flow_commands, flow_conditions
from .index import Command, final_entries, index_commands
from .new_jobs import new_step_command
from .records import Raw, claim_of, last_run, packed, record_of
from .shard import Shards
from .snapshot import Snapshot
from .two_phase import Condition, Unit, has, has_members, lacks_member

_encode = msgspec.json.Encoder().encode
# How long a shard remembers the id of a job that moved away, so that a repeated enqueue does not add it again.
REMEMBER_SECONDS = 86_400
NO_JOB: Raw = (None, None, None)


def unit_of(
    shards: Shards, snapshot: Snapshot, tables: LoadedTables, now: int, taken_from: Collection[str] = ()
) -> Unit:
    """The changes of a rule. Conditions cover only what decided them: not jobs that were read and left unchanged.

    `taken_from` are queues that must not be paused at the commit.
    """
    changed = tables.changed_jobs()
    circuits = _circuit_units(shards, snapshot, tables.changed_circuits())
    commands = [
        *_commands(shards, snapshot, tables, changed, now),
        *(command for _, some in circuits for command in some),
    ]
    if not commands:
        return Unit((), ())
    conditions = [*_conditions(shards, snapshot, tables, changed), *(condition for condition, _ in circuits)]
    conditions += [lacks_member(f"{shards.of(queue).base}:paused", queue) for queue in taken_from]
    return Unit(conditions, commands)


def _commands(
    shards: Shards, snapshot: Snapshot, tables: LoadedTables, changed: Sequence[ChangedJob], now: int
) -> Iterator[Command]:
    base = shards.first.base
    for id, old, new in changed:
        yield from job_commands(shards, snapshot, id, raw_of(snapshot, id), old, new, now)
    yield from _key_commands(shards, [(old, new) for _, old, new in changed])
    yield from _run_commands(shards, tables, changed)
    yield from flow_commands(shards, snapshot.flows, tables)
    for row in tables.changed_schedules():
        was = snapshot.schedules[row.name][1]
        yield from schedule_commands(base, row.name, was is not None, was.waits_on if was else None, row)
    for name, tick in tables.ticks:
        yield "ZADD", f"{base}:ticks:{name}", tick.n, _encode(tick)
    for name in dict(tables.ticks):
        yield "ZREMRANGEBYRANK", f"{base}:ticks:{name}", 0, -MAX_KEPT_TICKS - 1
    for (at, queue, task), sums in sums_by_minute(tables.counted).items():
        yield "RPUSH", f"{shards.of(queue).base}:counting", _encode((micros(at), queue, task, sums))


def raw_of(snapshot: Snapshot, id: JobId) -> Raw:
    return snapshot.jobs[id][0] if id in snapshot.jobs else NO_JOB


def _conditions(
    shards: Shards, snapshot: Snapshot, tables: LoadedTables, changed: Sequence[ChangedJob]
) -> Iterator[Condition]:
    base = shards.first.base
    # Log lines and checkpoints are accepted only while the run goes on, even if they do not change the job.
    ids = {one.id for one in changed}
    for id in dict.fromkeys(id for id, _ in (*tables.lines, *tables.checkpoints) if id not in ids):
        raw, old = snapshot.jobs.get(id, (None, None))
        if raw is not None and old is not None:
            yield from _as_read(shards, id, raw, old)
    for one in changed:
        yield from job_conditions(shards, snapshot, *one)
    for key in tables.keys_read:
        yield has(f"{shards.of_key(key).base}:key", key, snapshot.keys[key])
    for name in tables.schedules_read:
        yield has(f"{base}:schedule", name, snapshot.schedules[name][0])
    for name in tables.waiting_read:
        yield has_members(f"{base}:waits:{name}", snapshot.waiting[name])
    yield from flow_conditions(shards, snapshot.flows, tables, changed)
    for id in tables.workers_read:
        yield has(f"{base}:worker", id, snapshot.workers[id])


def job_conditions(
    shards: Shards, snapshot: Snapshot, id: JobId, old: Job | None, new: Job | None
) -> Iterator[Condition]:
    """A changed job is as it was read. A new one is not there, nor one in the shard to which it moves."""
    raw, found = snapshot.jobs.get(id, (None, None))
    if raw is not None and found is not None:
        yield from _as_read(shards, id, raw, found)
    if new is not None and (old is None or shards.of(old.queue) is not shards.of(new.queue)):
        yield has(f"{shards.of(new.queue).base}:job", packed(id), None)


def _as_read(shards: Shards, id: JobId, raw: Raw, job: Job) -> Iterator[Condition]:
    base, short = shards.of(job.queue).base, packed(id)
    return (has(f"{base}:{name}", short, value) for name, value in zip(("job", "run", "end"), raw, strict=True))


def job_as_read(shards: Shards, snapshot: Snapshot, id: JobId) -> list[Condition]:
    """Conditions that the job is unchanged, or still in no shard."""
    raw, job = snapshot.jobs[id]
    if job is None:
        return [has(f"{shard.base}:job", packed(id), None) for shard in shards.all]
    return list(_as_read(shards, id, raw, job))


def _run_commands(shards: Shards, tables: LoadedTables, changed: Sequence[ChangedJob]) -> Iterator[Command]:
    """Writes recorded runs and what they have reported, and deletes that of deleted jobs."""
    for run in tables.executions:
        yield "HSET", f"{_base_of(shards, tables, run.job_id)}:exec:{run.job_id}", run.number, _encode(run)
    for id, old, new in changed:
        if old is not None and new is None:
            base = shards.of(old.queue).base
            yield "DEL", f"{base}:exec:{id}", f"{base}:log:{id}", f"{base}:output:{id}", f"{base}:checkpoint:{id}"
    for id in tables.without_checkpoints:
        yield "DEL", f"{_base_of(shards, tables, id)}:checkpoint:{id}"
    for id, line in tables.lines:
        yield "HSETNX", f"{_base_of(shards, tables, id)}:log:{id}", f"{line.run}:{line.n}", _encode(line)
    for id, chunk in tables.chunks:
        yield "HSETNX", f"{_base_of(shards, tables, id)}:output:{id}", chunk.n, _encode(chunk)
    for id, one in tables.checkpoints:
        yield "HSETNX", f"{_base_of(shards, tables, id)}:checkpoint:{id}", one.name, _encode(one)


def _base_of(shards: Shards, tables: LoadedTables, id: JobId) -> str:
    job = tables.job(id)
    assert job is not None
    return shards.of(job.queue).base


def job_commands(
    shards: Shards, snapshot: Snapshot, id: JobId, raw: Raw, old: Job | None, new: Job | None, now: int
) -> Iterator[Command]:
    """Writes a job; one that changes its shard is deleted in the old one."""
    source = None if old is None else shards.of(old.queue)
    target = None if new is None else shards.of(new.queue)
    if source is not None and target is not source:
        if target is not None:
            yield from _move_commands(source.base, target.base, snapshot, id)
        yield from _write_commands(source.base, id, raw, old, None, now)
        raw, old = NO_JOB, None
    if target is not None:
        yield from _write_commands(target.base, id, raw, old, new, now)


def _move_commands(source: str, target: str, snapshot: Snapshot, id: JobId) -> Iterator[Command]:
    """Moves runs and what they have reported to the job's new shard. The old one remembers the id for repeated
    enqueues."""
    if id not in snapshot.runs:
        raise NotRead("runs of", id)
    if id not in snapshot.lines:
        raise NotRead("log lines of", id)
    for run in snapshot.runs[id]:
        yield "HSET", f"{target}:exec:{id}", run.number, _encode(run)
    if snapshot.lines[id]:
        yield "HSET", f"{target}:log:{id}", *snapshot.lines[id]
    if snapshot.chunks[id]:
        yield "HSET", f"{target}:output:{id}", *snapshot.chunks[id]
    if snapshot.checkpoints[id]:
        yield "HSET", f"{target}:checkpoint:{id}", *snapshot.checkpoints[id]
    yield "DEL", f"{source}:exec:{id}", f"{source}:log:{id}", f"{source}:output:{id}", f"{source}:checkpoint:{id}"
    yield "HSET", f"{source}:moved", packed(id), ""
    yield "EXPIRE", f"{source}:moved", REMEMBER_SECONDS


def _write_commands(base: str, id: JobId, raw: Raw, old: Job | None, new: Job | None, now: int) -> Iterator[Command]:
    """Writes or deletes a job within one shard: its record, its claim, its end and its index entries."""
    if raw == NO_JOB and new is not None and (command := new_step_command(base, new, now)) is not None:
        yield command
        return
    short = packed(id)
    if (run := last_run(id, raw)) is not None and new is not None:
        yield "HSETNX", f"{base}:exec:{id}", run.number, _encode(run)
    if new is None:
        yield "HDEL", f"{base}:job", short
    elif not new.unreadable:
        yield "HSET", f"{base}:job", short, record_of(new)
    if new is not None and new.lease is not None:
        yield "HSET", f"{base}:run", short, claim_of(new, 0 if new.started_at is None else micros(new.started_at))
    elif raw[1] is not None:
        yield "HDEL", f"{base}:run", short
    if raw[2] is not None:
        yield "HDEL", f"{base}:end", short
    yield from index_commands(base, old, new, now)
    if old is not None and old.unreadable and new is None:
        yield from (("ZREM", f"{base}:{entry.key}", short) for entry in final_entries(short, old.task))


def _key_commands(shards: Shards, changed: Sequence[tuple[Job | None, Job | None]]) -> Iterator[Command]:
    """A key that one of them lets go may be another's now."""
    freed = {key for old, _ in changed if old is not None for key in keys_held_by(old)}
    taken = {key: packed(new.id) for _, new in changed if new is not None for key in keys_held_by(new)}
    for key in freed - taken.keys():
        yield "HDEL", f"{shards.of_key(key).base}:key", key
    for key, short in taken.items():
        yield "HSET", f"{shards.of_key(key).base}:key", key, short


def _circuit_units(
    shards: Shards, snapshot: Snapshot, changed: Mapping[str, Circuit | None]
) -> list[tuple[Condition, list[Command]]]:
    """The changed circuits. They are in the first shard; every shard has the end of the open ones."""
    old, base, found = snapshot.circuits or {}, shards.first.base, list[tuple[Condition, list[Command]]]()
    for task, now in changed.items():
        text, was = old.get(task, (None, None))
        commands: list[Command] = [
            ("HDEL", f"{base}:circuit", task) if now is None else ("HSET", f"{base}:circuit", task, _encode(now))
        ]
        until = None if now is None else now.open_until
        if until != (None if was is None else was.open_until):
            commands += [_open_command(f"{shard.base}:open", task, until) for shard in shards.all]
        found.append((has(f"{base}:circuit", task, text), commands))
    return found


def _open_command(key: str, task: str, until: datetime | None) -> Command:
    return ("HDEL", key, task) if until is None else ("HSET", key, task, micros(until))


def schedule_commands(
    base: str, name: str, known: bool, waited_on: str | None, new: Schedule | None
) -> Iterator[Command]:
    """Commands that write or delete a schedule. `known`: it exists; `waited_on`: the schedule it waits on now."""
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
