"""/batches: begins batches, adds jobs to them, closes and shows them; and app.batch() of an app that uses the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from http_client import Client

from mainspring import BadInput, BatchCounts, BatchEnded, BatchFailed, BatchSummary, Mainspring
from mainspring.api.server import Server, listen, url_of
from mainspring.ids import new_id

TOLD: list[str] = []


def with_tasks(app: Mainspring) -> Mainspring:
    TOLD.clear()

    @app.task(max_retries=0)
    async def letter(to: str) -> None:
        if to == "bad":
            raise ValueError("no such address")

    @app.task
    async def report(batch: BatchSummary) -> None:
        TOLD.append(f"{batch.name}: {batch.counts}")

    @app.task
    async def needs(to: str) -> None: ...

    return app


@pytest.fixture
def spring(spring: Mainspring) -> Mainspring:
    return with_tasks(spring)


def jobs(*to: str) -> list[dict[str, Any]]:
    return [{"task": "letter", "arguments": {"to": one}} for one in to]


async def test_a_batch_begins_gets_jobs_and_is_closed(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        begun = await http.post(
            "/batches", json={"name": "news", "on_success": "report", "metadata": {"issue": 7}, "jobs": jobs("ada")}
        )
        assert begun.status_code == 201
        id = begun.json()["id"]
        assert (begun.headers["Location"], len(begun.json()["jobs"])) == (f"batches/{id}", 1)
        added = await http.post(f"/batches/{id}/jobs", json={"jobs": jobs("bob", "eve")})
        assert (added.status_code, [one["status"] for one in added.json()["jobs"]]) == (201, ["new", "new"])
        await spring.drain()
        shown = (await http.get(f"/batches/{id}")).json()
        assert (shown["name"], shown["state"], shown["open"], shown["metadata"]) == (
            "news",
            "waiting",
            True,
            {"issue": 7},
        )
        assert shown["counts"] == {"total": 3, "completed": 3, "dead": 0, "cancelled": 0, "unfinished": 0}
        assert shown["callbacks"] == {"on_success": "waiting"}
        why = (await http.get(f"/flows/{id}/why")).json()
        assert "open: its maker adds more" in why[0]["text"]
        assert (await http.post(f"/batches/{id}/close")).json()["open"] is False
        await spring.drain()
        assert TOLD == ["news: 3 jobs (3 completed)"]
        late = await http.post(f"/batches/{id}/jobs", json={"jobs": jobs("late")})
        assert (late.status_code, late.json()["code"], late.json()["batch_id"]) == (409, "batch_ended", id)
        (listed,) = (await http.get("/batches", params={"state": "completed"})).json()["items"]
        assert listed == (await http.get(f"/batches/{id}")).json()
        assert (await http.get("/batches", params={"state": "dead"})).json() == {"items": [], "next": None}
        (flow,) = (await http.get("/flows")).json()["items"]
        assert (flow["id"], flow["task"], flow["name"]) == (id, "mainspring.batch", "news")
        assert (await http.get(f"/flows/{id}")).json()["steps"][0]["items"]["total"] == 3
        assert (await http.get(f"/flows/{id}/graph.svg")).status_code == 200


async def test_the_same_request_sent_twice_begins_one_batch(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        body = {"name": "news", "jobs": jobs("ada", "bob"), "close": True}
        headers = {"Idempotency-Key": "news-7"}
        first = await http.post("/batches", json=body, headers=headers)
        again = await http.post("/batches", json=body, headers=headers)
        assert first.json() == again.json()
        chosen = body | {"id": new_id(spring.clock.now())}
        for _ in range(2):
            assert (await http.post("/batches", json=chosen | {"jobs": []})).json()["id"] == chosen["id"]
        inner = await http.post("/batches", json={"name": "inner", "close": True, "parent": chosen["id"]})
        assert (inner.status_code, inner.json()["code"]) == (409, "batch_ended")
        assert len((await http.get("/batches")).json()["items"]) == 2


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ({"nam": "x"}, "invalid", "nam"),
        ({"name": "x", "on_success": "reprot"}, "unknown_task", "no task 'reprot'"),
        ({"name": "x", "on_success": "needs"}, "bad_input", "nothing gives task 'needs' its argument 'to'"),
        ({"name": "x", "jobs": jobs("a") * 1001}, "invalid", "length <= 1000"),
        ({"name": "x", "jobs": [{"task": "lettre"}]}, "unknown_task", "jobs[1]: "),
        ({"name": "x", "open_for": 0}, "bad_input", "open_for"),
    ],
)
async def test_a_wrong_request_begins_no_batch(
    spring: Mainspring, client: Client, body: dict[str, Any], code: str, text: str
) -> None:
    async with client("operator") as http:
        answer = await http.post("/batches", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, code)
        assert text in answer.json()["detail"]
        assert await spring.jobs.list() == []
        (job,) = (await http.post("/jobs", json={"jobs": jobs("ada")})).json()["jobs"]
        for path in (f"/batches/{job['id']}", "/batches/none"):
            assert (await http.get(path)).status_code == 404
    async with client("viewer") as http:
        assert (await http.post("/batches", json={"name": "x"})).status_code == 403


@asynccontextmanager
async def serving(near: Mainspring) -> AsyncIterator[Mainspring]:
    """An app that uses the API of `near`."""
    listener = listen("127.0.0.1", 0)
    service: Any = near.asgi()
    server = Server(service, grace=1)
    async with near:
        running = asyncio.create_task(server.run(listener))
        far = with_tasks(Mainspring(url_of(listener), api_key=await near.keys.create("far", "operator")))
        try:
            async with asyncio.timeout(30), far:
                yield far
        finally:
            server.stop()
            await running


async def test_app_batch_over_an_api() -> None:
    near = with_tasks(Mainspring("memory://"))
    async with serving(near) as far:
        letter, report = far.tasks["letter"], far.tasks["report"]
        async with far.batch("news", on_success=report, metadata={"issue": 7}) as batch:
            assert await batch.enqueue_many(letter.job(str(n)) for n in range(1_500)) == 1_500
            async with batch.batch("inner") as inner:
                assert (await inner.enqueue(letter.job("ada"))).status == "new"
            assert await batch.counts() == BatchCounts(total=1_501, unfinished=1_501)
        await near.drain()
        assert await batch.result(timeout=5) == BatchCounts(total=1_501, completed=1_501)
        assert TOLD == ["news: 1,501 jobs (1,501 completed)"]
        found = await far.batches.get(batch.id)
        with pytest.raises(BatchEnded, match=batch.id):
            await found.enqueue(letter.job("late"))
        assert [view.name for view in await far.batches.list()] == ["inner", "news"]
        assert await far.batches.show(batch.id) == await near.batches.show(batch.id)
        async with far.batch("bad") as failing:
            await failing.enqueue(letter.job("bad"))
        await near.drain()
        with pytest.raises(BatchFailed, match="1 of 1 jobs are dead"):
            await failing.result(timeout=5)
        other = await letter.enqueue("ada")
        with pytest.raises(BadInput, match="is no batch"):
            await far.batches.get(other.id)
        with pytest.raises(BadInput, match="transactions"):
            far.batch("news", within=object())
