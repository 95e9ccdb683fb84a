"""Orders of jobs: sorted sets that are read along, and the merge of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .index import Command
from .records import claim_key
from .shard import Shard

# Entries read at once from each of several orders, at least, and from all of them, at most if they are so few.
MIN_ORDER_ROWS = 10
MAX_READ_ROWS = 10_000
# Bytes that sort after every id.
AFTER_ALL = b"\xff\xff\xff"
# The rank of the lowest priority; ranks go up as priorities go down.
LAST_RANK = 65_535

Entry = tuple[int, bytes]
"""An instant, 0 in the order of creation, and an id."""
Commands = list[Command]


def is_beyond(entry: Entry, end: Entry | None, newest: bool) -> bool:
    return end is None or (entry < end if newest else entry > end)


def end_of(rank: int) -> bytes:
    """The upper bound, for ZRANGEBYLEX, of jobs of this rank."""
    return b"(" + (rank + 1).to_bytes(2, "big") if rank < LAST_RANK else b"+"


class MergedOrders:
    """The entries of several orders beyond one entry, merged. An order is read again only if its next entries may come
    before those that are known."""

    def __init__(self, shard: Shard, orders: Sequence[ListOrder], beyond: Entry | None, newest: bool) -> None:
        self._shard, self._newest = shard, newest
        self._known: list[Entry] = []
        self._ends = dict.fromkeys(orders, beyond)
        """Orders that may have more entries, each with the entry up to which it is known."""
        self._rows: dict[ListOrder, int] = {}

    async def next(self, count: int) -> list[Entry]:
        """The next `count` entries; fewer at the end."""
        self._rows.clear()
        while unread := self._unread(count):
            await self._read(unread, count)
        found, self._known = self._known[:count], self._known[count:]
        return found

    def _unread(self, count: int) -> list[ListOrder]:
        """The orders that may have more of the next `count` entries."""
        if len(self._known) < count:
            return [*self._ends]
        last = self._known[count - 1]
        return [order for order, end in self._ends.items() if end is None or is_beyond(last, end, self._newest)]

    async def _read(self, orders: Sequence[ListOrder], count: int) -> None:
        """Reads more of these orders: of each twice as much as before, if it was read for these entries."""
        first = max(MIN_ORDER_ROWS, 2 * count // len(self._ends)) if len(self._ends) > 1 else count
        most = max(MIN_ORDER_ROWS, MAX_READ_ROWS // len(orders))
        requests = []
        for order in orders:
            rows = self._rows[order] = min(2 * self._rows.get(order, 0) or first, most)
            requests.append((order, rows, order.commands(self._ends[order], self._newest, rows)))
        answers = iter(await self._shard.multi([command for _, _, sent in requests for command in sent]))
        known = set(self._known)
        for order, rows, sent in requests:
            known.update(self._entries(order, rows, [next(answers) for _ in sent]))
        self._known = sorted(known, reverse=self._newest)

    def _entries(self, order: ListOrder, rows: int, answers: Sequence[Any]) -> list[Entry]:
        """The new entries of an order. Notes up to where it is known now."""
        before, newest = self._ends.pop(order), self._newest
        found = sorted((one for one in order.entries(answers) if is_beyond(one, before, newest)), reverse=newest)
        if answers and len(answers[-1]) == rows * order.reply_items:
            self._ends[order] = order.end(found[-1], newest)
        return found


class ListOrder:
    """A sorted set in the order of creation, or a range of it."""

    reply_items = 1
    """Items per entry in a reply."""

    def __init__(self, key: str, low: bytes = b"-", high: bytes = b"+") -> None:
        self.key, self._low, self._high = key, low, high

    def commands(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
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
        """Up to where a cut-off reply is complete; `last` is its last entry."""
        return last


class ReadyJobs(ListOrder):
    """Ready jobs of one priority, by run_at."""

    def __init__(self, key: str, rank: int) -> None:
        super().__init__(key, b"[" + rank.to_bytes(2, "big"), end_of(rank))
        self._rank = rank

    def commands(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        return self._range(None if beyond is None else claim_key(32767 - self._rank, *beyond), newest, count)

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        return ((int.from_bytes(member[2:10], "big"), member[10:]) for answer in answers for member in answer)


class ScoredOrder(ListOrder):
    """A sorted set with instants as scores; members of one instant are in the order of ids."""

    reply_items = 2

    def commands(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        """The members at exactly the instant of `beyond`, then those past it."""
        path = "ZREVRANGEBYSCORE" if newest else "ZRANGEBYSCORE"
        ends = ("+inf", "-inf") if newest else ("-inf", "+inf")
        if beyond is None:
            return [(path, self.key, *ends, "WITHSCORES", "LIMIT", 0, count)]
        return [
            (path, self.key, beyond[0], beyond[0], "WITHSCORES"),
            (path, self.key, f"({beyond[0]}", ends[1], "WITHSCORES", "LIMIT", 0, count),
        ]

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        for answer in answers:
            for member, score in zip(answer[::2], answer[1::2], strict=True):
                yield int(float(score)), self._id(member)

    def _id(self, member: bytes) -> bytes:
        return member


class LaterJobs(ScoredOrder):
    """As ScoredOrder, but members of one instant are not in the order of ids: the last instant may be incomplete."""

    def _id(self, member: bytes) -> bytes:
        return member[10:]

    def end(self, last: Entry, newest: bool) -> Entry:
        return last[0], AFTER_ALL if newest else b""


class SuspectJobs(ListOrder):
    """Poison suspects: so few that all are read each time."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__("")
        self._all = entries

    def commands(self, beyond: Entry | None, newest: bool, count: int) -> Commands:
        return []

    def entries(self, answers: Sequence[Any]) -> Iterator[Entry]:
        return iter(self._all)
