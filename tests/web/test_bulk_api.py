"""POST /jobs/bulk and /dead: bulk changes, in which each job is changed or refused separately."""

from __future__ import annotations

from typing import Any

import pytest
from http_client import Client

from mainspring import Filter, Mainspring
from mainspring.testing import VirtualClock


async def fill(spring: Mainspring, count: int, **options: Any) -> list[str]:
    task = spring.tasks["send"].using(**options)
    return [handle.id for handle in await spring.enqueue_many(task.job(str(n)) for n in range(count))]


async def dead(spring: Mainspring, why: str = "no") -> str:
    id = (await spring.tasks["fail"].enqueue(why)).id
    await spring.drain(queues=["default"])
    return id


async def test_jobs_are_changed_by_id_and_refusals_are_listed(spring: Mainspring, client: Client) -> None:
    one, two = await fill(spring, 2)
    gone = await dead(spring)
    async with client("operator") as http:
        answer = await http.post("/jobs/bulk", json={"action": "pause", "ids": [one, two, gone, "nope", one]})
    told = answer.json()
    assert (answer.status_code, told["done"], told["ids"], told["next"]) == (200, 2, [one, two], None)
    assert [(refused["id"], refused["code"], refused["state"]) for refused in told["refused"]] == [
        (gone, "invalid_transition", "dead"),
        ("nope", "job_not_found", None),
    ]
    assert "it is dead, pause needs paused, pending" in told["refused"][0]["detail"]


@pytest.mark.parametrize(
    ("action", "more", "after"),
    [
        ("cancel", {"reason": "no more"}, "cancelled"),
        ("pause", {}, "paused"),
        ("update", {"update": {"priority": 9}}, "pending"),
        ("retry", {"filter": {"states": ["pending"]}}, "pending"),
    ],
)
async def test_jobs_are_changed_by_filter(
    spring: Mainspring, client: Client, action: str, more: dict[str, Any], after: str
) -> None:
    ids, other = await fill(spring, 3), await fill(spring, 1, queue="other")
    async with client("operator") as http:
        asked = {"action": action, "filter": {"queues": ["mail"]}} | more
        answer = await http.post("/jobs/bulk", json=asked)
    assert answer.status_code == 200
    assert answer.json()["done"] == (0 if action == "retry" else 3)
    assert [(await spring.jobs.get(id)).state for id in ids] == [after] * 3
    assert (await spring.jobs.get(other[0])).priority == 0


async def test_paused_jobs_are_resumed_and_ended_ones_deleted(spring: Mainspring, client: Client) -> None:
    (id,) = await fill(spring, 1)
    gone = await dead(spring)
    await spring.jobs.pause(id)
    async with client("operator") as http:
        resumed = await http.post("/jobs/bulk", json={"action": "resume", "all": True})
        deleted = await http.post("/jobs/bulk", json={"action": "delete", "all": True})
    assert (resumed.json()["ids"], deleted.json()["ids"]) == ([id], [gone])


async def test_a_bulk_action_by_filter_continues_after_the_next_cursor(spring: Mainspring, client: Client) -> None:
    ids = await fill(spring, 5)
    asked = {"action": "cancel", "filter": {"tasks": ["send"]}, "limit": 2}
    done: list[str] = []
    async with client("operator") as http:
        after = None
        while True:
            told = (await http.post("/jobs/bulk", json={**asked, "after": after})).json()
            done += told["ids"]
            after = told["next"]
            if after is None:
                break
    assert done == ids


async def test_a_dry_run_of_a_bulk_action_changes_nothing(spring: Mainspring, client: Client) -> None:
    ids = await fill(spring, 3)
    asked = {"action": "cancel", "filter": {"queues": ["mail"]}, "dry_run": True}
    async with client("operator") as http:
        told = (await http.post("/jobs/bulk", json=asked)).json()
    assert (told["done"], told["dry_run"]) == (3, True)
    assert {job.state for job in await spring.jobs.list(Filter(ids=tuple(ids)))} == {"pending"}


async def test_new_arguments_of_a_bulk_update_are_refused_for_each_job_they_do_not_fit(
    spring: Mainspring, client: Client
) -> None:
    (id,) = await fill(spring, 1)
    other = (await spring.tasks["fail"].using(delay=60).enqueue()).id
    asked = {"action": "update", "ids": [id, other], "update": {"arguments": {"to": "b"}}}
    async with client("operator") as http:
        told = (await http.post("/jobs/bulk", json=asked)).json()
    assert told["ids"] == [id]
    assert [(refused["id"], refused["code"]) for refused in told["refused"]] == [(other, "bad_payload")]


