"""What a verb has read of Redis, as it was found, and the ways to read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ...clock import instant, micros
from ...job import Execution, Job, JobId, LiveWorker, Orders, WorkerInfo
from ...schedule import Schedule
from .pool import Pool
from .records import Raw, job_from, last_run, packed, unpacked

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode
_execution = msgspec.json.Decoder(Execution).decode


class Row(msgspec.Struct, frozen=True):
    """A worker as it is kept."""

    until: int
    info: WorkerInfo
    orders: Orders = Orders()


_row = msgspec.json.Decoder(Row).decode


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
