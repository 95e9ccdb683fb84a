"""The web app: a clip and its jobs in one transaction, the trending list, metrics, the dashboard's door."""

import httpx

from clip_service.mail import send_mail
from clip_service.partners import Partners
from clip_service.tables import Clip, Delivery
from clip_service.tasks import app
from clip_service.web import web
from mainspring.testing import Harness

from .conftest import CLIPS, START
from .state import count, run_only


def browser() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://127.0.0.1")


async def test_an_upload_stores_the_clip_a_webhook_and_a_mail(jobs: Harness) -> None:
    deliveries = count(Delivery)
    async with browser() as http:
        made = await http.post("/clips", json={"creator_id": 1, "title": "Goal", "created_at": START})
        missing = await http.post("/clips", json={"creator_id": 0, "title": "Goal", "created_at": START})
    assert (made.status_code, missing.status_code) == (201, 404)
    jobs.assert_enqueued(send_mail, "creator1@example.com", "Your clip 'Goal' is online")
    assert (count(Clip), count(Delivery)) == (CLIPS + 1, deliveries + 1)


async def test_trending_clips_are_listed_by_rank(jobs: Harness) -> None:
    await run_only("hot_scores", "trending")
    await jobs.advance(hours=1)
    async with browser() as http:
        clips = (await http.get("/trending")).json()
    assert [clip["rank"] for clip in clips] == list(range(1, 101))
    assert clips == sorted(clips, key=lambda clip: -clip["score"])


async def test_metrics_have_the_figures_of_the_service_and_of_its_jobs(jobs: Harness) -> None:
    await run_only("hot_scores")
    await jobs.advance(minutes=10)
    async with browser() as http:
        page = (await http.get("/metrics")).text
    assert 'indexing_jobs_total{status="partial"}' in page
    assert f"clips_without_embedding {count(Clip, embedded_at=None):.1f}" in page
    assert 'job_execution_total{job="hot_scores",status="completed"} 3.0' in page


async def test_the_dashboard_asks_for_a_key(partners: Partners) -> None:
    with app.testing():
        async with browser() as http:
            assert (await http.get("/ops/api/v1/jobs")).status_code == 401
            key = {"Authorization": f"Bearer {await app.keys.create('me', 'viewer')}"}
            assert (await http.get("/ops/api/v1/jobs", headers=key)).status_code == 200
