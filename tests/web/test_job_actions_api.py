"""/jobs/{id}/…: actions on one job, and those that its state does not allow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from http_client import Client

from mainspring import Mainspring, State
from mainspring.testing import VirtualClock


async def waiting(spring: Mainspring) -> str:
    return (await spring.tasks["send"].using(delay=60).enqueue("a")).id


async def dead(spring: Mainspring) -> str:
    id = (await spring.tasks["fail"].enqueue()).id
    await spring.drain(queues=["default"])
    return id


async def test_a_job_is_paused_and_resumed(spring: Mainspring, client: Client) -> None:
    id = await waiting(spring)
    async with client("operator") as http:
        paused = await http.post(f"/jobs/{id}/pause")
        assert (paused.status_code, paused.json()["state"], paused.json()["shown"]) == (200, "paused", "paused")
        resumed = await http.post(f"/jobs/{id}/resume")
    assert (resumed.json()["state"], resumed.json()["shown"]) == ("pending", "scheduled")


async def test_a_job_is_cancelled_with_a_reason(spring: Mainspring, client: Client) -> None:
    id = await waiting(spring)
    async with client("operator") as http:
        answer = await http.post(f"/jobs/{id}/cancel", json={"reason": "no more"})
        assert (answer.json()["state"], answer.json()["cancel_reason"]) == ("cancelled", "no more")
        assert (await http.post(f"/jobs/{id}/cancel")).status_code == 200


async def test_a_dead_job_is_retried(spring: Mainspring, client: Client) -> None:
    id = await dead(spring)
    async with client("operator") as http:
        answer = await http.post(f"/jobs/{id}/retry")
    assert (answer.status_code, answer.json()["state"], answer.json()["attempt"]) == (200, "pending", 0)


async def test_a_job_whose_key_is_held_is_not_retried(spring: Mainspring, client: Client) -> None:
    task = spring.tasks["send"].using(delay=60, unique_key="k")
    first = await task.enqueue("a")
    await spring.jobs.cancel(first.id)
    holder = await task.enqueue("a")
    async with client("operator") as http:
        answer = await http.post(f"/jobs/{first.id}/retry")
    assert (answer.status_code, answer.json()["code"], answer.json()["job_id"]) == (409, "job_exists", holder.id)


async def test_a_job_is_rescheduled(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    id = await waiting(spring)
    async with client("operator") as http:
        await http.post(f"/jobs/{id}/reschedule", json={"delay": 5})
        assert (await spring.jobs.get(id)).run_at == clock.now() + timedelta(seconds=5)
        answer = await http.post(f"/jobs/{id}/reschedule", json={"at": "2031-01-01T00:00:00Z"})
    assert answer.json()["run_at"] == "2031-01-01T00:00:00Z"
    assert (await spring.jobs.get(id)).run_at == datetime(2031, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "when", [{}, {"at": "2031-01-01T00:00:00Z", "delay": 5}, {"delay": -1}, {"at": "2031-01-01"}, {"delay": []}, []]
)
async def test_reschedule_needs_at_or_delay(spring: Mainspring, client: Client, when: Any) -> None:
    id = await waiting(spring)
    async with client("operator") as http:
        answer = await http.post(f"/jobs/{id}/reschedule", json=when)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


@pytest.mark.parametrize(
    ("act", "allowed"),
    [
        ("pause", "paused, pending"),
        ("resume", "paused, pending"),
        ("cancel", "cancelled, paused, pending, running, waiting"),
        ("reschedule", "paused, pending, waiting"),
    ],
)
async def test_an_invalid_transition_is_409_with_state_and_allowed(
    spring: Mainspring, client: Client, act: str, allowed: str
) -> None:
    id = await dead(spring)
    async with client("operator") as http:
        answer = await http.post(f"/jobs/{id}/{act}", json={"delay": 1} if act == "reschedule" else None)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "invalid_transition")
    assert (problem["state"], problem["allowed"], problem["job_id"]) == ("dead", allowed, id)


@pytest.mark.parametrize("act", ["pause", "resume", "cancel", "retry", "reschedule"])
async def test_an_action_on_an_unknown_job_is_404(client: Client, act: str) -> None:
    async with client("operator") as http:
        answer = await http.post(f"/jobs/nope/{act}", json={"delay": 1} if act == "reschedule" else None)
    assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")


@pytest.mark.parametrize("act", ["pause", "resume", "cancel", "retry", "reschedule"])
async def test_job_actions_need_the_operator_role(spring: Mainspring, client: Client, act: str) -> None:
    id = await waiting(spring)
    async with client("viewer") as http:
        answer = await http.post(f"/jobs/{id}/{act}", json={"delay": 1} if act == "reschedule" else None)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert (await spring.jobs.get(id)).state is State.PENDING


async def test_a_finished_job_is_run_again_as_a_new_job_and_audited(spring: Mainspring, client: Client) -> None:
    job = await spring.tasks["send"].using(tags=["t"]).enqueue("ada@example.org", token="secret")
    async with client("operator") as http:
        early = await http.post(f"/jobs/{job.id}/run-again")
        assert (early.status_code, early.json()["code"]) == (409, "invalid_transition")
        await spring.drain()
        made = await http.post(f"/jobs/{job.id}/run-again")
        assert (made.status_code, made.json()["status"]) == (201, "new")
        assert made.headers["Location"].endswith(made.json()["id"])
        same = {"Idempotency-Key": "again-1"}
        once, twice = [(await http.post(f"/jobs/{job.id}/run-again", headers=same)).json() for _ in range(2)]
        assert once["id"] == twice["id"]
        assert (await http.post("/jobs/nope/run-again")).status_code == 404
    new = await spring.jobs.get(made.json()["id"])
    assert (new.payload, new.tags) == ((await job.job()).payload, ("t",))
    async with client("admin") as http:
        entries = (await http.get(f"/audit?action=jobs.run_again&target={job.id}")).json()["items"]
        assert made.json()["id"] in str(entries)
    async with client("viewer") as http:
        assert (await http.post(f"/jobs/{job.id}/run-again")).status_code == 403
