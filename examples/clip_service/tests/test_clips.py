"""Clip sync: pages, retries, a partner that throttles or hangs."""

import pytest

from clip_service import client
from clip_service.clips import sync_clips
from clip_service.partners import Partners
from clip_service.tables import Clip
from clip_service.tasks import app
from mainspring import State
from mainspring.testing import Harness

from .conftest import CLIPS
from .state import count, run_only


async def test_sync_reads_a_fixed_number_of_pages(jobs: Harness, partners: Partners) -> None:
    await run_only("sync_clips")
    await jobs.advance(minutes=1)
    assert partners.requests == {"clips": 3}
    (run,) = await app.executions.list(job_id=jobs.of(sync_clips)[0].id)
    assert run.items is not None
    assert run.items.success == count(Clip) - CLIPS
    assert run.items.failed in (3, 4), "one in 40 has no creator"
    assert run.items.verdict() == "partial"


async def test_sync_adds_a_clip_once(jobs: Harness) -> None:
    await run_only("sync_clips")
    await jobs.advance(minutes=1)
    clips = count(Clip)
    await jobs.advance(minutes=15)
    assert count(Clip) - clips in (1, 2), "what the platform has since"


async def test_sync_is_tried_again_after_a_failure(jobs: Harness, partners: Partners) -> None:
    await run_only("sync_clips")
    partners.fail("clips", 503, times=2)
    await jobs.advance(minutes=1)
    (job,) = jobs.of(sync_clips)
    assert (job.state, job.attempt) == (State.COMPLETED, 3)


async def test_a_throttled_sync_waits_as_long_as_the_partner_asks(jobs: Harness, partners: Partners) -> None:
    await run_only("sync_clips")
    partners.fail("clips", 429)
    await jobs.advance(seconds=1)
    (job,) = jobs.of(sync_clips)
    assert (job.run_at - job.created_at).total_seconds() == pytest.approx(2, abs=0.5)
    assert job.failure is not None
    assert job.failure.message == "GET /clips: too many requests"


async def test_a_slow_partner_is_given_up(jobs: Harness, partners: Partners, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client._client(partners.url), "timeout", 0.05)
    await run_only("sync_clips")
    partners.slow("clips", seconds=0.3)
    await jobs.advance(seconds=1)
    (job,) = jobs.of(sync_clips)
    assert job.failure is not None
    assert job.failure.message == "GET /clips: ReadTimeout"