async def test_a_bulk_retry_refuses_a_job_whose_unique_key_is_held(spring: Mainspring, client: Client) -> None:
    task = spring.tasks["send"].using(delay=60, unique_key="k")
    first = (await task.enqueue("a")).id
    await spring.jobs.cancel(first)
    await task.enqueue("a")
    async with client("operator") as http:
        told = (await http.post("/jobs/bulk", json={"action": "retry", "ids": [first]})).json()
    assert [(refused["code"], refused["state"]) for refused in told["refused"]] == [("job_exists", "cancelled")]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"action": "cancel"}, "which jobs?"),
        ({"action": "cancel", "filter": {}}, "which jobs?"),
        ({"action": "cancel", "ids": []}, "$.ids"),
        ({"action": "cancel", "ids": ["x"] * 1001}, "$.ids"),
        ({"action": "cancel", "ids": ["x"], "all": True}, "`ids` selects the jobs"),
        ({"action": "cancel", "ids": ["x"], "filter": {"tasks": ["a"]}}, "`ids` selects the jobs"),
        ({"action": "cancel", "ids": ["x"], "after": "y"}, "`ids` selects the jobs"),
        ({"action": "cancel", "filter": {"task": ["send"]}}, "`task`"),
        ({"action": "cancel", "filter": {"states": ["odd"]}}, "$.filter.states"),
        ({"action": "cancel", "filter": {"created_after": "2030-01-01T00:00:00"}}, "created_after"),
        ({"action": "cancel", "all": True, "limit": 1001}, "$.limit"),
        ({"action": "cancel", "all": True, "after": "x"}, "give its `next`"),
        ({"action": "update", "all": True}, "`update` (the new values) is required for action update"),
        ({"action": "update", "all": True, "update": {}}, "nothing to change"),
        (
            {"action": "pause", "all": True, "update": {"priority": 1}},
            "`update` (the new values) is required for action update",
        ),
        ({"action": "explode", "all": True}, "$.action"),
        ({"all": True}, "`action`"),
    ],
)
async def test_an_ambiguous_bulk_request_is_422(spring: Mainspring, client: Client, asked: Any, named: str) -> None:
    await fill(spring, 1)
    async with client("operator") as http:
        answer = await http.post("/jobs/bulk", json=asked)
    assert answer.status_code == 422, answer.text
    assert named in answer.json()["detail"]
    assert [job.state for job in await spring.jobs.list()] == ["pending"]


# dead letters


async def test_dead_jobs_are_grouped_by_error(spring: Mainspring, client: Client) -> None:
    for n in range(3):
        await dead(spring, f"no {n}")
    newest = await dead(spring, "quite another")
    async with client("viewer") as http:
        groups = (await http.get("/dead")).json()["items"]
        assert [(group["error"], group["message"], group["count"]) for group in groups] == [
            ("ValueError: no …", "ValueError: no 2", 3),
            ("ValueError: quite another", "ValueError: quite another", 1),
        ]
        assert groups[1]["newest"] == newest
        assert (await http.get("/dead?task=send")).json()["items"] == []
        assert len((await http.get("/dead?task=fail&limit=1")).json()["items"]) == 1
        assert (await http.get("/dead?limit=1001")).status_code == 400


async def test_a_dead_group_is_redriven_with_a_corrected_argument(spring: Mainspring, client: Client) -> None:
    first, second, other = await dead(spring, "no 1"), await dead(spring, "no 2"), await dead(spring, "else")
    asked = {"filter": {"tasks": ["fail"], "errors": ["ValueError: no …"]}, "arguments": {"why": "well"}}
    async with client("operator") as http:
        told = (await http.post("/dead/redrive", json=asked)).json()
    assert told["ids"] == [first, second]
    assert (await spring.jobs.get(first)).payload == '{"why":"well"}'
    assert (await spring.jobs.get(other)).state == "dead"


async def test_a_dead_group_is_redriven_by_its_masked_error(spring: Mainspring, client: Client) -> None:
    id = await dead(spring, "redis://me:hush@host is away")
    async with client("operator") as http:
        (group,) = (await http.get("/dead")).json()["items"]
        assert "hush" not in group["error"] + group["message"]
        told = (await http.post("/dead/redrive", json={"filter": {"errors": [group["error"]]}})).json()
    assert told["ids"] == [id]


async def test_dead_jobs_are_redriven_in_pages(spring: Mainspring, client: Client) -> None:
    ids = [await dead(spring) for _ in range(3)]
    async with client("operator") as http:
        first = (await http.post("/dead/redrive", json={"all": True, "limit": 2})).json()
        rest = (await http.post("/dead/redrive", json={"all": True, "limit": 2, "after": first["next"]})).json()
    assert (first["ids"] + rest["ids"], rest["next"]) == (ids, None)


async def test_only_dead_jobs_are_redriven(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    (id,) = await fill(spring, 1)
    async with client("operator") as http:
        told = (await http.post("/dead/redrive", json={"ids": [id]})).json()
        assert (told["done"], [refused["id"] for refused in told["refused"]]) == (0, [id])
        for asked in ({}, {"filter": {"states": ["cancelled"]}}):
            assert (await http.post("/dead/redrive", json=asked)).status_code == 422
    async with client("viewer") as http:
        assert (await http.post("/dead/redrive", json={"all": True})).status_code == 403


async def test_a_dry_run_of_redrive_checks_the_new_arguments(spring: Mainspring, client: Client) -> None:
    ids = [await dead(spring) for _ in range(3)]
    asked = {"filter": {"tasks": ["fail"]}, "dry_run": True}
    async with client("operator") as http:
        plain = (await http.post("/dead/redrive", json=asked)).json()
        assert (plain["done"], plain["dry_run"], plain["refused"]) == (3, True, [])
        first = (await http.post("/dead/redrive", json={**asked, "limit": 2, "arguments": {"why": "x"}})).json()
        assert (first["done"], first["next"] is not None) == (2, True)
        wrong = (await http.post("/dead/redrive", json={**asked, "arguments": {"why": 5}})).json()
        assert (wrong["done"], {one["code"] for one in wrong["refused"]}) == (0, {"bad_payload"})
        assert {job.state for job in await spring.jobs.list(Filter(ids=tuple(ids)))} == {"dead"}
        really = {"filter": {"tasks": ["fail"]}, "arguments": {"why": "other"}}
        assert (await http.post("/dead/redrive", json=really)).json()["done"] == 3
    assert {job.payload for job in await spring.jobs.list(Filter(ids=tuple(ids)))} == {'{"why":"other"}'}
