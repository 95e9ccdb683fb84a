"""Access paths: for each condition of a filter, the index sets that contain every matching job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from ...clock import micros
from ...records.query import Filter
from .index import LISTED, Command, id_range
from .orders import LAST_RANK, end_of
from .shard import Shard

WAITING = ("pending", "scheduled", "retrying")


class IndexSet(NamedTuple):
    """A set or a range of one: the command that counts its members, and how members yield ids."""

    key: str
    size: Command
    ids: Callable[[list[bytes]], Iterable[bytes]] = iter
    by: Literal["bytes", "score"] | None = None
    """The order of its members; None for a set without one."""
    low: bytes | str | int = b"-"
    high: bytes | str | int = b"+"
    """The bounds of its range."""

    @property
    def finished(self) -> bool:
        """Whether its scores are the instants at which its jobs finished."""
        return self.by == "score" and self.ids is iter and ":ended:" in self.key

    @property
    def tells_score(self) -> bool:
        """Whether its members contain their scores."""
        return self.ids is _ids_in


class AccessPath(NamedTuple):
    """Sets whose union contains every matching job."""

    sets: list[IndexSet]
    ordered: bool = False
    """Whether each set is in the order of creation."""


class RegisterNames(NamedTuple):
    """The registers of a shard: names for which there may be jobs."""

    groups: list[str]
    holders: list[str]
    parks: list[str]
    ends: list[str]

    def groups_of(self, which: Filter) -> list[str]:
        """The groups of the filter's queues and tasks."""
        return [name for name in self.groups if _group_matches(name, which)]

    def ends_of(self, which: Filter) -> list[str]:
        """The pairs of final state and task that match the filter. Every job of a task is in one of its groups."""
        tasks = which.tasks
        if which.queues is not None:
            tasks = tuple({name.partition("\0")[2] for name in self.groups_of(which)})
        return [name for name in self.ends if _register_matches(name, which.states, tasks)]


async def names_in(shard: Shard) -> RegisterNames:
    """The registers of a shard."""
    found = await shard.multi([("SMEMBERS", f"{shard.base}:{register}") for register in RegisterNames._fields])
    return RegisterNames(*(sorted(name.decode() for name in names) for names in found))


async def group_names(shard: Shard) -> list[str]:
    """The groups of a shard, as queue and task."""
    return sorted(name.decode() for name in await shard.call("SMEMBERS", f"{shard.base}:groups"))


def _group_matches(name: str, which: Filter) -> bool:
    queue, _, task = name.partition("\0")
    return (which.queues is None or queue in which.queues) and (which.tasks is None or task in which.tasks)


def access_paths(base: str, which: Filter, names: RegisterNames, now: datetime) -> Iterator[AccessPath]:
    """First the path through all jobs, then one for each condition that is indexed."""
    yield _by_creation(base, which, (f"{base}:made:{name}" for name in names.groups_of(which)))
    yield from (_by_creation(base, which, [f"{base}:tag:{tag}"]) for tag in which.tags or ())
    if which.schedules is not None:
        yield _by_creation(base, which, (f"{base}:made-by:{name}" for name in which.schedules))
    if which.errors is not None:
        yield _by_creation(base, which, (f"{base}:error:{kind}" for kind in which.errors))
    if which.workers is not None:
        yield AccessPath([_set(f"{base}:held:{worker}") for worker in which.workers])
    if which.key_prefix is not None:
        yield AccessPath([_keys(f"{base}:keys", which.key_prefix)])
    if which.states is not None and set(which.states) <= {*LISTED}:
        yield _by_creation(base, which, (f"{base}:final:{name}" for name in names.ends_of(which)))
    elif which.states is not None:
        yield AccessPath(list(_by_state(base, which, names, micros(now))))


def _by_creation(base: str, which: Filter, keys: Iterable[str]) -> AccessPath:
    """These sets within the filter's creation time, and the jobs whose ids do not tell it."""
    low, high = id_range(which.created_after, which.created_before)
    if (low, high) == (b"-", b"+"):
        return AccessPath([_sorted(key) for key in dict.fromkeys(keys)], ordered=True)
    sets = [_range(key, low, high) for key in dict.fromkeys(keys)]
    return AccessPath([*sets, _sorted(f"{base}:odd")], ordered=True)


def _by_state(base: str, which: Filter, names: RegisterNames, us: int) -> Iterator[IndexSet]:
    states = set(which.states or ())
    if "running" in states:
        yield from (_set(f"{base}:held:{worker}") for worker in names.holders)
    yield from (_set(f"{base}:parked:{name}") for name in names.parks if _register_matches(name, states, which.queues))
    yield from (_scored(f"{base}:ended:{name}") for name in names.ends_of(which))
    if "expired" in states:
        yield _scored(f"{base}:expiring", "-inf", us)
    if states.intersection(WAITING):
        yield _set(f"{base}:suspect")
        yield from _by_waiting_state(base, states, names.groups_of(which), us)


