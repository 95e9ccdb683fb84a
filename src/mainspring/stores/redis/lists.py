"""Pages of jobs out of Redis: along the orders that are kept, or from the smallest set that must hold them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import merge
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, State
from ...records.query import Cursor, Filter, Sort
from ..rules import matches_filter
from .access_paths import Names, Way, early, end_of, names_in, ranks_in, ways
from .index import Arguments, ids_of
from .known import read_brief, read_home
from .records import packed, place, unpacked
from .shard import Shard, Shards

# A set is read whole if it has up to so many: their ids alone, or all of them where the order is not that of ids.
FEW, FEW_WHOLE = 50_000, 5_000
# Jobs are read in steps: as many as are wanted, then more each time if few of them match.
MOST = 1_000
# Where a match is expected among so many jobs, these are looked at first, so many at most.
DENSE, PATIENCE = 5, 500
# At least so many are asked of each of several orders.
FEWEST = 10
# Bytes that come after every id.
AFTER_ALL = b"\xff\xff\xff"

Entry = tuple[int, bytes]
"""An instant, 0 in the order of creation, and an id."""
Commands = list[Arguments]


class ListRequest(NamedTuple):
    which: Filter
    now: datetime
    limit: int
    beyond: Entry | None
    newest: bool
    sort: Sort
    brief: bool = False

    def fit(self, jobs: Sequence[Job]) -> list[Job]:
        return [job for job in jobs if self._stands(job) and matches_filter(job, self.which, self.now)]

    def _stands(self, job: Job) -> bool:
        return self.sort == "created" or (job.state is State.PENDING if self.sort == "due" else job.state.final)

    def place(self, job: Job) -> Entry:
        at = {"created": None, "due": job.run_at, "finished": job.finished_at}[self.sort]
        return _entry(at, job.id, self.sort)

    def in_order(self, jobs: Sequence[Job]) -> list[Job]:
        return sorted(jobs, key=self.place, reverse=self.newest)

    @property
    def first_step(self) -> int:
        return min(max(self.limit, 50), MOST)


def _entry(at: datetime | None, id: JobId, sort: Sort) -> Entry:
    return 0 if sort == "created" or at is None else micros(at), packed(id)


def _is_beyond(entry: Entry, end: Entry | None, newest: bool) -> bool:
    return end is None or (entry < end if newest else entry > end)


async def page(
    homes: Shards,
    which: Filter,
    now: datetime,
    limit: int,
    after: Cursor | None,
    newest: bool,
    sort: Sort,
    brief: bool = False,
) -> list[Job]:
    beyond = None if after is None else _entry(after.at, after.id, sort)
    asked = ListRequest(which, now, limit, beyond, newest, sort, brief)
    pages = await homes.each(lambda home: _page(home, asked))
    if len(pages) == 1:
        return pages[0]
    return asked.in_order([job for page in pages for job in page])[:limit]


async def _page(home: Shard, asked: ListRequest) -> list[Job]:
    if asked.which.ids is not None:
        return await _chosen(home, {packed(id) for id in asked.which.ids}, asked)
    names = await names_in(home)
    along, few, dense = await _nearest(home, asked, names)
    if not few:
        return await _walk(home, await _orders(home, asked, names, along), asked) or []
    if dense and (found := await _walk(home, await _orders(home, asked, names, along), asked, PATIENCE)) is not None:
        return found
    members = [await _members(home, asked, names, way) for way in few]
    return await _chosen(home, set.intersection(*members), asked)


async def _nearest(home: Shard, asked: ListRequest, names: Names) -> tuple[Way, list[Way], bool]:
    """The shortest way along an order; sets that are better read whole, if there are any: a match is in each of them;
    and whether to look along the order before."""
    which, created = asked.which, asked.sort == "created"
    # Those that finished lie by state.
    found = list(ways(home.base, which if asked.sort != "finished" else replace(which, states=None), names, asked.now))
    sizes = iter(await home.many([one.size for way in found for one in way.sets]))
    counted = [(sum(next(sizes) for _ in way.sets), way) for way in found]
    length, along = min((one for one in counted if one[1].ordered), key=lambda one: one[0]) if created else counted[0]
    sets = [one for one in counted[1:] if not (created and one[1].ordered)]
    count, few = min(sets, key=lambda one: one[0], default=(0, None))
    named = (which.queues, which.tasks, which.created_after, which.created_before)
    narrow = counted if any(one is not None for one in named) else counted[1:]
    both = sorted((one for one in narrow if one[0] <= FEW), key=lambda one: one[0])[:2] if created else []
    if len(both) == 2 and both[0][0] > PATIENCE:  # ids alone tell which jobs are in both
        return along, [way for _, way in both], True
    if few is None or count > (FEW if created else FEW_WHOLE) or (created and count >= length):
        return along, [], False
    return along, [few], created and DENSE * count > length


# a set


async def _members(home: Shard, asked: ListRequest, names: Names, way: Way) -> set[bytes]:
    members = await home.many([one.read for one in way.sets]) if way.sets else []
    found = set[bytes]()
    for one, some in zip(way.sets, members, strict=True):
        found.update(some if one.id is bytes else map(one.id, some))
    if "scheduled" in (asked.which.states or ()):
        found.update(await early(home, names.wanted(asked.which), asked.now))
    return found


async def _chosen(home: Shard, ids: set[bytes], asked: ListRequest) -> list[Job]:
    """The page of these."""
    beyond, newest, limit = asked.beyond, asked.newest, asked.limit
    if asked.sort != "created":
        found = asked.in_order(asked.fit(await _read(home, sorted(ids), asked.brief)))
        return [job for job in found if _is_beyond(asked.place(job), beyond, newest)][:limit]
    left = _left(ids, beyond, newest)
    found, start, step = [], 0, asked.first_step
    while len(found) < limit and start < len(left):
        found += asked.fit(await _read(home, left[start : start + step], asked.brief))
        start, step = start + step, min(2 * step, MOST)
    return found[:limit]


def _left(ids: set[bytes], beyond: Entry | None, newest: bool) -> list[bytes]:
    found = sorted(ids)
    if beyond is not None:
        found = found[: bisect_left(found, beyond[1])] if newest else found[bisect_right(found, beyond[1]) :]
    return found[::-1] if newest else found


async def _read(home: Shard, ids: Sequence[bytes], brief: bool = False) -> list[Job]:
    if brief:
        return await read_brief(home, [unpacked(id) for id in ids])
    return [job for _, job in (await read_home(home, [unpacked(id) for id in ids])).values() if job is not None]


# along the orders


async def _walk(
    home: Shard, orders: Sequence[ListOrder], asked: ListRequest, patience: int | None = None
) -> list[Job] | None:
    """None if the page is not full after so many."""
    found, step, read, beyond, more = list[Job](), asked.first_step, 0, asked.beyond, bool(orders)
    while more and len(found) < asked.limit:
        if patience is not None and read >= patience:
            return None
        entries, end = await _next(home, orders, beyond, asked.newest, step)
        found += asked.fit(await _read(home, [id for _, id in entries], asked.brief))
        beyond, more = end, end is not None
        step, read = min(2 * step, MOST), read + len(entries)
    return found[: asked.limit]


async def _next(
    home: Shard, orders: Sequence[ListOrder], beyond: Entry | None, newest: bool, count: int
) -> tuple[list[Entry], Entry | None]:
    """The next in the order of all of them together, so many at most, and from beyond where there may be more."""
    each = max(FEWEST, 2 * count // len(orders)) if len(orders) > 1 else count
    asked = [order.ask(beyond, newest, each) for order in orders]
    answers = iter(await home.many([command for commands in asked for command in commands]))
    lists, ends = list[list[Entry]](), list[Entry]()
    for order, commands in zip(orders, asked, strict=True):
        some = [next(answers) for _ in commands]
        lists.append(sorted((one for one in order.entries(some) if _is_beyond(one, beyond, newest)), reverse=newest))
        if some and len(some[-1]) == each * order.words:
            ends.append(order.end(lists[-1][-1], newest))
    # Past the first place where one of them was cut off it may have some that come before those of the others.
    end = (max if newest else min)(ends, default=None)
    merged = dict.fromkeys(merge(*lists, reverse=newest))
    found = [one for one in merged if end is None or not _is_beyond(one, end, newest)]
    return found[:count], found[count - 1] if len(found) > count else end


async def _orders(home: Shard, asked: ListRequest, names: Names, along: Way) -> list[ListOrder]:
    base, which = home.base, asked.which
    if asked.sort == "finished":
        return [Scored(f"{base}:ended:{name}") for name in names.ended(which)]
    if asked.sort == "due":
        return await _by_due(home, names.wanted(which))
    low, high = ids_of(which.created_after, which.created_before)
    if (low, high) == (b"-", b"+"):
        return [ListOrder(one.key) for one in along.sets]
    *sets, odd = along.sets
    return [*(ListOrder(one.key, low, high) for one in sets), ListOrder(odd.key)]


async def _by_due(home: Shard, groups: Sequence[str]) -> list[ListOrder]:
    base, ranks = home.base, await ranks_in(home, groups)
    orders: list[ListOrder] = [Later(f"{base}:later:{name}") for name in groups]
    orders += [ReadyJobs(f"{base}:ready:{name}", rank) for name in groups for rank in ranks[name]]
    jobs = await _read(home, await home.call("SMEMBERS", f"{base}:suspect"))
    suspects = [(micros(job.run_at), packed(job.id)) for job in jobs if job.state is State.PENDING]
    return [*orders, Suspects(suspects)] if suspects else orders


class ListOrder:
    """A sorted set in the order of creation, or a part of it."""

    words = 1
    """So many an entry has in an answer."""

    def __init__(self, key: str, low: bytes = b"-", high: bytes = b"+") -> None:
        self.key, self._low, self._high = key, low, high

    def ask(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        return self._range(None if beyond is None else beyond[1], newest, count)

    def _range(self, beyond: bytes | None, newest: bool, count: int) -> Commands:
        low, high = self._low, self._high
        if beyond is not None and newest:
            high = b"(" + beyond if high == b"+" or beyond < high[1:] else high
        elif beyond is not None:
            low = b"(" + beyond if low == b"-" or beyond > low[1:] else low
        if newest:
            return [("ZREVRANGEBYLEX", self.key, high, low, "LIMIT", 0, count)]
        return [("ZRANGEBYLEX", self.key, low, high, "LIMIT", 0, count)]

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        return ((0, member) for answer in answers for member in answer)

    def end(self, last: Entry, newest: bool) -> Entry:
        """Up to where nothing is missing, if this was the last of an answer that was cut off."""
        return last


class ReadyJobs(ListOrder):
    """Those of one priority among the ready, by when they are due."""

    def __init__(self, key: str, rank: int) -> None:
        super().__init__(key, b"[" + rank.to_bytes(2, "big"), end_of(rank))
        self._rank = rank

    def ask(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        return self._range(None if beyond is None else place(32767 - self._rank, *beyond), newest, count)

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        return ((int.from_bytes(member[2:10], "big"), member[10:]) for answer in answers for member in answer)


class Scored(ListOrder):
    """By an instant, and among those of one instant by id."""

    words = 2

    def ask(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
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
            for member, score in zip(answer[::2], answer[1::2], strict=True):
                yield int(float(score)), self._id(member)

    def _id(self, member: bytes) -> bytes:
        return member


class Later(Scored):
    """By an instant, but among those of one instant not by id: of the last one of an answer some may be missing."""

    def _id(self, member: bytes) -> bytes:
        return member[10:]

    def end(self, last: Entry, newest: bool) -> Entry:
        return last[0], AFTER_ALL if newest else b""


class Suspects(ListOrder):
    """A few, read whole each time."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__("")
        self._all = entries

    def ask(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        return []

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        return iter(self._all)
