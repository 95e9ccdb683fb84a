"""A part of the data in the shape of the memory store, read as its functions ask for it, and what they have changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from ...clock import instant, micros
from ...job import Circuit, Execution, Job, JobId, LiveWorker, LogLine, NewJob, Orders, WorkerInfo
from ...outcome import Outcome
from ...schedule import TICKS_KEPT, Schedule
from ...tally import counted
from ..memory.jobs import Jobs
from ..memory.ledger import Ledger
from ..memory.series import Series
from ..memory.workers import Workers
from .index import Arguments, held_keys, moves
from .pool import Pool
from .records import Raw, claim_of, job_from, last_run, packed, record, unpacked

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_circuit = msgspec.json.Decoder(Circuit).decode
_execution = msgspec.json.Decoder(Execution).decode


# Seconds at most until a verb is played again that somebody else was quicker than: the first time, and ever.
SOONEST, LATEST = 0.0005, 0.05


class Row(msgspec.Struct, frozen=True):
    """A worker as it is kept."""

    until: int
    info: WorkerInfo
    orders: Orders = Orders()


_row = msgspec.json.Decoder(Row).decode


class Wanted(Exception):
    """Something that was not read yet: read it, and begin anew."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(kind, name)
        self.kind, self.name = kind, name


def live(text: bytes) -> LiveWorker:
    row = _row(text)
    return LiveWorker(row.info, instant(row.until), row.orders)


def worker_text(worker: LiveWorker) -> bytes:
    return _encode(Row(micros(worker.until), worker.info, worker.orders))


class Known:
    """What was read, as it was found."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, tuple[Raw, Job | None]] = {}
        self.keys: dict[str, bytes | None] = {}
        self.schedules: dict[str, tuple[bytes | None, Schedule | None]] = {}
        self.waiting: dict[str, list[str]] = {}
        self.circuits: dict[str, bytes] | None = None
        self.workers: dict[str, bytes | None] = {}
        self.runs: dict[JobId, list[Execution]] = {}
        self.touched: set[JobId] = set()
        self.turned: set[str] = set()
        """Jobs and circuits that were changed: whether the others are still as they were decides nothing."""
        self.leaders: dict[str, bytes | None] = {}
        self.meta: dict[str, bytes | None] = {}

    def expected(self, base: str) -> Iterator[tuple[str, str | bytes, bytes | None]]:
        """Every field that has to be as it was read, and its value."""
        for id in self.touched:
            short = packed(id)
            for name, value in zip(("job", "run", "end"), self.jobs[id][0], strict=True):
                yield f"{base}:{name}", short, value
        yield from ((f"{base}:key", key, id) for key, id in self.keys.items())
        yield from ((f"{base}:schedule", name, text) for name, (text, _) in self.schedules.items())
        yield from ((f"{base}:worker", id, text) for id, text in self.workers.items())
        yield from ((f"{base}:leader", name, text) for name, text in self.leaders.items())
        yield from ((f"{base}:meta", name, text) for name, text in self.meta.items())
        yield from ((f"{base}:circuit", task, (self.circuits or {}).get(task)) for task in self.turned)


class PartOfJobs(Jobs):
    def __init__(self, known: Known) -> None:
        super().__init__()
        self.known, self.series = known, PartOfSeries(known)
        for _, job in known.jobs.values():
            if job is not None:
                self.put(job)
        self.gone: set[JobId] = set()

    def _sure(self, id: object) -> None:
        if isinstance(id, str) and id not in self.known.jobs and not dict.__contains__(self, id):
            raise Wanted("job", id)

    def __contains__(self, id: object) -> bool:
        self._sure(id)
        return super().__contains__(id)

    def __getitem__(self, id: JobId) -> Job:
        self._sure(id)
        return super().__getitem__(id)

    def get(self, id: JobId, default: Any = None) -> Any:
        self._sure(id)
        return super().get(id, default)

    def put(self, job: Job) -> None:
        self.known.jobs.setdefault(job.id, ((None, None, None), None))
        super().put(job)

    def holder(self, job: NewJob | Job) -> tuple[str | None, Job | None]:
        for key in _keys(job):
            if key not in self.known.keys:
                raise Wanted("key", key)
            if (held := self.known.keys[key]) is not None:
                self._sure(unpacked(held))
        return super().holder(job)


def _keys(job: NewJob | Job) -> Iterator[str]:
    if job.unique_key is not None:
        yield f"u{job.unique_key}"
    if job.idempotency_key is not None:
        yield f"i{job.idempotency_key}"


class _Rows(dict[str, Schedule]):
    def __init__(self, known: Known) -> None:
        super().__init__({name: row for name, (_, row) in known.schedules.items() if row is not None})
        self._known = known

    def _sure(self, name: object) -> None:
        if isinstance(name, str) and name not in self._known.schedules:
            raise Wanted("schedule", name)

    def __contains__(self, name: object) -> bool:
        self._sure(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Schedule:
        self._sure(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._sure(name)
        return super().get(name, default)


class PartOfSeries(Series):
    def __init__(self, known: Known) -> None:
        super().__init__()
        self._known, self.rows = known, _Rows(known)

    def waiting(self, name: str) -> list[Schedule]:
        if name not in self._known.waiting:
            raise Wanted("waiting", name)
        rows = [self.rows.get(one) for one in self._known.waiting[name]]
        return [row for row in rows if row is not None and row.waits_on == name]


class _Circuits(dict[str, Circuit]):
    """All of them or none: they are few, and a claim looks at each."""

    def __init__(self, known: Known) -> None:
        super().__init__({task: _circuit(text) for task, text in (known.circuits or {}).items()})
        self._known = known

    def _sure(self) -> None:
        if self._known.circuits is None:
            raise Wanted("circuits", "")

    def __getitem__(self, task: str) -> Circuit:
        self._sure()
        return super().__getitem__(task)

    def get(self, task: str, default: Any = None) -> Any:
        self._sure()
        return super().get(task, default)

    def values(self) -> Any:
        self._sure()
        return super().values()


class PartOfLedger(Ledger):
    def __init__(self, known: Known) -> None:
        super().__init__()
        self._known, self.circuits = known, _Circuits(known)
        self.counted: list[Outcome] = []
        self.dropped: set[JobId] = set()

    def runs(self, id: JobId) -> Iterator[Execution]:
        yield from self.executions.get(id, ())
        if id not in self._known.runs:
            raise Wanted("runs", id)
        yield from self._known.runs[id]

    def count(self, outcomes: Sequence[Outcome]) -> None:
        self.counted += outcomes

    def drop(self, id: JobId) -> None:
        super().drop(id)
        self.dropped.add(id)


class PartOfWorkers(Workers):
    def __init__(self, known: Known) -> None:
        super().__init__({id: live(text) for id, text in known.workers.items() if text is not None})
        self._known = known

    def alive(self, worker: str, now: datetime) -> bool:
        if worker not in self._known.workers:
            raise Wanted("worker", worker)
        return super().alive(worker, now)


class Part:
    """What a verb is played on."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.jobs, self.ledger, self.workers = PartOfJobs(known), PartOfLedger(known), PartOfWorkers(known)
        self.paused: set[str] = set()


