"""Hot scores and trending: what is new and liked rises, all sinks, and a list waits for new scores."""

import pytest
from sqlalchemy import func, select

from clip_service.database import session
from clip_service.tables import DAY, HOUR, Clip, TrendingClip
from mainspring.testing import Harness

from .conftest import START
from .state import count, run_only


async def test_a_score_is_made_of_views_likes_and_age(jobs: Harness) -> None:
    await run_only("hot_scores")
    await jobs.advance(seconds=1)
    with session() as db:
        clips = db.scalars(select(Clip)).all()
    for clip in clips:
        age_hours = (START - clip.created_at) / HOUR + 2
        score = (clip.views + 10 * clip.likes) / age_hours**2
        assert clip.hot_score == pytest.approx(score if clip.created_at > START - 14 * DAY else 0)


async def test_a_clip_of_more_than_two_weeks_has_no_score(jobs: Harness) -> None:
    await run_only("hot_scores")
    await jobs.advance(seconds=1)
    with session() as db:
        assert (db.scalar(select(func.max(Clip.hot_score))) or 0) > 0
    jobs.clock.advance(days=15)
    await jobs.advance(minutes=5)
    with session() as db:
        assert db.scalar(select(func.max(Clip.hot_score))) == 0


async def test_trending_waits_until_there_are_new_scores(jobs: Harness) -> None:
    await run_only("trending")
    await jobs.advance(hours=2)
    assert (jobs.fired("trending"), count(TrendingClip)) == ([], 0)
