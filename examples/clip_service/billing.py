"""Dunning: subscriptions that are past due are charged again, and cancelled after four failed charges."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from mainspring import Backoff, Context

from .app import app, due
from .client import Unavailable, call
from .database import session
from .mail import send_mail
from .tables import DAY, Creator, Subscription

BATCH = 100
MAX_FAILED_CHARGES = 4
# Days until the next try, after the first, second and third failed charge.
WAIT_DAYS = (1, 3, 5)


@app.cron("0 */6 * * *", catch_up="latest", pause_after_failures=3)
@app.task(queue="billing", timeout=300, max_retries=5, backoff=Backoff(initial=60), failed_ratio=0)
def dunning(ctx: Context, batch: int = BATCH) -> None:
    """A subscription is one transaction, so a run that dies has lost and repeated nothing.

    If one charge gets no answer, the run fails: the retry after a minute charges those that are left.
    """
    now = due(ctx)
    past_due = select(Subscription.id).where(Subscription.state == "past_due", Subscription.next_charge_at <= now)
    with session() as db:
        ids = db.scalars(past_due.order_by(Subscription.next_charge_at, Subscription.id).limit(batch)).all()
    for n, id in enumerate(ids, 1):
        try:
            charge(id, now)
            ctx.items(success=1)
        except Unavailable as error:
            ctx.log.warning("subscription %d: %s", id, error)
            ctx.items(failed=1)
        ctx.progress(n, len(ids), "subscriptions")


def charge(id: int, now: int) -> None:
    with session() as db:
        subscription = db.get_one(Subscription, id)
        # The same for each try of this charge: the bank charges once, whatever dies after it.
        key = f"{id}:{subscription.next_charge_at}:{subscription.failed_charges}"
        body = {"subscription": id, "cents": subscription.cents, "key": key}
    paid = call("POST", "/payments", json=body)["paid"]  # no transaction is open meanwhile
    with session() as db, db.begin():
        subscription = db.get_one(Subscription, id)
        _settle(subscription, paid, now)
        _write_to(db.get_one(Creator, subscription.creator_id), subscription, db)


def _settle(subscription: Subscription, paid: bool, now: int) -> None:
    if paid:
        subscription.state, subscription.failed_charges = "active", 0
        return
    subscription.failed_charges += 1
    if subscription.failed_charges >= MAX_FAILED_CHARGES:
        subscription.state = "cancelled"
    else:
        subscription.next_charge_at = now + WAIT_DAYS[subscription.failed_charges - 1] * DAY


def _write_to(creator: Creator, subscription: Subscription, db: Session) -> None:
    """The job of the mail is in the same transaction: it is there if and only if the change is."""
    subjects = {"active": "Thank you", "past_due": "Please update your card", "cancelled": "Your plan has ended"}
    send_mail.sync.using(within=db).enqueue(creator.email, subjects[subscription.state])
