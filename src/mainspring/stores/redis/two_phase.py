"""Atomic writes under conditions: in one shard by one script, over several shards by a two-phase commit.

A unit is a list of commands with conditions: fields that must have the values that were read. A unit of several shards
is prepared in each of them (prepare.lua), decided by the first, the leader (resolve.lua, "begin"), and written by the
others ("write"). A process that meets a lock asks the leader for the verdict ("ask"). docs/two-phase-commit.md has the
protocol. Only this file and its scripts know the keys of it: `lock`, `promise`, `promised` and `decided`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal, NamedTuple, TypeVar

from ...errors import StoreError
from ...ids import JobId
from .connection import Arg
from .index import Command
from .shard import Shard, Shards

T = TypeVar("T")
Operator = Literal["=", "-", "~", "!"]


class Condition(NamedTuple):
    """A condition of a unit, as prelude.lua tests it."""

    key: str
    field: str | bytes
    operator: Operator
    value: bytes = b""


class Unit(NamedTuple):
    """Commands that are all run if all conditions hold, else none."""

    conditions: Sequence[Condition]
    commands: Sequence[Command]


# A transaction that is not decided after this time is dropped by the process that meets it.
UNDECIDED_TIMEOUT_SECONDS = 3
# Pause of a process that meets a younger one.
RECHECK_SECONDS = 0.005
# Transactions that one beat ends in each shard.
MAX_SWEPT = 100
# Arguments of one call of a script: the server does nothing else meanwhile. A larger unit has a call of its own.
MAX_SCRIPT_ARGS = 10_000
# A unit with more arguments is written in pieces.
MAX_UNIT_ARGS = 60_000
# The pieces of a transaction are marked as still in progress at this interval, below UNDECIDED_TIMEOUT_SECONDS.
KEEP_SECONDS = 1.0

Shares = dict[str, list[Arg]]
"""The conditions and commands of a unit by the base of their shard, encoded as prelude.lua reads them."""


def has(key: str, field: str | bytes, value: bytes | None) -> Condition:
    """The field of the hash has that value. With None: the hash has no such field."""
    return Condition(key, field, "-") if value is None else Condition(key, field, "=", value)


def has_members(key: str, members: Sequence[str]) -> Condition:
    """The set has exactly these members."""
    return Condition(key, str(len(members)), "~", "".join(f"\0{member}\0" for member in members).encode())


def lacks_member(key: str, member: str) -> Condition:
    """The set does not have this member."""
    return Condition(key, member, "!")


async def commit_one(shards: Shards, unit: Unit, topic: str = "") -> bool:
    """Writes a unit; False if a condition does not hold or a field is locked."""
    return (await commit(shards, [unit], topic))[0]


async def commit(shards: Shards, units: Sequence[Unit], topic: str = "", lock: str = "") -> list[bool]:
    """Writes units, each for itself; returns for each whether it was written.

    `topic` is published in every shard where something was written. `lock` is the id of a lock that the caller holds.
    """
    written = [True] * len(units)
    local: dict[str, list[tuple[int, list[Arg]]]] = {}
    across: list[tuple[int, Shares]] = []
    for n, unit in enumerate(units):
        shares = _shares(unit) if unit.commands else {}
        if sum(map(len, shares.values())) > MAX_UNIT_ARGS:
            written[n] = await asyncio.shield(asyncio.ensure_future(_commit_in_pieces(shards, shares, topic, lock)))
        elif len(shares) == 1:
            ((base, args),) = shares.items()
            local.setdefault(base, []).append((n, args))
        elif shares:
            across.append((n, shares))
    scripts = [(shards.by_base(base), batch) for base, some in local.items() for batch in _batches(some, len)]
    answers = await asyncio.gather(*(_commit(shards, shard, batch, topic, lock) for shard, batch in scripts))
    for (_, batch), done in zip(scripts, answers, strict=True):
        for (n, _), is_written in zip(batch, done, strict=True):
            written[n] = is_written
    for some in _batches(across, lambda shares: sum(map(len, shares.values()))):
        transactions = [_new_transaction(shards, shares, topic) for _, shares in some]
        done = await asyncio.shield(asyncio.ensure_future(_commit_across(shards, transactions, lock)))
        for (n, _), is_written in zip(some, done, strict=True):
            written[n] = is_written
    return written


def _shares(unit: Unit) -> Shares:
    """Splits a unit by shard, and encodes each part as prelude.lua reads it."""
    read: Shares = {}
    written: Shares = {}
    for condition in unit.conditions:
        read.setdefault(base_of(condition.key), []).extend(condition)
    for command in unit.commands:
        args = written.setdefault(base_of(str(command[1])), [])
        args.append(len(command))
        args += command
    bases = dict.fromkeys([*written, *read])
    return {base: [len(read.get(base, ())) // 4, *read.get(base, ()), *written.get(base, ())] for base in bases}


def base_of(key: str) -> str:
    """The base of the shard of a key."""
    return key[: key.index("}") + 1]


def _batches(numbered: Sequence[tuple[int, T]], size: Callable[[T], int]) -> Iterator[list[tuple[int, T]]]:
    """The items in order, in batches of at most MAX_SCRIPT_ARGS arguments; a larger item is alone in its batch."""
    batch, total = list[tuple[int, T]](), 0
    for n, one in numbered:
        if batch and total + size(one) > MAX_SCRIPT_ARGS:
            yield batch
            batch, total = [], 0
        batch.append((n, one))
        total += size(one)
    if batch:
        yield batch


async def _commit(
    shards: Shards, shard: Shard, batch: Sequence[tuple[int, list[Arg]]], topic: str, lock: str
) -> list[bool]:
    args: list[Arg] = [lock, topic]
    for _, unit in batch:
        args.append(len(unit))
        args += unit
    return await _written(shards, shard, await shard.script("commit", args))


async def _written(shards: Shards, shard: Shard, answers: Sequence[int | bytes]) -> list[bool]:
    """For each reply of a script whether it was written. Transactions that locked a field are resolved if possible."""
    for transaction in {answer for answer in answers if isinstance(answer, bytes)}:
        await resolve(shards, shard, transaction.decode())
    return [answer == 1 for answer in answers]


# several shards


class CrossShardTransaction(NamedTuple):
    """A unit over several shards."""

    id: str
    bases: list[str]
    """The first is the leader's."""
    shares: Shares


