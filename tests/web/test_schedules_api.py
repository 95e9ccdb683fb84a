"""/schedules, /scheduler and /cron."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from mainspring import Mainspring, every
from mainspring.api.access.authenticate import Connection, Principal
from mainspring.api.service import asgi
from mainspring.testing import VirtualClock

MONDAY = datetime(2030, 1, 7, 8, tzinfo=UTC)
DAILY = {"name": "daily", "task": "report", "trigger": "0 9 * * *", "kwargs": {"kind": "short"}}
Call = Callable[..., Awaitable[httpx.Response]]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(MONDAY)


@pytest.fixture
def app(clock: VirtualClock) -> Mainspring:
    app = Mainspring("memory://", clock=clock)

    @app.task
    async def report(kind: str) -> str:
        return kind

    return app


@pytest.fixture
def call(app: Mainspring) -> Call:
    """Calls the API as an operator."""

    async def way(connection: Connection) -> Principal:
        return Principal(name="key:test", role="operator")

    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(asgi(app, authenticators=[way])), base_url="http://test/api/v1"
    )

    async def call(method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await client.request(method, path, json=body, headers=named)

    return call


async def test_a_schedule_is_created_shown_and_listed(call: Call) -> None:
    made = await call("POST", "/schedules", DAILY | {"queue": "slow", "priority": 3, "overlap": "allow"})
    assert made.status_code == 201
    found = (await call("GET", "/schedules/daily")).json()
    assert found == made.json()
    assert found["status"] == "active"
    assert found["next_run_at"] == "2030-01-07T09:00:00Z"
    spec = found["spec"]
    assert spec["meaning"] == "at 09:00 every day"
    assert (spec["payload"], spec["queue"], spec["priority"]) == ({"kind": "short"}, "slow", 3)
    assert spec["overlap"] == "allow"
    assert spec["trigger"] == {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC", "day_match": "or", "name": ""}
    assert [one["name"] for one in (await call("GET", "/schedules?status=active")).json()["items"]] == ["daily"]


async def test_a_schedule_is_created_with_the_trigger_that_another_schedule_shows(call: Call) -> None:
    made = (await call("POST", "/schedules", DAILY)).json()
    again = await call("POST", "/schedules", DAILY | {"name": "other", "trigger": made["spec"]["trigger"]})
    assert again.status_code == 201
    assert again.json()["next_run_at"] == made["next_run_at"]


BAD = [
    ({"trigger": "0 9 * * someday"}, "bad_input", "day of week 'someday' is not understood"),
    ({"trigger": {"kind": "cron", "expr": "0 0 30 2 *"}}, "invalid", "day of month 30 never comes in month 2"),
    ({"trigger": {"kind": "moon"}}, "invalid", "trigger"),
    ({"task": "rapport"}, "bad_input", "did you mean 'report'?"),
    ({"kwargs": {"kind": 1}}, "bad_payload", "Expected `str`, got `int`"),
    ({"kwargs": {"color": "red"}}, "bad_payload", "has no argument 'color'"),
    ({"colour": "red"}, "invalid", "unknown field `colour`"),
    ({"priority": 10**6}, "bad_input", "option priority"),
    ({"overlap": "crash"}, "invalid", "overlap"),
    ({"name": "a\nb"}, "bad_input", "schedule name is 1 to 200 printable characters"),
    ({"end_at": "2020-01-01T00:00:00Z"}, "bad_input", "daily"),
    ({"start_at": "2030-01-01T00:00:00"}, "bad_input", "needs a datetime with a time zone"),
]


@pytest.mark.parametrize(("change", "code", "words"), BAD)
async def test_an_invalid_schedule_is_refused_with_the_reason_and_not_stored(
    call: Call, change: dict[str, Any], code: str, words: str
) -> None:
    refused = await call("POST", "/schedules", DAILY | change)
    assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert words in refused.json()["detail"]
    assert refused.headers["content-type"] == "application/problem+json"
    assert (await call("GET", "/schedules")).json()["items"] == []


async def test_a_schedule_with_a_taken_name_is_refused(call: Call) -> None:
    await call("POST", "/schedules", DAILY)
    refused = await call("POST", "/schedules", DAILY)
    assert (refused.status_code, refused.json()["code"]) == (409, "schedule_exists")


async def test_a_schedule_edit_with_an_outdated_etag_is_412(call: Call) -> None:
    tag = (await call("POST", "/schedules", DAILY)).headers["etag"]
    changed = await call("PATCH", "/schedules/daily", {"priority": 1}, If_Match=tag)
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag
    late = await call("PATCH", "/schedules/daily", {"priority": 2}, If_Match=tag)
    assert (late.status_code, late.json()["code"]) == (412, "changed")
    assert (await call("GET", "/schedules/daily")).json()["spec"]["priority"] == 1


async def test_a_tick_does_not_outdate_the_etag_of_a_schedule(call: Call, app: Mainspring, clock: VirtualClock) -> None:
    tag = (await call("POST", "/schedules", DAILY)).headers["etag"]
    clock.advance(hours=2)
    await app.drain()
    assert (await call("GET", "/schedules/daily")).json()["fired"] == 1
    assert (await call("PATCH", "/schedules/daily", {"priority": 1}, If_Match=tag)).status_code == 200


async def test_null_removes_a_schedule_policy_and_omitted_policies_stay(call: Call) -> None:
    window = {"opens": "08:00", "closes": "18:00", "days": "mon-fri"}
    await call("POST", "/schedules", DAILY | {"window": window, "max_runs": 3})
    spec = (await call("PATCH", "/schedules/daily", {"window": None})).json()["spec"]
    assert (spec["window"], spec["max_runs"]) == (None, 3)
    nothing = await call("PATCH", "/schedules/daily", {})
    assert (nothing.status_code, nothing.json()["code"]) == (422, "bad_input")


async def test_a_schedule_is_paused_with_a_note_and_resumed(call: Call) -> None:
    await call("POST", "/schedules", DAILY)
    paused = (await call("POST", "/schedules/daily/pause", {"note": "flood"})).json()
    assert (paused["status"], paused["note"]) == ("paused", "flood")
    assert (await call("POST", "/schedules/daily/resume")).json()["status"] == "active"


async def test_triggering_a_schedule_makes_a_job_and_keeps_the_next_tick(call: Call, app: Mainspring) -> None:
    before = (await call("POST", "/schedules", DAILY)).json()["next_run_at"]
    fired = await call("POST", "/schedules/daily/trigger", {"kwargs": {"kind": "long"}})
    assert fired.status_code == 201
    assert (await app.jobs.get(fired.json()["job_id"])).payload == '{"kind":"long"}'
    assert (await call("GET", "/schedules/daily")).json()["next_run_at"] == before


async def test_a_schedule_is_rescheduled_and_never_into_the_past(call: Call) -> None:
    await call("POST", "/schedules", DAILY)
    moved = await call("POST", "/schedules/daily/reschedule", {"at": "2030-01-07T08:30:00Z"})
    assert moved.json()["next_run_at"] == "2030-01-07T08:30:00Z"
    assert (await call("POST", "/schedules/daily/reschedule", {"at": "2029-01-01T00:00:00Z"})).status_code == 422


async def test_a_backfill_dry_run_makes_no_job_and_a_backfill_makes_one_per_tick(call: Call, app: Mainspring) -> None:
    await call("POST", "/schedules", DAILY)
    span = {"start": "2030-01-04T00:00:00Z", "end": "2030-01-07T00:00:00Z"}
    dry = (await call("POST", "/schedules/daily/backfill", span | {"dry_run": True})).json()
    assert (len(dry["made"]), await app.jobs.list()) == (3, [])
    made = (await call("POST", "/schedules/daily/backfill", span)).json()
    assert made["made"] == dry["made"]
    assert len((await call("POST", "/schedules/daily/backfill", span)).json()["there"]) == 3
    assert len(await app.jobs.list()) == 3


async def test_a_schedule_has_a_preview_ticks_and_stats(call: Call, app: Mainspring, clock: VirtualClock) -> None:
    await call("POST", "/schedules", DAILY)
    coming = (await call("GET", "/schedules/daily/preview?count=2")).json()
    assert [tick["at"] for tick in coming] == ["2030-01-07T09:00:00Z", "2030-01-08T09:00:00Z"]
    clock.advance(hours=2)
    await app.drain()
    (tick,) = (await call("GET", "/schedules/daily/ticks")).json()
    assert (tick["what"], tick["at"]) == ("fired", "2030-01-07T09:00:00Z")
    assert (await call("GET", "/schedules/daily/stats")).json()["completed"] == 1


async def test_a_deleted_schedule_is_gone(call: Call) -> None:
    await call("POST", "/schedules", DAILY)
    assert (await call("DELETE", "/schedules/daily")).status_code == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("GET", "/preview")):
        gone = await call(method, f"/schedules/daily{path}")
        assert (gone.status_code, gone.json()["code"]) == (404, "schedule_not_found")


async def test_schedules_are_paged_by_name(call: Call, app: Mainspring) -> None:
    for n in range(5):
        await app.schedules.create(f"s{n}", every(minutes=5), "report", kwargs={"kind": "x"})
    seen, after = [], ""
    while True:
        page = (await call("GET", f"/schedules?limit=2{after}")).json()
        seen += [one["name"] for one in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == [f"s{n}" for n in range(5)]
    for bad in ("limit=0", "limit=201", "limit=x", "status=asleep", "owner=me"):
        refused = await call("GET", f"/schedules?{bad}")
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_parameter")


async def test_scheduler_metrics_distribution_and_rebalance_cover_all_schedules(call: Call, app: Mainspring) -> None:
    for n in range(4):
        await app.schedules.create(f"s{n}", every(timedelta(hours=1)), "report", kwargs={"kind": "x"}, spread=True)
    figures = (await call("GET", "/scheduler/metrics")).json()
    assert (figures["active"], figures["paused"], figures["late"]) == (4, 0, 0)
    assert sum((await call("GET", "/scheduler/distribution")).json()["hours"]) == 96
    week = (await call("GET", "/scheduler/distribution?days=7")).json()["hours"]
    assert (len(week), sum(week)) == (168, 7 * 96)
    assert (await call("GET", "/scheduler/distribution?days=8")).status_code == 400
    assert (await call("POST", "/scheduler/rebalance", {"dry_run": True})).json()["dry_run"] is True
    assert (await call("POST", "/scheduler/rebalance")).json()["dry_run"] is False


async def test_the_outlook_lists_next_and_late_schedules_and_those_paused_by_failures(
    call: Call, app: Mainspring, clock: VirtualClock
) -> None:
    @app.every(minutes=2, name="broken", pause_after_failures=1)
    @app.task(max_retries=0)
    async def fail() -> None:
        raise ValueError("no")

    await app.drain()
    clock.advance(minutes=3)
    await app.drain()
    await app.schedules.create("held", every(minutes=1), "report", kwargs={"kind": "x"})
    await app.schedules.pause("held", "by hand")
    await app.schedules.create("hourly", every(hours=1), "report", kwargs={"kind": "x"})
    await app.schedules.create("soon", every(minutes=5), "report", kwargs={"kind": "x"})
    clock.advance(minutes=7)

    found = (await call("GET", "/scheduler/outlook")).json()
    assert [one["name"] for one in found["next"]] == ["soon", "hourly"]
    assert found["next"][0]["spec"]["meaning"] == "every 5 minutes"
    assert [one["name"] for one in found["late"]] == ["soon"]
    assert [one["name"] for one in found["tripped"]] == ["broken"]
    assert (found["active"], found["paused"]) == (2, 2)
    assert [one["name"] for one in (await call("GET", "/scheduler/outlook?limit=1")).json()["next"]] == ["soon"]
    assert (await call("GET", "/scheduler/outlook?limit=101")).status_code == 400


async def test_cron_preview_explains_a_trigger(call: Call) -> None:
    rule = {"trigger": "30 1 * * *", "tz": "Europe/London", "count": 2}
    told = (await call("POST", "/cron/preview", rule)).json()
    assert told["meaning"] == "at 01:30 every day, Europe/London"
    assert [tick["local"] for tick in told["next"]] == ["2030-01-08T01:30:00+00:00", "2030-01-09T01:30:00+00:00"]
    assert len(told["clock_changes"]) == 2
    unknown = await call("POST", "/cron/preview", rule | {"tz": "Europe/Londn"})
    assert "did you mean Europe/London" in unknown.json()["detail"]
    every_hour = await call("POST", "/cron/preview", {"trigger": {"kind": "every", "seconds": 3600}, "count": 1})
    assert every_hour.json()["next"][0]["at"] == "2030-01-07T09:00:00Z"
