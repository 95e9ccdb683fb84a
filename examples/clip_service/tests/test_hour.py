"""An hour of the whole service: every schedule fires on time, and its work is in the database."""

from clip_service.tables import HOUR, Clip, Delivery, EmailDay, SenderReputation, TrendingClip
from clip_service.tasks import app
from mainspring.testing import Harness

from .conftest import CLIPS, START
from .state import count

# Ticks in an hour; a schedule with run_on_start has one more, at once.
TICKS = {
    "sync_clips": 1 + 4, "embed_clips": 1 + 6, "hot_scores": 1 + 12, "trending": 1 + 1, "outbound_webhooks": 60,
    "retry_webhooks": 30, "refresh_cdn": 6, "export_clips": 1, "mirror_clips": 2, "dunning": 0, "email_metrics": 1 + 1,
    "sender_reputation": 1, "live_status": 60,
}  # fmt: skip


async def test_an_hour_of_every_job(jobs: Harness) -> None:
    not_exported = count(Clip, exported_at=None)
    ran = await jobs.advance(hours=1)

    assert {row.name for row in await app.schedules.list()} == set(TICKS)
    assert {name: len(jobs.fired(name)) for name in TICKS} == TICKS
    # Titles that cannot be read, and clips whose source is gone: nothing else failed.
    assert {job.task for job in ran if job.failure and not job.partial} == {"embed_clips", "mirror_clip"}

    synced = count(Clip) - CLIPS
    assert 130 < synced < 160, "the platform has a clip every ten minutes, for a day and an hour"
    assert count(TrendingClip, computed_at=START + HOUR) == 100
    assert count(Delivery, state="pending") == 0
    assert count(EmailDay) == 2, "no mail was sent today, the third day"
    assert count(SenderReputation) == 2
    assert count(Clip, exported_at=None) < not_exported + synced
