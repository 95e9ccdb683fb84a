"""Queue depth: samples that workers store once a minute, and their history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from ..clock import EPOCH, Clock
from ..errors import BadInput, StoreError
from ..records.document import Document
from ..records.query import Filter
from ..records.queue import Queue
from ..span import Span, seconds
from ..store import Store
from ..survived_errors import SurvivedErrors

KIND = "depth"
_undecoded = SurvivedErrors("depth", "a sample of the queues' depth cannot be decoded, and is left out")
# Queues listed in a sample, the deepest; the others are only in its total.
MAX_SAMPLED_QUEUES = 200
# Size of the listed queues.
MAX_SAMPLE_BYTES = 32_768
# Workers wake at different times within this part of a minute, so that only the first one has to count.
SPREAD_SECONDS = 20.0
# A worker rests this many times as long as it counted: sampling uses at most 1/20 of the time.
REST_FACTOR = 20


class SampleGrid(Struct, frozen=True):
    """Samples at a fixed step, kept for a fixed time; the first sample in each step counts."""

    label: str
    step: timedelta
    retention: timedelta

    def begin(self, at: datetime) -> datetime:
        """The start of the step that contains `at`."""
        return EPOCH + (at - EPOCH) // self.step * self.step

    def name(self, at: datetime) -> str:
        """The name of the document for the step that contains `at`; names sort by time."""
        return f"{self.label}:{self.begin(at):%Y-%m-%dT%H:%M}"

    def names(self, since: datetime, until: datetime) -> list[str]:
        steps = (self.begin(until) - self.begin(since)) // self.step
        return [self.name(since + n * self.step) for n in range(steps + 1)]


GRIDS = (
    SampleGrid("1m", timedelta(minutes=1), timedelta(hours=3)),
    SampleGrid("10m", timedelta(minutes=10), timedelta(days=4)),
)
MAX_WINDOW = GRIDS[-1].retention


class Depth(Struct, frozen=True):
    """Unfinished jobs of a queue at one time; large numbers may be estimates."""

    pending: int = 0
    scheduled: int = 0
    retrying: int = 0
    running: int = 0
    oldest: float = 0.0
    """Seconds since the longest waiting job became due."""


class DepthSample(Struct, frozen=True):
    """The queues at one time. A queue that is not listed was empty, or is one of the `more` others."""

    at: datetime
    total: Depth
    queues: dict[str, Depth]
    more: int = 0

    def only(self, queue: str) -> DepthSample | None:
        """The sample of one queue; None if it may be among those that are not listed."""
        found = self.queues.get(queue)
        if found is None and self.more:
            return None
        depth = found or Depth()
        return DepthSample(self.at, depth, {queue: depth})


_unsampled = SurvivedErrors("depth", "there is no sample of the queues' depth for this minute")
_sample = msgspec.json.Decoder(DepthSample).decode
_encode = msgspec.json.Encoder().encode


# writing


class DepthSampler:
    """Takes a sample in every minute in which a worker is alive."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def run(self, store: Store, phase: float) -> None:
        """Runs until cancelled; `phase` (0 to 1) makes workers count at different times."""
        after = self._clock.now()
        while True:
            wait = _next_turn(after, phase) - self._clock.now()
            await self._clock.sleep(max(0.0, wait.total_seconds()))
            began = self._clock.monotonic()
            with _unsampled.survive(StoreError):
                await sample_once(store, self._clock.now())
            rest = REST_FACTOR * (self._clock.monotonic() - began)
            after = self._clock.now() + timedelta(
                seconds=max(1.0, rest)
            )  # so that an early wake-up does not repeat this turn


def _next_turn(after: datetime, phase: float) -> datetime:
    """When a worker of this phase takes its next sample."""
    minute = GRIDS[0].step
    return after + minute - (after - EPOCH - timedelta(seconds=phase * SPREAD_SECONDS)) % minute


async def sample_once(store: Store, now: datetime) -> bool:
    """Stores a sample unless this minute has one; returns whether it was stored."""
    names = [grid.name(now) for grid in GRIDS]
    if await store.documents(KIND, names[:1], now=now, limit=1):
        return False
    text = _encode(await take_sample(store, now)).decode()
    documents = [
        Document(kind=KIND, name=name, text=text, expires_at=grid.begin(now) + grid.retention + grid.step)
        for name, grid in zip(names, GRIDS, strict=True)
    ]
    return (await store.put_documents(documents, now=now))[0]


async def take_sample(store: Store, now: datetime) -> DepthSample:
    """Counts the jobs of all queues."""
    queues = (await store.overview(now=now, finished=False)).queues
    listed = sorted(queues, key=lambda one: (-_size(one), one.name))[:MAX_SAMPLED_QUEUES]
    ages = await longest_waits(store, listed, now)
    depths = {one.name: _depth(one, ages[one.name]) for one in listed}
    while len(_encode(depths)) > MAX_SAMPLE_BYTES:
        depths = dict(list(depths.items())[: len(depths) // 2])
    counts = {name: sum(getattr(one, name) for one in queues) for name in Depth.__struct_fields__[:-1]}
    total = Depth(**counts, oldest=max(ages.values(), default=0.0))
    return DepthSample(now, total, dict(sorted(depths.items())), len(queues) - len(depths))


async def longest_waits(store: Store, queues: Sequence[Queue], now: datetime) -> dict[str, float]:
    """Seconds since the longest waiting job became due, by queue; costs one index lookup per queue."""
    found = {}
    for queue in queues:
        due = queue.pending or queue.retrying
        which = Filter(queues=(queue.name,), states=("pending", "retrying"))
        first = await store.jobs(which, now=now, limit=1, sort="due") if due else []
        found[queue.name] = max(0.0, (now - first[0].run_at).total_seconds()) if first else 0.0
    return found


def _size(queue: Queue) -> int:
    return queue.pending + queue.scheduled + queue.retrying + queue.running


def _depth(queue: Queue, age: float) -> Depth:
    return Depth(queue.pending, queue.scheduled, queue.retrying, queue.running, age)


# reading


def check_window(window: Span) -> timedelta:
    """The window as a timedelta. Raises BadInput if samples are not kept that long."""
    span = timedelta(seconds=seconds(window, "history()", math.inf))
    grid_of(span)
    return span


def grid_of(window: timedelta) -> SampleGrid:
    """The finest grid that covers the window."""
    if not timedelta(0) < window <= MAX_WINDOW:
        raise BadInput(f"the depth of queues is kept for {MAX_WINDOW.days} days; got {window}")
    return next(grid for grid in GRIDS if window <= grid.retention)


async def history(store: Store, window: timedelta, queue: str | None, *, now: datetime) -> list[DepthSample]:
    """The samples of the last `window`, oldest first, of all queues or one; there are gaps while no worker ran."""
    names = grid_of(window).names(now - window, now)
    found = _samples(await store.documents(KIND, names, now=now, limit=len(names)))
    if queue is None:
        return found
    return [one for sample in found if (one := sample.only(queue)) is not None]


def _samples(documents: Sequence[Document]) -> list[DepthSample]:
    """The samples that can be decoded."""
    found = list[DepthSample]()
    for one in documents:
        with _undecoded.survive(msgspec.MsgspecError):
            found.append(_sample(one.text))
    return found
