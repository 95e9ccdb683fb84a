"""The tables of the service. Instants are seconds since 1970, so that both databases compute ages alike."""

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

MINUTE, HOUR, DAY = 60, 3600, 86_400
Instant = BigInteger


class Table(DeclarativeBase):
    pass


class Creator(Table):
    __tablename__ = "creators"

    id: Mapped[int] = mapped_column(primary_key=True)
    login: Mapped[str] = mapped_column(String(50), unique=True)
    email: Mapped[str]
    live: Mapped[bool] = mapped_column(default=False)
    live_checked_at: Mapped[int] = mapped_column(Instant, default=0, index=True)


class Clip(Table):
    __tablename__ = "clips"

    id: Mapped[int] = mapped_column(primary_key=True)
    remote_id: Mapped[str] = mapped_column(String(50), unique=True)
    creator_id: Mapped[int] = mapped_column(ForeignKey("creators.id"))
    title: Mapped[str]
    views: Mapped[int] = mapped_column(default=0)
    likes: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[int] = mapped_column(Instant, index=True)
    hot_score: Mapped[float] = mapped_column(default=0.0, index=True)
    embedding: Mapped[list[float] | None] = mapped_column(JSON(none_as_null=True), default=None)
    embedded_at: Mapped[int | None] = mapped_column(Instant, default=None)
    embedding_failures: Mapped[int] = mapped_column(default=0)
    cdn_url: Mapped[str | None] = mapped_column(default=None)
    cdn_expires_at: Mapped[int] = mapped_column(Instant, default=0, index=True)
    exported_at: Mapped[int | None] = mapped_column(Instant, default=None)
    mirrored_at: Mapped[int | None] = mapped_column(Instant, default=None)
    mirror_error: Mapped[str | None] = mapped_column(default=None)

    __table_args__ = (
        Index("clips_to_export", "exported_at", "id"),
        Index("clips_to_mirror", "mirrored_at", "mirror_error", "id"),
    )


class IndexingCount(Table):
    """Runs of embed_clips: success, failed or partial. In the database, so that all workers count into one figure."""

    __tablename__ = "indexing_counts"

    status: Mapped[str] = mapped_column(String(10), primary_key=True)
    runs: Mapped[int] = mapped_column(default=0)


class TrendingClip(Table):
    __tablename__ = "trending_clips"

    rank: Mapped[int] = mapped_column(primary_key=True)
    clip_id: Mapped[int] = mapped_column(ForeignKey("clips.id"))
    score: Mapped[float]
    computed_at: Mapped[int] = mapped_column(Instant)


class Delivery(Table):
    """A webhook for a creator: pending, sent, failed (to be sent again at next_attempt_at) or dead."""

    __tablename__ = "deliveries"

    id: Mapped[int] = mapped_column(primary_key=True)
    creator_id: Mapped[int] = mapped_column(ForeignKey("creators.id"))
    event: Mapped[str]
    payload: Mapped[dict[str, int | str]] = mapped_column(JSON)
    created_at: Mapped[int] = mapped_column(Instant)
    state: Mapped[str] = mapped_column(String(10), default="pending")
    attempts: Mapped[int] = mapped_column(default=0)
    next_attempt_at: Mapped[int] = mapped_column(Instant, default=0)
    last_error: Mapped[str | None] = mapped_column(default=None)

    __table_args__ = (Index("deliveries_due", "state", "next_attempt_at"),)


class Subscription(Table):
    """What a creator pays for: active, past_due (charged again at next_charge_at) or cancelled."""

    __tablename__ = "subscriptions"

    id: Mapped[int] = mapped_column(primary_key=True)
    creator_id: Mapped[int] = mapped_column(ForeignKey("creators.id"))
    cents: Mapped[int]
    state: Mapped[str] = mapped_column(String(10), default="active")
    failed_charges: Mapped[int] = mapped_column(default=0)
    next_charge_at: Mapped[int] = mapped_column(Instant, default=0)

    __table_args__ = (Index("subscriptions_due", "state", "next_charge_at"),)


class Email(Table):
    """A message that was sent: delivered, opened, bounced or complained."""

    __tablename__ = "emails"

    id: Mapped[int] = mapped_column(primary_key=True)
    recipient: Mapped[str]
    sender: Mapped[str] = mapped_column(String(50))
    subject: Mapped[str]
    state: Mapped[str] = mapped_column(String(10))
    sent_at: Mapped[int] = mapped_column(Instant, index=True)


class EmailDay(Table):
    """What became of the messages of one day."""

    __tablename__ = "email_days"

    day: Mapped[int] = mapped_column(primary_key=True)
    """Days since 1970."""
    sent: Mapped[int]
    opened: Mapped[int]
    bounced: Mapped[int]
    complained: Mapped[int]


class SenderReputation(Table):
    __tablename__ = "sender_reputation"

    sender: Mapped[str] = mapped_column(String(50), primary_key=True)
    score: Mapped[float]
    """From 0 to 1; below mail.MIN_REPUTATION the sender is at risk of being blocked."""
    sent: Mapped[int]
    computed_at: Mapped[int] = mapped_column(Instant)


class Incident(Table):
    """A job that died, for the people who operate the service."""

    __tablename__ = "incidents"

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(String(36), unique=True)
    task: Mapped[str]
    error: Mapped[str]
    died_at: Mapped[int] = mapped_column(Instant)
