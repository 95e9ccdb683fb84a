"""The feed hub: one read serves all readers, and a reader that reconnects misses nothing or gets a reset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring import BadInput, Mainspring, StoreUnavailable
from mainspring.feed.event import RESET, FeedEvent, encode
from mainspring.feed.hub import MAX_BUFFERED_EVENTS, WATCH_SECONDS, FeedHub, NumberedEvent, ReaderLagged
from mainspring.records.feed import MIN_FEED_ITEMS, Feed
from mainspring.store import Store
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock


class Looked(MemoryStore):
    """A store that counts reads of the feed, and can be made unavailable."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.looks, self.fails = 0, False

    async def news(self, *, after: int, limit: int, until: datetime | None = None) -> Feed:
        self.looks += 1
        if self.fails:
            raise StoreUnavailable("not now")
        return await super().news(after=after, limit=limit, until=until)


class Ground:
    """An app with a watched store, and feed hubs on it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.store = Looked(clock)
        self.app = Mainspring(self.store, clock=clock)

    def stand(self, **more: Any) -> FeedHub:
        return FeedHub(self.app.connect, self.clock, self.app.herald, beat=5.0, **more)

    async def publish(self, *names: str) -> None:
        texts = [encode(FeedEvent(type="queue.paused", at=self.clock.now(), queue=name)) for name in names]
        await self.store.publish(texts, now=self.clock.now())

    async def watched(self, seconds: float = 3600) -> None:
        await MemoryStore.news(self.store, after=0, limit=0, until=self.clock.now() + timedelta(seconds=seconds))


@pytest.fixture
def ground(clock: VirtualClock) -> Ground:
    return Ground(clock)


def said(items: list[NumberedEvent]) -> list[str]:
    return [item.notice.queue or f"{item.notice.type}:{item.notice.reason}" for item in items]


async def read(ground: Ground, reader: Any, seconds: float = 1.0) -> list[str]:
    """The events that the reader gets within this time."""
    reading = asyncio.ensure_future(reader.read(seconds))
    await ground.clock.elapse(seconds=seconds)
    return said(await reading)


async def test_a_reader_gets_events_from_now_on(ground: Ground) -> None:
    await ground.watched()
    await ground.publish("before")
    async with ground.stand().reader() as reader:
        await ground.publish("one", "two")
        assert await read(ground, reader) == ["one", "two"]
        await ground.publish("three")
        assert await read(ground, reader) == ["three"]
        assert await read(ground, reader) == []


async def test_a_reader_that_reconnects_continues_after_its_number(ground: Ground) -> None:
    await ground.watched()
    await ground.publish(*"abcdef")
    async with ground.stand().reader(3) as reader:
        assert await read(ground, reader) == ["d", "e", "f"]
        assert reader.after == 6
        await ground.publish("g")
        assert await read(ground, reader) == ["g"]


async def test_missed_pages_are_read_from_the_store(ground: Ground) -> None:
    await ground.watched()
    await ground.publish(*(str(n) for n in range(2500)))
    seen: list[str] = []
    async with ground.stand().reader(0) as reader:
        while found := await read(ground, reader, 0.5):
            seen += found
    assert seen == [str(n) for n in range(2500)]


async def test_a_reader_at_a_pruned_number_gets_a_reset(ground: Ground) -> None:
    await ground.watched()
    await ground.publish(*(str(n) for n in range(MIN_FEED_ITEMS + 10)))
    async with ground.stand().reader(9) as reader:
        assert await read(ground, reader) == ["reset:too_old"]
        assert reader.after == MIN_FEED_ITEMS + 10
        await ground.publish("next")
        assert await read(ground, reader) == ["next"]
    async with ground.stand().reader(11) as reader:
        assert (await read(ground, reader))[0] == "11"


async def test_a_reader_at_an_unassigned_number_gets_a_reset(ground: Ground) -> None:
    await ground.watched()
    await ground.publish("a")
    async with ground.stand().reader(500) as reader:
        assert await read(ground, reader) == ["reset:began_anew"]
        await ground.publish("b")
        assert await read(ground, reader) == ["b"]


async def test_a_reader_ahead_of_the_hub_is_not_reset(ground: Ground) -> None:
    """It may have read from another process, whose hub read the store a moment later."""
    await ground.watched()
    stand = ground.stand()
    async with stand.reader() as first:
        await ground.publish("a", "b")
        async with stand.reader(1) as second:
            assert await read(ground, second, 0.1) == ["b"]
            await ground.publish("c")
            assert await read(ground, second) == ["c"]
        assert await read(ground, first) == ["a", "b", "c"]


async def test_readers_are_reset_when_the_feed_restarts(ground: Ground) -> None:
    await ground.watched()
    await ground.publish(*"abc")
    async with ground.stand().reader() as reader:
        assert await read(ground, reader) == []
        ground.store._feed_items.clear()
        ground.store._last_number = 0
        await ground.publish("x")
        assert await read(ground, reader) == ["reset:began_anew"]
        assert await read(ground, reader) == ["x"]


async def test_events_before_the_watch_are_announced_by_a_reset(ground: Ground) -> None:
    await ground.watched(60)
    await ground.publish("seen")
    ground.clock.advance(hours=1)
    async with ground.stand().reader(1) as reader:
        assert await read(ground, reader, 0.1) == ["reset:unwatched"]


async def test_a_second_reader_gets_the_reset_of_an_unwatched_time_too(ground: Ground) -> None:
    await ground.watched(60)
    await ground.publish("seen")
    ground.clock.advance(hours=1)
    stand = ground.stand()
    async with stand.reader():
        await ground.publish("later")
        async with stand.reader(1) as returned:
            assert (await read(ground, returned, 0.1)) == ["reset:unwatched", "later"]


async def test_a_second_reset_follows_when_every_process_knows_of_the_watch(ground: Ground) -> None:
    async with ground.stand().reader() as reader:
        assert await read(ground, reader, 5.9) == []
        assert await read(ground, reader, 1) == ["reset:settled"]
        assert await read(ground, reader, 120) == []


async def test_no_reset_if_the_feed_is_watched_already(ground: Ground) -> None:
    await ground.watched(60)
    async with ground.stand().reader() as reader:
        assert await read(ground, reader, 50) == []


async def test_the_watch_is_renewed_and_outlives_the_reader(ground: Ground) -> None:
    async with ground.stand().reader() as reader:
        await read(ground, reader, 300)
        until = await ground.store.publish([], now=ground.clock.now())
        assert until is not None
        assert WATCH_SECONDS - 21 <= (until - ground.clock.now()).total_seconds() <= WATCH_SECONDS
        assert ground.app.herald.watched
    assert ground.app.herald.watched


async def test_one_read_of_the_store_serves_all_readers(ground: Ground) -> None:
    await ground.watched()
    stand = ground.stand()
    async with readers(stand, 50) as many:
        ground.store.looks = 0
        await ground.publish("a")
        reading = [asyncio.ensure_future(reader.read(1.0)) for reader in many]
        await ground.clock.elapse(seconds=1)
        assert [said(await one) for one in reading] == [["a"]] * 50
        assert ground.store.looks <= 6


@asynccontextmanager
async def readers(stand: FeedHub, n: int) -> AsyncIterator[list[Any]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(stand.reader()) for _ in range(n)]


async def test_the_store_is_not_read_without_readers(ground: Ground) -> None:
    async with ground.stand().reader() as reader:
        await read(ground, reader)
    await ground.clock.elapse(seconds=1)
    ground.store.looks = 0
    await ground.clock.elapse(seconds=60)
    assert ground.store.looks == 0


async def test_a_lagging_reader_raises_and_others_go_on(ground: Ground) -> None:
    await ground.watched()
    stand = ground.stand()
    async with stand.reader() as slow, stand.reader() as quick, stand.reader(catch_up=True) as patient:
        await read(ground, slow, 0.1)
        await read(ground, patient, 0.1)
        seen = 0
        for _ in range(0, MAX_BUFFERED_EVENTS + 1000, 1000):
            await ground.publish(*["x"] * 1000)
            seen += len(await read(ground, quick))
        assert seen == MAX_BUFFERED_EVENTS + 1000
        with pytest.raises(ReaderLagged):
            await slow.read(0)
        assert len(await patient.read(0)) == 1000


async def test_the_hub_survives_an_unavailable_store(ground: Ground) -> None:
    await ground.watched()
    async with ground.stand().reader() as reader:
        ground.store.fails = True
        assert await read(ground, reader, 10) == []
        await ground.publish("a")
        ground.store.fails = False
        assert await read(ground, reader, 2) == ["a"]


async def test_the_hub_closes_when_the_process_stops(ground: Ground) -> None:
    leaving = False
    stand = ground.stand(leaving=lambda: leaving)
    async with stand.reader() as reader:
        await read(ground, reader)
        leaving = True
        reading = asyncio.ensure_future(reader.read(None))
        await ground.clock.elapse(seconds=1)
        assert await reading == []
        assert not stand.open


async def test_the_hub_closes_when_the_app_is_closed(ground: Ground) -> None:
    stand = ground.stand()
    async with stand.reader() as reader:
        await ground.app.close()
        assert await read(ground, reader) == []
        assert not stand.open


async def test_a_text_that_is_not_a_feed_event_is_ignored(ground: Ground) -> None:
    await ground.watched()
    now = ground.clock.now()
    bad = ["nonsense", '{"type":"a\\nb","at":"2030-01-01T09:00:00Z"}', '{"type":"a.b",\n"at":"2030-01-01T09:00:00Z"}']
    async with ground.stand().reader() as reader:
        await ground.store.publish(bad, now=now)
        await ground.publish("good")
        assert await read(ground, reader) == ["good"]


# app.watch


async def test_app_watch_yields_events(clock: VirtualClock, store: Store) -> None:
    app = Mainspring(store, clock=clock)

    @app.task
    async def work() -> None: ...

    found: list[NumberedEvent] = []

    async def follow() -> None:
        async for item in app.watch(types=["job.completed"], tasks=["work"]):
            found.append(item)

    async with app:
        following = asyncio.ensure_future(follow())
        await clock.elapse(seconds=1)
        async with app.worker():
            handle = await work.enqueue()
            await clock.elapse(seconds=1)
        await clock.elapse(seconds=10)
        following.cancel()
    assert [item.notice.type for item in found] == ["job.completed", RESET]
    assert found[0].notice.job is not None
    assert found[0].notice.job.id == handle.id


async def test_app_watch_refuses_an_unknown_type(ground: Ground) -> None:
    with pytest.raises(BadInput, match="no event type"):
        async for _ in ground.app.watch(types=["jobs"]):
            pass
