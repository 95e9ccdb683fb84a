"""The groups of limits with their jobs, read from the index, and compared with the jobs that run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...records.limit import KEY_SEPARATOR, Recount, group_key, limit_key_of, limit_name
from .hashes import read_hash
from .index import RUNNING_OF, Command, bounds_of, limited_entry
from .records import CLAIM_PARTS
from .shard import Shard, Shards
from .two_phase import Condition, Unit, commit_one, has

# Keys and later jobs of a limited group that are looked at.
MAX_KEYS = 10_000
# Members read per round trip.
BATCH_ROWS = 1_000
# Keys of a group that one call of a script gives their turns again: the server does nothing else meanwhile.
REARMED_KEYS = 500
# Ready jobs of a key among which the one that is due first is looked for.
MAX_FIRST_JOBS = 100


class LimitedGroup(NamedTuple):
    """The jobs of a queue and a task that have one limit."""

    name: str
    limit: str


async def limited_groups(shard: Shard) -> list[LimitedGroup]:
    """The limited groups of a shard that have pending jobs."""
    ready, later = await shard.multi([("SMEMBERS", f"{shard.base}:limited"), ("ZRANGE", f"{shard.base}:next", 0, -1)])
    parts = {name.decode(): name.decode().split("\0") for name in {*ready, *later}}
    return sorted(LimitedGroup(name, some[2]) for name, some in parts.items() if len(some) == 3)


class GroupScan:
    """The keys of one limit in a shard: MAX_KEYS of each kind at most."""

    def __init__(self, shard: Shard, name: str, groups: Sequence[str]) -> None:
        self._shard, self._name, self._groups = shard, name, groups
        self._later: list[tuple[str, int]] = []
        self._running: set[str] = set()
        self._ready: set[str] = set()
        self._served: set[str] = set()

    @classmethod
    async def of(cls, shard: Shard, name: str) -> GroupScan:
        groups = [group.name for group in await limited_groups(shard) if group.limit == name]
        scan = cls(shard, name, groups)
        await scan._read()
        return scan

    @property
    def with_jobs(self) -> set[str]:
        return self._ready | self._running | {key for key, _ in self._later}

    @property
    def remembered(self) -> set[str]:
        return self.with_jobs | self._served

    async def _read(self) -> None:
        base = self._shard.base
        self._served = {key.decode() for key in await self._keys(f"{base}:served:{self._name}")}
        for group in self._groups:
            self._ready |= {key.decode() for key in await self._keys(f"{base}:turn:{group}")}
            entries = await self._shard.call("ZRANGE", f"{base}:later:{group}", 0, MAX_KEYS - 1)
            self._later += [(key_of(entry), run_at_of(entry)) for entry in entries]
        members = await self._shard.call("ZRANGE", f"{base}:{RUNNING_OF}{self._name}", 0, MAX_KEYS - 1)
        self._running = {key_of(member) for member in members}

    async def _keys(self, name: str) -> set[bytes]:
        """The fields of a hash."""
        found, cursor = set[bytes](), b"0"
        while True:
            cursor, pairs = await self._shard.call("HSCAN", name, cursor, "COUNT", BATCH_ROWS)
            found.update(pairs[::2])
            if cursor == b"0" or len(found) >= MAX_KEYS:
                return found

    async def sizes(self, keys: Iterable[str]) -> dict[str, tuple[int, int]]:
        """The number of running and of pending jobs of these keys."""
        keys, base, found = list(keys), self._shard.base, dict[str, tuple[int, int]]()
        later = dict.fromkeys(keys, 0)
        for key, _ in self._later:
            if key in later:
                later[key] += 1
        step = max(1, BATCH_ROWS // (1 + len(self._groups)))
        for start in range(0, len(keys), step):
            some = keys[start : start + step]
            commands: list[Command] = []
            for key in some:
                commands.append(("ZLEXCOUNT", f"{base}:{RUNNING_OF}{self._name}", *bounds_of(key)))
                commands += [("ZLEXCOUNT", f"{base}:ready:{group}", *bounds_of(key)) for group in self._groups]
            sizes = iter(await self._shard.multi(commands))
            for key in some:
                running = next(sizes)
                found[key] = (running, later[key] + sum(next(sizes) for _ in self._groups))
        return found

    async def first_run_at(self, key: str) -> int | None:
        """When the key's first pending job is due; of very many ready ones it may be another."""
        instants = [run_at for one, run_at in self._later if one == key]
        for group in self._groups:
            ready = f"{self._shard.base}:ready:{group}"
            entries = await self._shard.call("ZRANGEBYLEX", ready, *bounds_of(key), "LIMIT", 0, MAX_FIRST_JOBS)
            instants += map(run_at_of, entries)
        return min(instants, default=None)


