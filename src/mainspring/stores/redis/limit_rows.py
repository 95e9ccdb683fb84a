"""Limits and groups as a claim by the rule reads and writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from ...ids import JobId
from ...records.job import Job
from ...records.limit import StoredLimit, group_key, limit_name
from ..rules.limited_jobs import LimitedJobs
from ..rules.limits import NEW_GROUP, GroupState
from .index import RUNNING_OF, Command, bounds_of
from .shard import Shard, Shards
from .two_phase import Condition, has

# Keys of each group whose first job a claim by the rule looks at.
PROBED_KEYS = 32

_decode = msgspec.json.Decoder(StoredLimit).decode


class RunningCounts(LimitedJobs):
    """How many jobs run of some groups and limits, as they were read."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[str, int] = {}

    def add(self, job: Job, key: str) -> None:
        pass

    def remove(self, job: Job, key: str) -> None:
        pass

    def running(self, key: str) -> Collection[JobId]:
        return ("",) * self.sizes.get(key, 0)

    def running_of_limit(self, name: str) -> int:
        return self.sizes.get(name, 0)


class LoadedLimitRows:
    """Limits and groups that were read, and the groups that the rule has changed."""

    def __init__(self) -> None:
        self.counts = RunningCounts()
        self._limits: dict[str, StoredLimit] = {}
        self._texts: dict[str, tuple[str, bytes | None]] = {}
        self._starts: dict[str, bytes | None] = {}
        self._new: dict[str, GroupState] = {}

    async def read(self, shards: Shards, jobs: Iterable[Job]) -> None:
        """Reads what a claim of these jobs needs."""
        by_shard: dict[Shard, set[str]] = {}
        for job in jobs:
            if job.limit_key is not None:
                by_shard.setdefault(shards.of(job.queue), set()).add(job.limit_key)
        for shard, found in by_shard.items():
            await self._read(shard, sorted(found), sorted(set(map(limit_name, found))))

    async def _read(self, shard: Shard, keys: Sequence[str], names: Sequence[str]) -> None:
        base = shard.base
        commands: list[Command] = [("HMGET", f"{base}:limit", *names), ("HMGET", f"{base}:starts", *names)]
        commands += [("HGET", f"{base}:served:{limit_name(key)}", group_key(key)) for key in keys]
        commands += [running_count(base, key) for key in keys]
        commands += [("ZCARD", f"{base}:{RUNNING_OF}{name}") for name in names]
        limits, starts, *others = await shard.multi(commands)
        self._limits |= {name: _decode(text) for name, text in zip(names, limits, strict=True) if text is not None}
        self._starts |= dict(zip(names, starts, strict=True))
        self._texts |= {key: (base, text) for key, text in zip(keys, others, strict=False)}
        self.counts.sizes |= zip((*keys, *names), others[len(keys) :], strict=True)

    def limit(self, name: str) -> StoredLimit | None:
        return self._limits.get(name)

    def group(self, limit_key: str) -> GroupState:
        if (new := self._new.get(limit_key)) is not None:
            return new
        _, text = self._texts[limit_key]
        return state_of(text)

    def put_group(self, limit_key: str, state: GroupState) -> None:
        self._new[limit_key] = state

    def conditions(self) -> Iterator[Condition]:
        """No other claim has started a job of these groups meanwhile, nor of their limits if those have a total."""
        for key in self._new:
            base, text = self._texts[key]
            yield has(f"{base}:served:{limit_name(key)}", group_key(key), text)
        for base, name in self._with_total():
            yield has(f"{base}:starts", name, self._starts[name])

    def commands(self) -> Iterator[Command]:
        for key, state in self._new.items():
            text = f"{state.tat} {state.served_at}"
            yield "HSET", f"{self._texts[key][0]}:served:{limit_name(key)}", group_key(key), text
        for base, name in self._with_total():
            yield "HINCRBY", f"{base}:starts", name, 1

    def _with_total(self) -> set[tuple[str, str]]:
        """The limits with a total that the rule has started a job of, by base and name."""
        found = {(self._texts[key][0], limit_name(key)) for key in self._new}
        return {(base, name) for base, name in found if name in self._limits and self._limits[name].total is not None}


def running_count(base: str, limit_key: str) -> Command:
    """The command that counts the running jobs of a group."""
    return "ZLEXCOUNT", f"{base}:{RUNNING_OF}{limit_name(limit_key)}", *bounds_of(group_key(limit_key))


def state_of(text: bytes | None) -> GroupState:
    return NEW_GROUP if text is None else GroupState(*map(int, text.split()))


async def first_limited(shard: Shard, tasks: Collection[str]) -> list[bytes]:
    """The packed ids of the first jobs of some keys of these tasks, in the order of their turns."""
    base = shard.base
    groups = [name for name in await shard.call("SMEMBERS", f"{base}:limited") if _task_of(name) in tasks]
    if not groups:
        return []
    turns = await shard.multi([("ZRANGE", f"{base}:turns:".encode() + name, 0, PROBED_KEYS - 1) for name in groups])
    commands: list[Command] = []
    for name, some in zip(groups, turns, strict=True):
        for turn in some:
            prefix = len(turn[26:]).to_bytes(2, "big") + turn[26:]
            bounds = (b"[" + prefix, b"(" + prefix + b"\xff\xff\xff")
            commands.append(("ZRANGEBYLEX", f"{base}:ready:".encode() + name, *bounds, "LIMIT", 0, 1))
    firsts = [some[0] for some in await shard.multi(commands) if some] if commands else []
    return [member[2 + int.from_bytes(member[:2], "big") + 10 :] for member in firsts]


def _task_of(group: bytes) -> str:
    return group.split(b"\0")[1].decode()
