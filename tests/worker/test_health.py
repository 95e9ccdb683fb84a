"""Health checks: live if every loop of the worker makes progress, ready if the store answers too; else why not."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from mainspring import Context, Health, Mainspring
from mainspring.records.schema import Schema
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import Faults, FaultStore, VirtualClock


def busy(app: Mainspring) -> None:
    @app.task
    async def nothing() -> None: ...


async def test_an_app_without_a_worker_is_alive_and_ready(app: Mainspring) -> None:
    async with app:
        assert await app.health() == Health(live=True, ready=True, reasons=[])


async def test_a_worker_with_running_loops_is_live_and_ready(app: Mainspring, clock: VirtualClock) -> None:
    busy(app)
    async with app:
        async with app.worker():
            for _ in range(20):
                await clock.elapse(seconds=7)
                assert await app.health() == Health(live=True, ready=True, reasons=[])
        assert await app.health() == Health(live=True, ready=True, reasons=[])


async def test_a_store_that_fails_is_not_ready_and_the_worker_stays_alive(clock: VirtualClock) -> None:
    """To restart a process because its database is down makes it worse."""
    faults = Faults()
    app = Mainspring(FaultStore(MemoryStore(clock), faults), clock=clock)  # type: ignore[arg-type]
    busy(app)
    async with app, app.worker():
        await clock.elapse(seconds=1)
        for verb in ("time", "claim", "beat", "orphaned", "wait", "finished_groups"):
            faults.when(verb, lambda: True)
        await clock.elapse(minutes=5)
        down = await app.health()
        faults.clear()
        await clock.elapse(seconds=10)
        assert await app.health() == Health(live=True, ready=True, reasons=[])
    assert (down.live, down.ready) == (True, False)
    assert down.reasons == ["the store does not answer: injected into time"]


class Hung(MemoryStore):
    """A store that can stop answering."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.answers = asyncio.Event()
        self.answers.set()

    async def schema(self) -> Schema:
        await self.answers.wait()
        return await super().schema()


