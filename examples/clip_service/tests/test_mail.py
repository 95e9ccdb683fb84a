"""Mail: days are counted again while messages are opened, and complaints cost a sender its reputation."""

import pytest
from sqlalchemy import select, update

from clip_service.database import session
from clip_service.mail import sender_reputation
from clip_service.tables import DAY, MINUTE, Email, EmailDay, SenderReputation
from mainspring.testing import Harness

from .conftest import START
from .state import run_only


async def test_a_message_that_is_opened_later_is_counted_again(jobs: Harness) -> None:
    await run_only("email_metrics")
    await jobs.advance(seconds=1)
    with session() as db, db.begin():
        assert sum(day.opened < day.sent for day in db.scalars(select(EmailDay))) == 2
        db.execute(update(Email).values(state="opened"))
    await jobs.advance(hours=1)
    with session() as db:
        days = db.scalars(select(EmailDay).order_by(EmailDay.day)).all()
    assert [(day.day, day.opened == day.sent) for day in days] == [(START // DAY - n, True) for n in (2, 1)]


async def test_the_reputation_of_a_sender_is_of_thirty_days(jobs: Harness) -> None:
    await run_only("sender_reputation")
    await jobs.advance(minutes=16)
    with session() as db:
        since = START + 15 * MINUTE - 30 * DAY  # of the tick, a quarter past midnight
        recent = db.scalars(select(Email).where(Email.sent_at >= since)).all()
        rows = db.scalars(select(SenderReputation)).all()
    assert len(rows) == 2
    for row in rows:
        states = [one.state for one in recent if one.sender == row.sender]
        cost = 2 * states.count("bounced") + 20 * states.count("complained")
        assert row.sent == len(states)
        assert row.score == pytest.approx(max(0.0, 1 - cost / len(states)), abs=1e-3)
    (job,) = jobs.of(sender_reputation)
    assert job.result is not None