async def play(
    pool: Pool,
    verb: Callable[[Part], T],
    now: datetime,
    prepare: Callable[[Known], Awaitable[None]],
    word: str = "new final",
) -> T:
    """The verb's answer, once what it changed is written. It is played as often as it asks for more than was prepared,
    or as somebody else was quicker."""
    wait = SOONEST
    while True:
        known = Known()
        await prepare(known)
        answer, commands = await _played(pool, verb, now, known)
        if not commands or await commit(pool, known, commands, word):
            return answer
        await asyncio.sleep(random.uniform(0, wait))
        wait = min(2 * wait, LATEST)


async def _played(pool: Pool, verb: Callable[[Part], T], now: datetime, known: Known) -> tuple[T, list[Arguments]]:
    while True:
        try:
            part = Part(known)
            answer = verb(part)
            return answer, list(changes(pool.place.base, part, micros(now)))
        except Wanted as wanted:
            await load(pool, known, wanted.kind, [wanted.name])


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


# reading


async def load(pool: Pool, known: Known, kind: str, names: Iterable[str]) -> None:
    base, names = pool.place.base, list(names)
    match kind:
        case "job":
            known.jobs |= await read_jobs(pool, names)
        case "key":
            found = await pool.call("HMGET", f"{base}:key", *names)
            known.keys |= zip(names, found, strict=True)
            holders = [unpacked(id) for id in found if id is not None]
            await load(pool, known, "job", [id for id in holders if id not in known.jobs])
        case "schedule":
            found = await pool.call("HMGET", f"{base}:schedule", *names)
            for name, text in zip(names, found, strict=True):
                known.schedules[name] = (text, None if text is None else _schedule(text))
        case "waiting":
            for name in names:
                known.waiting[name] = sorted(
                    one.decode() for one in await pool.call("SMEMBERS", f"{base}:waits:{name}")
                )
        case "circuits":
            known.circuits = await read_hash(pool, f"{base}:circuit")
        case "worker":
            known.workers |= zip(names, await pool.call("HMGET", f"{base}:worker", *names), strict=True)
        case _:
            for id in names:
                known.runs[id] = await executions(pool, id, known.jobs.get(id))


async def read_hash(pool: Pool, key: str) -> dict[str, bytes]:
    found = await pool.call("HGETALL", key)
    return {field.decode(): value for field, value in zip(found[::2], found[1::2], strict=True)}


async def read_jobs(pool: Pool, ids: Sequence[JobId]) -> dict[JobId, tuple[Raw, Job | None]]:
    """The jobs of these ids as they are at one moment, each with what it was read from."""
    if not ids:
        return {}
    base, shorts = pool.place.base, [packed(id) for id in ids]
    columns = await pool.many([("HMGET", f"{base}:{name}", *shorts) for name in ("job", "run", "end")])
    raws: dict[JobId, Raw] = dict(zip(ids, zip(*columns, strict=True), strict=True))
    return {id: (raw, job_from(id, raw)) for id, raw in raws.items()}


async def executions(pool: Pool, id: JobId, found: tuple[Raw, Job | None] | None = None) -> list[Execution]:
    raw, _ = found or (await read_jobs(pool, [id]))[id]
    kept = await pool.call("HVALS", f"{pool.place.base}:exec:{id}")
    runs = {run.number: run for run in map(_execution, kept)}
    if (last := last_run(id, raw)) is not None:
        runs.setdefault(last.number, last)
    return [runs[number] for number in sorted(runs)]