def key_of(member: bytes) -> str:
    """The key in a member of the sets of a limited group."""
    return member[2 : 2 + int.from_bytes(member[:2], "big")].decode()


def run_at_of(member: bytes) -> int:
    at = 2 + int.from_bytes(member[:2], "big")
    return int.from_bytes(member[at + 2 : at + 10], "big")


async def rearm(shard: Shard, group: str) -> None:
    """Gives all keys of a limited group that have ready jobs their turns again."""
    low: str | bytes = "-"
    while low:
        low = await shard.script("rearm", [group, low, REARMED_KEYS])


# recount


async def recount(shards: Shards, after: str | None, limit: int) -> Recount:
    """Compares the sets of running jobs with the claims of jobs, for the next `limit` groups behind `after`.

    The first call also gives all keys their turns again: the next claim finds out which of them have to wait.
    """
    claims: dict[str, tuple[Shard, dict[bytes, bytes]]] = {}
    for shard in shards.all:
        if after is None:
            for group in await limited_groups(shard):
                await rearm(shard, group.name)
        for limit_key, found in (await _claims(shard)).items():
            claims[limit_key] = shard, found
    names = [key for key in sorted(claims) if after is None or key > after]
    wrong = [key for key in names[:limit] if not await _compare(shards, key, *claims[key])]
    return Recount(tuple(wrong), names[limit - 1] if len(names) > limit else None)


async def _claims(shard: Shard) -> dict[str, dict[bytes, bytes]]:
    """The claims of the running jobs of each group of a shard that has some, or is said to have some."""
    found: dict[str, dict[bytes, bytes]] = {}
    names = {group.limit for group in await limited_groups(shard)} | {*await read_hash(shard, f"{shard.base}:limit")}
    pairs = await shard.call("HGETALL", f"{shard.base}:run")
    for id, claim in zip(pairs[::2], pairs[1::2], strict=True):
        if (limit_key := _limit_key_of(claim)) is not None:
            found.setdefault(limit_key, {})[id] = claim
            names.add(limit_name(limit_key))
    for name in names:
        for key in (await GroupScan.of(shard, name)).with_jobs:
            found.setdefault(limit_key_of(name, key), {})
    return found


def _limit_key_of(claim: bytes) -> str | None:
    parts = claim.decode(errors="backslashreplace").split("\0")
    return parts[6] if len(parts) == max(CLAIM_PARTS) else None


async def _compare(shards: Shards, limit_key: str, shard: Shard, claims: dict[bytes, bytes]) -> bool:
    """Whether the group is counted as its jobs run. If not, it is corrected."""
    running, prefix = f"{shard.base}:{RUNNING_OF}{limit_name(limit_key)}", limited_entry(limit_key, b"")
    read: Command = ("ZRANGEBYLEX", running, *bounds_of(group_key(limit_key)))
    counted = {member[len(prefix) :] for member in await shard.call(*read)}
    if counted == claims.keys():
        return True
    every = sorted(counted | claims.keys())  # both are read again, at one instant
    *runs, members = await shard.multi([*(("HGET", f"{shard.base}:run", id) for id in every), read])
    counted = {member[len(prefix) :] for member in members}
    conditions, commands = list[Condition](), list[Command]()
    for id, claim in zip(every, runs, strict=True):
        is_running = claim is not None and _limit_key_of(claim) == limit_key
        if is_running != (id in counted):
            conditions.append(has(f"{shard.base}:run", id, claim))
            commands.append(("ZADD", running, 0, prefix + id) if is_running else ("ZREM", running, prefix + id))
    if not commands:
        return True
    for group in await limited_groups(shard):
        if group.limit == limit_name(limit_key):
            commands.append(("FREE", f"{shard.base}:{group.name}{KEY_SEPARATOR}{group_key(limit_key)}"))
    return not await commit_one(shards, Unit(conditions, commands), "new")
