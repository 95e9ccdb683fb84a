"""A masked value in a request is replaced by the stored secret, or refused; it never overwrites a secret."""

from __future__ import annotations

from typing import Any

import pytest
from http_client import Client

from mainspring import Mainspring, cron
from mainspring.api.masked_values import MAX_VALUES, restore_masked
from mainspring.errors import BadInput

SECRET = "kan4ri"
URL = f"postgres://user:{SECRET}@host/db"
SHOWN = "postgres://user:***@host/db"


@pytest.mark.parametrize(
    ("given", "stored", "meant"),
    [
        ({"token": "***"}, {"token": SECRET}, {"token": SECRET}),
        ({"token": "new"}, {"token": SECRET}, {"token": "new"}),
        ({"a": {"token": "***", "b": 2}}, {"a": {"token": SECRET, "b": 1}}, {"a": {"token": SECRET, "b": 2}}),
        ({"tokens": "***"}, {"tokens": [SECRET, SECRET]}, {"tokens": [SECRET, SECRET]}),
        ({"list": [{"token": "***"}]}, {"list": [{"token": SECRET}]}, {"list": [{"token": SECRET}]}),
        ({"to": SHOWN}, {"to": URL}, {"to": URL}),
        ({"rating": "***"}, {"rating": "***"}, {"rating": "***"}),
        ({"rating": "***"}, {}, {"rating": "***"}),
        ({"text": "** *** **"}, {}, {"text": "** *** **"}),
        ({"token": "***"}, {"token": "***"}, {"token": "***"}),
    ],
)
def test_a_masked_value_is_restored_from_the_stored_one(given: Any, stored: Any, meant: Any) -> None:
    assert restore_masked(given, stored) == meant


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"token": "***"}, {}),
        ({"token": "***"}, {"other": SECRET}),
        ({"to": SHOWN}, {}),
        ({"to": "postgres://user:***@elsewhere/db"}, {"to": URL}),
        ({"list": [{"token": "***"}, {}]}, {"list": [{"token": SECRET}]}),
        ({"rows": ["***"] * (MAX_VALUES + 1)}, {}),
    ],
)
def test_a_masked_value_without_a_stored_one_is_refused(given: Any, stored: Any) -> None:
    with pytest.raises(BadInput, match=r"\*\*\*"):
        restore_masked(given, stored)


async def test_a_schedule_that_is_saved_as_it_is_shown_keeps_its_secrets(spring: Mainspring, client: Client) -> None:
    given = {"to": URL, "token": SECRET}
    await spring.schedules.create("nightly", cron("0 8 * * *"), "send", kwargs=given, metadata={"api_key": SECRET})
    async with client("operator") as http:
        shown = (await http.get("/schedules/nightly")).json()["spec"]
        assert shown["payload"] == {"to": SHOWN, "token": "***"}
        edit = {"kwargs": shown["payload"], "metadata": shown["metadata"], "trigger": "0 9 * * *"}
        assert (await http.patch("/schedules/nightly", json=edit)).status_code == 200
        spec = (await spring.schedules.get("nightly")).spec
        assert spec.payload == f'{{"to":"{URL}","token":"{SECRET}"}}'
        assert spec.metadata == {"api_key": SECRET}
        made = await http.post("/schedules/nightly/trigger", json={"kwargs": {"to": "x", "token": "***"}})
        assert SECRET in (await spring.jobs.get(made.json()["job_id"])).payload
        new = {"name": "other", "task": "send", "trigger": "0 8 * * *", "kwargs": {"to": "x", "token": "***"}}
        refused = await http.post("/schedules", json=new)
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_input")
        assert "token is ***, which stands for a secret" in refused.json()["detail"]


async def test_a_job_that_is_saved_as_it_is_shown_keeps_its_secrets(spring: Mainspring, client: Client) -> None:
    handle = await spring.tasks["send"].using(metadata={"password": SECRET, "n": 1}).enqueue(to="a", token=SECRET)
    async with client("operator") as http:
        shown = (await http.get(f"/jobs/{handle.id}")).json()
        edit = {"arguments": {**shown["payload"], "to": "b"}, "metadata": {**shown["metadata"], "n": 2}}
        assert (await http.patch(f"/jobs/{handle.id}", json=edit)).status_code == 200
        job = await spring.jobs.get(handle.id)
        assert job.payload == f'{{"to":"b","token":"{SECRET}"}}'
        assert job.metadata == {"password": SECRET, "n": 2}


async def test_a_dead_job_that_is_redriven_as_it_is_shown_keeps_its_secrets(spring: Mainspring, client: Client) -> None:
    handle = await spring.tasks["fail"].enqueue(why=URL)
    await spring.worker().drain()
    async with client("operator") as http:
        shown = (await http.get(f"/jobs/{handle.id}")).json()["payload"]
        assert shown == {"why": SHOWN}
        done = await http.post("/dead/redrive", json={"ids": [handle.id], "arguments": shown})
        assert done.json()["done"] == 1
    assert (await spring.jobs.get(handle.id)).payload == f'{{"why":"{URL}"}}'


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/jobs", {"task": "send", "arguments": {"to": "a", "token": "***"}}),
        ("/jobs", {"task": "send", "arguments": {"to": SHOWN}}),
        ("/jobs", {"task": "send", "arguments": {"to": "a"}, "metadata": {"password": "***"}}),
        ("/jobs", {"jobs": [{"task": "send", "arguments": {"to": "a", "token": "***"}}]}),
        ("/jobs/bulk", {"action": "update", "all": True, "update": {"arguments": {"token": "***"}}}),
        ("/dead/redrive", {"all": True, "arguments": {"why": "password=***"}}),
        ("/triggers", {"name": "in", "task": "send", "kwargs": {"token": "***"}}),
    ],
)
async def test_a_masked_value_in_a_new_record_is_refused(
    spring: Mainspring, client: Client, path: str, body: Any
) -> None:
    async with client("admin") as http:
        answer = await http.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
    assert await spring.jobs.list() == []


async def test_a_trigger_and_a_webhook_that_are_saved_as_they_are_shown_keep_their_secrets(
    spring: Mainspring, client: Client
) -> None:
    await spring.triggers.create("in", task="send", kwargs={"to": "a", "token": SECRET})
    url = f"https://example.com/hook?token={SECRET}"
    await spring.webhooks.create("out", url, ["job.dead"])
    async with client("admin") as http:
        shown = (await http.get("/triggers/in")).json()
        assert (await http.patch("/triggers/in", json={"kwargs": shown["kwargs"], "note": "x"})).status_code == 200
        hook = (await http.get("/webhooks/out")).json()
        assert SECRET not in hook["url"]
        assert (await http.patch("/webhooks/out", json={"url": hook["url"], "note": "x"})).status_code == 200
    assert (await spring.triggers.get("in")).kwargs["token"] == SECRET
    assert (await spring.webhooks.get("out")).url == url
