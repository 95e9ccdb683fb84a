"""Read sets: the names of everything that a rule reads, for a whole batch, and how they are read.

A read set is named in stages, since some names follow from values: a key leads to its holder, which leads to its
schedule. Each stage is one round trip to every shard, whatever the size of the batch.
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
from .index import Command
from .known import columns, found_in, merge_shards, runs_in, schedule_of, to_dict
from .records import circuits_of, packed, unpacked
from .shard import Shard, Shards
from .snapshot import Found, Name, Snapshot
from .tables import keys_of
from .two_phase import resolve

Item = TypeVar("Item")
Needs = Callable[[Item, Snapshot], Iterator[Name]]
"""The names that an item reads, as far as they are known from the snapshot."""

# Stages of a read set, at most: a job, its schedule, the names that wait on it, their schedules; one to spare.
MAX_STAGES = 5


# read sets


def of_new_jobs(jobs: Iterable[NewJob], snapshot: Snapshot) -> Iterator[Name]:
    """An enqueue reads the ids and keys of new jobs and the holders of the keys, and ends holders that have expired."""
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
    """A job that may end or be revived, and its schedule, which changes with it."""
    yield Name("job", id)
    if (job := snapshot.job(id)) is not None and job.counted_schedule is not None:
        yield Name("schedule", job.counted_schedule)


def of_outcome(outcome: Outcome, snapshot: Snapshot, repeated: bool) -> Iterator[Name]:
    """`repeated`: the batch has another outcome for that job, so one of them may be a duplicate."""
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
    """A report reads its job."""
    yield Name("job", report.id)


def of_firing(firing: Firing, snapshot: Snapshot) -> Iterator[Name]:
    """A firing reads its schedule, the schedules in `reads`, and what its jobs and cancels read."""
    yield Name("schedule", firing.schedule.name)
    yield from (Name("seen", name) for name, _ in firing.reads)
    yield from of_new_jobs(firing.jobs, snapshot)
    for id in firing.cancel:
        yield from _of_job(id, snapshot)


def of_change(shards: Shards, action: Action, update: Update | None, id: JobId, snapshot: Snapshot) -> Iterator[Name]:
    """A change reads the job and its schedule; a retry its keys; a move to another shard its runs and log lines."""
    yield from _of_job(id, snapshot)
    if (job := snapshot.job(id)) is None:
        return
    if action is Action.RETRY:
        for key in keys_of(job):
            yield from _of_holder(key, snapshot)
    queue = job.queue if update is None or update.queue is msgspec.UNSET else update.queue
    if shards.of(queue) is not shards.of(job.queue):
        yield Name("runs", id)
        yield Name("lines", id)


# reading


async def read_all(
    shards: Shards, items: Sequence[Item], needs: Needs[Item], lock: str
) -> tuple[Snapshot, list[list[Name]]]:
    """A snapshot of everything that these items read, and the names of each. `lock` is the caller's own lock."""
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
        await fetch(shards, snapshot, missing, lock)
    raise AssertionError(f"a read set that takes more than {MAX_STAGES} stages")


Receive = Callable[[Any], None]
"""Puts the reply to a command into the snapshot."""


async def fetch(shards: Shards, snapshot: Snapshot, names: Iterable[Name], lock: str = "") -> None:
    """Reads these names into the snapshot: one round trip to every shard that has some of them."""
    wanted: dict[str, list[str]] = {}
    for kind, name in names:
        wanted.setdefault("schedule" if kind == "seen" else kind, []).append(name)
    commands_of: dict[Shard, list[tuple[Command, Receive]]] = {}
    for shard, command, receive in _queries(shards, snapshot, wanted):
        commands_of.setdefault(shard, []).append((command, receive))
    ids = wanted.get("job", [])
    which = shards.all if ids else list(commands_of)
    answers = await shards.each(
        lambda shard: _read(shards, shard, ids, [command for command, _ in commands_of.get(shard, ())], lock), which
    )
    for shard, (_, others) in zip(which, answers, strict=True):
        for (_, receive), answer in zip(commands_of.get(shard, ()), others, strict=True):
            receive(answer)
    if ids:
        snapshot.jobs |= merge_shards([found for found, _ in answers])


