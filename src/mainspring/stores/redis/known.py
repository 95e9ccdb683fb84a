"""What a verb has read of Redis, as it was found, and the ways to read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ...clock import instant, micros
from ...job import Execution, Job, JobId, LiveWorker, LogLine, Orders, WorkerInfo
from ...schedule import Schedule
from ..unreadable import readable
from .home import Home, Homes
from .records import Raw, job_from, last_run, packed, unpacked
from .step import settle

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_line = msgspec.json.Decoder(LogLine).decode
_execution = msgspec.json.Decoder(Execution).decode


Found = tuple[Raw, Job | None]


class Row(msgspec.Struct, frozen=True):
    """A worker as it is kept."""

    until: int
    info: WorkerInfo
    orders: Orders = Orders()


_row = msgspec.json.Decoder(Row).decode


def live(text: bytes) -> LiveWorker:
    row = _row(text)
    return LiveWorker(row.info, instant(row.until), row.orders)


def workers_of(texts: Mapping[str, bytes | None]) -> dict[str, LiveWorker]:
    """Those whose rows can be decoded, by id."""
    rows = [(id, (id, text)) for id, text in texts.items() if text is not None]
    return dict(readable("worker", rows, lambda row: (row[0], live(row[1]))))


def schedule_of(name: str, text: bytes | None) -> Schedule | None:
    """None if there is none, or it cannot be decoded."""
    return None if text is None else next(iter(readable("schedule", [(name, text)], _schedule)), None)


def worker_text(worker: LiveWorker) -> bytes:
    return _encode(Row(micros(worker.until), worker.info, worker.orders))


class Known:
    """What was read, as it was found."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Found] = {}
        self.keys: dict[str, bytes | None] = {}
        self.schedules: dict[str, tuple[bytes | None, Schedule | None]] = {}
        self.waiting: dict[str, list[str]] = {}
        self.circuits: dict[str, bytes] | None = None
        self.workers: dict[str, bytes | None] = {}
        self.runs: dict[JobId, list[Execution]] = {}
        self.lines: dict[JobId, list[bytes]] = {}
        """Of a job that moves to another home, as fields and values in turn."""
        self.touched: set[JobId] = set()
        self.turned: set[str] = set()
        """Jobs and circuits that were changed: whether the others are still as they were decides nothing."""
        self.fresh: set[tuple[JobId, Home]] = set()
        """Where jobs must not be yet."""
        self.leaders: dict[str, bytes | None] = {}

    def known(self, id: JobId) -> Job:
        job = self.jobs[id][1]
        assert job is not None
        return job

    def expected(self, homes: Homes) -> Iterator[tuple[str, str | bytes, bytes | None]]:
        """Every field that has to be as it was read, and its value."""
        for raw, job in (self.jobs[id] for id in self.touched):
            if job is not None:
                for name, value in zip(("job", "run", "end"), raw, strict=True):
                    yield f"{homes.of(job.queue).base}:{name}", packed(job.id), value
        yield from ((f"{home.base}:job", packed(id), None) for id, home in self.fresh)
        yield from ((f"{homes.keeping(key).base}:key", key, id) for key, id in self.keys.items())
        base = homes.first.base
        yield from ((f"{base}:schedule", name, text) for name, (text, _) in self.schedules.items())
        yield from ((f"{base}:worker", id, text) for id, text in self.workers.items())
        yield from ((f"{base}:leader", name, text) for name, text in self.leaders.items())
        yield from ((f"{base}:circuit", task, (self.circuits or {}).get(task)) for task in self.turned)


async def load(homes: Homes, known: Known, kind: str, names: Iterable[str]) -> None:
    home, names = homes.first, list(names)
    base = home.base
    match kind:
        case "job":
            known.jobs |= await _read_settled(homes, names)
        case "key":
            known.keys |= await _read_keys(homes, names)
            holders = {unpacked(held) for name in names if (held := known.keys[name]) is not None}
            await load(homes, known, "job", [id for id in holders if id not in known.jobs])
        case "schedule":
            found = await home.call("HMGET", f"{base}:schedule", *names)
            for name, text in zip(names, found, strict=True):
                known.schedules[name] = (text, schedule_of(name, text))
        case "waiting":
            for name in names:
                known.waiting[name] = sorted(
                    one.decode() for one in await home.call("SMEMBERS", f"{base}:waits:{name}")
                )
        case "circuits":
            known.circuits = await read_hash(home, f"{base}:circuit")
        case "worker":
            known.workers |= zip(names, await home.call("HMGET", f"{base}:worker", *names), strict=True)
        case "lines":
            for id in names:
                old = homes.of(known.known(id).queue)
                known.lines[id] = await old.call("HGETALL", f"{old.base}:log:{id}")
        case _:
            for id in names:
                known.runs[id] = await executions(homes, id, known.jobs.get(id))