def _new_transaction(shards: Shards, shares: Shares, topic: str) -> CrossShardTransaction:
    bases = [
        shard.base for shard in shards.all if shard.base in shares
    ]  # one order for all processes, so that none wait for each other
    for base, args in shares.items():
        if topic and len(args) > 1 + 4 * int(args[0]):
            args += (3, "PUBLISH", base, topic)
    return CrossShardTransaction(_new_id(bases[0]), bases, shares)


def _new_id(base: str) -> str:
    return f"{base} {os.urandom(10).hex()}"


async def _commit_across(shards: Shards, transactions: Sequence[CrossShardTransaction], lock: str) -> list[bool]:
    """Commits transactions together; for each whether it was written. It takes one round trip per shard plus three."""
    left = {transaction.id: transaction for transaction in transactions}
    prepared: dict[str, list[Shard]] = {id: [] for id in left}
    try:
        for shard in shards.all:
            some = [transaction for transaction in left.values() if shard.base in transaction.shares]
            for transaction, done in zip(some, await _prepare(shards, shard, some, prepared, lock), strict=True):
                if not done:
                    del left[transaction.id]
        for transaction in await _decide(shards, left.values()):
            del prepared[transaction.id]
    finally:
        for id, those in prepared.items():
            left.pop(id, None)
            for shard in those:
                with suppress(StoreError):  # the next process that meets it resolves it
                    await resolve(shards, shard, id, timeout=-1)
    await _write(shards, left.values())
    return [transaction.id in left for transaction in transactions]


async def _prepare(
    shards: Shards,
    shard: Shard,
    transactions: Sequence[CrossShardTransaction],
    prepared: dict[str, list[Shard]],
    lock: str,
) -> list[bool]:
    """Prepares the shares of one shard; for each transaction whether it was prepared."""
    if not transactions:
        return []
    args: list[Arg] = [lock]
    for transaction in transactions:
        prepared[transaction.id].append(shard)
        args += (1 + len(transaction.shares[shard.base]), transaction.id, *transaction.shares[shard.base])
    return await _written(shards, shard, await shard.script("prepare", args))


