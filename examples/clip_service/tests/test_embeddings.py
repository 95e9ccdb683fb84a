"""Embeddings: at most 100 a run and seven days old, counted as success, partial or failed."""

from sqlalchemy import func, select, update

from clip_service.database import session
from clip_service.embeddings import embed_clips
from clip_service.metrics import registry
from clip_service.partners import Partners
from clip_service.tables import DAY, Clip
from mainspring import State
from mainspring.testing import Harness

from .conftest import START
from .state import count, run_only


def figure(name: str, **labels: str) -> float:
    value = registry.get_sample_value(name, labels)
    assert value is not None
    return value


async def test_a_run_indexes_a_hundred_clips(jobs: Harness, partners: Partners) -> None:
    await run_only("embed_clips")
    partial = figure("indexing_jobs_total", status="partial")
    before = count(Clip, embedded_at=None)
    await jobs.advance(seconds=1)
    indexed = before - count(Clip, embedded_at=None)
    assert (partners.requests["embeddings"], indexed) == (5, 100 - _unreadable())
    assert figure("indexing_jobs_total", status="partial") == partial + 1


def _unreadable() -> int:
    with session() as db:
        return db.scalar(select(func.count(Clip.id)).where(Clip.embedding_failures > 0)) or 0


async def test_clips_older_than_a_week_are_not_indexed(jobs: Harness) -> None:
    await run_only("embed_clips")
    old = Clip.created_at < START - 7 * DAY
    with session() as db, db.begin():
        db.execute(update(Clip).where(old).values(embedded_at=None))
    await jobs.advance(hours=1)
    with session() as db:
        assert db.scalar(select(func.count(Clip.embedded_at)).where(old)) == 0
        assert db.scalar(select(func.count(Clip.embedded_at)).where(~old)) == count(Clip) - count(
            Clip, embedded_at=None
        )


async def test_gauges_count_clips_with_and_without(jobs: Harness) -> None:
    await run_only("embed_clips")
    await jobs.advance(hours=1)
    assert figure("clips_without_embedding") == count(Clip, embedded_at=None)
    assert figure("clips_with_embedding") == count(Clip) - count(Clip, embedded_at=None)


async def test_a_title_that_cannot_be_read_is_left_alone_after_three_failures(jobs: Harness) -> None:
    await run_only("embed_clips")
    await jobs.advance(hours=4)
    with session() as db:
        assert db.scalar(select(func.max(Clip.embedding_failures))) == 3
    assert jobs.of(embed_clips)[-1].state is State.COMPLETED


async def test_a_model_that_is_away_opens_the_breaker(jobs: Harness, partners: Partners) -> None:
    await run_only("embed_clips")
    failed = figure("indexing_jobs_total", status="failed")
    partners.fail("embeddings", 503, times=1000)
    await jobs.advance(minutes=30)
    asked = figure("indexing_jobs_total", status="failed") - failed
    assert 5 <= asked <= 12, "three tries at each tick, until the breaker lets one try every five minutes"
