"""Who enqueued in a browser is on record; programs with a key are not; audit entries say their targets in words."""

from __future__ import annotations

from typing import Any

from http_client import ORIGIN, Client, browser

from mainspring import Mainspring, Trail

HERE = {"Origin": ORIGIN}
JOB = {"task": "send", "arguments": {"to": "bob"}}


async def enqueued(spring: Mainspring) -> list[tuple[str, str]]:
    return [(one.who, one.target) for one in await spring.audit.list(Trail(action="jobs.enqueue"))]


async def test_a_browser_that_enqueues_is_in_the_trail(spring: Mainspring, service: Any) -> None:
    http = browser(service)
    key = await spring.keys.create("ada", "operator")
    assert (await http.post("/session", json={"key": key})).status_code == 200
    made = await http.post("/jobs", json=JOB, headers=HERE)
    assert made.status_code == 201, made.text
    assert await enqueued(spring) == [("key:ada", made.json()["id"])]
    many = await http.post("/jobs", json={"jobs": [JOB, JOB]}, headers=HERE)
    assert (many.status_code, len(await enqueued(spring))) == (201, 2)
    found = (await http.get("/audit", params={"action": "jobs.enqueue", "target": made.json()["id"]})).json()["items"]
    assert [one["who"] for one in found] == ["key:ada"]


async def test_a_program_with_a_key_leaves_no_entry(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        assert (await http.post("/jobs", json=JOB)).status_code == 201
        assert (await http.post("/jobs", json={"jobs": [JOB, JOB]})).status_code == 201
    assert await enqueued(spring) == []


async def test_without_sign_in_a_page_is_told_from_a_program(spring: Mainspring) -> None:
    http = browser(spring.asgi(auth=False))
    assert (await http.post("/jobs", json=JOB)).status_code == 201
    assert await enqueued(spring) == []
    assert (await http.post("/jobs", json=JOB, headers={**HERE, "Sec-Fetch-Site": "same-origin"})).status_code == 201
    assert [who for who, _ in await enqueued(spring)] == ["anyone"]


async def test_entries_have_their_target_in_words_and_the_reason(spring: Mainspring, client: Client) -> None:
    await spring.tasks["send"].using(delay=60).enqueue("bob")
    async with client("operator") as http:
        asked = {"action": "cancel", "filter": {"queues": ["mail"]}, "reason": "token=abcdefgh1234 is wrong"}
        assert (await http.post("/jobs/bulk", json=asked)).status_code == 200
        entry = (await http.get("/audit", params={"action": "jobs.cancel"})).json()["items"][0]
    assert entry["target_text"].endswith("jobs in queue mail")
    assert entry["reason"] == "token=*** is wrong"


async def test_a_redrive_has_one_name_be_it_of_one_job_or_of_a_group(spring: Mainspring, client: Client) -> None:
    ids = [(await spring.tasks["fail"].enqueue()).id for _ in range(3)]
    await spring.drain()
    async with client("operator") as http:
        for path, body in (
            ("/dead/redrive", {"ids": ids[:1]}),
            ("/jobs/bulk", {"action": "retry", "filter": {"states": ["dead"], "tasks": ["fail"]}}),
        ):
            assert (await http.post(path, json=body)).status_code == 200
    assert [one.action for one in await spring.audit.list(Trail(action="jobs"))] == ["jobs.retry", "jobs.retry"]
