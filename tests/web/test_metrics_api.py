"""/metrics and /health for Prometheus, load balancers and anonymous callers."""

from __future__ import annotations

from http_client import Client, browser
from prometheus_client.parser import text_string_to_metric_families

from mainspring import Mainspring, StoreUnavailable
from mainspring.metrics.timed_store import measure
from mainspring.testing import Faults, FaultStore, VirtualClock

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3"


async def test_a_viewer_gets_the_metrics_of_the_cluster(client: Client, spring: Mainspring) -> None:
    await spring.enqueue("send", to="a@b.c")
    async with client("viewer") as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"job_execution", "mainspring_queue_jobs", "mainspring_store_up"} <= names
    assert 'mainspring_queue_jobs{queue="mail",state="pending"} 1.0' in answer.text
    assert "mainspring_store_seconds" not in names  # measure() was not called for this process


async def test_metrics_include_those_of_the_server_process(clock: VirtualClock) -> None:
    app = Mainspring("memory://", clock=clock)
    measure(app)
    key = await app.keys.create("prometheus", "viewer")
    async with browser(app.asgi(), headers={"Authorization": f"Bearer {key}", "Accept": OPENMETRICS}) as http:
        answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert 'mainspring_store_seconds_count{verb="tallies"} 1.0' in answer.text
    assert answer.text.endswith("# EOF\n")


async def test_metrics_need_the_scope_metrics_read(client: Client) -> None:
    async with client(None) as http:
        assert (await http.get("/metrics")).status_code == 401
    async with client("viewer", scopes=["jobs:read"]) as http:
        assert (await http.get("/metrics")).status_code == 403
    async with client("viewer", scopes=["metrics:read"]) as http:
        assert (await http.get("/metrics")).status_code == 200


async def test_health_needs_no_authentication(client: Client) -> None:
    async with client(None) as http:
        for question in ("live", "ready"):
            answer = await http.get(f"/health/{question}")
            assert (answer.status_code, answer.json()) == (200, {"status": "ok", "reasons": [], "notes": []})
            assert answer.headers["cache-control"] == "no-store"


async def test_an_unreachable_store_makes_the_server_unready_but_live(clock: VirtualClock) -> None:
    app, faults = Mainspring("memory://", clock=clock), Faults()
    app.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type, return-value]
    canary = "kan4ri-vogel"
    faults.fail("time", times=9, error=lambda: StoreUnavailable(f"cannot reach postgresql://u:{canary}@db/x"))
    async with browser(app.asgi()) as http:
        assert (await http.get("/health/live")).status_code == 200
        answer = await http.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["status"] == "failing"
    assert answer.json()["reasons"] == ["the store does not answer; the log says why"]
    assert canary not in answer.text


async def test_a_stalled_loop_makes_the_worker_not_live(
    spring: Mainspring, clock: VirtualClock, client: Client
) -> None:
    async with spring, spring.worker() as worker, client(None) as http:
        await clock.elapse(seconds=6)
        clock.advance(minutes=1)  # as if the loop had been blocked
        answer = await http.get("/health/live")
        await clock.elapse(seconds=10)
        assert (await http.get("/health/live")).status_code == 200
    assert answer.status_code == 503
    assert answer.json()["reasons"][0].startswith(f"worker {worker.id}: its beat loop has made no progress for 6")