async def _decide(shards: Shards, transactions: Iterable[CrossShardTransaction]) -> list[CrossShardTransaction]:
    """The transactions that were decided: they will be written even if this process dies now."""
    led: dict[Shard, list[CrossShardTransaction]] = {}
    for transaction in transactions:
        led.setdefault(shards.by_base(transaction.bases[0]), []).append(transaction)

    async def begin(shard: Shard) -> list[int]:
        pairs = [topic for transaction in led[shard] for topic in (transaction.id, " ".join(transaction.bases))]
        answers: list[int] = await shard.script("resolve", ["begin", *pairs])
        return answers

    answers = await shards.each(begin, led) if led else []
    pairs = [pair for some, done in zip(led.values(), answers, strict=True) for pair in zip(some, done, strict=True)]
    return [transaction for transaction, done in pairs if done]


async def _write(shards: Shards, transactions: Iterable[CrossShardTransaction]) -> None:
    """Writes decided transactions in all shards but the leader, then removes the decisions."""
    shares: dict[Shard, list[str]] = {}
    led: dict[Shard, list[str]] = {}
    for transaction in transactions:
        led.setdefault(shards.by_base(transaction.bases[0]), []).append(transaction.id)
        for base in transaction.bases[1:]:
            shares.setdefault(shards.by_base(base), []).append(transaction.id)
    if shares:
        await shards.each(lambda shard: shard.script("resolve", ["write", *shares[shard]]), shares)
    if led:
        await shards.each(lambda shard: shard.script("resolve", ["done", *led[shard]]), led)


# in pieces


class Piece(NamedTuple):
    """A part of a large unit, small enough for one call of a script."""

    id: str
    shard: Shard
    args: list[Arg]


async def _commit_in_pieces(shards: Shards, shares: Shares, topic: str, lock: str) -> bool:
    """Commits a large unit in pieces; whether it was written.

    Each piece is a transaction with the same leader, and all are decided together. The decided pieces are written one
    by one: other processes may see the first before the last is written, and write the rest if the owner dies.
    """
    those = [shard for shard in shards.all if shard.base in shares]
    leader, stem = those[0], _new_id(those[0].base)
    split = [(shard, some) for shard in those for some in _split(shares[shard.base], shard, topic)]
    pieces = [Piece(f"{stem}-{n}", shard, some) for n, (shard, some) in enumerate(split)]
    prepared, decided = list[Piece](), False
    try:
        decided = await _prepare_all(shards, leader, pieces, prepared, lock) and await _decide_all(leader, pieces)
    finally:
        for piece in () if decided else prepared:
            with suppress(StoreError):  # the next process that meets it resolves it
                await resolve(shards, piece.shard, piece.id, timeout=-1)
    if decided:
        for piece in pieces:
            await piece.shard.script("resolve", ["write", piece.id])
        ids = [piece.id for piece in pieces]
        await leader.script("resolve", ["write", *ids])  # removes the tokens
        await leader.script("resolve", ["done", *ids])
    return decided


async def _prepare_all(
    shards: Shards, leader: Shard, pieces: Sequence[Piece], prepared: list[Piece], lock: str
) -> bool:
    """Prepares all pieces in order; False as soon as one cannot be prepared."""
    loop = asyncio.get_running_loop()
    kept_at = loop.time()
    for piece in pieces:
        prepared.append(piece)
        if piece.shard is not leader:  # a token: the leader is asked about the piece, so it must know it
            await leader.script("prepare", [lock, 2, piece.id, 0])
        args = [lock, 1 + len(piece.args), piece.id, *piece.args]
        if not (await _written(shards, piece.shard, await piece.shard.script("prepare", args)))[0]:
            return False
        if loop.time() - kept_at > KEEP_SECONDS:
            await leader.script("resolve", ["keep", *(one.id for one in prepared)])
            kept_at = loop.time()
    return True


async def _decide_all(leader: Shard, pieces: Sequence[Piece]) -> bool:
    """Decides all pieces at once; False if one of them was dropped."""
    pairs = [topic for piece in pieces for topic in (piece.id, f"{leader.base} {piece.shard.base} {leader.base}")]
    return bool(await leader.script("resolve", ["begin all", *pairs]))


