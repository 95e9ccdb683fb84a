"""Dunning over two weeks: no subscription is charged twice, whatever the bank does."""

from clip_service.billing import dunning
from clip_service.database import session
from clip_service.mail import send_mail
from clip_service.partners import Partners
from clip_service.tables import Email, SenderReputation, Subscription
from mainspring import State
from mainspring.testing import Harness

from .conftest import START
from .state import count, run_only


async def test_two_weeks_of_dunning(jobs: Harness, partners: Partners) -> None:
    await run_only("dunning", "email_metrics", "sender_reputation")
    emails, past_due = count(Email), count(Subscription, state="past_due")
    assert past_due == 2
    ran = await jobs.advance(days=14, limit=2000)
    assert {job.state for job in ran} == {State.COMPLETED}
    assert len(jobs.fired("dunning")) == 14 * 4
    assert count(Subscription, state="past_due") == 0
    assert count(Subscription, state="cancelled") + count(Subscription, state="active") == count(Subscription)
    # One mail for each charge, each sent once.
    assert len(jobs.of(send_mail)) == len(partners.charges) == count(Email) - emails
    assert count(SenderReputation) == 2


async def test_a_card_that_is_declined_is_charged_again_after_days(jobs: Harness, partners: Partners) -> None:
    await run_only("dunning")
    with session() as db, db.begin():  # the stand-in declines this number
        values = {"creator_id": 1, "cents": 499, "state": "past_due", "failed_charges": 1, "next_charge_at": START}
        db.add(Subscription(id=30, **values))
    seen = []
    for days in (1, 4, 5):
        await jobs.advance(days=days)
        with session() as db:
            subscription = db.get_one(Subscription, 30)
            seen.append((subscription.failed_charges, subscription.state))
    assert seen == [(2, "past_due"), (3, "past_due"), (4, "cancelled")]
    assert len([key for key in partners.charges if key.startswith("30:")]) == 3


async def test_a_bank_that_is_away_costs_no_subscription(jobs: Harness, partners: Partners) -> None:
    await run_only("dunning")
    partners.fail("payments", 503, times=3)
    await jobs.advance(hours=7)
    job = jobs.of(dunning)[0]
    assert (job.state, job.attempt) == (State.COMPLETED, 3)
    assert len(partners.charges) == 2
    assert count(Subscription, state="cancelled") == 0


async def test_a_charge_has_the_same_key_in_each_try(jobs: Harness, partners: Partners) -> None:
    """The first answer is lost after the bank has charged."""
    await run_only("dunning")
    partners.lose("payments")
    await jobs.advance(hours=7)
    assert len(partners.charges) == 2
    assert partners.requests["payments"] == 3


async def test_a_run_charges_no_more_than_its_batch(jobs: Harness, partners: Partners) -> None:
    await run_only()
    await dunning.enqueue(batch=1)
    await jobs.drain()
    assert len(partners.charges) == 1
