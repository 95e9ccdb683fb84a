"""/jobs: lists, details, edits, waiting for the end, and refusals of invalid requests."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from http_client import Client, browser
from msgspec import Raw
from msgspec.structs import replace

from mainspring import Context, Filter, Job, Mainspring, NewJob
from mainspring.testing import VirtualClock


async def send(spring: Mainspring, to: str = "a", **options: Any) -> str:
    return (await spring.tasks["send"].using(**options).enqueue(to)).id


async def dead(spring: Mainspring, why: str = "no") -> str:
    id = (await spring.tasks["fail"].enqueue(why)).id
    await spring.drain(queues=["default"])
    return id


class Sent(msgspec.Struct):
    payload: Raw
    result: Raw = Raw(b"null")


def rebuilt(body: bytes) -> Job:
    """The Job as a client decodes it from the response."""
    given = msgspec.json.decode(body)
    sent = msgspec.json.decode(body, type=Sent)
    result = None if given["result"] is None else bytes(sent.result).decode()
    given |= {"payload": bytes(sent.payload).decode(), "result": result}
    return msgspec.convert(given, Job)


# one job


async def test_a_job_is_shown_with_every_field_of_its_record(spring: Mainspring, client: Client) -> None:
    options = {"priority": 3, "tags": ["x"], "metadata": {"of": 1}, "delay": 60, "unique_key": "k", "timeout": None}
    id = await send(spring, **options)
    async with client("viewer") as http:
        answer = await http.get(f"/jobs/{id}")
    assert answer.status_code == 200
    assert rebuilt(answer.content) == await spring.jobs.get(id)


async def test_a_job_that_has_ended_is_shown_with_its_result(spring: Mainspring, client: Client) -> None:
    id = await send(spring)
    await spring.drain()
    async with client("viewer") as http:
        answer = await http.get(f"/jobs/{id}")
    assert answer.json()["result"] == {"sent": "a", "token": ""}
    assert rebuilt(answer.content) == await spring.jobs.get(id)


async def test_a_job_is_shown_with_derived_fields(spring: Mainspring, client: Client) -> None:
    id = await send(spring, delay=60)
    async with client("viewer") as http:
        job = (await http.get(f"/jobs/{id}")).json()
    assert (job["state"], job["shown"], job["next_retry_at"]) == ("pending", "scheduled", None)
    assert job["can"] == ["cancel", "pause", "update", "delete"]
    assert job["since"] == job["created_at"]


async def test_a_retrying_job_has_next_retry_at(spring: Mainspring, client: Client) -> None:
    @spring.task(name="flaky")
    async def flaky() -> None:
        raise ValueError("no")

    id = (await flaky.enqueue()).id
    await spring.drain()
    async with client("viewer") as http:
        job = (await http.get(f"/jobs/{id}")).json()
    assert (job["shown"], job["next_retry_at"]) == ("retrying", job["run_at"])
    assert job["failure"]["type"] == "ValueError"


async def test_large_integers_stay_exact(spring: Mainspring, client: Client) -> None:
    @spring.task(name="count")
    async def count(n: int) -> int:
        return n

    id = (await count.enqueue(2**63 - 1)).id
    await spring.drain()
    async with client("viewer") as http:
        job = (await http.get(f"/jobs/{id}")).json()
    assert (job["payload"], job["result"]) == ({"n": 2**63 - 1}, 2**63 - 1)


async def test_a_payload_that_is_not_json_is_shown_as_text(spring: Mainspring, client: Client) -> None:
    store = await spring.connect()
    await store.enqueue([NewJob(id="torn", task="send", payload="{torn")], now=spring.clock.now())
    async with client("viewer") as http:
        assert (await http.get("/jobs/torn")).json()["payload"] == "{torn"


async def test_an_unknown_job_is_404(client: Client) -> None:
    async with client("viewer") as http:
        for path in ("", "/why", "/logs", "/output", "/checkpoints", "/executions", "/stats"):
            answer = await http.get(f"/jobs/nope{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
            assert answer.headers["Content-Type"] == "application/problem+json"


# waiting


async def test_waiting_for_a_job_answers_when_it_has_ended(spring: Mainspring, client: Client) -> None:
    id = await send(spring)
    async with client("viewer") as http:
        waiting = asyncio.create_task(http.get(f"/jobs/{id}?wait=30"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        await spring.drain()
        assert (await waiting).json()["state"] == "completed"


async def test_waiting_for_a_job_ends_after_its_time(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    id = await send(spring, delay=3600)
    async with client("viewer") as http:
        waiting = asyncio.create_task(http.get(f"/jobs/{id}?wait=2"))
        while not waiting.done():
            await asyncio.sleep(0)
            clock.advance(seconds=1)
        assert (await waiting).json()["shown"] == "scheduled"


@pytest.mark.parametrize("wait", ["-1", "30.1", "nan", "inf", "x"])
async def test_the_wait_for_a_job_is_limited(client: Client, wait: str) -> None:
    async with client("viewer") as http:
        answer = await http.get(f"/jobs/x?wait={wait}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")


# lists


async def test_the_job_list_is_newest_first_and_has_no_payloads(spring: Mainspring, client: Client) -> None:
    first, second = await send(spring), await send(spring)
    async with client("viewer") as http:
        page = (await http.get("/jobs")).json()
    assert [job["id"] for job in page["items"]] == [second, first]
    assert page["next"] is None
    assert "payload" not in page["items"][0]
    assert page["items"][0]["task"] == "send"


async def test_the_job_list_has_the_allowed_actions_of_each_job(spring: Mainspring, client: Client) -> None:
    await send(spring)
    await spring.drain()
    await send(spring)
    async with client("viewer") as http:
        page = (await http.get("/jobs")).json()
    assert [job["can"] for job in page["items"]] == [["cancel", "pause", "update", "delete"], ["delete"]]


async def test_the_job_list_with_arguments_cuts_long_arguments(spring: Mainspring, client: Client) -> None:
    for to in ("a", "https://me:hush@host", "b" * 500, "c" * 5000):
        await send(spring, to)
    async with client("viewer") as http:
        plain = (await http.get("/jobs")).json()["items"]
        long, cut, masked, short = (await http.get("/jobs?arguments=true")).json()["items"]
    assert not any("arguments" in job for job in plain)
    assert short["arguments"].startswith('{"to":"a"')
    assert "hush" not in masked["arguments"]
    assert cut["arguments"] == '{"to":"' + "b" * 152 + "…"
    assert long["arguments"] == "…"


async def test_the_job_list_is_paged_by_cursor(spring: Mainspring, client: Client) -> None:
    ids = [await send(spring) for _ in range(5)]
    seen: list[str] = []
    async with client("viewer") as http:
        after: dict[str, str] = {}
        while True:
            page = (await http.get("/jobs", params={"limit": 2, "order": "asc", **after})).json()
            seen += [job["id"] for job in page["items"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
    assert seen == ids


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=dead", {"dead"}),
        ("state=dead&state=pending", {"dead", "mail"}),
        ("queue=mail", {"mail", "later"}),
        ("queue=mail&queue=default", {"mail", "later", "dead"}),
        ("task=fail", {"dead"}),
        ("tag=a&tag=b", {"later"}),
        ("tag=a", {"mail", "later"}),
        ("key_prefix=order:", {"mail"}),
        ("error=ValueError: no", {"dead"}),
        ("error=ValueError: yes", set()),
        ("worker=nobody", set()),
        ("schedule=daily", set()),
        ("state=scheduled&queue=mail", {"later"}),
        ("created_after=2999-01-01T00:00:00Z", set()),
        ("created_before=2999-01-01T00:00:00%2B01:00", {"mail", "later", "dead"}),
    ],
)
async def test_the_job_list_is_filtered(spring: Mainspring, client: Client, query: str, found: set[str]) -> None:
    ids = {
        await send(spring, tags=["a"], unique_key="order:1"): "mail",
        await send(spring, tags=["a", "b"], delay=60): "later",
        await dead(spring): "dead",
    }
    async with client("viewer") as http:
        answer = await http.get(f"/jobs?{query}")
    assert {ids[job["id"]] for job in answer.json()["items"]} == found


async def test_the_job_list_is_sorted_by_the_given_field(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    late, soon = await send(spring, delay=60), await send(spring, delay=30)
    async with client("viewer") as http:

        async def ids(query: str) -> list[str]:
            return [job["id"] for job in (await http.get(f"/jobs?{query}")).json()["items"]]

        assert await ids("sort=due") == [soon, late]
        assert await ids("sort=due&order=desc") == [late, soon]
        assert await ids("sort=created&order=asc") == [late, soon]
        clock.advance(minutes=2)
        await spring.drain()
        assert sorted(await ids("sort=finished")) == sorted([late, soon])


async def test_the_job_list_is_filtered_by_a_masked_error(spring: Mainspring, client: Client) -> None:
    id = await dead(spring, "postgres://me:secret@db/x is away")
    async with client("viewer") as http:
        (job,) = (await http.get("/jobs")).json()["items"]
        assert "secret" not in job["error"] + job["message"]
        found = (await http.get("/jobs", params={"error": job["error"]})).json()["items"]
    assert [one["id"] for one in found] == [id]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=201", "limit=x", "limit=99999999999999999999", "stat=dead", "state=odd", "sort=priority",
        "order=up", "created_after=yesterday", "created_after=2030-01-01T00:00:00", "sort=due&after=x",
        "sort=finished&after=eyJ9", "state=dead&state=", "queue=%ED%A0%80x&lmit=3",
        "&".join(["queue=q"] * 101),
    ],
)  # fmt: skip
async def test_an_invalid_list_parameter_is_400_with_the_reason(client: Client, query: str) -> None:
    async with client("viewer") as http:
        answer = await http.get(f"/jobs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter"), answer.text
    assert answer.json()["detail"]


async def test_an_unknown_parameter_is_400_with_the_nearest_one(client: Client) -> None:
    async with client("viewer") as http:
        answer = await http.get("/jobs?stats=dead")
    assert answer.json()["detail"] == "/api/v1/jobs has no parameter 'stats'; did you mean 'state'?"


async def test_job_counts_have_every_state(spring: Mainspring, client: Client) -> None:
    await send(spring)
    await dead(spring)
    async with client("viewer") as http:
        counts = (await http.get("/jobs/counts")).json()
    assert (counts["pending"], counts["dead"], counts["running"]) == (1, 1, 0)


# editing


async def test_an_edit_changes_only_the_given_fields(spring: Mainspring, client: Client) -> None:
    id = await send(spring, delay=60, tags=["old"])
    before = await spring.jobs.get(id)
    async with client("operator") as http:
        answer = await http.patch(f"/jobs/{id}", json={"priority": 7, "arguments": {"to": "b"}, "timeout": None})
    assert answer.status_code == 200
    after = await spring.jobs.get(id)
    assert (after.priority, after.payload, after.timeout) == (7, '{"to":"b"}', None)
    assert (after.tags, after.run_at) == (before.tags, before.run_at)
    assert rebuilt(answer.content) == after


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ({}, "nothing to change"),
        ({"priority": 10**6}, "priority"),
        ({"priority": "5"}, "priority"),
        ({"run_at": "2030-01-01T00:00:00"}, "run_at"),
        ({"state": "dead"}, "state"),
        ({"queue": " x"}, "queue"),
        ({"timeout": 0}, "timeout"),
        ({"arguments": {"to": 5}}, "$.to"),
        ({"arguments": [1]}, "arguments"),
        ({"tags": "x"}, "tags"),
        ([], "object"),
    ],
)
async def test_an_invalid_edit_is_refused_with_the_reason(
    spring: Mainspring, client: Client, edit: Any, named: str
) -> None:
    id = await send(spring)
    async with client("operator") as http:
        answer = await http.patch(f"/jobs/{id}", json=edit)
    assert answer.status_code == 422
    assert named in answer.json()["detail"]


async def test_a_finished_job_cannot_be_edited(spring: Mainspring, client: Client) -> None:
    id = await dead(spring)
    async with client("operator") as http:
        answer = await http.patch(f"/jobs/{id}", json={"priority": 1})
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_transition")
    assert (answer.json()["state"], answer.json()["allowed"]) == ("dead", "paused, pending, waiting")


async def test_an_edit_with_an_outdated_etag_is_412(spring: Mainspring, client: Client) -> None:
    id = await send(spring)
    async with client("operator") as http:
        read = (await http.get(f"/jobs/{id}")).headers["ETag"]
        await spring.jobs.update(id, priority=1)
        refused = await http.patch(f"/jobs/{id}", json={"priority": 9}, headers={"If-Match": read})
        assert (refused.status_code, refused.json()["code"]) == (412, "changed")
        assert (await spring.jobs.get(id)).priority == 1
        now = (await http.get(f"/jobs/{id}")).headers["ETag"]
        done = await http.patch(f"/jobs/{id}", json={"priority": 9}, headers={"If-Match": f'"x", {now}'})
    assert done.status_code == 200
    assert done.headers["ETag"] not in (read, now)


async def test_a_pause_does_not_change_the_etag(spring: Mainspring, client: Client) -> None:
    id = await send(spring)
    async with client("operator") as http:
        read = (await http.get(f"/jobs/{id}")).headers["ETag"]
        await spring.jobs.pause(id)
        assert (await http.get(f"/jobs/{id}")).headers["ETag"] == read
        assert (await http.patch(f"/jobs/{id}", json={"priority": 9}, headers={"If-Match": "*"})).status_code == 200


async def test_a_deleted_job_is_gone(spring: Mainspring, client: Client) -> None:
    id = await send(spring)
    async with client("operator") as http:
        answer = await http.delete(f"/jobs/{id}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert (await http.delete(f"/jobs/{id}")).status_code == 404
    assert await spring.jobs.list(Filter(ids=(id,))) == []


# why, logs


async def test_why_has_the_reason_why_a_job_waits(spring: Mainspring, client: Client) -> None:
    id = await send(spring)
    await spring.queues.pause("mail")
    async with client("viewer") as http:
        reasons = (await http.get(f"/jobs/{id}/why")).json()
    assert {reason["code"] for reason in reasons} == {"queue_paused", "no_worker"}


async def test_why_and_the_job_show_version_skew(spring: Mainspring, client: Client) -> None:
    task = spring.tasks["send"]
    other = replace(task.job("a"), payload='{"to":"a","cc":"b"}', fingerprint="aabbccddee")
    (handle,) = await spring.enqueue_many([other])
    await spring.drain()
    async with client("viewer") as http:
        reason, nobody = (await http.get(f"/jobs/{handle.id}/why")).json()
        job = (await http.get(f"/jobs/{handle.id}")).json()
        (run,) = (await http.get(f"/jobs/{handle.id}/executions")).json()["items"]
    assert (reason["code"], reason["until"], nobody["code"]) == ("version_skew", job["run_at"], "no_worker")
    assert "(to, cc) were made by version aabbccddee" in reason["text"]
    assert (job["shown"], job["fingerprint"], job["attempt"]) == ("scheduled", "aabbccddee", 0)
    assert (job["failure"]["type"], job["failure"]["since"]) == ("VersionSkew", run["started_at"])
    assert (run["ending"], run["failure"]["type"]) == ("released", "VersionSkew")


async def test_arguments_edited_over_the_api_have_the_fingerprint_of_the_server(
    spring: Mainspring, client: Client
) -> None:
    task = spring.tasks["send"]
    (handle,) = await spring.enqueue_many([replace(task.using(delay=60).job("a"), fingerprint="aabbccddee")])
    async with client("operator") as http:
        job = (await http.patch(f"/jobs/{handle.id}", json={"arguments": {"to": "b"}})).json()
        made = (await http.post("/jobs", json={"task": "send", "arguments": {"to": "c"}})).json()
        new = (await http.get(f"/jobs/{made['id']}")).json()
    assert job["fingerprint"] == new["fingerprint"] == task.arguments.fingerprint


async def test_job_logs_are_paged(spring: Mainspring, client: Client) -> None:
    async def chatter(ctx: Context) -> None:
        for n in range(5):
            ctx.log.info("line %d of token=hush", n)

    id = (await spring.task(name="chatter")(chatter).enqueue()).id
    await spring.drain()
    async with client("viewer") as http:
        first = (await http.get(f"/jobs/{id}/logs?limit=3")).json()
        rest = (await http.get(f"/jobs/{id}/logs?limit=3&after={first['next']}")).json()
    assert [line["n"] for line in first["items"] + rest["items"]] == [1, 2, 3, 4, 5]
    assert (first["next"], rest["next"]) == ("1.3", None)
    assert "hush" not in first["items"][0]["text"]


@pytest.mark.parametrize("after", ["x", "1", "1.", ".1", "-1.2", "1.2.3", "9" * 30 + ".1", "¹.²"])
async def test_an_invalid_log_position_is_refused(spring: Mainspring, client: Client, after: str) -> None:
    id = await send(spring)
    async with client("viewer") as http:
        answer = await http.get(f"/jobs/{id}/logs", params={"after": after})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")


async def test_a_pending_job_past_its_expiry_is_shown_as_expired(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    id = await send(spring, expires=5)
    clock.advance(timedelta(seconds=6))
    async with client("viewer") as http:
        job = (await http.get(f"/jobs/{id}")).json()
    assert (job["state"], job["shown"], job["since"], job["can"]) == (
        "pending",
        "expired",
        job["expires_at"],
        ["retry", "delete"],
    )


async def test_job_counts_follow_the_filter(spring: Mainspring, client: Client) -> None:
    task = spring.tasks["send"]
    await spring.enqueue_many(
        [task.using(tags=["a"]).job("1"), task.using(tags=["a"], delay=60).job("2"), task.job("3")]
    )
    async with client("viewer") as http:
        everything = (await http.get("/jobs/counts")).json()
        assert (everything["pending"], everything["scheduled"], "up_to" in everything) == (2, 1, False)
        some = (await http.get("/jobs/counts?tag=a&state=dead")).json()
        assert (some["pending"], some["scheduled"], some["dead"], some["up_to"]) == (1, 1, 0, 100)
        assert (await http.get("/jobs/counts?state=dead")).json() == everything


async def test_concurrent_edits_with_the_same_etag_succeed_only_once(tmp_path: Path) -> None:
    """Two servers of one store get concurrent edits: none overwrites the edit of another."""
    apps = [Mainspring(f"sqlite:///{tmp_path}/jobs.db") for _ in range(2)]
    id = (await apps[0].enqueue_many([apps[0].job("send", {}, delay=3600)]))[0].id
    signed = {"Authorization": f"Bearer {await apps[0].keys.create('ops', 'operator')}"}
    https = [browser(app.asgi(), headers=signed) for app in apps]
    for turn in range(3):
        tag = (await https[0].get(f"/jobs/{id}")).headers["etag"]
        edits = [
            https[n % 2].patch(f"/jobs/{id}", json={"priority": 10 * turn + n + 1}, headers={"If-Match": tag})
            for n in range(8)
        ]
        codes = sorted([answer.status_code for answer in await asyncio.gather(*edits)])
        assert codes == [200] + [412] * 7
    assert await (await apps[0].connect()).documents("edit", now=apps[0].clock.now(), limit=9) == []
    for app in apps:
        await app.close()


async def test_a_refused_edit_does_not_change_the_etag(spring: Mainspring, client: Client) -> None:
    id = (await spring.tasks["send"].using(delay=60).enqueue("a")).id
    async with client("operator") as http:
        tag = {"If-Match": (await http.get(f"/jobs/{id}")).headers["etag"]}
        assert (await http.patch(f"/jobs/{id}", json={"arguments": {"nothing": 1}}, headers=tag)).status_code == 422
        assert (await http.patch(f"/jobs/{id}", json={"priority": 9}, headers=tag)).status_code == 200
