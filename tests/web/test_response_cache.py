"""The response cache: slow results are cached, and changes clear it."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import httpx
import pytest
from http_client import Client

from mainspring import Mainspring
from mainspring.api.response_cache import MAX_AGE_SECONDS, MAX_CACHED_RESPONSES, ResponseCache
from mainspring.control.queues import Queues
from mainspring.records.queue import Queue
from mainspring.testing import VirtualClock


class Store:
    """Counts its calls; each call takes some time."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self.clock, self.seconds, self.asked = clock, seconds, 0

    async def count(self) -> int:
        mine = self.asked = self.asked + 1
        await self.clock.sleep(self.seconds)
        return mine


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(autojump=True)


@pytest.mark.parametrize(
    ("cost", "later", "asked"), [(0.01, 0.0, 2), (0.1, 1.9, 1), (0.1, 2.1, 2), (9, MAX_AGE_SECONDS - 1, 1)]
)
async def test_a_slow_result_is_cached_for_twenty_times_its_load_time(
    clock: VirtualClock, cost: float, later: float, asked: int
) -> None:
    recent, store = ResponseCache(clock), Store(clock, cost)
    await recent.get("jobs", store.count)
    await clock.sleep(later)
    assert await recent.get("jobs", store.count) == asked
    assert await recent.get("others", store.count) == asked + 1


async def test_concurrent_reads_share_one_load(clock: VirtualClock) -> None:
    recent, store = ResponseCache(clock), Store(clock, 0.01)
    assert await asyncio.gather(*(recent.get("jobs", store.count) for _ in range(50))) == [1] * 50


async def test_a_cancelled_reader_does_not_cancel_the_shared_load(clock: VirtualClock) -> None:
    recent, store = ResponseCache(clock), Store(clock, 1)
    gone, stays = [asyncio.create_task(recent.get("jobs", store.count)) for _ in range(2)]
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == 1


async def test_an_error_is_not_cached(clock: VirtualClock) -> None:
    recent, store = ResponseCache(clock), Store(clock, 1)

    async def fail() -> int:
        await clock.sleep(1)
        raise ConnectionError("away")

    with pytest.raises(ConnectionError):
        await recent.get("jobs", fail)
    assert await recent.get("jobs", store.count) == 1


async def test_clear_drops_results_and_loads_under_way(clock: VirtualClock) -> None:
    recent, store = ResponseCache(clock), Store(clock, 1)
    before = asyncio.create_task(recent.get("jobs", store.count))
    await asyncio.sleep(0)
    recent.clear()
    assert await recent.get("jobs", store.count) == 2
    assert await before == 1
    assert await recent.get("jobs", store.count) == 2


async def test_a_change_through_the_api_clears_the_cache(
    client: Client, spring: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Queues.list

    async def slow(self: Queues) -> list[Queue]:
        await clock.sleep(1)
        return await listed(self)

    monkeypatch.setattr(Queues, "list", slow)

    async def names(http: httpx.AsyncClient) -> list[str]:
        return [one["name"] for one in (await http.get("/queues")).json()["items"]]

    async with client("operator") as http:
        assert await names(http) == []
        await spring.queues.pause("elsewhere")
        assert await names(http) == []
        await http.post("/queues/mail/pause")
        assert await names(http) == ["elsewhere", "mail"]


async def test_the_cache_drops_the_oldest_result_when_it_is_full(clock: VirtualClock) -> None:
    recent, store = ResponseCache(clock), Store(clock, 0.1)
    for n in range(MAX_CACHED_RESPONSES + 5):
        await recent.get(n, Store(clock, 0.05).count)
    assert await recent.get("jobs", store.count) == 1
    assert await recent.get("jobs", store.count) == 1


@pytest.mark.parametrize(
    ("role", "path", "body"),
    [
        (None, "/session", {"key": "msk_0123456789ab_wrong"}),
        (None, "/hooks/nothing", {}),
        ("viewer", "/cron/preview", {"trigger": "0 9 * * *"}),
        ("viewer", "/queues/mail/pause", {}),
        ("operator", "/jobs", {"task": "nothing"}),
        ("operator", "/jobs/nothing/cancel", {}),
    ],
)
async def test_refused_requests_and_reads_do_not_clear_the_cache(
    client: Client,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    role: Literal["viewer", "operator"] | None,
    path: str,
    body: Any,
) -> None:
    listed, asked = Queues.list, list[int]()

    async def slow(self: Queues) -> list[Queue]:
        asked.append(1)
        await clock.sleep(1)
        return await listed(self)

    monkeypatch.setattr(Queues, "list", slow)
    async with client("viewer") as http, client(role) as other:
        await http.get("/queues")
        assert (await other.post(path, json=body)).status_code < 500
        await http.get("/queues")
    assert len(asked) == 1
