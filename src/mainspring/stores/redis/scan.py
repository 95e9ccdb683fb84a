"""The first ids of unordered sets, in the order of ids: every id is read, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from .access_paths import IndexSet
from .index import Command
from .shard import Shard

# Members read per round trip, and of a set when it is first read.
SCAN_ROWS = 4_000
FIRST_ROWS = 50
# Round trips under way: the server reads one while the other is decoded.
MAX_SCANS_AT_ONCE = 2
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
        left = deque(SetScan(one, self._newest) for one in sets)
        await asyncio.gather(*(self._scan(left) for _ in range(MAX_SCANS_AT_ONCE)))
        return self._sorted()

    async def _scan(self, left: deque[SetScan]) -> None:
        while left:
            some, rows = list[SetScan](), 0
            while left and (not some or rows + left[0].rows <= SCAN_ROWS):
                some.append(left.popleft())
                rows += some[-1].rows
            requests = [one.commands() for one in some]
            answers = iter(await self._shard.multi([command for sent in requests for command in sent]))
            for one, sent in zip(some, requests, strict=True):
                for ids in one.ids([next(answers) for _ in sent]):
                    self._keep(ids)
            made = int.from_bytes(self._low[:6], "big") * 1000
            left.extendleft(one for one in some if one.more and not (self._by_time and one.is_past(made)))

    def _keep(self, ids: Iterable[bytes]) -> None:
        low, high = self._low, self._high
        self._kept.update([id for id in ids if low < id < high])
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
        self.rows = FIRST_ROWS
        """Members that are read next: twice as many each time."""
        self._last: bytes | None = None
        """The last member that was read."""
        self._at: int | None = None
        """Its score."""

    def commands(self) -> list[Command]:
        """The commands that read the next members: `rows`, and those of the last instant."""
        key, most = self.set.key, ("LIMIT", 0, self.rows)
        if self.set.by is None:
            return [("SMEMBERS", key)]
        low, high = self.set.low, self.set.high
        if self.set.by == "bytes":
            return [("ZRANGEBYLEX", key, low if self._last is None else b"(" + self._last, high, *most)]
        scores = () if self.set.tells_score else ("WITHSCORES",)
        name, ends = ("ZREVRANGEBYSCORE", (high, low)) if self._newest else ("ZRANGEBYSCORE", (low, high))
        if self._at is None:
            return [(name, key, *ends, *scores, *most)]
        return [(name, key, self._at, self._at, *scores), (name, key, f"({self._at}", ends[1], *scores, *most)]

    def ids(self, answers: Sequence[list[bytes]]) -> Iterator[Iterable[bytes]]:
        """The ids in the answers."""
        with_scores = self.set.by == "score" and not self.set.tells_score
        step, last = 2 if with_scores else 1, answers[-1]
        for members in answers:
            yield self.set.ids(members[::step])
        self.more = self.set.by is not None and len(last) == step * self.rows
        if last:
            self._last = last[-1]
        if last and self.set.by == "score":
            self._at = int(float(last[-1])) if with_scores else int.from_bytes(last[-1][2:10], "big")
        self.rows = min(2 * self.rows, SCAN_ROWS)

    def is_past(self, made: int) -> bool:
        """Whether all other jobs of the set are older: they had finished before an id of this time was made."""
        if not self._newest or self._at is None or not self.set.finished:
            return False
        return self._at < made - CLOCK_TOLERANCE_MICROS
