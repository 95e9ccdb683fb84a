"""Very many schedules: pages read few of them, and responses have the time they are as of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from datetime import timedelta
from typing import Any

import httpx
import pytest
from http_client import Client

from mainspring import Mainspring
from mainspring.control import schedule_index
from mainspring.control.schedule_index import SCAN_ROWS
from mainspring.schedule.edit import create
from mainspring.schedule.record import Firing, Schedule, Spec
from mainspring.store import Store
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import VirtualClock
from mainspring.trigger import Every

SCHEDULES_COUNT = 5 * SCAN_ROWS


class Counting(MemoryStore):
    """Counts the rows that were read in lists."""

    read = 0

    async def schedules(
        self, names: Collection[str] | None = None, *, limit: int, after: str | None = None
    ) -> list[Schedule]:
        found = await super().schedules(names, limit=limit, after=after)
        self.read += len(found)
        return found


@pytest.fixture
def store(clock: VirtualClock) -> Counting:
    return Counting(clock=clock)


@pytest.fixture
def spring(clock: VirtualClock, store: Counting) -> Mainspring:
    app = Mainspring(store, clock=clock)

    @app.task
    async def report() -> None:
        """Nothing to do."""

    return app


@pytest.fixture
def many(store: Counting, clock: VirtualClock) -> None:
    """Every thousandth schedule has another task; the schedules tick one after the other, the last one first."""
    now = clock.now()

    def row(n: int) -> Schedule:
        spec = Spec(trigger=Every(seconds=86_400, anchor=now - timedelta(seconds=n)), task=_task(n))
        return create(f"s-{n:05}", spec, owner="user", now=now)

    asyncio.run(
        store.fire([Firing(schedule=row(n)) for n in range(1, SCHEDULES_COUNT)] + [Firing(schedule=row(0))], now=now)
    )


def _task(n: int) -> str:
    return "rare" if n % 1000 == 999 else "report"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first read of the index does not get beyond its first page."""

    async def stuck(store: Store) -> AsyncIterator[list[Schedule]]:
        yield await store.schedules(limit=schedule_index.PAGE_ROWS)
        await asyncio.Event().wait()

    monkeypatch.setattr(schedule_index, "pages", stuck)


