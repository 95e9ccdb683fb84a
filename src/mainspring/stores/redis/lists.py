"""Pages of jobs out of Redis: from the smallest set that must hold them, or along the orders that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any

from ...clock import micros
from ...job import Cursor, Filter, Job, JobId, Sort, State
from ..rules import matches
from .home import Home, Homes
from .known import read_home
from .records import packed, place, unpacked

# A set of up to so many is read whole; along an order jobs are read in steps of so many.
FEW, STEP = 5_000, 200

Entry = tuple[int, bytes]
"""An instant, 0 in the order of creation, and an id."""
Commands = list[tuple[str | bytes | int, ...]]


async def page(
    homes: Homes, which: Filter, now: datetime, limit: int, after: Cursor | None, newest: bool, sort: Sort
) -> list[Job]:
    pages = await homes.each(lambda home: _page(home, which, now, limit, after, newest, sort))
    if len(pages) == 1:
        return pages[0]
    found = [job for page in pages for job in page]
    found.sort(key=lambda job: _place(job, sort), reverse=newest)
    return found[:limit]


async def _page(
    home: Home, which: Filter, now: datetime, limit: int, after: Cursor | None, newest: bool, sort: Sort
) -> list[Job]:
    fits = _fits(which, now, sort)
    beyond = None if after is None else _entry(after.at, after.id, sort)
    if (ids := await _few(home, which)) is not None:
        found = [job for _, job in (await read_home(home, ids)).values() if job is not None and fits(job)]
        found.sort(key=lambda job: _place(job, sort), reverse=newest)
        return [job for job in found if _is_beyond(_place(job, sort), beyond, newest)][:limit]
    return await _walk(home, which, limit, beyond, newest, sort, fits)


def _fits(which: Filter, now: datetime, sort: Sort) -> Callable[[Job], bool]:
    def fits(job: Job) -> bool:
        stands = sort == "created" or (job.state is State.PENDING if sort == "due" else job.state.final)
        return stands and matches(job, which, now)

    return fits


def _place(job: Job, sort: Sort) -> Entry:
    at = {"created": None, "due": job.run_at, "finished": job.finished_at}[sort]
    return _entry(at, job.id, sort)


def _entry(at: datetime | None, id: JobId, sort: Sort) -> Entry:
    return 0 if sort == "created" or at is None else micros(at), packed(id)


def _is_beyond(entry: Entry, end: Entry | None, newest: bool) -> bool:
    return end is None or (entry < end if newest else entry > end)


# the smallest set


async def _few(home: Home, which: Filter) -> list[JobId] | None:
    """All that may match, if they are few."""
    if which.ids is not None:
        return sorted(set(which.ids))
    base = home.base
    sets = list(_sets(base, which)) + await _states(home, which)
    if which.key_prefix is not None and not sets:
        return await _by_key(home, which.key_prefix)
    if not sets:
        return None
    kinds = [(command, key) for keys in sets for command, key in keys]
    counts = dict(
        zip(kinds, await home.many([(_COUNT[kind], key) for kind, key in kinds]) if kinds else [], strict=True)
    )
    best = min(sets, key=lambda keys: sum(counts[key] for key in keys))
    if sum(counts[key] for key in best) > FEW:
        return None
    found: set[bytes] = set()
    if best:
        for members in await home.many([_MEMBERS[kind](key) for kind, key in best]):
            found.update(members)
    return [unpacked(id) for id in sorted(found)]


_COUNT = {"set": "SCARD", "sorted": "ZCARD"}
_MEMBERS: dict[str, Callable[[str], tuple[str | bytes | int, ...]]] = {
    "set": lambda key: ("SMEMBERS", key),
    "sorted": lambda key: ("ZRANGE", key, 0, -1),
}


def _sets(base: str, which: Filter) -> Iterator[list[tuple[str, str]]]:
    """For each condition that has sets of its own: those in which every match must be, in one of them."""
    for tag in which.tags or ():
        yield [("set", f"{base}:tag:{tag}")]
    if which.workers is not None:
        yield [("set", f"{base}:held:{worker}") for worker in which.workers]
    if which.errors is not None:
        yield [("set", f"{base}:error:{kind}") for kind in which.errors]
    if which.schedules is not None:
        yield [("set", f"{base}:made-by:{name}") for name in which.schedules]


async def _states(home: Home, which: Filter) -> list[list[tuple[str, str]]]:
    """The same for states, if none of them is one in which jobs wait to be claimed."""
    base, states = home.base, which.states
    if states is None or set(states) & {"pending", "scheduled", "retrying", "expired"}:
        return []
    holders, parks, ends = await home.many([("SMEMBERS", f"{base}:{name}") for name in ("holders", "parks", "ends")])
    keys = [("set", f"{base}:held:{worker.decode()}") for worker in holders if "running" in states]
    for kind, where, names in (("set", "parked", parks), ("sorted", "ended", ends)):
        keys += [
            (kind, f"{base}:{where}:{name.decode()}") for name in names if name.decode().partition("\0")[0] in states
        ]
    return [keys]


async def _by_key(home: Home, prefix: str) -> list[JobId] | None:
    low = prefix.encode()
    high = b"[" + low + b"\xff" if low else b"+"
    found = await home.call("ZRANGEBYLEX", f"{home.base}:keys", b"[" + low if low else b"-", high, "LIMIT", 0, FEW + 1)
    if len(found) > FEW:
        return None
    return sorted({unpacked(keeper(entry)) for entry in found})


def keeper(entry: bytes) -> bytes:
    _, other, text = entry.rpartition(b"\0\xff\xff")
    return b"\xff\xff" + text if other else entry[-16:]


# along the orders


async def _walk(
    home: Home,
    which: Filter,
    limit: int,
    beyond: Entry | None,
    newest: bool,
    sort: Sort,
    fits: Callable[[Job], bool],
) -> list[Job]:
    found: list[Job] = []
    step = max(STEP, min(limit, 1000))
    orders = await _orders(home, which, sort)
    while len(found) < limit:
        entries = await _next(home, orders, beyond, newest, step)
        jobs = (await read_home(home, [unpacked(id) for _, id in entries])).values()
        found += [job for _, job in jobs if job is not None and fits(job)]
        if len(entries) < step:
            break
        beyond = entries[-1]
    return found[:limit]


class Order:
    """A sorted set, or a part of one, in which jobs lie in the order asked for."""

    def __init__(self, key: str, rank: int | None = None, *, by_score: bool = False, members: bool = False) -> None:
        self.key, self.rank, self.by_score, self.members = key, rank, by_score, members

    def ask(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        if self.by_score:
            return self._ask_scores(beyond, newest, count)
        low, high = self._ends()
        if beyond is not None:
            end = b"(" + (beyond[1] if self.rank is None else place(32767 - self.rank, beyond[0], beyond[1]))
            low, high = (low, end) if newest else (end, high)
        if newest:
            return [("ZREVRANGEBYLEX", self.key, high, low, "LIMIT", 0, count)]
        return [("ZRANGEBYLEX", self.key, low, high, "LIMIT", 0, count)]

    def _ends(self) -> tuple[bytes, bytes]:
        if self.rank is None:
            return b"-", b"+"
        high = b"(" + (self.rank + 1).to_bytes(2, "big") if self.rank < 65535 else b"+"
        return b"[" + self.rank.to_bytes(2, "big"), high

    def _ask_scores(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        """Those at the very instant of `beyond`, then those past it."""
        way = "ZREVRANGEBYSCORE" if newest else "ZRANGEBYSCORE"
        ends = ("+inf", "-inf") if newest else ("-inf", "+inf")
        if beyond is None:
            return [(way, self.key, *ends, "WITHSCORES", "LIMIT", 0, count)]
        return [
            (way, self.key, beyond[0], beyond[0], "WITHSCORES"),
            (way, self.key, f"({beyond[0]}", ends[1], "WITHSCORES", "LIMIT", 0, count),
        ]

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        for answer in answers:
            if self.by_score:
                for member, score in zip(answer[::2], answer[1::2], strict=True):
                    yield int(float(score)), member[10:] if self.members else member
            elif self.rank is not None:
                for member in answer:
                    yield int.from_bytes(member[2:10], "big"), member[10:]
            else:
                for member in answer:
                    yield 0, member


async def _next(home: Home, orders: Sequence[Order], beyond: Entry | None, newest: bool, count: int) -> list[Entry]:
    """The next so many in the order of all of them together."""
    asked = [order.ask(beyond, newest, count) for order in orders]
    answers = iter(await home.many([command for commands in asked for command in commands]) if asked else [])
    lists = []
    for order, commands in zip(orders, asked, strict=True):
        entries = order.entries([next(answers) for _ in commands])
        lists.append(sorted((one for one in entries if _is_beyond(one, beyond, newest)), reverse=newest))
    return list(islice(merge(*lists, reverse=newest), count))


async def _orders(home: Home, which: Filter, sort: Sort) -> list[Order]:
    base = home.base
    if sort == "finished":
        names = [name.decode() for name in await home.call("SMEMBERS", f"{base}:ends")]
        wanted = [name for name in names if which.tasks is None or name.partition("\0")[2] in which.tasks]
        return [Order(f"{base}:ended:{name}", by_score=True) for name in wanted]
    groups = [name for name in await group_names(home) if _named(name, which)]
    if sort == "created":
        return [Order(f"{base}:made:{name}") for name in groups]
    orders = [Order(f"{base}:later:{name}", by_score=True, members=True) for name in groups]
    orders += [
        Order(f"{base}:ready:{name}", rank) for name in groups for rank in await _ranks(home, f"{base}:ready:{name}")
    ]
    return [*orders, *await _suspects(home)]


async def group_names(home: Home) -> list[str]:
    return sorted(name.decode() for name in await home.call("SMEMBERS", f"{home.base}:groups"))


def _named(name: str, which: Filter) -> bool:
    queue, _, task = name.partition("\0")
    return (which.queues is None or queue in which.queues) and (which.tasks is None or task in which.tasks)


async def _ranks(home: Home, key: str) -> list[int]:
    """The priorities in it, each by a hop over the one before."""
    ranks: list[int] = []
    low = b"-"
    while first := await home.call("ZRANGEBYLEX", key, low, "+", "LIMIT", 0, 1):
        ranks.append(int.from_bytes(first[0][:2], "big"))
        if ranks[-1] == 65535:
            break
        low = b"[" + (ranks[-1] + 1).to_bytes(2, "big")
    return ranks


class _Suspects(Order):
    """A few, read whole each time."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__("")
        self._all = entries

    def ask(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        return []

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        return iter(self._all)


async def _suspects(home: Home) -> list[Order]:
    ids = [unpacked(id) for id in await home.call("SMEMBERS", f"{home.base}:suspect")]
    jobs = [job for _, job in (await read_home(home, ids)).values() if job is not None and job.state is State.PENDING]
    return [_Suspects([(micros(job.run_at), packed(job.id)) for job in jobs])] if jobs else []
