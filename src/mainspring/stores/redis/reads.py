"""What each rule reads, named for a whole batch, and the batch read in a few round trips.

A read set is named in stages, since some names follow from values: a key names its holder, which names its schedule.
Each stage is one round trip to every home, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from ...ids import JobId
from ...records.job import Action, NewJob, State
from ...records.outcome import Outcome
from ...records.query import Update
from ...records.run import RunReport
from ...schedule.record import Firing
from .attempts import Attempts
from .index import Arguments
from .known import columns, found_in, merged, named, runs_in, schedule_of
from .records import circuits_of, packed, unpacked
from .shard import Shard, Shards
from .snapshot import Found, Name, Snapshot
from .tables import keys_of
from .two_phase import settle

Item = TypeVar("Item")
Needs = Callable[[Item, Snapshot], Iterator[Name]]
"""The names that an item reads, as far as they follow from what was read already."""

# Round trips that a read set may take: job, its schedule, those that wait on it; one to spare.
MAX_STAGES = 5


# read sets


def of_new_jobs(jobs: Iterable[NewJob], snapshot: Snapshot) -> Iterator[Name]:
    """An enqueue looks at their ids and keys, at the holders of those, and ends holders that have expired."""
    for job in jobs:
        yield Name("job", job.id)
        if job.schedule is not None and not job.detached:
            yield Name("schedule", job.schedule)
        for key in keys_of(job):
            yield from _of_holder(key, snapshot)


def _of_holder(key: str, snapshot: Snapshot) -> Iterator[Name]:
    yield Name("key", key)
    if (held := snapshot.keys.get(key)) is not None:
        yield from _of_job(unpacked(held), snapshot)


def _of_job(id: JobId, snapshot: Snapshot) -> Iterator[Name]:
    """A job that may end, or come back to life: its schedule changes with it."""
    yield Name("job", id)
    if (job := snapshot.job(id)) is not None and job.counted_schedule is not None:
        yield Name("schedule", job.counted_schedule)


def of_outcome(outcome: Outcome, snapshot: Snapshot, repeated: bool) -> Iterator[Name]:
    """`repeated`: the batch has another outcome of that job, and so the second may have come before."""
    yield from _of_job(outcome.id, snapshot)
    yield Name("circuits", "")
    if outcome.schedule is not None:
        yield Name("schedule", outcome.schedule)
    if outcome.id in snapshot.jobs:
        job = snapshot.job(outcome.id)
        if job is None or job.state is not State.RUNNING or job.lease != outcome.lease:
            yield Name("runs", outcome.id)
            return
        if outcome.silent:
            yield Name("worker", job.worker or "")
        if outcome.silent or repeated:
            yield Name("runs", outcome.id)
        if outcome.breaker is not None or job.task in (snapshot.circuits or ()):
            yield Name("circuit", job.task)
    if outcome.state is State.COMPLETED:
        yield from _of_waiting(outcome, snapshot)
    yield from of_new_jobs(outcome.then, snapshot)


def _of_waiting(outcome: Outcome, snapshot: Snapshot) -> Iterator[Name]:
    job = snapshot.job(outcome.id)
    if (series := outcome.schedule if job is None else job.counted_schedule) is not None:
        yield Name("waiting", series)
        yield from (Name("schedule", name) for name in snapshot.waiting.get(series, ()))


def of_report(report: RunReport, snapshot: Snapshot) -> Iterator[Name]:
    yield Name("job", report.id)


def of_firing(firing: Firing, snapshot: Snapshot) -> Iterator[Name]:
    yield Name("schedule", firing.schedule.name)
    yield from (Name("seen", name) for name, _ in firing.reads)
    yield from of_new_jobs(firing.jobs, snapshot)
    for id in firing.cancel:
        yield from _of_job(id, snapshot)


def of_change(homes: Shards, action: Action, update: Update | None, id: JobId, snapshot: Snapshot) -> Iterator[Name]:
    yield from _of_job(id, snapshot)
    if (job := snapshot.job(id)) is None:
        return
    if action is Action.RETRY:
        for key in keys_of(job):
            yield from _of_holder(key, snapshot)
    queue = job.queue if update is None or update.queue is msgspec.UNSET else update.queue
    if homes.of(queue) is not homes.of(job.queue):
        yield Name("runs", id)
        yield Name("lines", id)


# reading


async def read_all(
    homes: Shards, items: Sequence[Item], needs: Needs[Item], lock: str
) -> tuple[Snapshot, list[list[Name]]]:
    """What these items read, and the names of each. `lock` is a step of our own."""
    snapshot, open = Snapshot(), list(range(len(items)))
    names: list[list[Name]] = [[] for _ in items]
    for _ in range(MAX_STAGES):
        missing: dict[Name, None] = {}
        unread = list[int]()
        for n in open:
            names[n] = list(needs(items[n], snapshot))
            lacking = [name for name in names[n] if name not in snapshot]
            if lacking:
                missing.update(dict.fromkeys(lacking))
                unread.append(n)
        if not missing:
            return snapshot, names
        open = unread
        await fetch(homes, snapshot, missing, lock)
    raise AssertionError(f"a read set that takes more than {MAX_STAGES} stages")


Take = Callable[[Any], None]


async def fetch(homes: Shards, snapshot: Snapshot, names: Iterable[Name], lock: str = "") -> None:
    """One round trip to every home that has some of them."""
    wanted: dict[str, list[str]] = {}
    for kind, name in names:
        wanted.setdefault("schedule" if kind == "seen" else kind, []).append(name)
    asked: dict[Shard, list[tuple[Arguments, Take]]] = {}
    for home, command, take in _questions(homes, snapshot, wanted):
        asked.setdefault(home, []).append((command, take))
    ids = wanted.get("job", [])
    which = homes.all if ids else list(asked)
    answers = await homes.each(
        lambda home: _read(homes, home, ids, [command for command, _ in asked.get(home, ())], lock), which
    )
    for home, (_, others) in zip(which, answers, strict=True):
        for (_, take), answer in zip(asked.get(home, ()), others, strict=True):
            take(answer)
    if ids:
        snapshot.jobs |= merged([found for found, _ in answers])


async def _read(
    homes: Shards, home: Shard, ids: Sequence[JobId], commands: Sequence[Arguments], lock: str
) -> tuple[dict[JobId, Found], list[Any]]:
    """Jobs in a cluster are read after the steps that are about to write one of them: what else these wrote may have
    been seen."""
    if not ids:
        return {}, await home.many(commands)
    shorts = [packed(id) for id in ids]
    if len(homes.all) == 1:
        job, run, end, *others = await home.many([*columns(home, shorts), *commands])
        return found_in(ids, (job, run, end)), others
    attempts = Attempts(homes, "reading jobs")
    fields = [f"{home.base}:job\0".encode() + short for short in shorts]
    locks: Arguments = ("HMGET", f"{home.base}:lock", *fields)
    while True:
        job, run, end, steps, *others = await home.many([*columns(home, shorts), locks, *commands])
        if not (met := {step.decode() for step in steps if step is not None} - {lock}):
            return found_in(ids, (job, run, end)), others
        for step in met:
            await settle(homes, home, step)
        await attempts.again()


def _questions(
    homes: Shards, snapshot: Snapshot, wanted: dict[str, list[str]]
) -> Iterator[tuple[Shard, Arguments, Take]]:  # fmt: skip
    first, base = homes.first, homes.first.base
    yield from _keys(homes, snapshot, wanted.get("key", []))
    if names := wanted.get("schedule"):
        yield first, ("HMGET", f"{base}:schedule", *names), lambda texts: _take_schedules(snapshot, names, texts)
    for name in wanted.get("waiting", []):
        yield first, ("SMEMBERS", f"{base}:waits:{name}"), _taking_names(snapshot, name)
    if workers := wanted.get("worker"):
        take_workers: Take = lambda texts: snapshot.workers.update(zip(workers, texts, strict=True))  # noqa: E731
        yield first, ("HMGET", f"{base}:worker", *workers), take_workers
    if "circuits" in wanted:
        yield first, ("HGETALL", f"{base}:circuit"), lambda pairs: _take_circuits(snapshot, pairs)
    for id in wanted.get("runs", []):
        if (job := snapshot.job(id)) is None:
            snapshot.runs[id] = []
        else:
            home = homes.of(job.queue)
            yield home, ("HVALS", f"{home.base}:exec:{id}"), _taking_runs(snapshot, id)
    for id in wanted.get("lines", []):
        job = snapshot.job(id)
        home = homes.of(job.queue) if job is not None else first
        yield home, ("HGETALL", f"{home.base}:log:{id}"), _taking_lines(snapshot, id)


def _keys(homes: Shards, snapshot: Snapshot, names: Sequence[str]) -> Iterator[tuple[Shard, Arguments, Take]]:
    by_home: dict[Shard, list[str]] = {}
    for name in names:
        by_home.setdefault(homes.keeping(name), []).append(name)
    for home, some in by_home.items():
        yield home, ("HMGET", f"{home.base}:key", *some), _taking_keys(snapshot, some)


def _taking_keys(snapshot: Snapshot, names: Sequence[str]) -> Take:
    return lambda ids: snapshot.keys.update(zip(names, ids, strict=True))


def _taking_names(snapshot: Snapshot, name: str) -> Take:
    def take(members: list[bytes]) -> None:
        snapshot.waiting[name] = sorted(member.decode() for member in members)

    return take


def _taking_runs(snapshot: Snapshot, id: JobId) -> Take:
    def take(texts: list[bytes]) -> None:
        snapshot.runs[id] = runs_in(id, snapshot.jobs[id][0], texts)

    return take


def _taking_lines(snapshot: Snapshot, id: JobId) -> Take:
    def take(pairs: list[bytes]) -> None:
        snapshot.lines[id] = pairs

    return take


def _take_schedules(snapshot: Snapshot, names: Sequence[str], texts: Sequence[bytes | None]) -> None:
    for name, text in zip(names, texts, strict=True):
        snapshot.schedules[name] = (text, schedule_of(name, text))


def _take_circuits(snapshot: Snapshot, pairs: Sequence[bytes]) -> None:
    texts = named(pairs)
    found = circuits_of(texts)
    snapshot.circuits = {task: (text, found.get(task)) for task, text in texts.items()}
