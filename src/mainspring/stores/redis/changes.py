"""What was changed in a part of the data, as commands, and the script that writes them whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ...clock import micros
from ...job import Circuit, Job, JobId, LogLine
from ...schedule import TICKS_KEPT, Schedule
from ...tally import counted
from .index import Arguments, held_keys, moves
from .known import Known
from .part import Part
from .pool import Pool
from .records import Raw, claim_of, last_run, packed, record

_encode = msgspec.json.Encoder().encode


async def commit(pool: Pool, known: Known, commands: list[Arguments], word: str = "") -> bool:
    """Whether they were written, and with them, if there is one, a word to all."""
    words: list[str | bytes | int] = [0]
    for key, field, value in known.expected(pool.place.base):
        words += (key, field, "-", "") if value is None else (key, field, "=", value)
        words[0] = int(words[0]) + 1
    if word:
        commands = [*commands, ("PUBLISH", pool.place.base, word)]
    for command in commands:
        words += (len(command), *command)
    return bool(await pool.script("commit", words))


def changes(base: str, part: Part, now: int) -> Iterator[Arguments]:
    """What was changed, as commands."""
    known = part.known
    changed = [
        (id, raw, old, new) for id, (raw, old) in known.jobs.items() if (new := dict.get(part.jobs, id)) is not old
    ]
    for id, raw, old, new in changed:
        known.touched.add(id)
        yield from _of_job(base, id, raw, old, new, now)
    yield from _of_keys(base, [(old, new) for _, _, old, new in changed])
    for id, runs in part.ledger.executions.items():
        for run in runs:
            yield "HSET", f"{base}:exec:{id}", run.number, _encode(run)
    for id in part.ledger.dropped:
        yield "DEL", f"{base}:exec:{id}", f"{base}:log:{id}"
    yield from _lines(base, part.ledger.lines)
    if known.circuits is not None:
        yield from _of_circuits(base, known, part.ledger.circuits)
    for name, row in part.jobs.series.rows.items():
        if (was := known.schedules[name][1]) is not row:
            yield from schedule_moves(base, was, row)
    for name, ticks in part.jobs.series._ticks.items():
        for tick in ticks:
            yield "ZADD", f"{base}:ticks:{name}", tick.n, _encode(tick)
        yield "ZREMRANGEBYRANK", f"{base}:ticks:{name}", 0, -TICKS_KEPT - 1
    for (at, queue, task), sums in counted(part.ledger.counted).items():
        yield "RPUSH", f"{base}:counting", _encode((micros(at), queue, task, sums))


def _lines(base: str, lines: dict[JobId, dict[tuple[int, int], LogLine]]) -> Iterator[Arguments]:
    for id, told in lines.items():
        for (run, n), line in told.items():
            yield "HSETNX", f"{base}:log:{id}", f"{run}:{n}", _encode(line)


def _of_job(base: str, id: JobId, raw: Raw, old: Job | None, new: Job | None, now: int) -> Iterator[Arguments]:
    short = packed(id)
    if (run := last_run(id, raw)) is not None and new is not None:
        yield "HSETNX", f"{base}:exec:{id}", run.number, _encode(run)
    if new is None:
        yield "HDEL", f"{base}:job", short
    else:
        yield "HSET", f"{base}:job", short, record(new)
    if new is not None and new.lease is not None:
        yield "HSET", f"{base}:run", short, claim_of(new, 0 if new.started_at is None else micros(new.started_at))
    elif raw[1] is not None:
        yield "HDEL", f"{base}:run", short
    if raw[2] is not None:
        yield "HDEL", f"{base}:end", short
    yield from moves(base, old, new, now)


def _of_keys(base: str, changed: Sequence[tuple[Job | None, Job | None]]) -> Iterator[Arguments]:
    """A key that one of them lets go may be another's now."""
    freed = {key for old, _ in changed if old is not None for key in held_keys(old)}
    taken = {key: packed(new.id) for _, new in changed if new is not None for key in held_keys(new)}
    for key in freed - taken.keys():
        yield "HDEL", f"{base}:key", key
    for key, short in taken.items():
        yield "HSET", f"{base}:key", key, short


def _of_circuits(base: str, known: Known, new: dict[str, Circuit]) -> Iterator[Arguments]:
    old = known.circuits or {}
    texts = {task: _encode(circuit) for task, circuit in new.items()}
    known.turned = {task for task in old.keys() | texts.keys() if old.get(task) != texts.get(task)}
    for task in known.turned:
        if task in texts:
            yield "HSET", f"{base}:circuit", task, texts[task]
        else:
            yield "HDEL", f"{base}:circuit", task


def schedule_moves(base: str, old: Schedule | None, new: Schedule | None) -> Iterator[Arguments]:
    name = (new or old).name  # type: ignore[union-attr]
    if new is None:
        yield "HDEL", f"{base}:schedule", name
    else:
        yield "HSET", f"{base}:schedule", name, _encode(new)
    if new is None or new.due_at is None:
        yield "ZREM", f"{base}:due", name
    else:
        yield "ZADD", f"{base}:due", micros(new.due_at), name
    if old is not None and old.waits_on is not None and (new is None or new.waits_on != old.waits_on):
        yield "SREM", f"{base}:waits:{old.waits_on}", name
    if new is not None and new.waits_on is not None:
        yield "SADD", f"{base}:waits:{new.waits_on}", name