def _by_waiting_state(base: str, states: Collection[str], groups: Iterable[str], us: int) -> Iterator[IndexSet]:
    for name in groups:
        if "pending" in states:
            yield _sorted(f"{base}:ready:{name}", _ids_in)
            yield from (_scored(f"{base}:{key}:{name}", "-inf", us, _ids_in) for key in ("later", "limited"))
        if "scheduled" in states:
            yield from (_scored(f"{base}:{key}:{name}", f"({us}", "+inf", _ids_in) for key in ("later", "limited"))
    if "retrying" in states:
        queues = dict.fromkeys(name.partition("\0")[0] for name in groups)
        yield from (_scored(f"{base}:again:{queue}") for queue in queues)


def unfinished_beside_ready(base: str, names: RegisterNames) -> Iterator[IndexSet]:
    """The sets of unfinished jobs that are not ready, or were tried before."""
    yield _set(f"{base}:suspect")
    yield from (_set(f"{base}:held:{worker}") for worker in names.holders)
    yield from (_set(f"{base}:parked:{name}") for name in names.parks)
    yield from (_scored(f"{base}:{key}:{name}", ids=_ids_in) for name in names.groups for key in ("later", "limited"))
    yield from (_scored(f"{base}:again:{queue}") for queue in {name.partition("\0")[0] for name in names.groups})


async def not_yet_due(shard: Shard, groups: Sequence[str], now: datetime) -> list[bytes]:
    """Ids of ready jobs that are due later: there are some after a clock was set back."""
    commands: list[Command] = []
    for name, ranks in (await ranks_in(shard, groups)).items():
        for rank in ranks:
            first = b"[" + rank.to_bytes(2, "big") + (micros(now) + 1).to_bytes(8, "big")
            commands.append(("ZRANGEBYLEX", f"{shard.base}:ready:{name}", first, end_of(rank)))
    return [id for entries in (await shard.multi(commands) if commands else []) for id in _ids_in(entries)]


async def ranks_in(shard: Shard, groups: Sequence[str]) -> dict[str, list[int]]:
    """The ranks of ready jobs in each group. Each query skips to the first job after the last rank."""
    ranks: dict[str, list[int]] = {name: [] for name in groups}
    lows = dict.fromkeys(groups, b"-")
    while lows:
        hops = [("ZRANGEBYLEX", f"{shard.base}:ready:{name}", low, "+", "LIMIT", 0, 1) for name, low in lows.items()]
        for (name, _), first in zip([*lows.items()], await shard.multi(hops), strict=True):
            del lows[name]
            if first:
                ranks[name].append(rank := int.from_bytes(first[0][:2], "big"))
                if rank < LAST_RANK:
                    lows[name] = b"[" + (rank + 1).to_bytes(2, "big")
    return ranks


def _register_matches(name: str, states: Collection[str] | None, others: Iterable[str] | None) -> bool:
    """Whether both parts of a name in a register match the filter."""
    state, _, other = name.partition("\0")
    return (states is None or state in states) and (others is None or other in others)


def _ids_in(entries: list[bytes]) -> list[bytes]:
    """The packed ids in entries of `ready` or `later`, after the rank and the instant."""
    return [entry[10:] for entry in entries]


def _set(key: str) -> IndexSet:
    return IndexSet(key, ("SCARD", key))


def _sorted(key: str, ids: Callable[[list[bytes]], Iterable[bytes]] = iter) -> IndexSet:
    return IndexSet(key, ("ZCARD", key), ids, "bytes")


def _scored(
    key: str, low: str | int = "-inf", high: str | int = "+inf", ids: Callable[[list[bytes]], Iterable[bytes]] = iter
) -> IndexSet:
    return IndexSet(key, ("ZCOUNT", key, low, high), ids, "score", low, high)


def _range(key: str, low: bytes, high: bytes, ids: Callable[[list[bytes]], Iterable[bytes]] = iter) -> IndexSet:
    return IndexSet(key, ("ZLEXCOUNT", key, low, high), ids, "bytes", low, high)


def _keys(key: str, prefix: str) -> IndexSet:
    low = prefix.encode()
    low, high = (b"[" + low, b"[" + low + b"\xff") if low else (b"-", b"+")
    return _range(key, low, high, _holders_in)


def _holders_in(entries: list[bytes]) -> Iterable[bytes]:
    return map(holder_in, entries)


def holder_in(entry: bytes) -> bytes:
    """The packed id at the end of an entry of `keys`."""
    _, other, text = entry.rpartition(b"\0\xff\xff")
    return b"\xff\xff" + text if other else entry[-16:]
