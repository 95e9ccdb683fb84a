"""Bounds of requests: a value beyond one is refused by name, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest
from http_client import Client, browser

from mainspring import Mainspring
from mainspring.bounds import MAX_METADATA_BYTES, MAX_SPAN_SECONDS, MAX_TAGS
from mainspring.testing import VirtualClock

TOO_LONG = MAX_SPAN_SECONDS + 1
LARGE = {"note": "x" * MAX_METADATA_BYTES}
FORGED = {"webhook": "ops", "type": "job.dead", "timestamp": "now", "data": {}}

BEYOND: dict[str, tuple[dict[str, Any], str]] = {
    "backoff": ({"backoff": {"initial": 1e12, "max": 1e12}}, r"31622400.*backoff"),
    "a linear backoff": ({"backoff": {"initial": 1, "max": TOO_LONG, "curve": "linear"}}, r"31622400.*backoff"),
    "delay": ({"delay": TOO_LONG}, r"31622400.*delay"),
    "timeout": ({"timeout": TOO_LONG}, r"31622400.*timeout"),
    "expires": ({"expires": TOO_LONG}, r"31622400.*expires"),
    "debounce_limit": ({"debounce_limit": TOO_LONG}, r"31622400.*debounce_limit"),
    "metadata": ({"metadata": LARGE}, "option metadata of task 'send'.*at most 65,536 bytes as JSON, got 65,547"),
    "tags": ({"tags": [f"t{n}" for n in range(MAX_TAGS + 1)]}, "option tags of task 'send'.*at most 100 tags"),
    "a tag": ({"tags": ["x" * 201]}, "200"),
    "a queue": ({"queue": "x" * 201}, "200"),
    "a key": ({"unique_key": "x" * 513}, "512"),
    "an internal task": ({"task": "mainspring.webhook", "arguments": FORGED}, "task 'mainspring.webhook' is internal"),
}


@pytest.mark.parametrize("of", BEYOND)
async def test_a_job_beyond_a_bound_is_refused_by_name(spring: Mainspring, client: Client, of: str) -> None:
    given, why = BEYOND[of]
    asked = {"task": "send", "arguments": {"to": "a"}, **given}
    async with client("operator") as http:
        one = await http.post("/jobs", json=asked)
        many = await http.post("/jobs", json={"jobs": [{"task": "fail"}, asked]})
    for answer in (one, many):
        assert answer.status_code == 422, answer.text
        assert_matches(why, answer.json()["detail"])
    assert list(await spring.jobs.list()) == []


def assert_matches(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"metadata": LARGE}, "at most 65,536 bytes as JSON"),
        ({"tags": ["x"] * 101}, "at most 100 tags"),
        ({"timeout": TOO_LONG}, r"31622400.*timeout"),
    ],
    ids=["metadata", "tags", "timeout"],
)
async def test_an_update_beyond_a_bound_is_refused(spring: Mainspring, client: Client, given: Any, why: str) -> None:
    job = await spring.tasks["send"].enqueue(to="a")
    before = await job.job()
    async with client("operator") as http:
        answer = await http.patch(f"/jobs/{job.id}", json=given)
    assert answer.status_code == 422, answer.text
    assert_matches(why, answer.json()["detail"])
    assert await job.job() == before


SCHEDULES_BEYOND: dict[str, tuple[dict[str, Any], str]] = {
    "metadata": ({"metadata": LARGE}, "option metadata of schedule 'x'.*at most 65,536 bytes as JSON"),
    "tags": ({"tags": ["x"] * 101}, "option tags of schedule 'x'.*at most 100 tags"),
    "timeout": ({"timeout": TOO_LONG}, "option timeout of schedule 'x'.*at most 366 days"),
    "an internal task": ({"task": "mainspring.webhook", "kwargs": FORGED}, "no task 'mainspring.webhook' is regist"),
    "depends_on": ({"depends_on": [f"s{n}" for n in range(101)]}, "101 schedules are too many: at most 100"),
}


@pytest.mark.parametrize("of", SCHEDULES_BEYOND)
async def test_a_schedule_beyond_a_bound_is_refused(spring: Mainspring, client: Client, of: str) -> None:
    given, why = SCHEDULES_BEYOND[of]
    body = {"name": "x", "task": "fail", "trigger": {"kind": "every", "seconds": 60}}
    async with client("operator") as http:
        answer = await http.post("/schedules", json=body | given)
        assert answer.status_code == 422, answer.text
        assert_matches(why, answer.json()["detail"])
        assert not await spring.schedules.list()
        assert (await http.post("/schedules", json=body)).status_code == 201


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", {"arguments": FORGED}),
        ("/schedules", {"name": "x", "trigger": {"kind": "every", "seconds": 60}, "kwargs": FORGED}),
    ],
    ids=["a job", "a schedule"],
)
async def test_a_server_without_tasks_refuses_internal_tasks(clock: VirtualClock, path: str, body: Any) -> None:
    app = Mainspring("memory://", clock=clock)
    key = await app.keys.create("ops", "operator")
    async with browser(app.asgi(), headers={"Authorization": f"Bearer {key}"}) as http:
        answer = await http.post(path, json=body | {"task": "mainspring.webhook"})
        assert answer.status_code == 422, answer.text
        assert "task 'mainspring.webhook' is internal" in answer.json()["detail"]
        assert (await http.post(path, json=body | {"task": "known.elsewhere"})).status_code == 201


async def test_an_operator_cannot_change_the_payload_of_a_webhook_delivery(spring: Mainspring, client: Client) -> None:
    await spring.webhooks.create("ops", "https://hooks.example.com/in", ["job.dead"])
    job = await (await spring.webhooks.test("ops")).job()
    async with client("operator") as http:
        edited = await http.patch(f"/jobs/{job.id}", json={"arguments": FORGED})
        bulk = await http.post(
            "/jobs/bulk", json={"action": "update", "ids": [job.id], "update": {"arguments": FORGED}}
        )
        await spring.jobs.cancel(job.id)
        retried = await http.post(f"/jobs/{job.id}/retry")
    assert (edited.status_code, bulk.status_code, retried.status_code) == (422, 200, 200), (edited.text, bulk.text)
    assert "is internal" in edited.json()["detail"]
    assert "is internal" in bulk.text
    assert (await spring.jobs.get(job.id)).payload == job.payload
