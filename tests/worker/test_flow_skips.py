"""Steps of flows that an operator skips, in a worker: the flow goes on, and says so."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from flow_kit import ended, states

from mainspring import BadInput, JobExists, Mainspring, StoreUnavailable, act_as
from mainspring.records.audit import AuditFilter
from mainspring.testing import Faults, FaultStore, VirtualClock


async def test_dead_flow_goes_on_without_the_step_that_is_skipped(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def check() -> bool:
        return True

    @app.task(max_retries=0)
    async def charge(good: bool) -> str:
        raise ValueError("card refused")

    @app.task
    async def ship(good: bool, txn: str | None) -> str:
        return f"shipped, {txn}"

    @app.task
    async def receipt(good: bool, txn: str) -> str:
        return txn

    @app.flow
    def fulfil() -> str:
        good = check.step()
        txn = charge.step(good)
        receipt.step(good, txn)
        return ship.step(good, txn)

    async with app:
        run = await fulfil.enqueue()
        assert (await ended(app, clock, run)).state == "dead"
        with act_as("ada"):
            step = await app.flows.skip(run.id, "charge", "paid in cash")
        assert (step.state, step.skipped_because, step.note) == ("skipped", "operator", "paid in cash")
        job = await ended(app, clock, run)
        assert (job.state, job.result) == ("completed", '"shipped, None"')
        expected = {"check": "completed", "charge": "skipped", "receipt": "skipped", "ship": "completed"}
        assert await states(app, run) == expected
        why = [reason.text for reason in await app.flows.why(run.id)]
        assert "charge was skipped: an operator has skipped it (paid in cash)" in why
        (entry,) = await app.audit.list(AuditFilter(action="flows.skip"))
        assert (entry.who, entry.target, entry.asked) == ("ada", run.id, '{"step":"charge","reason":"paid in cash"}')


async def test_running_step_that_is_skipped_is_stopped_and_the_flow_goes_on(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task
    async def search() -> str:
        await clock.sleep(timedelta(days=1).total_seconds())
        return "found"

    @app.task
    async def tell(text: str | None) -> str:
        return f"told {text}"

    @app.flow
    def look() -> str:
        return tell.using(on="end").step(search.step())

    async with app:
        run = await look.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
            step = await app.flows.skip(run.id, "search", "takes too long")
            assert (step.state, step.note) == ("running", "takes too long")
            await clock.elapse(minutes=2)
            assert (await run.job()).result == '"told None"'
            assert await states(app, run) == {"search": "skipped", "tell": "completed"}


async def test_step_that_cannot_be_skipped_is_refused_with_the_reason(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def work(n: int) -> int:
        return 1 // n

    @app.flow
    def both(n: int) -> int:
        work.using(step="first").step(1)
        work.using(step="second", optional=n < 0).step(0)
        return n

    async with app:
        run = await both.using(unique_key="one").enqueue(1)
        with pytest.raises(BadInput, match=r"has no steps: it was not planned yet"):
            await app.flows.skip(run.id, "first")
        await ended(app, clock, run)
        with pytest.raises(BadInput, match=r"the flow has no step 'third' \(it has 'first', 'second'\)"):
            await app.flows.skip(run.id, "third")
        with pytest.raises(BadInput, match=r"step 'first' of flow \S+ cannot be skipped: it has completed"):
            await app.flows.skip(run.id, "first")
        other = await both.using(unique_key="one").enqueue(-1)
        with pytest.raises(JobExists, match="one"):
            await app.flows.skip(run.id, "second")
        await ended(app, clock, other)
        with pytest.raises(BadInput, match=r"flow \S+ \(both\) has completed: it has nothing to skip"):
            await app.flows.skip(other.id, "second")


async def test_skip_whose_reply_is_lost_may_be_repeated(app: Mainspring, clock: VirtualClock) -> None:
    faults = Faults()
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]

    @app.task(max_retries=0)
    async def work(n: int) -> int:
        return 1 // n

    @app.flow
    def flow() -> int:
        return work.step(0)

    async with app:
        run = await flow.enqueue()
        await ended(app, clock, run)
        faults.fail("change_flow", moment="after")
        with pytest.raises(StoreUnavailable):
            await app.flows.skip(run.id, "work", "first")
        assert (await run.job()).state == "pending"
        assert (await app.flows.skip(run.id, "work", "second")).note == "first"
        assert (await ended(app, clock, run)).state == "completed"
        assert (await app.flows.skip(run.id, "work", "third")).note == "first"


async def test_every_item_of_a_large_map_that_is_skipped_is_cancelled(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def item(n: int) -> None:
        await clock.sleep(300)

    @app.flow
    def many() -> None:
        item.map(list(range(1200)))

    async with app:
        run = await many.enqueue()
        async with app.worker():
            await clock.elapse(minutes=2)
            items = (await app.flows.get(run.id)).step("item").items
            assert items is not None
            assert (items.made, items.closed) == (1200, True)
            await app.flows.skip(run.id, "item")
            await clock.elapse(minutes=10)
        job, view = await run.job(), await app.flows.get(run.id)
        assert (job.state, view.step("item").state) == ("completed", "skipped")
        items = view.step("item").items
        assert items is not None
        assert (items.made, items.ended, items.cancelled) == (1200, 1200, 1200)


async def test_steps_are_skipped_without_awaiting(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def work() -> None: ...

    @app.flow
    def flow() -> None:
        work.using(delay=3600).step()

    async with app:
        run = await flow.enqueue()
        await ended(app, clock, run)
        step = await asyncio.to_thread(app.sync.flows.skip, run.id, "work")
        assert (step.state, step.note) == ("skipped", None)
