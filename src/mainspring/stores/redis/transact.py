"""The rules of the memory store run on a snapshot, and what they changed written if what decided it is still so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from ...clock import micros
from .attempts import Attempts
from .diff import unit_of
from .reads import Item, Needs, read_all
from .shard import Shards
from .snapshot import Name
from .tables import Tables
from .two_phase import Condition, Unit, commit, locked

Answer = TypeVar("Answer")

# Items that are read and written together. A script of the commit has fewer where they are large.
MAX_ITEMS = 500
# Races that an item may lose before its fields are locked for it, and fields that are locked at a time.
MAX_RACES, MAX_LOCKED = 3, 500
# What couples items: one that writes such a name and one that reads it are run in order, and written together.
COUPLING = frozenset(("job", "key", "schedule", "circuit"))
SHARED = {"seen": "schedule", "worker": "worker"}


class Proposal(NamedTuple, Generic[Answer]):
    """What some of the items, by their numbers, answer once the unit is written."""

    numbers: Sequence[int]
    answers: Sequence[Answer]
    unit: Unit


async def transact(
    shards: Shards,
    action: str,
    items: Sequence[Item],
    needs: Needs[Item],
    rule: Callable[[Tables, Item], Answer],
    now: datetime,
    topic: str = "new final",
    before: Callable[[], object] = lambda: None,
) -> list[Answer]:
    """The rule's answer for each item, once what it changed is written. `before` is called before every commit.

    Items that have nothing to do with each other are written each for itself, so that a race that one of them loses
    costs the others nothing.
    """
    answers: list[Answer] = []
    now_us = micros(now)
    for start in range(0, len(items), MAX_ITEMS):
        some = items[start : start + MAX_ITEMS]

        async def propose(numbers: Sequence[int], lock: str, some: Sequence[Item] = some) -> list[Proposal[Answer]]:
            chosen = [some[n] for n in numbers]
            snapshot, names = await read_all(shards, chosen, needs, lock)
            proposals = list[Proposal[Answer]]()
            for group in grouped(names, shared=len(shards.all) == 1):
                tables = Tables(snapshot.part(name for n in group for name in names[n]))
                replies = [rule(tables, chosen[n]) for n in group]
                proposals.append(Proposal([numbers[n] for n in group], replies, unit_of(shards, tables, now_us)))
            before()
            return proposals

        answers += await contend(shards, action, len(some), propose, topic)
    return answers


async def contend(
    shards: Shards,
    action: str,
    count: int,
    propose: Callable[[Sequence[int], str], Awaitable[list[Proposal[Answer]]]],
    topic: str = "",
) -> list[Answer]:
    """The answers of `count` items, once all are written. `propose` gets the numbers of those that are not, and a lock.

    An item that has lost some races is written under a lock, for which others wait. Raises StoreUnavailable if nothing
    at all could be written for a long time.
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
    """The same of one item."""

    async def propose_it(numbers: Sequence[int], lock: str) -> list[Proposal[Answer]]:
        answer, unit = await propose()
        return [Proposal(numbers, [answer], unit)]

    return (await contend(shards, action, 1, propose_it, topic))[0]


@asynccontextmanager
async def _turn(shards: Shards, lost: Iterable[Proposal[Answer]]) -> AsyncIterator[tuple[str, set[int]]]:
    """A lock on the fields of the first of those that have lost, and their numbers; nothing if none have."""
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
    """Numbers of items that are to be run and written together, in order. `shared`: several may read the same."""
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
                join(n, (kind, name))
    for n, some in enumerate(names):
        for kind, name in some:
            if kind in SHARED and (not shared or (SHARED[kind], name) in first):
                join(n, (SHARED[kind], name))
    groups: dict[int, list[int]] = {}
    for n in range(len(names)):
        groups.setdefault(find(n), []).append(n)
    return list(groups.values())
