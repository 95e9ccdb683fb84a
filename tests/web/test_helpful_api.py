"""Request bodies: unknown fields get a suggestion, and spans may be text."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from http_client import Client

from mainspring import Mainspring
from mainspring.api.body import MAX_EXPLAINED_BYTES
from mainspring.api.service import litestar_app
from mainspring.api.unknown_field import is_lenient, lenient_members

JOB = {"task": "send", "arguments": {"to": "ada"}}
PLAN = {"name": "x", "task": "fail", "trigger": {"kind": "every", "seconds": 60}}

UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    ("/jobs", JOB | {"queu": "mail"}, "Object contains unknown field `queu`; did you mean 'queue'?"),
    ("/jobs", JOB | {"retries": 3}, "unknown field `retries`; did you mean 'max_retries'?"),
    ("/jobs", {"jobs": [JOB, JOB | {"dely": 3}]}, "unknown field `dely` - at `$.jobs[1]`; did you mean 'delay'?"),
    ("/jobs", JOB | {"backoff": {"inital": 3}}, "unknown field `inital` - at `$.backoff`; did you mean 'initial'?"),
    (
        "/jobs/bulk",
        {"action": "cancel", "filter": {"state": ["dead"]}},
        "`$.filter`; did you mean 'states'?",
    ),
    ("/schedules", PLAN | {"jiter": 3}, "unknown field `jiter`; did you mean 'jitter'?"),
    (
        "/schedules",
        PLAN | {"trigger": {"kind": "cron", "expr": "0 9 * * *", "timezone": "Europe/London"}},
        "unknown field `timezone` - at `$.trigger`; did you mean 'tz'?",
    ),
    (
        "/schedules",
        PLAN | {"window": {"opens": "09:00", "closes": "17:00", "outsid": "move"}},
        "unknown field `outsid` - at `$.window`; did you mean 'outside'?",
    ),
    ("/webhooks", {"name": "a", "url": "https://a.example", "event": []}, "did you mean 'events'?"),
    ("/keys", {"name": "a", "expire": "30d"}, "did you mean 'expires'?"),
]


@pytest.mark.parametrize(("path", "body", "words"), UNKNOWN, ids=[words[:40] for _, _, words in UNKNOWN])
async def test_an_unknown_field_is_refused_with_the_nearest_name(
    client: Client, path: str, body: Any, words: str
) -> None:
    async with client("admin") as http:
        refused = await http.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        assert words in refused.json()["detail"]
        assert (await http.get("/jobs")).json()["items"] == []
        assert (await http.get("/schedules")).json()["items"] == []


async def test_what_a_store_cannot_do_is_refused_with_422(
    client: Client, spring: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def insert(*_: Any) -> Any:
        spring._engine.check_within()

    monkeypatch.setattr(spring._engine, "insert", insert)
    async with client("operator") as http:
        answer = await http.post("/jobs", json=JOB)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
    assert "the memory store has no transactions for within=" in answer.json()["detail"]


async def test_a_span_is_seconds_or_text(client: Client, spring: Mainspring) -> None:
    spans = {"delay": "1h30m", "timeout": "5m", "expires": "2 days", "backoff": {"initial": "4s", "max": "1h"}}
    async with client("operator") as http:
        made = (await http.post("/jobs", json=JOB | spans)).json()
        job, now = await spring.jobs.get(made["id"]), spring.clock.now()
        assert (job.run_at - now, job.timeout) == (timedelta(minutes=90), 300)
        assert job.expires_at == job.run_at + timedelta(days=2)
        assert job.backoff is not None
        assert (job.backoff.initial, job.backoff.max) == (4, 3600)
        assert (await http.patch(f"/jobs/{job.id}", json={"timeout": "10m"})).json()["timeout"] == 600
        later = await http.post(f"/jobs/{job.id}/reschedule", json={"delay": "2h"})
        assert later.status_code == 200, later.text
        assert (await spring.jobs.get(job.id)).run_at == now + timedelta(hours=2)


async def test_an_expiry_may_still_be_an_instant(client: Client, spring: Mainspring) -> None:
    async with client("operator") as http:
        made = await http.post("/jobs", json=JOB | {"expires": "2040-01-01T09:00:00Z"})
        job = await spring.jobs.get(made.json()["id"])
        assert job.expires_at is not None
        assert job.expires_at.isoformat() == "2040-01-01T09:00:00+00:00"


@pytest.mark.parametrize("field", ["delay", "timeout", "expires", "debounce_limit"])
async def test_a_text_that_is_no_span_is_refused(client: Client, field: str) -> None:
    async with client("operator") as http:
        refused = await http.post("/jobs", json=JOB | {field: "soon"})
        assert refused.status_code == 422
        assert field in refused.json()["detail"]
        assert "'soon'" in refused.json()["detail"]


async def test_spans_of_schedules_may_be_text(client: Client, spring: Mainspring) -> None:
    async with client("operator") as http:
        said = {"grace": "10m", "jitter": "30s", "catch_up_window": "1d", "timeout": "5m", "expires": "1h"}
        made = await http.post("/schedules", json=PLAN | said)
        assert made.status_code == 201, made.text
        spec = (await spring.schedules.get("x")).spec
        assert (spec.grace, spec.jitter, spec.catch_up_window, spec.timeout) == (600, 30, 86_400, 300)
        changed = await http.patch("/schedules/x", json={"adapt": "2h"})
        assert changed.json()["spec"]["adapt"] == 7200


async def test_the_overlap_of_a_rotation_may_be_text(client: Client, spring: Mainspring) -> None:
    async with client("admin") as http:
        await spring.triggers.create("x", task="fail")
        assert (await http.post("/triggers/x/rotate", json={"overlap": "2d"})).status_code < 300
        refused = await http.post("/triggers/x/rotate", json={"overlap": "400d"})
        assert (refused.status_code, "366 days" in refused.json()["detail"]) == (422, True)


async def test_a_large_body_is_not_searched_for_unknown_fields(client: Client) -> None:
    async with client("operator") as http:
        refused = await http.post("/jobs", json=JOB | {"queu": "x" * MAX_EXPLAINED_BYTES})
        assert (refused.status_code, refused.json()["detail"]) == (422, "Object contains unknown field `queu`")


@pytest.mark.parametrize(
    ("path", "part", "words"),
    [
        ("/schedules", {"trigger": {"kind": "cron", "expr": "0 9 * * *", "timezone": "UTC"}}, "`timezone` - at `$.tr"),
        ("/schedules", {"window": {"opens": "09:00", "closes": "17:00", "outsid": "move"}}, "`outsid` - at `$.window`"),
        ("/jobs", {"backoff": {"inital": 3}}, "unknown field `inital` - at `$.backoff`"),
    ],
)
async def test_an_unknown_nested_field_is_refused_in_a_large_body(
    client: Client, path: str, part: dict[str, Any], words: str
) -> None:
    large = {"why": "x" * (2 * MAX_EXPLAINED_BYTES - 1000)}
    body = PLAN | {"kwargs": large} if path == "/schedules" else {"task": "fail", "arguments": large}
    async with client("operator") as http:
        refused = await http.post(path, json=body | part)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        assert words in refused.json()["detail"]
        if path == "/schedules":
            assert (await http.patch("/schedules/x", json={"kwargs": large} | part)).status_code in (404, 422)
        taken = await http.post(path, json=body)
        assert taken.status_code == 201, taken.text


async def test_a_trigger_that_is_too_large_is_refused(client: Client) -> None:
    trigger = {"kind": "cron", "expr": "0 9 * * *", "x": "y" * MAX_EXPLAINED_BYTES}
    async with client("viewer") as http:
        refused = await http.post("/cron/preview", json={"trigger": trigger})
        assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
        assert "`trigger` is too large: at most 524,288 bytes" in refused.json()["detail"]


def test_lenient_members_of_every_request_type() -> None:
    fields = [handler.parsed_data_field for route in litestar_app().routes for handler in _handlers(route)]
    lenient = {field.annotation for field in fields if field is not None and is_lenient(field.annotation)}
    assert {kind.__name__: set(lenient_members(kind).shapes) for kind in lenient} == {
        "NewSchedule": {"trigger", "window"}, "ScheduleEdit": {"trigger", "window"}, "RulePreviewRequest": {"trigger"},
    }  # fmt: skip


def _handlers(route: Any) -> list[Any]:
    return [handler for handler, _ in route.route_handler_map.values()]