async def asked(http: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_page_of_schedules_reads_as_many_as_it_shows(client: Client, store: Counting, many: None) -> None:
    async with client("viewer") as http:
        store.read = 0
        page = await asked(http, "/schedules", limit=50, after="s-04999")
        assert [row["name"] for row in page["items"]] == [f"s-{n:05}" for n in range(5000, 5050)]
        assert (page["next"], store.read) == ("s-05049", 50)


async def test_a_filtered_page_reads_no_more_than_its_scan_while_there_is_no_index(
    client: Client, store: Counting, many: None, slow: None
) -> None:
    async with client("viewer") as http:
        found: list[str] = []
        after, pages = None, 0
        while pages == 0 or after:
            before = store.read
            page = await asked(http, "/schedules", task="rare", limit=50, **({"after": after} if after else {}))
            assert store.read - before <= SCAN_ROWS + schedule_index.PAGE_ROWS  # one page of the index is read, too
            found += [row["name"] for row in page["items"]]
            after, pages = page["next"], pages + 1
            assert pages < 20
        assert found == [f"s-{n:05}" for n in range(999, SCHEDULES_COUNT, 1000)]


@pytest.mark.parametrize("query", [{"task": "rare"}, {"q": "S-05"}, {"status": "active", "task": "rare"}], ids=str)
async def test_a_filtered_page_is_complete_with_an_index(
    client: Client, spring: Mainspring, many: None, query: dict[str, str]
) -> None:
    async with client("viewer") as http:
        await spring.schedules.index.snapshot(60)
        page = await asked(http, "/schedules", limit=200, **query)
        names = [f"s-{n:05}" for n in range(SCHEDULES_COUNT) if "05" in f"{n:05}"[:2]] if "q" in query else [
            f"s-{n:05}" for n in range(999, SCHEDULES_COUNT, 1000)]  # fmt: skip
        assert [row["name"] for row in page["items"]] == names[:200]
        assert page["next"] == (names[199] if len(names) > 200 else None)


async def test_the_outlook_reads_all_schedules_once_and_has_the_time_of_that_read(
    client: Client,
    spring: Mainspring,
    store: Counting,
    many: None,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with client("viewer") as http:
        await spring.schedules.index.snapshot(60)
        first = await asked(http, "/scheduler/outlook", limit=3)
        assert (first["active"], first["complete"]) == (SCHEDULES_COUNT, True)
        assert [row["name"] for row in first["next"]] == [f"s-{SCHEDULES_COUNT - n:05}" for n in (1, 2, 3)]
        await spring.schedules.index.snapshot(60)  # completes the read that the request began
        monkeypatch.setattr(schedule_index, "WAIT_SECONDS", -1.0)  # as if the reading had taken long
        store.read = 0
        clock.advance(seconds=schedule_index.MIN_AGE_SECONDS - 1)
        again = await asked(http, "/scheduler/outlook", limit=3)
        assert (again["as_of"], again["complete"]) == (first["as_of"], True)
        assert store.read <= 9
        clock.advance(seconds=2)
        await spring.schedules.index.snapshot(60)
        assert store.read >= SCHEDULES_COUNT


async def test_the_first_outlook_counts_only_the_schedules_that_were_read_so_far(
    client: Client, many: None, slow: None
) -> None:
    async with client("viewer") as http:
        outlook = await asked(http, "/scheduler/outlook", limit=2)
        assert not outlook["complete"]
        assert outlook["active"] == schedule_index.PAGE_ROWS
        # The next schedules are found without the index.
        assert [row["name"] for row in outlook["next"]] == [f"s-{SCHEDULES_COUNT - n:05}" for n in (1, 2)]
        figures = await asked(http, "/scheduler/metrics")
        assert (figures["active"], figures["complete"]) == (schedule_index.PAGE_ROWS, False)


async def test_a_schedule_paused_here_is_seen_at_once_in_a_filtered_list(
    client: Client, spring: Mainspring, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client("operator") as http:
        await spring.schedules.index.snapshot(60)
        assert (await asked(http, "/schedules", status="paused"))["items"] == []
        await spring.schedules.index.snapshot(60)
        monkeypatch.setattr(schedule_index, "WAIT_SECONDS", -1.0)
        assert (await http.post("/schedules/s-07000/pause")).status_code == 200
        page = await asked(http, "/schedules", status="paused")
        assert [row["name"] for row in page["items"]] == ["s-07000"]
        page = await asked(http, "/schedules", status="paused", after="s-07000")
        assert page["items"] == []


async def test_a_filtered_page_reads_few_schedules_after_very_many_were_changed_here(
    client: Client, spring: Mainspring, store: Counting, many: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client("operator") as http:
        await spring.schedules.index.snapshot(60)
        monkeypatch.setattr(schedule_index, "WAIT_SECONDS", -1.0)  # as if the reading had taken long
        bulk: dict[str, Any] = {"action": "pause", "all": True, "after": None}
        for _ in range(SCHEDULES_COUNT // 1000):
            bulk["after"] = (await http.post("/scheduler/bulk", json=bulk)).json()["next"]
        assert len(spring.schedules.index.touched) == SCHEDULES_COUNT
        for status, fitting in (("paused", 50), ("active", 0)):
            store.read = 0
            page = await asked(http, "/schedules", limit=50, status=status)
            assert (len(page["items"]), store.read <= SCAN_ROWS) == (fitting, True)
        found, after, pages = list[str](), dict[str, str](), 0
        while pages == 0 or after:
            page = await asked(http, "/schedules", task="rare", limit=50, **after)
            found += [row["name"] for row in page["items"]]
            after, pages = {"after": page["next"]} if page["next"] else {}, pages + 1
        assert found == [f"s-{n:05}" for n in range(999, SCHEDULES_COUNT, 1000)]