async def _read(
    shards: Shards, shard: Shard, ids: Sequence[JobId], commands: Sequence[Command], lock: str
) -> tuple[dict[JobId, Found], list[Any]]:
    """Jobs, and the replies to other commands.

    In a cluster, transactions that write one of the jobs are resolved first: other shards may show what they wrote.
    """
    if not ids:
        return {}, await shard.multi(commands)
    shorts = [packed(id) for id in ids]
    if len(shards.all) == 1:
        job, run, end, *others = await shard.multi([*columns(shard, shorts), *commands])
        return found_in(ids, (job, run, end)), others
    attempts = Attempts(shards, "reading jobs")
    fields = [f"{shard.base}:job\0".encode() + short for short in shorts]
    locks: Command = ("HMGET", f"{shard.base}:lock", *fields)
    while True:
        job, run, end, transactions, *others = await shard.multi([*columns(shard, shorts), locks, *commands])
        if not (rivals := {transaction.decode() for transaction in transactions if transaction is not None} - {lock}):
            return found_in(ids, (job, run, end)), others
        for transaction in rivals:
            await resolve(shards, shard, transaction)
        await attempts.pause()


def _queries(
    shards: Shards, snapshot: Snapshot, wanted: dict[str, list[str]]
) -> Iterator[tuple[Shard, Command, Receive]]:
    """For each shard the commands that read these names, and what to do with the replies."""
    first, base = shards.first, shards.first.base
    yield from _keys(shards, snapshot, wanted.get("key", []))
    if names := wanted.get("schedule"):
        yield first, ("HMGET", f"{base}:schedule", *names), lambda texts: _receive_schedules(snapshot, names, texts)
    for name in wanted.get("waiting", []):
        yield first, ("SMEMBERS", f"{base}:waits:{name}"), _receive_names(snapshot, name)
    if workers := wanted.get("worker"):
        receive_workers: Receive = lambda texts: snapshot.workers.update(zip(workers, texts, strict=True))  # noqa: E731
        yield first, ("HMGET", f"{base}:worker", *workers), receive_workers
    if "circuits" in wanted:
        yield first, ("HGETALL", f"{base}:circuit"), lambda pairs: _receive_circuits(snapshot, pairs)
    for id in wanted.get("runs", []):
        if (job := snapshot.job(id)) is None:
            snapshot.runs[id] = []
        else:
            shard = shards.of(job.queue)
            yield shard, ("HVALS", f"{shard.base}:exec:{id}"), _receive_runs(snapshot, id)
    for id in wanted.get("lines", []):
        job = snapshot.job(id)
        shard = shards.of(job.queue) if job is not None else first
        yield shard, ("HGETALL", f"{shard.base}:log:{id}"), _receive_lines(snapshot, id)


def _keys(shards: Shards, snapshot: Snapshot, names: Sequence[str]) -> Iterator[tuple[Shard, Command, Receive]]:
    by_shard: dict[Shard, list[str]] = {}
    for name in names:
        by_shard.setdefault(shards.of_key(name), []).append(name)
    for shard, some in by_shard.items():
        yield shard, ("HMGET", f"{shard.base}:key", *some), _receive_keys(snapshot, some)


def _receive_keys(snapshot: Snapshot, names: Sequence[str]) -> Receive:
    return lambda ids: snapshot.keys.update(zip(names, ids, strict=True))


def _receive_names(snapshot: Snapshot, name: str) -> Receive:
    def receive(members: list[bytes]) -> None:
        snapshot.waiting[name] = sorted(member.decode() for member in members)

    return receive


def _receive_runs(snapshot: Snapshot, id: JobId) -> Receive:
    def receive(texts: list[bytes]) -> None:
        snapshot.runs[id] = runs_in(id, snapshot.jobs[id][0], texts)

    return receive


def _receive_lines(snapshot: Snapshot, id: JobId) -> Receive:
    def receive(pairs: list[bytes]) -> None:
        snapshot.lines[id] = pairs

    return receive


def _receive_schedules(snapshot: Snapshot, names: Sequence[str], texts: Sequence[bytes | None]) -> None:
    for name, text in zip(names, texts, strict=True):
        snapshot.schedules[name] = (text, schedule_of(name, text))


def _receive_circuits(snapshot: Snapshot, pairs: Sequence[bytes]) -> None:
    texts = to_dict(pairs)
    found = circuits_of(texts)
    snapshot.circuits = {task: (text, found.get(task)) for task, text in texts.items()}
