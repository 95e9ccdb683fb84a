"""The enqueuer of a job, the audit of jobs enqueued by people, and audit targets in words."""

from __future__ import annotations

from typing import Any

from http_client import ORIGIN, Client, browser

from mainspring import AuditFilter, Mainspring

HERE = {"Origin": ORIGIN}
JOB = {"task": "send", "arguments": {"to": "bob"}}


async def enqueued(spring: Mainspring) -> list[tuple[str, str]]:
    return [(one.who, one.target) for one in await spring.audit.list(AuditFilter(action="jobs.enqueue"))]


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


async def test_a_program_with_a_key_leaves_its_name_with_the_job_and_no_entry(
    spring: Mainspring, client: Client
) -> None:
    key = await spring.keys.create("deploy", "operator")
    async with browser(spring.asgi(), headers={"Authorization": f"Bearer {key}"}) as http:
        one = await http.post("/jobs", json=JOB)
        many = await http.post("/jobs", json={"jobs": [JOB, JOB]})
        ids = [one.json()["id"], *(job["id"] for job in many.json()["jobs"])]
        assert [(await http.get(f"/jobs/{id}")).json()["enqueued_by"] for id in ids] == ["key:deploy"] * 3
    assert await enqueued(spring) == []
    jobs = await spring.jobs.list()
    assert [await spring.audit.enqueued_by(job) for job in jobs] == ["key:deploy"] * 3
    assert [job.metadata for job in jobs] == [{}, {}, {}]


async def test_code_leaves_no_name(spring: Mainspring, client: Client) -> None:
    handle = await spring.tasks["send"].enqueue("bob")
    async with client() as http:
        assert (await http.get(f"/jobs/{handle.id}")).json()["enqueued_by"] is None


async def test_a_header_of_another_scheme_hides_no_person(spring: Mainspring, service: Any) -> None:
    http = browser(service)
    key = await spring.keys.create("ada", "operator")
    assert (await http.post("/session", json={"key": key})).status_code == 200
    made = await http.post("/jobs", json=JOB, headers={**HERE, "Authorization": "Basic eDp5"})
    assert made.status_code == 201, made.text
    assert [who for who, _ in await enqueued(spring)] == ["key:ada"]


async def test_a_job_that_is_run_again_has_the_name_of_who_did_so(spring: Mainspring, client: Client) -> None:
    handle = await spring.tasks["fail"].enqueue()
    await spring.drain()
    key = await spring.keys.create("deploy", "operator")
    async with browser(spring.asgi(), headers={"Authorization": f"Bearer {key}"}) as http:
        made = (await http.post(f"/jobs/{handle.id}/run-again")).json()
        assert (await http.get(f"/jobs/{made['id']}")).json()["enqueued_by"] == "key:deploy"


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
    assert [one.action for one in await spring.audit.list(AuditFilter(action="jobs"))] == ["jobs.retry", "jobs.retry"]
