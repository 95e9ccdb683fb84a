"""/executions, /workers, /stats, /tasks, /queues and /depth."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from http_client import Client
from msgspec.structs import replace

from mainspring import Backoff, Context, Mainspring
from mainspring.codec import Arguments
from mainspring.insight.queue_depth import sample_once
from mainspring.records.worker import WorkerInfo
from mainspring.testing import VirtualClock


async def run(spring: Mainspring, task: str = "fail", *args: Any) -> str:
    id = (await spring.tasks[task].enqueue(*args)).id
    await spring.drain()
    return id


# executions


async def test_the_executions_of_a_job_are_listed_with_their_endings(spring: Mainspring, client: Client) -> None:
    @spring.task(name="steps", max_retries=2)
    async def steps(ctx: Context) -> None:
        ctx.items(success=3, failed=1)
        if ctx.attempt < 3:
            raise ValueError("token=hush")

    id = await run(spring, "steps")
    for _ in range(2):
        await spring.jobs.reschedule(id, timedelta(0))
        await spring.drain()
    async with client("viewer") as http:
        page = (await http.get(f"/jobs/{id}/executions")).json()
        assert [(one["id"], one["number"], one["ending"]) for one in page["items"]] == [
            (f"{id}.1", 1, "failed"),
            (f"{id}.2", 2, "failed"),
            (f"{id}.3", 3, "completed"),
        ]
        assert page["items"][0]["items"] == {"success": 3, "failed": 1}
        assert page["items"][0]["seconds"] == 0
        assert "hush" not in str(page)
        first = (await http.get(f"/jobs/{id}/executions?limit=2")).json()
        rest = (await http.get(f"/jobs/{id}/executions?limit=2&after={first['next']}")).json()
        assert first["items"] + rest["items"] == page["items"]
        assert rest["next"] is None
        assert (await http.get(f"/executions/{id}.2")).json() == page["items"][1]
        figures = (await http.get(f"/jobs/{id}/stats")).json()
    assert (figures["runs"], figures["partial"], figures["failed"]) == (3, 1, 2)


async def test_an_unknown_execution_is_404(spring: Mainspring, client: Client) -> None:
    id = await run(spring)
    async with client("viewer") as http:
        for name in (f"{id}.2", f"{id}.0", f"{id}.x", f"{id}.¹", f"{id}.{'9' * 30}", id, "nope.1", ".1", "x."):
            answer = await http.get(f"/executions/{name}")
            assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found"), name


# workers


async def beat(spring: Mainspring, *ids: str) -> None:
    store, now = await spring.connect(), spring.clock.now()
    about = WorkerInfo(
        id="", host="h", pid=1, queues=None, tasks=("send",), concurrency=4, started_at=now, lease=20.0, grace=30.0
    )
    for id in ids:
        await store.beat(replace(about, id=id), until=now + timedelta(seconds=20), now=now)


async def test_live_workers_are_listed(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    await beat(spring, "web-1", "web-2")
    async with client("viewer") as http:
        workers = (await http.get("/workers")).json()["items"]
        assert [(worker["id"], worker["state"], worker["queues"]) for worker in workers] == [
            ("web-1", "open", None),
            ("web-2", "open", None),
        ]
        assert workers[0]["orders"] == {}
        clock.advance(seconds=20)
        assert (await http.get("/workers")).json()["items"] == []


async def test_a_worker_is_shown_with_its_running_jobs(spring: Mainspring, client: Client) -> None:
    await beat(spring, "web-1")
    id = (await spring.tasks["send"].enqueue("a")).id
    store = await spring.connect()
    await store.claim(None, worker="web-1", tasks=["send"], limit=1, now=spring.clock.now())
    async with client("viewer") as http:
        worker = (await http.get("/workers/web-1")).json()
    assert [job["id"] for job in worker["jobs"]] == [id]
    assert worker["jobs"][0]["worker"] == "web-1"


async def test_a_worker_receives_commands(spring: Mainspring, client: Client) -> None:
    await beat(spring, "web-1")
    async with client("operator") as http:
        assert (await http.post("/workers/web-1/drain")).json()["state"] == "draining"
        assert (await http.post("/workers/web-1/resume")).json()["state"] == "open"
        answer = await http.post("/workers/web-1/resize", json={"concurrency": 9})
        assert answer.json()["orders"] == {"concurrency": 9}
        answer = await http.post("/workers/web-1/resize", json={"concurrency": None})
        assert answer.json()["orders"] == {}


async def test_a_stopping_worker_accepts_no_other_command(spring: Mainspring, client: Client) -> None:
    await beat(spring, "web-1")
    async with client("operator") as http:
        for _ in range(2):
            answer = await http.post("/workers/web/stop")
            assert (answer.status_code, answer.json()["id"], answer.json()["state"]) == (200, "web-1", "stopping")
        assert (await http.get("/workers/web-1")).json()["orders"] == {"stopped": True}
        for order, body in (("resume", None), ("drain", None), ("resize", {"concurrency": 9})):
            answer = await http.post(f"/workers/web-1/{order}", json=body)
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (409, "invalid_transition")
            assert (problem["state"], problem["action"], problem["worker_id"]) == ("stopping", order, "web-1")
            assert problem["allowed"] == "drained, draining, open, resuming"
            assert "job_id" not in problem


@pytest.mark.parametrize("size", [{"concurrency": 0}, {"concurrency": 10**6}, {"concurrency": "5"}, {}, {"size": 5}])
async def test_an_invalid_worker_size_is_422(spring: Mainspring, client: Client, size: Any) -> None:
    await beat(spring, "web-1")
    async with client("operator") as http:
        assert (await http.post("/workers/web-1/resize", json=size)).status_code == 422


async def test_an_unknown_worker_id_is_404_and_an_ambiguous_one_is_refused(spring: Mainspring, client: Client) -> None:
    await beat(spring, "web-1", "web-2")
    async with client("operator") as http:
        for method, path in (("GET", ""), ("POST", "/drain"), ("POST", "/resume")):
            answer = await http.request(method, f"/workers/mail{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "worker_not_found")
        assert (await http.get("/workers/web")).status_code == 400
        assert (await http.post("/workers/web/drain")).status_code == 422


# stats


async def test_stats_cover_the_given_window(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    await run(spring, "send", "a")
    await run(spring)
    async with client("viewer") as http:
        hour = (await http.get("/stats")).json()
        assert (hour["completed"], hour["dead"], hour["total"]["success_rate"]) == (1, 1, 0.5)
        assert hour["errors"] == [
            {"error": "ValueError: no", "count": 1, "tasks": ["fail"], "message": "ValueError: no"}
        ]
        clock.advance(hours=2)
        assert (await http.get("/stats?window=15m")).json()["total"]["runs"] == 0
        assert (await http.get("/stats?window=ever")).json()["total"]["runs"] == 2


async def test_stats_have_run_and_wait_times_in_total_and_of_one_queue_or_task(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    await spring.tasks["send"].using(queue="mail").enqueue("a")
    clock.advance(seconds=8)
    await run(spring, "fail")
    async with client("viewer") as http:
        found = (await http.get("/stats")).json()
        assert (found["total"]["wait_p50"], found["by_queue"]["mail"]["wait_p95"]) == (0, 8)
        point = found["series"][-1]
        assert (point["p50"], point["p95"], point["wait_p50"], point["wait_p95"]) == (0, 0, 0, 8)
        assert {found["series"][0][name] for name in ("p50", "p95", "wait_p50", "wait_p95")} == {None}
        for only in ("queue=mail", "task=send", "queue=mail&task=send"):
            alone = (await http.get(f"/stats?{only}")).json()
            assert alone["total"] == alone["by_task"]["send"] == found["by_queue"]["mail"], only
            assert (alone["series"][-1]["completed"], alone["series"][-1]["failed"], alone["errors"]) == (1, 0, [])
            assert (alone["completed"], alone["dead"]) == (1, 1)
        assert (await http.get("/stats?queue=mail&task=fail")).json()["total"]["runs"] == 0


@pytest.mark.parametrize("window", ["", "x", "-1h", "0", "367d", "1h1h", "9" * 21])
async def test_an_invalid_window_is_400(client: Client, window: str) -> None:
    async with client("viewer") as http:
        answer = await http.get("/stats", params={"window": window})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")


# tasks


async def test_tasks_have_a_schema_of_their_arguments(spring: Mainspring, client: Client) -> None:
    @spring.stub(queue="far")
    async def elsewhere(n: int) -> None:
        """Runs on another machine."""

    async with client("viewer") as http:
        tasks = {task["name"]: task for task in (await http.get("/tasks")).json()["items"]}
    assert list(tasks) == ["elsewhere", "fail", "send"]
    assert (tasks["elsewhere"]["stub"], tasks["elsewhere"]["queue"]) == (True, "far")
    assert tasks["elsewhere"]["doc"] == "Runs on another machine."
    assert tasks["send"]["arguments"]["required"] == ["to"]
    assert tasks["send"]["arguments"]["properties"]["to"] == {"type": "string"}


async def test_tasks_have_their_retry_defaults(spring: Mainspring, client: Client) -> None:
    @spring.task(max_retries=7, timeout=None, backoff=Backoff.linear(2))
    async def stubborn() -> None: ...

    @spring.task(backoff=lambda attempt: attempt * 60.0)
    async def odd() -> None: ...

    @spring.stub(max_retries=9)
    async def elsewhere() -> None: ...

    async with client("viewer") as http:
        tasks = {task["name"]: task for task in (await http.get("/tasks")).json()["items"]}
    rules = {name: [task[of] for of in ("max_retries", "timeout", "backoff")] for name, task in tasks.items()}
    settings = spring.settings
    assert rules["stubborn"] == [7, None, {"initial": 2, "curve": "linear"}]
    assert rules["odd"] == [settings.retry_max, settings.default_timeout, None]
    assert rules["elsewhere"] == [None, None, None]


# queues


async def test_queues_are_listed_and_filtered(spring: Mainspring, client: Client) -> None:
    await spring.tasks["send"].enqueue("a")
    await spring.tasks["fail"].enqueue()
    await spring.queues.pause("default")
    async with client("viewer") as http:

        async def names(query: str) -> list[str]:
            return [queue["name"] for queue in (await http.get(f"/queues{query}")).json()["items"]]

        assert await names("") == ["default", "mail"]
        assert await names("?paused=true") == ["default"]
        assert await names("?paused=false") == ["mail"]
        assert await names("?name=mail&name=other") == ["mail"]
        assert (await http.get("/queues?paused=perhaps")).status_code == 400
        assert (await http.get("/queues/mail")).json()["pending"] == 1
        assert (await http.get("/queues/unused")).json()["pending"] == 0


async def test_a_queue_is_paused_and_resumed(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        assert (await http.patch("/queues/mail", json={"paused": True})).json()["paused"] is True
        assert [queue.name for queue in await spring.queues.list() if queue.paused] == ["mail"]
        assert (await http.patch("/queues/mail", json={"paused": False})).json()["paused"] is False
        assert (await http.post("/queues/mail/pause")).json()["paused"] is True
        assert (await http.post("/queues/mail/resume")).json()["paused"] is False
        for edit in ({}, {"paused": "yes"}, {"limit": 5}, {"paused": None}):
            assert (await http.patch("/queues/mail", json=edit)).status_code == 422
        assert (await http.patch("/queues/%20x", json={"paused": True})).status_code == 422
    async with client("viewer") as http:
        assert (await http.patch("/queues/mail", json={"paused": True})).status_code == 403


# depth


async def look(spring: Mainspring) -> None:
    await sample_once(await spring.connect(), spring.clock.now())


async def test_depth_history_is_of_a_window_and_of_one_queue(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    await spring.tasks["send"].enqueue("a")
    await look(spring)
    clock.advance(minutes=2)  # without a sample
    await spring.tasks["fail"].using(delay=60).enqueue()
    await look(spring)
    async with client("viewer") as http:
        found = (await http.get("/depth")).json()
        one, other = found["items"]
        assert (found["step"], other["at"]) == (60, clock.now().isoformat().replace("+00:00", "Z"))
        assert one["total"] == {"pending": 1, "scheduled": 0, "retrying": 0, "running": 0, "oldest": 0}
        assert other["total"] == {"pending": 1, "scheduled": 1, "retrying": 0, "running": 0, "oldest": 120}
        assert (sorted(other["queues"]), other["queues"]["default"]["scheduled"]) == (["default", "mail"], 1)
        mail = (await http.get("/depth?queue=mail")).json()["items"]
        assert [sample["queues"] for sample in mail] == [{"mail": sample["total"]} for sample in mail]
        assert [sample["total"]["oldest"] for sample in mail] == [0, 120]
        assert (await http.get("/depth?window=1m")).json()["items"] == [other]
        day = (await http.get("/depth?window=24h")).json()
        assert (day["step"], day["items"]) == (600, [one])


@pytest.mark.parametrize("window", ["", "x", "-1h", "0", "5d", "ever", "9" * 21])
async def test_an_invalid_depth_window_is_400(client: Client, window: str) -> None:
    async with client("viewer") as http:
        answer = await http.get("/depth", params={"window": window})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")


async def test_a_queue_may_be_called_history_or_depth(spring: Mainspring, client: Client) -> None:
    for name in ("history", "depth"):
        await spring.tasks["send"].using(queue=name).enqueue("a")
        async with client("viewer") as http:
            assert (await http.get(f"/queues/{name}")).json()["pending"] == 1


async def test_a_paused_queue_has_its_note_and_the_actor(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    job = await spring.tasks["send"].enqueue("ada@example.org")
    async with client("operator") as http:
        paused = (await http.post("/queues/mail/pause", json={"note": "provider <b>down</b>"})).json()
        assert (paused["paused_by"], paused["note"]) == ("key:operator-0", "provider <b>down</b>")
        clock.advance(minutes=5)
        (listed,) = (await http.get("/queues?paused=true")).json()["items"]
        assert listed == paused | {"pending": 1}
        (reason,) = [one for one in (await http.get(f"/jobs/{job.id}/why")).json() if one["code"] == "queue_paused"]
        assert "was paused by key:operator-0 5 min ago" in reason["text"]
        assert "provider <b>down</b>" in reason["text"]
        changed = (await http.patch("/queues/mail", json={"paused": True, "note": "password=hunter2"})).json()
        assert "hunter2" not in str(changed) + str((await http.get("/queues/mail/pauses")).json())
        assert (await http.patch("/queues/mail", json={"paused": False, "note": "no"})).status_code == 422
        assert (await http.post("/queues/mail/pause", json={"note": "x" * 1001})).status_code == 422
        assert (await http.post("/queues/mail/resume")).json()["paused_by"] is None
        (pause,) = (await http.get("/queues/mail/pauses")).json()
        assert (pause["who"], pause["until"] is not None) == ("key:operator-0", True)
        assert (await http.post("/queues/mail/pause")).json()["note"] == ""


async def test_many_tasks_are_described_once_without_blocking_other_requests(
    spring: Mainspring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(n: int) -> None: ...

    for n in range(500):
        spring.task(name=f"task{n}")(work)
    described, turns, done = list[str](), list[int](), asyncio.Event()
    schema = Arguments.schema
    monkeypatch.setattr(Arguments, "schema", lambda self: described.append(self.task) or schema(self))

    async def other() -> None:
        while not done.is_set():
            turns.append(len(described))
            await asyncio.sleep(0)

    async with client() as http:
        watch = asyncio.create_task(other())
        for _ in range(2):
            assert len((await http.get("/tasks")).json()["items"]) == len(spring.tasks)
        done.set()
        await watch
    assert (len(described), len(set(turns)) > 5) == (len(spring.tasks), True)
