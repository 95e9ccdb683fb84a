"""The enqueuer of a job, the audit of jobs enqueued by people, and audit targets in words."""

from __future__ import annotations

from typing import Any

from http_client import ORIGIN, Client, browser

from mainspring import AuditFilter, Mainspring

HERE = {"Origin": ORIGIN}
JOB = {"task": "send", "arguments": {"to": "bob"}}


async def enqueued(spring: Mainspring) -> list[tuple[str, str]]:
    return [(one.who, one.target) for one in await spring.audit.list(AuditFilter(action="jobs.enqueue"))]


async def test_an_enqueue_by_a_browser_session_is_in_the_audit_log(spring: Mainspring, service: Any) -> None:
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


async def test_an_enqueue_by_an_api_key_sets_enqueued_by_without_an_audit_entry(
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


async def test_an_enqueue_by_code_has_no_enqueued_by(spring: Mainspring, client: Client) -> None:
    handle = await spring.tasks["send"].enqueue("bob")
    async with client() as http:
        assert (await http.get(f"/jobs/{handle.id}")).json()["enqueued_by"] is None


async def test_an_enqueue_by_a_session_with_a_basic_authorization_header_is_audited(
    spring: Mainspring, service: Any
) -> None:
    http = browser(service)
    key = await spring.keys.create("ada", "operator")
    assert (await http.post("/session", json={"key": key})).status_code == 200
    made = await http.post("/jobs", json=JOB, headers={**HERE, "Authorization": "Basic eDp5"})
    assert made.status_code == 201, made.text
    assert [who for who, _ in await enqueued(spring)] == ["key:ada"]


async def test_run_again_sets_enqueued_by(spring: Mainspring, client: Client) -> None:
    handle = await spring.tasks["fail"].enqueue()
    await spring.drain()
    key = await spring.keys.create("deploy", "operator")
    async with browser(spring.asgi(), headers={"Authorization": f"Bearer {key}"}) as http:
        made = (await http.post(f"/jobs/{handle.id}/run-again")).json()
        assert (await http.get(f"/jobs/{made['id']}")).json()["enqueued_by"] == "key:deploy"


async def test_without_auth_only_an_enqueue_by_a_browser_is_audited(spring: Mainspring) -> None:
    http = browser(spring.asgi(auth=False))
    assert (await http.post("/jobs", json=JOB)).status_code == 201
    assert await enqueued(spring) == []
    assert (await http.post("/jobs", json=JOB, headers={**HERE, "Sec-Fetch-Site": "same-origin"})).status_code == 201
    assert [who for who, _ in await enqueued(spring)] == ["anyone"]


async def test_audit_entries_have_their_target_in_words_and_a_masked_reason(spring: Mainspring, client: Client) -> None:
    await spring.tasks["send"].using(delay=60).enqueue("bob")
    async with client("operator") as http:
        asked = {"action": "cancel", "filter": {"queues": ["mail"]}, "reason": "token=abcdefgh1234 is wrong"}
        assert (await http.post("/jobs/bulk", json=asked)).status_code == 200
        entry = (await http.get("/audit", params={"action": "jobs.cancel"})).json()["items"][0]
    assert entry["target_text"].endswith("jobs in queue mail")
    assert entry["reason"] == "token=*** is wrong"


async def test_redrive_and_bulk_retry_have_the_same_audit_action(spring: Mainspring, client: Client) -> None:
    ids = [(await spring.tasks["fail"].enqueue()).id for _ in range(3)]
    await spring.drain()
    async with client("operator") as http:
        for path, body in (
            ("/dead/redrive", {"ids": ids[:1]}),
            ("/jobs/bulk", {"action": "retry", "filter": {"states": ["dead"], "tasks": ["fail"]}}),
        ):
            assert (await http.post(path, json=body)).status_code == 200
    assert [one.action for one in await spring.audit.list(AuditFilter(action="jobs"))] == ["jobs.retry", "jobs.retry"]
