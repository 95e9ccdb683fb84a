"""Optimistic transactions: a rule runs on a snapshot, and its changes are written.

They are written only if the values that decided them are unchanged; else the rule runs again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from ...clock import micros
from ..rules.flows import settle_flows
from ..rules.loaded import LoadedTables
from ..rules.read_sets import Item, Name, Needs
from .attempts import Attempts
from .diff import unit_of
from .reads import fetch, read_all
from .shard import Shards
from .snapshot import Snapshot
from .two_phase import Condition, Unit, commit, locked

Answer = TypeVar("Answer")

# Items read and written together. A commit splits them further if they are large.
MAX_ITEMS = 500
# Races that an item loses before its fields are locked for it.
MAX_RACES = 3
# Fields locked at a time.
MAX_LOCKED = 500
# Kinds of names that couple items: items with such a name in common run in order and are written together.
COUPLING = {
    "job": "job",
    "seen_job": "job",
    "key": "key",
    "schedule": "schedule",
    "fired_schedule": "schedule",
    "circuit": "circuit",
    "flow": "flow",
}
SHARED = {"seen_schedule": "schedule", "worker": "worker"}


class Proposal(NamedTuple, Generic[Answer]):
    """A unit to write, and the answers for some of the items, by their numbers, once it is written."""

    numbers: Sequence[int]
    answers: Sequence[Answer]
    unit: Unit


async def transact(
    shards: Shards,
    action: str,
    items: Sequence[Item],
    needs: Needs[Item],
    rule: Callable[[LoadedTables, Item], Answer],
    now: datetime,
    topic: str = "new final",
    before: Callable[[], object] = lambda: None,
) -> list[Answer]:
    """The rule's answer for each item, once its changes are written. `before` is called before every commit.

    Items without names in common are written independently, so that a lost race repeats only one of them.
    """
    answers: list[Answer] = []
    now_us = micros(now)
    for start in range(0, len(items), MAX_ITEMS):
        some = items[start : start + MAX_ITEMS]

        async def propose(numbers: Sequence[int], lock: str, some: Sequence[Item] = some) -> list[Proposal[Answer]]:
            chosen = [some[n] for n in numbers]
            snapshot, names = await read_all(shards, chosen, needs, lock)
            groups = grouped(names, shared=len(shards.all) == 1)
            played = [(LoadedTables(flows=True), list[Answer]()) for _ in groups]
            for group, (tables, replies) in zip(groups, played, strict=True):
                snapshot.fill(tables, {name for n in group for name in names[n]})
                replies += [rule(tables, chosen[n]) for n in group]
            await settle(shards, snapshot, [tables for tables, _ in played], lock)
            proposals = [
                Proposal([numbers[n] for n in group], replies, unit_of(shards, snapshot, tables, now_us))
                for group, (tables, replies) in zip(groups, played, strict=True)
            ]
            before()
            return proposals

        answers += await contend(shards, action, len(some), propose, topic)
    return answers


async def settle(shards: Shards, snapshot: Snapshot, some: Iterable[LoadedTables], lock: str = "") -> None:
    """Applies to flows what the rules have noted. What they read next is read for all tables at once.

    It is read into the snapshot, so that the commit checks it; a value that is there already is not read again.
    """
    left = [(tables, settle_flows(tables)) for tables in some if tables.flow_changes.noted]
    while left:
        waiting = [(tables, steps, names) for tables, steps in left if (names := _advance(snapshot, tables, steps))]
        missing = dict.fromkeys(name for *_, names in waiting for name in names if not snapshot.is_read(name))
        if missing:
            await fetch(shards, snapshot, missing, lock)
        for tables, _, names in waiting:
            snapshot.fill(tables, names)
        left = [(tables, steps) for tables, steps, _ in waiting]


def _advance(snapshot: Snapshot, tables: LoadedTables, steps: Iterator[list[Name]]) -> list[Name]:
    """Goes on until something has to be read; returns its names. Empty at the end."""
    for names in steps:
        if not all(map(snapshot.is_read, names)):
            return names
        snapshot.fill(tables, names)
    return []


async def contend(
    shards: Shards,
    action: str,
    count: int,
    propose: Callable[[Sequence[int], str], Awaitable[list[Proposal[Answer]]]],
    topic: str = "",
) -> list[Answer]:
    """The answers for `count` items, once all are written. `propose` gets the numbers of the items left, and a lock id.

    After MAX_RACES lost races an item is written under a lock, for which other writers wait. Raises StoreUnavailable
    after GIVE_UP_SECONDS without progress.
    """
    answers: dict[int, Answer] = {}
    attempts, lost = Attempts(shards, action), list[Proposal[Answer]]()
    while len(answers) < count:
        async with _turn(shards, lost if attempts.lost_races >= MAX_RACES else ()) as (lock, chosen):
            left = [n for n in range(count) if n not in answers and (not chosen or n in chosen)]
            proposals = await propose(left, lock)
            written = await commit(shards, [proposal.unit for proposal in proposals], topic, lock)
        lost = [proposal for proposal, done in zip(proposals, written, strict=True) if not done]
        for proposal, done in zip(proposals, written, strict=True):
            if done:
                answers.update(zip(proposal.numbers, proposal.answers, strict=True))
        if any(written):
            attempts.progressed()
        if lost:
            await attempts.pause()
    return [answers[n] for n in range(count)]


async def contend_one(
    shards: Shards, action: str, propose: Callable[[], Awaitable[tuple[Answer, Unit]]], topic: str = ""
) -> Answer:
    """contend() for one item."""

    async def propose_it(numbers: Sequence[int], lock: str) -> list[Proposal[Answer]]:
        answer, unit = await propose()
        return [Proposal(numbers, [answer], unit)]

    return (await contend(shards, action, 1, propose_it, topic))[0]


@asynccontextmanager
async def _turn(shards: Shards, lost: Iterable[Proposal[Answer]]) -> AsyncIterator[tuple[str, set[int]]]:
    """Locks the fields of the first items that lost; yields the lock's id and their numbers. Empty if none lost."""
    chosen, conditions = set[int](), dict[tuple[str, str | bytes], Condition]()
    for proposal in lost:
        if chosen and len(conditions) + len(proposal.unit.conditions) > MAX_LOCKED:
            break
        chosen.update(proposal.numbers)
        conditions.update({(one.key, one.field): one for one in proposal.unit.conditions})
    if not chosen:
        yield "", chosen
        return
    async with locked(shards, conditions.values()) as lock:
        yield lock, chosen


def grouped(names: Sequence[Sequence[Name]], shared: bool) -> list[list[int]]:
    """The numbers of coupled items, group by group. `shared`: items of two groups may read the same schedule."""
    first: dict[tuple[str, str], int] = {}
    leader = list(range(len(names)))

    def find(n: int) -> int:
        while leader[n] != n:
            leader[n] = n = leader[leader[n]]
        return n

    def join(n: int, name: tuple[str, str]) -> None:
        other, mine = find(first.setdefault(name, n)), find(n)
        leader[max(other, mine)] = min(other, mine)

    for n, some in enumerate(names):
        for kind, name in some:
            if kind in COUPLING:
                join(n, (COUPLING[kind], name))
    for n, some in enumerate(names):
        for kind, name in some:
            if kind in SHARED and (not shared or (SHARED[kind], name) in first):
                join(n, (SHARED[kind], name))
    groups: dict[int, list[int]] = {}
    for n in range(len(names)):
        groups.setdefault(find(n), []).append(n)
    return list(groups.values())
