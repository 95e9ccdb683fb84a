"""What was changed in a part of the data, as commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from ...clock import micros
from ...job import Circuit, Job, JobId
from ...schedule import TICKS_KEPT, Schedule
from ...tally import counted
from .home import Homes
from .index import Arguments, held_keys, moves
from .known import Known
from .part import Part, Wanted
from .records import Raw, circuits_of, claim_of, last_run, packed, record

_encode = msgspec.json.Encoder().encode
# Seconds for which a home remembers that a job was there: nobody repeats an enqueue for longer.
REMEMBERED = 86_400


def changes(homes: Homes, part: Part, now: int) -> Iterator[Arguments]:
    """What was changed, as commands."""
    known, base = part.known, homes.first.base
    changed = [
        (id, raw, old, new) for id, (raw, old) in known.jobs.items() if (new := dict.get(part.jobs, id)) is not old
    ]
    for id, raw, old, new in changed:
        yield from _of_job(homes, known, id, raw, old, new, now)
    yield from _of_keys(homes, [(old, new) for _, _, old, new in changed])
    yield from _told(homes, part)
    if known.circuits is not None:
        yield from _of_circuits(homes, known, part.ledger.circuits)
    for name, row in part.jobs.series.rows.items():
        if (was := known.schedules[name][1]) is not row:
            yield from schedule_moves(base, was, row)
    for name, ticks in part.jobs.series._ticks.items():
        for tick in ticks:
            yield "ZADD", f"{base}:ticks:{name}", tick.n, _encode(tick)
        yield "ZREMRANGEBYRANK", f"{base}:ticks:{name}", 0, -TICKS_KEPT - 1
    for (at, queue, task), sums in counted(part.ledger.counted).items():
        yield "RPUSH", f"{homes.of(queue).base}:counting", _encode((micros(at), queue, task, sums))


def _told(homes: Homes, part: Part) -> Iterator[Arguments]:
    """Of runs that have ended, and of those that go on."""
    for id, runs in part.ledger.executions.items():
        base = homes.of(part.jobs[id].queue).base
        for run in runs:
            yield "HSET", f"{base}:exec:{id}", run.number, _encode(run)
    for id in part.ledger.dropped:
        base = homes.of(part.known.known(id).queue).base
        yield "DEL", f"{base}:exec:{id}", f"{base}:log:{id}"
    for id, told in part.ledger.lines.items():
        base = homes.of(part.jobs[id].queue).base
        for (number, n), line in told.items():
            yield "HSETNX", f"{base}:log:{id}", f"{number}:{n}", _encode(line)


def _of_job(
    homes: Homes, known: Known, id: JobId, raw: Raw, old: Job | None, new: Job | None, now: int
) -> Iterator[Arguments]:
    there = None if old is None else homes.of(old.queue)
    here = None if new is None else homes.of(new.queue)
    if old is not None:
        known.touched.add(id)
    if here is not None and here is not there:
        known.fresh.add((id, here))
    if there is not None and here is not there:
        if here is not None:
            yield from _leaving(there.base, here.base, known, id)
        yield from _written(there.base, id, raw, old, None, now)
        raw, old = (None, None, None), None
    if here is not None:
        yield from _written(here.base, id, raw, old, new, now)


def _leaving(there: str, here: str, known: Known, id: JobId) -> Iterator[Arguments]:
    """What is told of a job goes with it. Whoever repeats its enqueue meanwhile finds that it was there."""
    if id not in known.runs:
        raise Wanted("runs", id)
    if id not in known.lines:
        raise Wanted("lines", id)
    for run in known.runs[id]:
        yield "HSET", f"{here}:exec:{id}", run.number, _encode(run)
    if known.lines[id]:
        yield "HSET", f"{here}:log:{id}", *known.lines[id]
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


def _of_keys(homes: Homes, changed: Sequence[tuple[Job | None, Job | None]]) -> Iterator[Arguments]:
    """A key that one of them lets go may be another's now."""
    freed = {key for old, _ in changed if old is not None for key in held_keys(old)}
    taken = {key: packed(new.id) for _, new in changed if new is not None for key in held_keys(new)}
    for key in freed - taken.keys():
        yield "HDEL", f"{homes.keeping(key).base}:key", key
    for key, short in taken.items():
        yield "HSET", f"{homes.keeping(key).base}:key", key, short


def _of_circuits(homes: Homes, known: Known, new: dict[str, Circuit]) -> Iterator[Arguments]:
    """The first home has them, and every home until when those that are open hold back their tasks."""
    old, base = known.circuits or {}, homes.first.base
    before = circuits_of(old)
    texts = {task: _encode(circuit) for task, circuit in new.items()}
    known.turned = {task for task in before.keys() | texts.keys() if old.get(task) != texts.get(task)}
    for task in known.turned:
        if task in texts:
            yield "HSET", f"{base}:circuit", task, texts[task]
        else:
            yield "HDEL", f"{base}:circuit", task
        was = before[task].open_until if task in before else None
        until = new[task].open_until if task in new else None
        if was != until:
            for home in homes.all:
                yield _open(f"{home.base}:open", task, until)


def _open(key: str, task: str, until: datetime | None) -> Arguments:
    return ("HDEL", key, task) if until is None else ("HSET", key, task, micros(until))


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
