"""Webhooks for creators: new ones are sent every minute, failed ones again, later and later."""

from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import ColumnElement, select

from mainspring import Context

from .app import app, due
from .client import Refused, Unavailable, call
from .database import session
from .tables import HOUR, MINUTE, Delivery

OUTBOUND_BATCH = 100
RETRY_BATCH = 50
SENDERS = 8
MAX_ATTEMPTS = 6
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS = MINUTE, 6 * HOUR


@app.every(minutes=1, overlap="skip", catch_up="skip")
@app.task(queue="webhooks", timeout=55, failed_ratio=1.0)
def outbound_webhooks(ctx: Context, batch: int = OUTBOUND_BATCH) -> None:
    """Sends what is new. An endpoint that fails is no failure of the run: `retry_webhooks` tries it again."""
    _send(ctx, batch, Delivery.state == "pending")


@app.every(minutes=2, overlap="skip", catch_up="skip")
@app.task(queue="webhooks", timeout=110, failed_ratio=1.0)
def retry_webhooks(ctx: Context, batch: int = RETRY_BATCH) -> None:
    """Sends again what failed and has waited long enough."""
    _send(ctx, batch, Delivery.state == "failed", Delivery.next_attempt_at <= due(ctx))


def _send(ctx: Context, batch: int, *wanted: ColumnElement[bool]) -> None:
    """Several at a time, since one slow endpoint must not hold up the others; no transaction is open meanwhile."""
    oldest = select(Delivery).where(*wanted).order_by(Delivery.next_attempt_at, Delivery.id).limit(batch)
    with session() as db:
        calls = [(one.id, one.creator_id, one.event) for one in db.scalars(oldest)]
    with ThreadPoolExecutor(SENDERS) as pool:
        errors = dict(zip([id for id, _, _ in calls], pool.map(_post, calls), strict=True))
    with session() as db, db.begin():
        for delivery in db.scalars(select(Delivery).where(Delivery.id.in_(errors))):
            _record(delivery, errors[delivery.id], due(ctx))
    failed = sum(error is not None for error in errors.values())
    ctx.items(success=len(errors) - failed, failed=failed)


def _post(delivery: tuple[int, int, str]) -> str | None:
    """None, or the error. The id lets a receiver drop what it has received already."""
    id, creator, event = delivery
    try:
        call("POST", f"/hooks/{creator}", json={"id": id, "event": event})
    except (Unavailable, Refused) as error:
        return str(error)
    return None


def _record(delivery: Delivery, error: str | None, now: int) -> None:
    delivery.attempts += 1
    delivery.last_error = error
    if error is None:
        delivery.state = "sent"
    elif delivery.attempts >= MAX_ATTEMPTS:
        delivery.state = "dead"
    else:
        delivery.state, delivery.next_attempt_at = "failed", now + wait_seconds(delivery.attempts)


def wait_seconds(attempts: int) -> int:
    """1, 2, 4, 8, 16 minutes after each failed attempt."""
    return min(MAX_WAIT_SECONDS, FIRST_WAIT_SECONDS << (attempts - 1))
