"""Mail: sending it, what became of it by day, and what that does to the reputation of its senders."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, insert, select

from mainspring import Backoff, Context

from .app import app, due
from .client import call
from .database import session
from .tables import DAY, Email, EmailDay, SenderReputation

SENDER = "mail.clips.example"
METRICS_DAYS = 3
REPUTATION_DAYS = 30
MIN_REPUTATION = 0.8


@app.task(queue="mail", max_retries=5, backoff=Backoff(initial=15))
def send_mail(ctx: Context, to: str, subject: str) -> str:
    answer = call("POST", "/mail", json={"to": to, "subject": subject})
    state: str = answer["state"]
    with session() as db, db.begin():
        db.add(Email(recipient=to, sender=SENDER, subject=subject, state=state, sent_at=due(ctx)))
    return state


@app.every(hours=1, run_on_start=True)
@app.task(queue="reports", timeout=60)
def email_metrics(ctx: Context) -> int:
    """Counts the last days again, since a message is opened, or complained about, long after it was sent."""
    today = due(ctx) // DAY
    first = today - METRICS_DAYS + 1
    day: ColumnElement[int] = Email.sent_at.op("/")(DAY)  # whole days
    states = ("opened", "bounced", "complained")
    columns = (day, func.count(Email.id), *(_share(state) for state in states))
    counted = select(*columns).where(Email.sent_at >= first * DAY, Email.sent_at < (today + 1) * DAY).group_by(day)
    with session() as db, db.begin():
        db.execute(delete(EmailDay).where(EmailDay.day >= first))
        db.execute(insert(EmailDay).from_select(["day", "sent", *states], counted))
    ctx.note(first_day=first, last_day=today)
    return METRICS_DAYS


@app.cron("15 */6 * * *")
@app.task(queue="reports", timeout=60)
def sender_reputation(ctx: Context) -> dict[str, float]:
    """Of each sender over 30 days: bounces cost a little, complaints cost a lot."""
    now = due(ctx)
    columns = (Email.sender, func.count(Email.id), _share("bounced"), _share("complained"))
    with session() as db, db.begin():
        recent = Email.sent_at.between(now - REPUTATION_DAYS * DAY, now)
        rows = [_scored(*row) for row in db.execute(select(*columns).where(recent).group_by(Email.sender))]
        db.execute(delete(SenderReputation))
        if rows:
            db.execute(insert(SenderReputation), [row | {"computed_at": now} for row in rows])
    _warn(ctx, rows)
    return {row["sender"]: row["score"] for row in rows}


def _share(state: str) -> Any:
    return func.sum(case((Email.state == state, 1), else_=0))


def _scored(sender: str, sent: int, bounced: int, complained: int) -> dict[str, Any]:
    score = max(0.0, 1 - 2 * bounced / sent - 20 * complained / sent)
    return {"sender": sender, "sent": sent, "score": round(score, 4)}


def _warn(ctx: Context, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        if row["score"] < MIN_REPUTATION:
            ctx.log.warning("%s is at risk: its reputation is %.2f", row["sender"], row["score"])
