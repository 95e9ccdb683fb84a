"""Items of maps, stored page by page: those of a task that yields while it runs, and the bounds of every page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, closing
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from ..clock import Clock
from ..codec import encode
from ..errors import BadPayload, StoreUnavailable
from ..flow.graph import Graph
from ..flow.moves import add_items
from ..flow.yielding import NO_MAPS, may_run, takes_items
from ..records.flow import FLOW_STOPPED, Flow, ItemCounts
from ..records.outcome import Cancel, Discard, Skip, Snooze
from ..store import Store
from ..store.retry import StoreRetry
from ..task.context import Context
from ..task.yields import NO_MAP_TAKES_ITEMS, is_async_generator
from .flow_reads import flow_store

if TYPE_CHECKING:
    from ..task.task import Task

# Items that are made at once.
PAGE_ITEMS = 1000
# A page of what a task yields also ends at this size, and this long after its first item.
PAGE_BYTES = 4 << 20
PAGE_SECONDS = 1.0
# Items of one map that may be unfinished: a map of a million is never a million jobs to claim.
MAX_UNFINISHED_ITEMS = 10_000
# The wait until enough of them will have ended, judged by how fast they did so far.
MIN_SNOOZE_SECONDS, MAX_SNOOZE_SECONDS = 0.1, 30.0


def room_for(several: Iterable[ItemCounts]) -> int:
    """How many items each of these maps may still make now."""
    return MAX_UNFINISHED_ITEMS - max(counts.made - counts.ended for counts in several)


def snooze_until_room(several: Iterable[ItemCounts], now: datetime) -> NoReturn:
    """Gives the slot back until about half of the unfinished items will have ended."""
    raise Snooze(max(_seconds_until_room(counts, now) for counts in several), "enough items are unfinished")


def _seconds_until_room(counts: ItemCounts, now: datetime) -> float:
    lasted = (now - (counts.released_at or now)).total_seconds()
    needed = counts.made - counts.ended - MAX_UNFINISHED_ITEMS // 2
    return min(max(MIN_SNOOZE_SECONDS, lasted * needed / max(1, counts.ended)), MAX_SNOOZE_SECONDS)


class _NoMaps(Exception):
    """No map over the step takes items any more, or yet."""


class ItemPages:
    """What a task yields, in one run of its job: collected into pages, which become items of the maps over it."""

    def __init__(
        self, ctx: Context, clock: Clock, store_calls: Callable[[], tuple[Store, StoreRetry]], item_limit: int
    ) -> None:
        """`item_limit`: bytes of an item as JSON."""
        self._job, self._clock, self._store_calls, self._item_limit = ctx.job, clock, store_calls, item_limit
        self._texts: list[str] = []
        self._bytes = 0
        self._page_ends = PAGE_ITEMS
        self._page_until = 0.0
        self._made = 0
        self._goes_on = False
        self._count: int | None = None
        """How many items were yielded, those before this run among them. None before the first one."""

    @property
    def total(self) -> int:
        """How many items there are in all, once the task has returned."""
        return self._first_index() if self._count is None else self._count

    def asked_made(self) -> int:
        """How many items are made. From now on the task is expected to yield those behind them."""
        self._goes_on = True
        return self._made

    async def begin(self) -> None:
        """Reads how far the maps are. Ends the run if enough items are unfinished."""
        _, _, maps = await self._read()
        self._made = min(counts.made for counts in maps.values())
        # Each run makes many, since the next one may have to pass over them.
        self._check_room(maps, MAX_UNFINISHED_ITEMS // 2)

    def take(self, value: Any) -> bool:
        """Notes what was yielded. Returns whether the page is to be stored before the task goes on."""
        if self._count is None:
            self._count = self._first_index()
        self._count += 1
        if self._count <= self._made:  # made by an earlier run
            return self._count % PAGE_ITEMS == 0
        text = self._encoded(value)
        if not self._texts:
            self._page_until = self._clock.monotonic() + PAGE_SECONDS
        self._texts.append(text)
        self._bytes += len(text)
        full = len(self._texts) >= self._page_ends or self._bytes >= PAGE_BYTES
        return full or self._clock.monotonic() >= self._page_until

    async def store(self, *, last: bool = False) -> None:
        """Stores the page as items. Ends the run if the flow has stopped, or if enough items are unfinished."""
        if not self._texts:
            await asyncio.sleep(0)  # what was made before is passed over in steps, so that others run
            return
        graph, row, maps = await self._read()
        first = self._made + 1
        next_maps = [n for n, counts in maps.items() if counts.made >= self._made]
        if not next_maps:
            raise Snooze(MIN_SNOOZE_SECONDS, "a map over it begins anew")
        now = self._clock.now()
        moves = (add_items(graph, row, n, first, self._texts, now, last=False) for n in next_maps)
        jobs = [job for move in moves for job in move.jobs]
        if jobs:  # none if another run of this job is ahead
            await self._call("making items", lambda store: store.enqueue(jobs, now=now))
        self._made += len(self._texts)
        self._texts, self._bytes = [], 0
        if not last and room_for(maps.values()) < 2 * PAGE_ITEMS:
            self._check_room((await self._read())[2], PAGE_ITEMS)

    def _first_index(self) -> int:
        return self._made if self._goes_on else 0

    def _check_room(self, maps: Mapping[int, ItemCounts], least: int) -> None:
        if room_for(maps.values()) < least:
            snooze_until_room(maps.values(), self._clock.now())

    def _encoded(self, value: Any) -> str:
        try:
            data = encode(value, self._item_limit)
        except BadPayload as bad:
            raise Discard(f"item {(self._count or 1) - 1} cannot be sent: {bad}") from None
        if len(data) > self._item_limit:
            raise Discard(
                f"item {(self._count or 1) - 1} is {len(data):,} bytes, the limit is {self._item_limit:,} "
                "(payload_limit): keep big data elsewhere and yield its name"
            )
        return data.decode()

    async def _read(self) -> tuple[Graph, Flow, dict[int, ItemCounts]]:
        """The flow, and the counts of the maps that take items."""
        step = self._job.step
        if step is None:
            raise Discard(f"task {self._job.task!r} {NO_MAP_TAKES_ITEMS}")
        rows = await self._call("reading flows", lambda store: flow_store(store).flows([step.flow]))
        if not rows or rows[0].row.lives.get(step.number, 0) != step.life:
            raise Cancel(FLOW_STOPPED)
        graph, row = Graph(rows[0].plan), rows[0].row
        if not may_run(graph.steps[step.number], row.state):
            raise Cancel(FLOW_STOPPED)
        if step.number not in graph.yielders:
            raise Discard(
                f"task {self._job.task!r} yields, and its flow was planned with a stub of it that does not: "
                "annotate the stub with -> AsyncIterator[…]"
            )
        maps = {n: row.counts[n] for n in graph.yielders[step.number].maps if takes_items(graph, row, n)}
        if not maps:
            raise _NoMaps
        self._page_ends = max(1, PAGE_ITEMS // len(maps))
        return graph, row, maps

    async def _call(self, doing: str, act: Callable[[Store], Any]) -> Any:
        store, retry = self._store_calls()
        try:
            return await retry(doing, lambda: act(store))
        except StoreUnavailable as error:  # of a worker that stops, which does not wait
            raise Snooze(MIN_SNOOZE_SECONDS, str(error)) from None


async def run_yielding(
    task: Task[Any, Any], ctx: Context, pages: ItemPages, call_in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> Any:
    """Runs a task that yields, and returns how many items there are, or that no map takes them."""
    ctx.yield_into(pages)
    args, kwargs = ctx.arguments
    call = partial(task.fn, *(() if task.arguments.context is None else (ctx,)), *args, **kwargs)
    try:
        await pages.begin()
        if is_async_generator(task.fn):
            await _run(call, pages)
        else:
            await call_in_thread(partial(_run_in_thread, call, pages, asyncio.get_running_loop()))
        await pages.store(last=True)
    except _NoMaps:
        return msgspec.json.decode(NO_MAPS)
    except Skip as skip:
        if pages.total:
            raise Discard(f"it raised Skip ({skip}) after it had yielded items: return instead") from None
        raise
    return pages.total


async def _run(call: Callable[[], Any], pages: ItemPages) -> None:
    async with aclosing(call()) as values:
        async for value in values:
            if pages.take(value):
                await pages.store()


def _run_in_thread(call: Callable[[], Any], pages: ItemPages, loop: asyncio.AbstractEventLoop) -> None:
    with closing(call()) as values:
        for value in values:
            if pages.take(value):
                asyncio.run_coroutine_threadsafe(pages.store(), loop).result()
