"""The first ids of unordered sets, in the order of ids: every id is read, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .access_paths import IndexSet
from .index import Command
from .shard import Shard

# Members read per round trip, of this number of sets.
SCAN_ROWS = 5_000
SCAN_SETS = 10
# Round trips under way: the server reads one while the other is decoded.
SCANS_AT_ONCE = 2
# A final job may have finished this long before the time in its id, by clocks that differ or were set back.
CLOCK_TOLERANCE_MICROS = 3_600_000_000
# Bytes that sort after every id.
_LAST = b"\xff" * 64


class IdScan:
    """The first `count` ids beyond one among those of some sets."""

    def __init__(
        self,
        shard: Shard,
        count: int,
        beyond: bytes | None,
        newest: bool,
        bounds: tuple[bytes, bytes],
        by_time: bool,
    ) -> None:
        self._shard, self._count, self._newest, self._by_time = shard, count, newest, by_time
        low, high = (b"" if bounds[0] == b"-" else bounds[0][1:]), (_LAST if bounds[1] == b"+" else bounds[1][1:])
        self._low = low if newest or beyond is None else max(low, beyond)
        self._high = high if not newest or beyond is None else min(high, beyond)
        self._kept: set[bytes] = set()

    async def first(self, sets: Iterable[IndexSet], more: Iterable[bytes] = ()) -> list[bytes]:
        """The ids, in order; `more` are ids beside those of the sets."""
        self._keep(more)
        left = [SetScan(one, self._newest) for one in sets]
        await asyncio.gather(*(self._scan(left) for _ in range(SCANS_AT_ONCE)))
        return self._sorted()

    async def _scan(self, left: list[SetScan]) -> None:
        while some := [left.pop() for _ in range(min(SCAN_SETS, len(left)))]:
            rows = SCAN_ROWS // len(some)
            requests = [one.commands(rows) for one in some]
            answers = iter(await self._shard.multi([command for sent in requests for command in sent]))
            for one, sent in zip(some, requests, strict=True):
                for ids in one.ids([next(answers) for _ in sent], rows):
                    self._keep(ids)
                if one.more and not (self._by_time and one.is_past(int.from_bytes(self._low[:6], "big") * 1000)):
                    left.append(one)

    def _keep(self, ids: Iterable[bytes]) -> None:
        low, high = self._low, self._high
        self._kept.update(id for id in ids if low < id < high)
        if len(self._kept) > 4 * self._count:
            first = self._sorted()
            self._kept = set(first)
            if self._newest:
                self._low = first[-1]
            else:
                self._high = first[-1]

    def _sorted(self) -> list[bytes]:
        return sorted(self._kept, reverse=self._newest)[: self._count]


class SetScan:
    """Reads one set to its end; if it is in the order of an instant, from the newest on if jobs are listed so."""

    def __init__(self, one: IndexSet, newest: bool) -> None:
        self.set, self._newest, self.more = one, newest, True
        self._after: Any = None
        """The last member that was read, or its score."""

    def commands(self, rows: int) -> list[Command]:
        """The commands that read the next members: `rows`, and those of the last instant."""
        key, after, most = self.set.key, self._after, ("LIMIT", 0, rows)
        if self.set.by is None:
            return [self.set.read]
        low, high = self.set.low, self.set.high
        if self.set.by == "bytes":
            return [("ZRANGEBYLEX", key, low if after is None else b"(" + after, high, *most)]
        name, ends = ("ZREVRANGEBYSCORE", (high, low)) if self._newest else ("ZRANGEBYSCORE", (low, high))
        if after is None:
            return [(name, key, *ends, "WITHSCORES", *most)]
        return [(name, key, after, after, "WITHSCORES"), (name, key, b"(" + after, ends[1], "WITHSCORES", *most)]

    def ids(self, answers: Sequence[list[bytes]], rows: int) -> Iterator[Iterable[bytes]]:
        """The ids in the answers."""
        for members in answers:
            yield self.set.ids(members[::2] if self.set.by == "score" else members)
        last = answers[-1]
        self.more = self.set.by is not None and len(last) == rows * (2 if self.set.by == "score" else 1)
        if last:
            self._after = last[-1]

    def is_past(self, made: int) -> bool:
        """Whether all other jobs of the set are older: they had finished before an id of this time was made."""
        if not self._newest or self._after is None or not self.set.finished:
            return False
        return float(self._after) < made - CLOCK_TOLERANCE_MICROS