async def _read_keys(homes: Homes, names: Iterable[str]) -> dict[str, bytes | None]:
    by_home: dict[Home, list[str]] = {}
    for name in names:
        by_home.setdefault(homes.keeping(name), []).append(name)
    answers = await homes.each(lambda home: home.call("HMGET", f"{home.base}:key", *by_home[home]), by_home)
    found: dict[str, bytes | None] = {}
    for some, ids in zip(by_home.values(), answers, strict=True):
        found |= zip(some, ids, strict=True)
    return found


async def read_hash(home: Home, key: str) -> dict[str, bytes]:
    return named(await home.call("HGETALL", key))


def named(pairs: Sequence[bytes]) -> dict[str, bytes]:
    return {field.decode(): value for field, value in zip(pairs[::2], pairs[1::2], strict=True)}


async def read_jobs(homes: Homes, ids: Sequence[JobId]) -> dict[JobId, Found]:
    """The jobs of these ids as they are at one moment in each home, each with what it was read from."""
    return _merged(await homes.each(lambda home: read_home(home, ids)))


def _merged(parts: Sequence[dict[JobId, Found]]) -> dict[JobId, Found]:
    found = parts[0]
    for some in parts[1:]:
        found |= {id: one for id, one in some.items() if one[1] is not None}
    return found


async def read_home(home: Home, ids: Sequence[JobId]) -> dict[JobId, Found]:
    """The same of one home only."""
    if not ids:
        return {}
    shorts = [packed(id) for id in ids]
    return _found(ids, await home.many(_columns(home, shorts)))


def _columns(home: Home, shorts: Sequence[bytes]) -> list[tuple[str | bytes, ...]]:
    return [("HMGET", f"{home.base}:{name}", *shorts) for name in ("job", "run", "end")]


def _found(ids: Sequence[JobId], columns: Sequence[Sequence[bytes | None]]) -> dict[JobId, Found]:
    raws: dict[JobId, Raw] = dict(zip(ids, zip(*columns, strict=True), strict=True))
    return {id: (raw, job_from(id, raw)) for id, raw in raws.items()}


async def _read_settled(homes: Homes, ids: Sequence[JobId]) -> dict[JobId, Found]:
    """As read_jobs, after the steps that are about to write one of them: what else they wrote may have been seen."""
    if len(homes.all) == 1 or not ids:
        return await read_jobs(homes, ids)
    shorts = [packed(id) for id in ids]

    async def read(home: Home) -> dict[JobId, Found]:
        fields = [f"{home.base}:job\0".encode() + short for short in shorts]
        while True:
            *columns, steps = await home.many([*_columns(home, shorts), ("HMGET", f"{home.base}:lock", *fields)])
            if not (locks := {step for step in steps if step is not None}):
                return _found(ids, columns)
            for step in locks:
                await settle(homes, home, step.decode())

    return _merged(await homes.each(read))


async def executions(homes: Homes, id: JobId, found: Found | None = None) -> list[Execution]:
    raw, job = found or (await read_jobs(homes, [id]))[id]
    if job is None:
        return []
    home = homes.of(job.queue)
    texts = await read_hash(home, f"{home.base}:exec:{id}")
    runs = {run.number: run for run in readable(f"run of job {id}", texts.items(), _execution)}
    if (last := last_run(id, raw)) is not None:
        runs.setdefault(last.number, last)
    return [runs[number] for number in sorted(runs)]


async def lines(homes: Homes, id: JobId) -> list[LogLine]:
    _, job = (await read_jobs(homes, [id]))[id]
    if job is None:
        return []
    home = homes.of(job.queue)
    return readable(f"log line of job {id}", (await read_hash(home, f"{home.base}:log:{id}")).items(), _line)
