"""Reads the read set of a batch into a snapshot: each stage is one round trip to every shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...ids import JobId
from ...records.job import Action
from ...records.query import Update
from ..rules.read_sets import Item, Kind, KnownValues, Name, Needs, ReadSet, of_change
from .attempts import Attempts
from .flow_rows import NO_FLOW, flow_row, range_of, with_items
from .hashes import to_dict
from .index import Command
from .job_reads import columns, found_in, merge_shards
from .records import circuits_of, packed, schedule_of, unpacked
from .run_reads import runs_in
from .shard import Shard, Shards
from .snapshot import Found, Snapshot
from .two_phase import flow_locks, job_locks, resolve, transactions_in


def of_moving_change(
    shards: Shards, action: Action, update: Update | None, id: JobId, known: KnownValues
) -> Iterator[Name]:
    """What a change reads; a move to another shard also reads runs, log lines and checkpoints, and a deletion the job's
    flow."""
    yield from of_change(action, id, known)
    if action is Action.DELETE:
        yield Name("flow", id)
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


# Jobs of steps read per round trip: a page of flows that are deleted may have very many.
MAX_STEP_JOBS = 5_000
STEP_KINDS: tuple[Kind, ...] = ("unfinished_steps", "failed_steps", "all_steps")
_STORED_AS = {"seen_job": "job", "fired_schedule": "schedule", "seen_schedule": "schedule"}


async def fetch(shards: Shards, snapshot: Snapshot, names: Iterable[Name], lock: str = "") -> None:
    """Reads these names into the snapshot: one round trip to every shard that has some of them."""
    wanted: dict[str, dict[str, None]] = {}
    for kind, name in names:
        names_of = wanted.setdefault(_STORED_AS.get(kind, kind), {})
        names_of[name] = None
    commands_of: dict[Shard, list[tuple[Command, Receive]]] = {}
    lists = {kind: list(some) for kind, some in wanted.items()}
    flows = lists.get("flow", [])
    for shard, command, receive in _queries(shards, snapshot, lists):
        commands_of.setdefault(shard, []).append((command, receive))
    ids = lists.get("job", [])
    which = shards.all if ids or flows else list(commands_of)
    answers = await shards.each(
        lambda shard: _read(shards, shard, ids, flows, [command for command, _ in commands_of.get(shard, ())], lock),
        which,
    )
    for shard, (_, others) in zip(which, answers, strict=True):
        for (_, receive), answer in zip(commands_of.get(shard, ()), others, strict=True):
            receive(answer)
    if ids:
        snapshot.jobs |= merge_shards([found for found, _ in answers])
    for id in flows:
        row = snapshot.flows.get(id, NO_FLOW)
        snapshot.flows[id] = with_items(id, row, snapshot.items[id]) if id in snapshot.items else row
    if names_of_steps := [Name(kind, name) for kind in STEP_KINDS for name in lists.get(kind, ())]:
        await _fetch_steps(shards, snapshot, names_of_steps, lock)


async def _read(
    shards: Shards,
    shard: Shard,
    ids: Sequence[JobId],
    flows: Sequence[JobId],
    commands: Sequence[Command],
    lock: str,
) -> tuple[dict[JobId, Found], list[Any]]:
    """Jobs, and the replies to other commands, also to those that read flows.

    In a cluster, transactions that write one of these jobs or flows are resolved first: other shards may show what they
    wrote.
    """
    shorts = [packed(id) for id in ids]
    read = columns(shard, shorts) if ids else []
    if len(shards.all) == 1:
        replies = await shard.multi([*read, *commands])
        return (found_in(ids, replies[:3]) if ids else {}), replies[len(read) :]
    locks = [job_locks(shard, shorts)] if ids else []
    locks += [flow_locks(shard, flows)] if flows else []
    attempts = Attempts(shards, "reading jobs")
    while True:
        replies = await shard.multi([*locks, *read, *commands])
        held, replies = replies[: len(locks)], replies[len(locks) :]
        if not (rivals := {one for some in held for one in transactions_in(some)} - {lock}):
            return (found_in(ids, replies[:3]) if ids else {}), replies[len(read) :]
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
    if flows := wanted.get("flow"):
        yield from _flows(shards, snapshot, flows)
    for id in wanted.get("lines", []):
        job = snapshot.known_job(id)
        shard = shards.of(job.queue) if job is not None else first
        yield shard, ("HGETALL", f"{shard.base}:log:{id}"), _receive_pairs(snapshot.lines, id)
        yield shard, ("HGETALL", f"{shard.base}:output:{id}"), _receive_pairs(snapshot.chunks, id)
        yield shard, ("HGETALL", f"{shard.base}:checkpoint:{id}"), _receive_pairs(snapshot.checkpoints, id)


def _keys(shards: Shards, snapshot: Snapshot, names: Sequence[str]) -> Iterator[tuple[Shard, Command, Receive]]:
    by_shard: dict[Shard, list[str]] = {}
    for name in names:
        by_shard.setdefault(shards.of_key(name), []).append(name)
    for shard, some in by_shard.items():
        yield shard, ("HMGET", f"{shard.base}:key", *some), _receive_keys(snapshot, some)


def _flows(shards: Shards, snapshot: Snapshot, ids: Sequence[str]) -> Iterator[tuple[Shard, Command, Receive]]:
    """A flow stays in the shard where it began: all are asked, as for jobs."""
    new = [id for id in ids if not shards.graphs.has_whole(id)]
    for shard in shards.all:
        plans: dict[JobId, bytes | None] = {}
        if new:
            yield shard, ("HMGET", f"{shard.base}:plan", *new), _receive_plans(plans, new)
        yield shard, ("HMGET", f"{shard.base}:flow", *ids), _receive_flows(shards, shard, snapshot, ids, plans)
        yield shard, ("HMGET", f"{shard.base}:items", *ids), _receive_items(shard, snapshot, ids)


def _receive_plans(plans: dict[JobId, bytes | None], ids: Sequence[str]) -> Receive:
    return lambda texts: plans.update(zip(ids, texts, strict=True))


def _receive_flows(
    shards: Shards, shard: Shard, snapshot: Snapshot, ids: Sequence[str], plans: Mapping[JobId, bytes | None]
) -> Receive:
    def receive(texts: list[bytes | None]) -> None:
        for id, text in zip(ids, texts, strict=True):
            if text is not None:
                snapshot.flows[id] = flow_row(id, shard, text, plans.get(id), shards.graphs)

    return receive


def _receive_items(shard: Shard, snapshot: Snapshot, ids: Sequence[str]) -> Receive:
    def receive(texts: list[bytes | None]) -> None:
        for id, text in zip(ids, texts, strict=True):
            if text is not None:
                snapshot.items.setdefault(id, {})[shard.base] = text

    return receive


async def _fetch_steps(shards: Shards, snapshot: Snapshot, names: Sequence[Name], lock: str) -> None:
    """Reads the jobs of steps: one more round trip for their sets, and one for those jobs that are not read yet."""
    ranges = [range_of(name) for name in names]
    asked = [[command for wanted in ranges for command in wanted.commands(shard)] for shard in shards.all]
    answers = await shards.each(lambda shard: shard.multi(asked[shards.all.index(shard)]))
    at = 0
    for name, wanted in zip(names, ranges, strict=True):
        end = at + len(wanted.sets)
        entries = sorted(entry for sets in answers for some in sets[at:end] for entry in some)
        snapshot.steps[name] = [unpacked(entry[8:]) for entry in entries[: wanted.limit]]
        at = end
    ids = dict.fromkeys(id for name in names for id in snapshot.steps[name] if id not in snapshot.jobs)
    left = list(ids)
    for start in range(0, len(left), MAX_STEP_JOBS):
        await fetch(shards, snapshot, [Name("job", id) for id in left[start : start + MAX_STEP_JOBS]], lock)


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


def _receive_pairs(found: dict[JobId, list[bytes]], id: JobId) -> Receive:
    def receive(pairs: list[bytes]) -> None:
        found[id] = pairs

    return receive


def _receive_schedules(snapshot: Snapshot, names: Sequence[str], texts: Sequence[bytes | None]) -> None:
    for name, text in zip(names, texts, strict=True):
        snapshot.schedules[name] = (text, schedule_of(name, text))


def _receive_circuits(snapshot: Snapshot, pairs: Sequence[bytes]) -> None:
    texts = to_dict(pairs)
    found = circuits_of(texts)
    snapshot.circuits = {task: (text, found.get(task)) for task, text in texts.items()}