async def test_a_store_that_hangs_is_not_ready(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.health.STORE_TIMEOUT_SECONDS", 0.05)
    store = Hung(clock)
    app = Mainspring(store, clock=clock)
    async with app:
        store.answers.clear()
        assert await app.health() == Health(True, False, ["the store has not answered within 0.05 s"])


async def test_an_unexpected_store_error_is_reported_as_not_ready(clock: VirtualClock) -> None:
    faults = Faults()
    app = Mainspring(FaultStore(MemoryStore(clock), faults), clock=clock)  # type: ignore[arg-type]
    async with app:
        faults.fail("time", error=lambda: OSError("no route to host"))
        assert await app.health() == Health(True, False, ["the store does not answer: no route to host"])


async def test_a_store_of_another_schema_is_not_ready_and_the_reason_names_the_remedy(clock: VirtualClock) -> None:
    class Old(MemoryStore):
        async def schema(self) -> Schema:
            return Schema(3, 4, 3)

    app = Mainspring(Old(clock), clock=clock)
    async with app:
        health = await app.health()
    assert health.reasons == ["the store has schema 3, this release works with 4: mainspring migrate up"]
    assert (health.live, health.ready) == (True, False)


async def test_a_store_migrated_by_a_later_compatible_release_is_ready(
    clock: VirtualClock,
) -> None:
    class Later(MemoryStore):
        async def schema(self) -> Schema:
            return Schema(5, 4, 4)

    app = Mainspring(Later(clock), clock=clock)
    async with app:
        assert (await app.health()).ready


async def test_a_closed_app_is_not_ready(app: Mainspring) -> None:
    async with app:
        pass
    health = await app.health()
    assert (health.live, health.ready) == (True, False)
    assert "this app is closed" in health.reasons[0]


async def test_a_worker_with_overdue_loops_is_not_live(app: Mainspring, clock: VirtualClock) -> None:
    busy(app)
    async with app, app.worker() as worker:
        await clock.elapse(seconds=6)
        clock.advance(minutes=1)  # as if the loop had been blocked: nothing has turned meanwhile
        health = await app.health()
        await clock.elapse(seconds=10)
        assert (await app.health()).live
    assert (health.live, health.ready) == (False, False)
    assert health.reasons[0].startswith(f"worker {worker.id}: its beat loop has made no progress for 6")
    assert health.reasons[1].startswith(f"worker {worker.id}: its sweep loop has made no progress for 6")


async def test_a_worker_that_ended_by_an_error_is_not_alive(clock: VirtualClock) -> None:
    faults = Faults()
    app = Mainspring(FaultStore(MemoryStore(clock), faults), clock=clock)  # type: ignore[arg-type]
    busy(app)
    async with app:
        worker = await app.worker().__aenter__()
        faults.fail("claim", error=lambda: RuntimeError("a bug"))
        await clock.elapse(seconds=5)
        health = await app.health()
        with pytest.raises(BaseExceptionGroup):
            await worker.stop()
        assert health == Health(False, False, [f"worker {worker.id} has ended"])


class Stuck(MemoryStore):
    """A store that stops answering one verb, and records whether it was called."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.verb, self.asked, self.freed = "", asyncio.Event(), asyncio.Event()

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or name != super().__getattribute__("__dict__").get("verb"):
            return value

        async def stuck(*args: Any, **given: Any) -> Any:
            self.asked.set()
            await self.freed.wait()
            return await value(*args, **given)

        return stuck


LOOPS = {
    "claim": "claim", "finish": "finish", "report": "report", "orphaned": "sweep", "due": "fire",
    "finished_groups": "prune", "overview": "depth", "wait": "listen", "publish": "feed", "documents": "webhook",
    "acquire_term": "leader",
}  # fmt: skip


@pytest.mark.parametrize("verb", LOOPS)
async def test_a_call_of_the_store_that_hangs_makes_the_worker_not_live_and_names_its_loop(
    verb: str, clock: VirtualClock
) -> None:
    store = Stuck(clock)
    app = Mainspring(store, clock=clock, fire="leader", poll_interval=5)

    @app.task
    async def work(ctx: Context) -> None:
        ctx.log.info("working")
        await clock.sleep(1)

    async with app, app.worker() as worker:
        await store.news(after=0, limit=0, until=clock.now() + timedelta(hours=3))
        await clock.elapse(seconds=30)
        store.verb = verb
        await work.enqueue()
        for _ in range(30):  # until the loop has come round to it
            await clock.elapse(seconds=40)
            if store.asked.is_set():
                break
        assert store.asked.is_set()
        assert (await app.health(store=False)).live or verb != "finished_groups"
        await clock.elapse(minutes=11 if verb == "finished_groups" else 3)
        health = await app.health(store=False)
        store.verb = ""
        store.freed.set()
        await clock.elapse(minutes=2)
        assert (await app.health(store=False)).live
    assert not health.live
    waits = rf"has waited \d+ s for the store to answer {verb}"
    text = rf"worker {worker.id}: its {LOOPS[verb]} loop ({waits}|has made no progress)"
    assert any(re.match(text, reason) for reason in health.reasons), health.reasons


async def test_a_beat_that_hangs_makes_the_worker_not_live(clock: VirtualClock) -> None:
    store = Stuck(clock)
    app = Mainspring(store, clock=clock)
    busy(app)
    async with app, app.worker():
        await clock.elapse(seconds=30)
        store.verb = "beat"
        await clock.elapse(minutes=2)
        health = await app.health(store=False)
        store.verb = ""
        store.freed.set()
        await clock.elapse(seconds=30)
    assert not health.live
    assert "its beat loop has made no progress" in health.reasons[0]


async def test_a_claim_that_waits_for_jobs_is_not_stuck(clock: VirtualClock) -> None:
    app = Mainspring(MemoryStore(clock), clock=clock, poll_interval=300)
    busy(app)
    async with app, app.worker():
        for _ in range(30):
            await clock.elapse(seconds=30)
            assert (await app.health(store=False)).live
