"""publish and news: feed items are numbered in order, and publishers learn until when the feed is wanted."""

from __future__ import annotations

import asyncio

from ...records.feed import MIN_FEED_ITEMS
from .build import NOW, SPECIAL_TEXTS, Contract, beat, later
from .sentences import proves


class FeedContract(Contract):
    @proves("FD1", "FD5")
    async def test_feed_items_are_numbered_and_read_in_order(self) -> None:
        async with self.opened() as store:
            assert (await store.news(after=0, limit=10)).last == 0
            await store.publish(["a", "b"], now=NOW)
            await store.publish([*SPECIAL_TEXTS], now=NOW)
            feed = await store.news(after=1, limit=3)
            assert [(one.n, one.text) for one in feed.news] == [(2, "b"), (3, SPECIAL_TEXTS[0]), (4, SPECIAL_TEXTS[1])]
            assert (feed.first, feed.last) == (1, 2 + len(SPECIAL_TEXTS))
            assert (await store.news(after=feed.last, limit=10)).news == []

    @proves("FD1")
    async def test_a_feed_reader_misses_nothing_of_concurrent_publishers(self) -> None:
        async with self.opened() as store:

            async def publish(who: str) -> None:
                for n in range(20):
                    await store.publish([f"{who}{n}", f"{who}{n}+"], now=NOW)

            async def read() -> list[tuple[int, str]]:
                seen: list[tuple[int, str]] = []
                while len(seen) < 160:
                    feed = await store.news(after=seen[-1][0] if seen else 0, limit=50)
                    seen += [(one.n, one.text) for one in feed.news]
                    await asyncio.sleep(0)
                return seen

            async with asyncio.timeout(30), asyncio.TaskGroup() as together:
                reading = together.create_task(read())
                for who in "abcd":
                    together.create_task(publish(who))
            seen = reading.result()
            assert [n for n, _ in seen] == list(range(1, 161))
            texts = [text for _, text in seen]
            assert all(texts[at + 1] == f"{text}+" for at, text in enumerate(texts) if not text.endswith("+"))

    @proves("FD2")
    async def test_the_newest_feed_items_are_kept_and_the_first_number_is_returned(self) -> None:
        async with self.opened() as store:
            count = 2 * MIN_FEED_ITEMS + 3000
            for n in range(0, count, 1000):
                await store.publish([str(n + i) for i in range(1000)], now=NOW)
            feed = await store.news(after=0, limit=5)
            assert feed.last == count
            assert 1 < feed.first <= count - MIN_FEED_ITEMS + 1
            assert [one.n for one in feed.news] == list(range(feed.first, feed.first + 5))

    @proves("B4", "FD3", "FD6")
    async def test_publish_and_beat_return_until_when_the_feed_is_wanted(self) -> None:
        async with self.opened() as store:
            assert await store.publish([], now=NOW) is None
            assert (await beat(store)).watched_until is None
            assert await store.publish(["a"], now=NOW) is None
            await store.news(after=0, limit=1, until=later(20))
            await store.news(after=0, limit=1, until=later(10))
            assert await store.publish([], now=NOW) == later(20)
            assert await store.publish(["a"], now=NOW) == later(20)
            assert (await beat(store)).watched_until == later(20)

    @proves("FD6", "FD7")
    async def test_news_return_until_when_the_feed_was_wanted_before(self) -> None:
        async with self.opened() as store:
            await store.publish(["a"], now=NOW)
            given = [None, later(20), None, later(10), later(30), None]
            pages = [await store.news(after=0, limit=1, until=until) for until in given]
            assert [page.wanted_until for page in pages] == [None, None, later(20), later(20), later(20), later(30)]
            assert all([one.text for one in page.news] == ["a"] for page in pages)

    @proves("V11")
    async def test_publish_of_no_items_writes_nothing(self) -> None:
        async with self.opened() as store:
            assert await store.publish([], now=NOW) is None
            feed = await store.news(after=0, limit=10)
            assert (feed.news, feed.first, feed.last) == ([], 1, 0)

    @proves("FD4")
    async def test_publish_of_no_items_adds_none(self) -> None:
        async with self.opened() as store:
            await store.publish([], now=NOW)
            await store.publish(["a"], now=NOW)
            await store.publish([], now=NOW)
            feed = await store.news(after=0, limit=10)
            assert ([one.text for one in feed.news], feed.last) == (["a"], 1)
