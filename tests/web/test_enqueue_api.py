"""POST /jobs: one job or a batch, validated by their tasks, stored when the response arrives."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from http_client import Client, browser

from mainspring import Collect, Mainspring, StoreUnavailable
from mainspring.api import asgi
from mainspring.api.access.authenticate import Principal
from mainspring.api.routes.enqueue_batcher import MAX_BATCH_JOBS
from mainspring.retry import Backoff
from mainspring.testing import VirtualClock


async def test_a_new_job_is_201_with_its_location(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        answer = await http.post("/jobs", json={"task": "send", "arguments": {"to": "a"}})
        assert (answer.status_code, answer.json()["status"], answer.json()["duplicate"]) == (201, "new", False)
        there = await http.get(str(answer.url.join(answer.headers["Location"])))
    assert there.json()["id"] == answer.json()["id"]
    (job,) = await spring.jobs.list()
    assert (job.id, job.task, job.queue, job.payload) == (answer.json()["id"], "send", "mail", '{"to":"a"}')


async def test_a_job_may_have_every_option_of_using(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    options: dict[str, Any] = {
        "queue": "low", "priority": -5, "delay": 60, "expires": 3600, "timeout": None, "max_retries": 0,
        "backoff": {"initial": 2.0}, "idempotency_key": "k", "on_conflict": "replace", "debounce_limit": 5,
        "tags": ["x"], "metadata": {"of": [1]},
    }  # fmt: skip
    async with client("operator") as http:
        answer = await http.post("/jobs", json={"task": "send", "arguments": {"to": "a"}, **options})
    assert answer.status_code == 201, answer.text
    job = await spring.jobs.get(answer.json()["id"])
    assert (job.queue, job.priority, job.timeout, job.max_retries, job.tags) == ("low", -5, None, 0, ("x",))
    assert (job.run_at, job.expires_at) == (clock.now() + timedelta(minutes=1), clock.now() + timedelta(minutes=61))
    assert (job.backoff, job.idempotency_key, job.metadata) == (Backoff(initial=2.0), "k", {"of": [1]})


async def test_items_are_collected(spring: Mainspring, client: Client) -> None:
    @spring.task(collect=Collect(size=3, delay=60))
    async def sync(items: list[int]) -> None: ...

    async with client("operator") as http:
        answers = [
            await http.post("/jobs", json={"task": "sync", "arguments": {"items": some}}) for some in ([1], [2, 3])
        ]
        assert [(answer.status_code, answer.json()["status"], answer.json()["duplicate"]) for answer in answers] == [
            (201, "new", False),
            (201, "collected", False),
        ]
        assert answers[0].json()["id"] == answers[1].json()["id"]
        job = (await http.get(f"/jobs/{answers[0].json()['id']}")).json()
        assert (job["payload"], job["collect"]["count"]) == ({"items": [1, 2, 3]}, 3)
        for wrong in ({"arguments": {"items": []}}, {"arguments": {"items": [1]}, "priority": 5}):
            assert (await http.post("/jobs", json={"task": "sync", **wrong})).status_code == 422


async def test_run_at_and_expires_may_be_in_any_time_zone(spring: Mainspring, client: Client) -> None:
    at = {"run_at": "2031-01-01T02:00:00+02:00", "expires": "2031-01-02T00:00:00Z"}
    async with client("operator") as http:
        answer = await http.post("/jobs", json={"task": "fail", **at})
    job = await spring.jobs.get(answer.json()["id"])
    assert (job.run_at, job.expires_at) == (datetime(2031, 1, 1, tzinfo=UTC), datetime(2031, 1, 2, tzinfo=UTC))


async def test_a_duplicate_job_is_200(spring: Mainspring, client: Client) -> None:
    asked = {"task": "send", "arguments": {"to": "a"}, "unique_key": "k"}
    async with client("operator") as http:
        first = await http.post("/jobs", json=asked)
        again = await http.post("/jobs", json=asked)
        replaced = await http.post("/jobs", json={**asked, "on_conflict": "replace"})
    assert (again.status_code, again.json()) == (200, {**first.json(), "status": "duplicate", "duplicate": True})
    assert (replaced.status_code, replaced.json()["status"]) == (200, "replaced")


async def test_on_conflict_raise_is_409_for_a_held_key(spring: Mainspring, client: Client) -> None:
    asked = {"task": "send", "arguments": {"to": "a"}, "unique_key": "k", "on_conflict": "raise"}
    async with client("operator") as http:
        first = await http.post("/jobs", json=asked)
        again = await http.post("/jobs", json=asked)
    assert (again.status_code, again.json()["code"]) == (409, "job_exists")
    assert (again.json()["key"], again.json()["job_id"]) == ("k", first.json()["id"])


@pytest.mark.parametrize(
    ("asked", "code", "named"),
    [
        ({}, "invalid", "`task`"),
        ({"task": "nope"}, "unknown_task", "known: fail, send"),
        ({"task": "sent"}, "unknown_task", "did you mean 'send'?"),
        ({"task": "send"}, "bad_payload", "`to`"),
        ({"task": "send", "arguments": {"to": 5}}, "bad_payload", "$.to"),
        ({"task": "send", "arguments": {"to": "a", "cc": "b"}}, "bad_payload", "'cc'"),
        ({"task": "send", "arguments": ["a"]}, "invalid", "$.arguments"),
        ({"task": "fail", "priority": 2**15}, "invalid", "$.priority"),
        ({"task": "fail", "priority": "5"}, "invalid", "$.priority"),
        ({"task": "fail", "prio": 5}, "invalid", "`prio`"),
        ({"task": "fail", "delay": -1}, "invalid", "$.delay"),
        ({"task": "fail", "run_at": "2030-01-01T00:00:00"}, "invalid", "$.run_at"),
        ({"task": "fail", "queue": " x"}, "bad_input", "queue"),
        ({"task": "fail", "queue": "x" * 201}, "invalid", "$.queue"),
        ({"task": "fail", "unique_key": "a", "idempotency_key": "b"}, "bad_input", "exclude each other"),
        ({"task": "fail", "unique_key": "a\nb"}, "bad_input", "unique_key"),
        ({"task": "fail", "on_conflict": "panic"}, "invalid", "$.on_conflict"),
        ({"task": "fail", "tags": "x"}, "invalid", "$.tags"),
        ({"task": "fail", "tags": ["\t"]}, "bad_input", "tag"),
        ({"task": "fail", "metadata": {"n": 2**63}}, "bad_input", "64 bits"),
        ({"task": "fail", "arguments": {"why": "\x00"}}, "bad_payload", "NUL"),
        ({"task": "fail", "arguments": {"why": "x" * (1 << 20)}}, "bad_payload", "payload_limit"),
        ({"task": "x" * 201}, "invalid", "$.task"),
        ({"task": "fail", "jobs": [{"task": "fail"}]}, "invalid", "`jobs` cannot be combined with other fields"),
        ({"jobs": []}, "invalid", "$.jobs"),
        ({"jobs": [{"task": "fail"}] * 1001}, "invalid", "$.jobs"),
        ({"jobs": [{"jobs": []}]}, "invalid", "$.jobs[0]"),
        ([], "invalid", "object"),
        (None, "invalid", "this needs a JSON body"),
    ],
)
async def test_an_invalid_job_is_422_with_the_reason(
    spring: Mainspring, client: Client, asked: Any, code: str, named: str
) -> None:
    async with client("operator") as http:
        answer = await http.post("/jobs", json=asked)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert named in answer.json()["detail"]
    assert await spring.jobs.list() == []


async def test_an_app_without_tasks_accepts_any_task_name() -> None:
    app = Mainspring("memory://", clock=VirtualClock())

    async def way(_: Any) -> Principal:
        return Principal(name="key:one", role="operator")

    async with browser(asgi(app, authenticators=[way])) as http:
        answer = await http.post("/jobs", json={"task": "far", "arguments": {"n": 1}, "queue": "q"})
        assert answer.status_code == 201
        assert (await http.post("/jobs", json={"task": "far\n"})).json()["code"] == "bad_input"
    (job,) = await app.jobs.list()
    assert (job.task, job.queue, job.payload) == ("far", "q", '{"n":1}')


# many


async def test_a_batch_of_jobs_is_stored_in_one_transaction(spring: Mainspring, client: Client) -> None:
    asked = [{"task": "send", "arguments": {"to": str(n)}} for n in range(1000)]
    async with client("operator") as http:
        answer = await http.post("/jobs", json={"jobs": asked})
    assert answer.status_code == 201
    made = [job["id"] for job in answer.json()["jobs"]]
    assert sorted(made) == made == [job.id for job in await spring.jobs.list(newest=False, limit=1000)]


async def test_an_invalid_job_refuses_the_batch_with_its_index(spring: Mainspring, client: Client) -> None:
    asked = [{"task": "fail"}, {"task": "send", "arguments": {"to": 5}}]
    async with client("operator") as http:
        answer = await http.post("/jobs", json={"jobs": asked})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["index"]) == (422, "bad_payload", 1)
    assert problem["detail"].startswith("jobs[1]: arguments of task 'send' do not fit")
    assert await spring.jobs.list() == []


async def test_a_held_key_refuses_the_batch(spring: Mainspring, client: Client) -> None:
    held = {"task": "fail", "unique_key": "k", "on_conflict": "raise"}
    async with client("operator") as http:
        await http.post("/jobs", json=held)
        answer = await http.post("/jobs", json={"jobs": [{"task": "fail"}, held]})
    assert (answer.status_code, answer.json()["key"]) == (409, "k")
    assert len(await spring.jobs.list()) == 1


async def test_a_batch_of_duplicates_is_200(client: Client) -> None:
    asked = {"jobs": [{"task": "fail", "unique_key": "k"}] * 2}
    async with client("operator") as http:
        first = await http.post("/jobs", json=asked)
        again = await http.post("/jobs", json=asked)
    assert [job["status"] for job in first.json()["jobs"]] == ["new", "duplicate"]
    assert (first.status_code, again.status_code) == (201, 200)


# concurrent requests


class Counted:
    """The number of jobs in each call of the store; the first call waits."""

    def __init__(self, act: Any) -> None:
        self._act = act
        self.let_go = asyncio.Event()
        self.calls: list[int] = []
        self.fail: Exception | None = None

    async def __call__(self, jobs: Any, **options: Any) -> Any:
        self.calls.append(len(jobs))
        if len(self.calls) == 1:
            await self.let_go.wait()
        elif self.fail is not None and len(jobs) > 1:
            raise self.fail
        return await self._act(jobs, **options)


@pytest.fixture
def counted(spring: Mainspring, monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted(spring._engine._root.enqueue)
    monkeypatch.setattr(spring._engine._root, "enqueue", counted)
    return counted


async def crowd(http: Any, counted: Counted, count: int, **more: Any) -> list[Any]:
    """Sends `count` requests at the same time, while the store executes the first one."""
    posts = [asyncio.create_task(http.post("/jobs", json={"task": "fail"}))]
    while not counted.calls:
        await asyncio.sleep(0)
    posts += [asyncio.create_task(http.post("/jobs", json={"task": "fail", **more})) for _ in range(count)]
    for _ in range(50 + count):
        await asyncio.sleep(0)
    counted.let_go.set()
    return list(await asyncio.gather(*posts))


async def test_concurrent_enqueue_requests_share_a_round_trip(client: Client, counted: Counted) -> None:
    async with client("operator") as http:
        answers = await crowd(http, counted, 20)
    assert [answer.status_code for answer in answers] == [201] * 21
    assert len({answer.json()["id"] for answer in answers}) == 21
    assert counted.calls == [1, 20]


async def test_a_batch_of_concurrent_enqueues_is_bounded(client: Client, counted: Counted) -> None:
    async with client("operator") as http:
        await crowd(http, counted, MAX_BATCH_JOBS + 5)
    assert counted.calls == [1, MAX_BATCH_JOBS, 5]


async def test_on_conflict_raise_is_enqueued_outside_of_the_batch(client: Client, counted: Counted) -> None:
    async with client("operator") as http:
        answers = await crowd(http, counted, 3, unique_key="k", on_conflict="raise")
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409]
    assert set(counted.calls) == {1}


async def test_an_unavailable_store_is_503_for_the_whole_batch(client: Client, counted: Counted) -> None:
    counted.fail = StoreUnavailable("restarting")
    async with client("operator") as http:
        first, *answers = await crowd(http, counted, 3)
    assert first.status_code == 201
    assert {(answer.status_code, answer.headers["Retry-After"]) for answer in answers} == {(503, "1")}


async def test_a_refused_batch_is_enqueued_one_by_one(client: Client, counted: Counted) -> None:
    counted.fail = ValueError("one of them is odd")
    async with client("operator") as http:
        answers = await crowd(http, counted, 3)
    assert {answer.status_code for answer in answers} == {201}
    assert counted.calls == [1, 3, 1, 1, 1]


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k"}])
async def test_a_client_that_disconnects_within_the_body_enqueues_nothing(
    spring: Mainspring, caplog: pytest.LogCaptureFixture, headers: dict[str, str]
) -> None:
    """The first part of a body may be a whole job."""

    async def way(_: Any) -> Principal:
        return Principal(name="key:one", role="operator")

    parts = iter([{"type": "http.request", "body": b'{"task":"fail"}', "more_body": True}, {"type": "http.disconnect"}])
    answers: list[Any] = []

    async def receive() -> Any:
        return next(parts)

    async def send(message: Any) -> None:
        answers.append(message)

    sent = {"host": "127.0.0.1:8000", "content-type": "application/json", **headers}
    scope = {
        "type": "http", "http_version": "1.1", "asgi": {"version": "3.0"}, "scheme": "http", "method": "POST",
        "path": "/api/v1/jobs", "raw_path": b"/api/v1/jobs", "query_string": b"", "root_path": "", "state": {},
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
    }  # fmt: skip
    await asgi(spring, authenticators=[way])(scope, receive, send)  # type: ignore[arg-type]
    assert answers[0]["status"] == 400
    assert await spring.jobs.list() == []
    assert caplog.records == []