def _split(args: list[Arg], shard: Shard, topic: str) -> Iterator[list[Arg]]:
    """The share as units of at most MAX_SCRIPT_ARGS arguments: conditions first, then commands in order."""
    end, transaction = 1 + 4 * int(args[0]), MAX_SCRIPT_ARGS // 4 * 4
    for at in range(1, end, transaction):
        some = args[at : min(at + transaction, end)]
        yield [len(some) // 4, *some]
    piece, at = list[Arg](), end
    while at < len(args):
        size = 1 + int(args[at])
        if piece and len(piece) + size > MAX_SCRIPT_ARGS:
            yield [0, *piece]
            piece = []
        piece += args[at : at + size]
        at += size
    if topic:
        piece += (3, "PUBLISH", shard.base, topic)
    if piece:
        yield [0, *piece]


async def resolve(shards: Shards, shard: Shard, transaction: str, timeout: int | None = None) -> None:
    """Ends a transaction that locks a field of this shard, as the leader decided.

    One younger than `timeout` seconds is left to its owner, after a short pause.
    """
    leader = shards.by_base(transaction.split(" ")[0])
    seconds = UNDECIDED_TIMEOUT_SECONDS if timeout is None else timeout
    verdict = (await leader.script("resolve", ["ask", seconds, transaction])).decode()
    if verdict == "wait":
        await asyncio.sleep(RECHECK_SECONDS)
    elif shard is not leader or verdict == "write":
        await shard.script("resolve", [verdict, transaction])


def job_locks(shard: Shard, ids: Iterable[bytes]) -> Command:
    """The command that reads which transactions lock the records of these jobs; transactions_in() has its reply."""
    return "HMGET", f"{shard.base}:lock", *(f"{shard.base}:job\0".encode() + id for id in ids)


def flow_locks(shard: Shard, ids: Iterable[JobId]) -> Command:
    """As job_locks(), for transactions that change flows, or jobs of their steps in this shard."""
    return "HMGET", f"{shard.base}:lock", *(f"{shard.base}:flow\0{id}".encode() for id in ids)


def transactions_in(reply: Iterable[bytes | None]) -> set[str]:
    return {transaction.decode() for transaction in reply if transaction is not None}


async def sweep(shards: Shards) -> None:
    """Ends the transactions of dead processes."""
    await shards.each(lambda shard: _sweep(shards, shard))


async def _sweep(shards: Shards, shard: Shard) -> None:
    """Ends old undecided transactions of this shard, and writes the decided ones that it leads."""
    base = shard.base
    (now, _), transactions, decided = await shard.multi(
        [
            ("TIME",),
            ("ZRANGE", f"{base}:promised", 0, MAX_SWEPT, "WITHSCORES"),
            ("HGETALL", f"{base}:decided"),
        ]
    )
    for transaction, at in zip(transactions[::2], transactions[1::2], strict=True):
        if int(now) - float(at) > UNDECIDED_TIMEOUT_SECONDS:
            await resolve(shards, shard, transaction.decode())
    for transaction, bases in zip(decided[::2], decided[1::2], strict=True):
        for other in bases.decode().split(" ")[1:]:
            await shards.by_base(other).script("resolve", ["write", transaction])
        await shard.script("resolve", ["done", transaction])


# locks


@asynccontextmanager
async def locked(shards: Shards, conditions: Iterable[Condition]) -> AsyncIterator[str]:
    """Locks the fields of these conditions. Yields the lock's id, or "" if one of them is locked already.

    It lets a writer through that has lost too many races. Correctness does not depend on it: conditions are still
    tested, and a lock expires UNDECIDED_TIMEOUT_SECONDS after its owner has died.
    """
    shares = _shares(Unit(list(conditions), ()))
    bases = [shard.base for shard in shards.all if shard.base in shares]
    transaction, taken, ours = _new_id(bases[0]), list[Shard](), True
    try:
        for shard in map(shards.by_base, bases):
            taken.append(shard)
            (ours,) = await _written(shards, shard, [await shard.script("lock", [transaction, *shares[shard.base]])])
            if not ours:
                break
        yield transaction if ours else ""
    finally:
        for shard in taken:
            with suppress(StoreError):  # it expires
                await shard.script("resolve", ["drop", transaction])
