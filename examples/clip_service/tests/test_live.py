"""Live status: a fixed number of pages, and a page that fails is left for the next minute."""

import pytest

from clip_service import live
from clip_service.live import live_status
from clip_service.partners import Partners
from clip_service.tables import Creator
from clip_service.tasks import app
from mainspring import Items
from mainspring.testing import Harness

from .conftest import CLIPS
from .state import count, run_only

CREATORS = CLIPS // 25


async def checked(jobs: Harness) -> tuple[int, Items | None]:
    """How many creators were checked by a run of two pages of five, and what it counted."""
    await run_only()
    job = await live_status.enqueue(pages=2)
    await jobs.drain()
    (run,) = await app.executions.list(job_id=job.id)
    return CREATORS - count(Creator, live_checked_at=0), run.items


async def test_a_run_checks_its_pages_and_no_more(
    jobs: Harness, partners: Partners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PAGE_CREATORS", 5)
    assert await checked(jobs) == (10, Items(success=10))
    assert partners.requests["live"] == 2


async def test_a_page_that_fails_does_not_stop_the_next_one(
    jobs: Harness, partners: Partners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PAGE_CREATORS", 5)
    partners.fail("live")
    assert await checked(jobs) == (5, Items(success=5, failed=5))
