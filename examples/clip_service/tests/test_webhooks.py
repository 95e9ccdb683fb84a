"""Webhooks: batches every minute, and longer waits after each failure, until a delivery is dead."""

from sqlalchemy import select

from clip_service.database import session
from clip_service.partners import Partners
from clip_service.tables import MINUTE, Delivery
from clip_service.webhooks import MAX_ATTEMPTS, wait_seconds
from mainspring.testing import Harness

from .conftest import START
from .state import count, run_only


async def test_a_broken_endpoint_is_tried_later_and_later_until_its_delivery_is_dead(jobs: Harness) -> None:
    await run_only("outbound_webhooks", "retry_webhooks")
    broken = count(Delivery) // 10
    await jobs.advance(minutes=1)
    assert (count(Delivery, state="failed"), count(Delivery, state="sent")) == (broken, count(Delivery) - broken)
    await jobs.advance(minutes=45)
    assert count(Delivery, state="dead", attempts=MAX_ATTEMPTS) == broken
    assert [wait_seconds(n) // 60 for n in range(1, MAX_ATTEMPTS)] == [1, 2, 4, 8, 16]


async def test_a_run_sends_one_batch(jobs: Harness, partners: Partners) -> None:
    await run_only("outbound_webhooks")
    with session() as db, db.begin():
        rows = [Delivery(creator_id=1, event="clip.added", payload={}, created_at=START) for _ in range(130)]
        db.add_all(rows)
    sent = [count(Delivery, state="pending")]
    while sent[-1]:
        await jobs.advance(minutes=1)
        sent.append(count(Delivery, state="pending"))
    assert sent == [150, 50, 0]


async def test_a_delivery_that_failed_waits_until_it_is_due(jobs: Harness) -> None:
    await run_only("retry_webhooks")
    with session() as db, db.begin():
        values = {"creator_id": 1, "event": "clip.added", "payload": {}, "created_at": START, "state": "failed"}
        db.add(Delivery(**values, attempts=1, next_attempt_at=START + 15 * MINUTE))
    await jobs.advance(minutes=14)
    assert (count(Delivery, state="failed"), count(Delivery, state="sent")) == (1, 0)
    await jobs.advance(minutes=2)
    assert (count(Delivery, state="failed"), count(Delivery, state="sent")) == (0, 1)


async def test_a_run_sends_one_batch_of_those_that_failed(jobs: Harness) -> None:
    await run_only("retry_webhooks")
    with session() as db, db.begin():
        values = {"creator_id": 1, "event": "clip.added", "payload": {}, "created_at": START, "state": "failed"}
        db.add_all([Delivery(**values, attempts=1, next_attempt_at=START) for _ in range(130)])
    left = [count(Delivery, state="failed")]
    while left[-1]:
        await jobs.advance(minutes=2)
        left.append(count(Delivery, state="failed"))
    assert left == [130, 80, 30, 0]


async def test_a_creator_who_goes_live_gets_a_webhook(jobs: Harness) -> None:
    await run_only("live_status", "outbound_webhooks")
    await jobs.advance(hours=1, minutes=2)
    with session() as db:
        events = db.scalars(select(Delivery.event).where(Delivery.state == "sent")).all()
    assert "creator.live" in events
