"""Fills an empty database: by default 50,000 clips of the last 60 days, and what belongs to them."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sqlalchemy import insert, select

from .database import create_tables, engine, session
from .tables import DAY, HOUR, Clip, Creator, Delivery, Email, IndexingCount, Subscription, Table

CLIPS = 50_000
CLIPS_PER_CREATOR = 25
DAYS = 60
BATCH_ROWS = 10_000
SENDERS = ("mail.clips.example", "news.clips.example")
MAIL_STATES = ("delivered", "opened", "bounced", "complained")
Row = dict[str, Any]


def seed(now: int, clips: int = CLIPS) -> bool:
    """Makes the tables and their rows as of `now`; False if there were clips already."""
    create_tables()
    with session() as db:
        if db.scalar(select(Clip.id).limit(1)) is not None:
            return False
    creators = max(1, clips // CLIPS_PER_CREATOR)
    dice = random.Random(17)
    _write(IndexingCount, iter([{"status": status} for status in ("success", "failed", "partial")]))
    _write(Creator, _creators(creators))
    _write(Clip, _clips(dice, clips, creators, now))
    _write(Subscription, _subscriptions(dice, creators, now))
    _write(Delivery, _deliveries(creators, now))
    _write(Email, _emails(dice, clips // 2, creators, now))
    return True


def _write(table: type[Table], rows: Iterator[Row]) -> None:
    """In bulk, without the ORM, which takes three times as long."""
    with engine().begin() as connection:
        while batch := list(islice(rows, BATCH_ROWS)):
            connection.execute(insert(Table.metadata.tables[table.__tablename__]), batch)


def _creators(count: int) -> Iterator[Row]:
    for n in range(1, count + 1):
        yield {"id": n, "login": f"creator{n}", "email": f"creator{n}@example.com"}


def _clips(dice: random.Random, count: int, creators: int, now: int) -> Iterator[Row]:
    """Three in four are older than a week, and indexed, signed, exported and mirrored already."""
    for n in range(count):
        created_at = now - int(DAYS * DAY * dice.random() ** 1.5)
        old = created_at < now - 7 * DAY
        yield {
            "remote_id": f"seed-{n}",
            "creator_id": 1 + dice.randrange(creators),
            "title": f"Clip {n}" if n % 50 else f"Clip {n} (unreadable)",
            "views": int(dice.paretovariate(0.8)) % 1_000_000,
            "likes": int(dice.paretovariate(1.0)) % 100_000,
            "created_at": created_at,
            "embedding": [0.5] * 8 if old else None,
            "embedded_at": created_at + HOUR if old else None,
            "cdn_url": f"https://cdn.example/{n}",
            "cdn_expires_at": now + int(7 * DAY * dice.random()),
            "exported_at": created_at + DAY if old else None,
            "mirrored_at": created_at + DAY if old else None,
        }


def _subscriptions(dice: random.Random, creators: int, now: int) -> Iterator[Row]:
    """One in ten is past due."""
    for n in range(1, creators + 1):
        past_due = n % 10 == 0
        yield {
            "creator_id": n, "cents": dice.choice((499, 999, 2499)),
            "state": "past_due" if past_due else "active",
            "failed_charges": int(past_due), "next_charge_at": now if past_due else 0,
        }  # fmt: skip


def _deliveries(creators: int, now: int) -> Iterator[Row]:
    for n in range(1, creators + 1):
        yield {"creator_id": n, "event": "clip.featured", "payload": {"creator": n}, "created_at": now - HOUR}


def _emails(dice: random.Random, count: int, creators: int, now: int) -> Iterator[Row]:
    for n in range(count):
        yield {
            "recipient": f"creator{1 + n % creators}@example.com", "sender": SENDERS[n % 3 == 0],
            "subject": "Your week in clips", "sent_at": now - int(40 * DAY * dice.random()),
            "state": dice.choices(MAIL_STATES, (60, 36, 3, 1 if n % 3 == 0 else 0))[0],
        }  # fmt: skip
