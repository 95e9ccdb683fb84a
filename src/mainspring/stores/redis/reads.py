"""Reads the read set of a batch into a snapshot: each stage is one round trip to every shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ...ids import JobId
from ...records.job import Action
from ...records.query import Update
from ..rules.read_sets import Item, KnownValues, Name, Needs, ReadSet, of_change
from .attempts import Attempts
from .hashes import to_dict
from .index import Command
from .job_reads import columns, found_in, merge_shards
from .records import circuits_of, packed, schedule_of
from .run_reads import runs_in
from .shard import Shard, Shards
from .snapshot import Found, Snapshot
from .two_phase import job_locks, resolve, transactions_in


def of_moving_change(
    shards: Shards, action: Action, update: Update | None, id: JobId, known: KnownValues
) -> Iterator[Name]:
    """What a change reads; a move to another shard also reads runs and log lines."""
    yield from of_change(action, id, known)
    if (job := known.known_job(id)) is None:
        return
    queue = job.queue if update is None or update.queue is msgspec.UNSET else update.queue
    if shards.of(queue) is not shards.of(job.queue):
        yield Name("runs", id)
        yield Name("lines", id)


async def read_all(
    shards: Shards, items: Sequence[Item], needs: Needs[Item], lock: str
) -> tuple[Snapshot, list[list[Name]]]:
    """A snapshot of everything that these items read, and the names of each. `lock` is the caller's own lock."""
    snapshot, reads = Snapshot(), ReadSet(items, needs)
    while missing := reads.missing(snapshot):
        await fetch(shards, snapshot, missing, lock)
    return snapshot, reads.names


Receive = Callable[[Any], None]
"""Puts the reply to a command into the snapshot."""


_STORED_AS = {"seen_job": "job", "fired_schedule": "schedule", "seen_schedule": "schedule"}


async def fetch(shards: Shards, snapshot: Snapshot, names: Iterable[Name], lock: str = "") -> None:
    """Reads these names into the snapshot: one round trip to every shard that has some of them."""
    wanted: dict[str, dict[str, None]] = {}
    for kind, name in names:
        names_of = wanted.setdefault(_STORED_AS.get(kind, kind), {})
        names_of[name] = None
    commands_of: dict[Shard, list[tuple[Command, Receive]]] = {}
    lists = {kind: list(some) for kind, some in wanted.items()}
    for shard, command, receive in _queries(shards, snapshot, lists):
        commands_of.setdefault(shard, []).append((command, receive))
    ids = lists.get("job", [])
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
    while True:
        job, run, end, locks, *others = await shard.multi(
            [*columns(shard, shorts), job_locks(shard, shorts), *commands]
        )
        if not (rivals := transactions_in(locks) - {lock}):
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
        if (job := snapshot.known_job(id)) is None:
            snapshot.runs[id] = []
        else:
            shard = shards.of(job.queue)
            yield shard, ("HVALS", f"{shard.base}:exec:{id}"), _receive_runs(snapshot, id)
    for id in wanted.get("lines", []):
        job = snapshot.known_job(id)
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
