"""A partial run in the API: jobs, executions, filters, bulk actions."""

from __future__ import annotations

import pytest
from http_client import Client

from mainspring import Context, Mainspring


async def counted(spring: Mainspring) -> list[str]:
    """The ids of a completed, a partial and a dead job."""

    @spring.task(max_retries=0)
    async def counting(ctx: Context, failed: int) -> None:
        ctx.items(success=10 - failed, failed=failed)

    handles = [await counting.enqueue(failed) for failed in (0, 1, 9)]
    await spring.drain()
    return [handle.id for handle in handles]


async def test_partial_jobs_and_executions_have_the_outcome_partial(client: Client, spring: Mainspring) -> None:
    ids = await counted(spring)
    async with client() as http:
        jobs = [(await http.get(f"/jobs/{id}")).json() for id in ids]
        runs = [(await http.get(f"/jobs/{id}/executions")).json()["items"][0] for id in ids]
        listed = {job["id"]: job["outcome"] for job in (await http.get("/jobs")).json()["items"]}
    assert [(job["state"], job["outcome"]) for job in jobs] == [
        ("completed", "completed"), ("completed", "partial"), ("dead", "dead"),
    ]  # fmt: skip
    assert [(run["ending"], run["outcome"]) for run in runs] == [
        ("completed", "completed"), ("completed", "partial"), ("failed", "failed"),
    ]  # fmt: skip
    assert [listed[id] for id in ids] == ["completed", "partial", "dead"]


async def test_unfinished_jobs_have_no_outcome(client: Client, spring: Mainspring) -> None:
    id = (await spring.tasks["send"].enqueue("a")).id
    async with client() as http:
        assert (await http.get(f"/jobs/{id}")).json()["outcome"] is None


async def test_partial_jobs_can_be_listed_and_deleted_by_their_outcome(client: Client, spring: Mainspring) -> None:
    ids = await counted(spring)
    async with client("operator") as http:
        found = (await http.get("/jobs", params={"outcome": "partial"})).json()["items"]
        assert [job["id"] for job in found] == [ids[1]]
        bad = await http.get("/jobs", params={"outcome": "failed"})
        assert bad.status_code == 400
        asked = {"action": "delete", "filter": {"outcome": "partial"}}
        tried = (await http.post("/jobs/bulk", json=asked | {"dry_run": True})).json()
        done = (await http.post("/jobs/bulk", json=asked)).json()
    assert (tried["ids"], done["ids"]) == ([ids[1]], [ids[1]])


@pytest.mark.parametrize("hidden", [False, True])
async def test_partial_jobs_can_be_filtered_while_payloads_are_hidden(
    client: Client, spring: Mainspring, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await counted(spring)
    monkeypatch.setattr("mainspring.api.routes.job_filters.is_hiding", lambda: hidden)
    async with client() as http:
        found = (await http.get("/jobs", params={"outcome": "partial"})).json()["items"]
    assert [job["id"] for job in found] == [ids[1]]


async def test_statistics_count_partial_runs_apart(client: Client, spring: Mainspring) -> None:
    await counted(spring)
    async with client() as http:
        total = (await http.get("/stats")).json()["total"]
    assert (total["runs"], total["completed"], total["partial"], total["failed"]) == (3, 1, 1, 1)
