"""Lists and reasons with large jobs: reads and responses are bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from http_client import Client, browser

from mainspring import Mainspring
from mainspring.api.routes.jobs import MAX_ANSWER_CHARACTERS
from mainspring.bounds import MAX_CONTAINERS
from mainspring.control.job_page import PAGE_RUNNING_JOBS
from mainspring.ids import new_id
from mainspring.records.job import BRIEF_CHARACTERS, UNREADABLE, NewJob, State
from mainspring.stores.memory.store import MemoryStore

LARGE = 1 << 20


async def put(spring: Mainspring, count: int, **values: Any) -> list[str]:
    """Stores jobs as an earlier release did: without a bound on metadata."""
    store, now = await spring.connect(), spring.clock.now()
    given = {"task": "send", "payload": '{"to":"a"}', "metadata": {"text": "x" * LARGE}, "tags": ("big",), **values}
    jobs = [NewJob(id=new_id(now), **given) for _ in range(count)]
    await store.enqueue(jobs, now=now)
    return [job.id for job in jobs]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The limit of each list that was read from the store, and whether it was brief."""
    seen: list[tuple[int, bool]] = []
    plain = MemoryStore.jobs

    async def jobs(self: MemoryStore, *args: Any, **given: Any) -> Any:
        seen.append((given["limit"], given.get("brief", False)))
        return await plain(self, *args, **given)

    monkeypatch.setattr(MemoryStore, "jobs", jobs)
    return seen


async def test_a_list_of_large_jobs_is_read_brief(
    spring: Mainspring, client: Client, asked: list[tuple[int, bool]]
) -> None:
    await put(spring, 50)
    async with client() as http:
        asked.clear()
        answer = await http.get("/jobs?limit=200&arguments=true")
        assert len(answer.json()["items"]) == 50
        assert len(answer.content) < 50 * 1000
        assert answer.json()["items"][0]["tags"] == ["big"]
        assert asked == [(200, True)]


async def test_long_arguments_are_not_masked_for_a_list(spring: Mainspring, client: Client) -> None:
    await put(spring, 1, payload=f'{{"to":"{"a" * BRIEF_CHARACTERS}"}}')
    async with client() as http:
        assert (await http.get("/jobs?arguments=true")).json()["items"][0]["arguments"] == "…"


async def test_a_full_page_of_large_jobs_is_cut_and_continues(
    spring: Mainspring, client: Client, asked: list[tuple[int, bool]]
) -> None:
    ids = await put(spring, 10)
    seen, pages, after = list[str](), 0, ""
    async with client() as http:
        while True:
            asked.clear()
            page = (await http.get(f"/jobs?full=true&order=asc&limit=50{after}")).json()
            room = MAX_ANSWER_CHARACTERS // LARGE
            assert len(page["items"]) <= room
            assert [one for one in asked if one != (50, True)] == [(1, False)] * min(room, 10 - len(seen))
            assert all(len(one["job"]["metadata"]["text"]) == LARGE for one in page["items"])
            seen, pages = [*seen, *(one["id"] for one in page["items"])], pages + 1
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
    assert seen == sorted(ids)
    assert pages > 2


async def test_a_full_page_of_small_jobs_is_whole(spring: Mainspring, client: Client) -> None:
    for n in range(5):
        await spring.tasks["send"].enqueue(to=str(n))
    async with client() as http:
        page = (await http.get("/jobs?full=true")).json()
    assert [one["job"]["payload"]["to"] for one in page["items"]] == ["4", "3", "2", "1", "0"]
    assert page["next"] is None


async def test_a_job_larger_than_a_page_is_shown_alone(spring: Mainspring, client: Client) -> None:
    await put(spring, 2, metadata={"text": ["x" * LARGE] * 6})
    async with client() as http:
        page = (await http.get("/jobs?full=true")).json()
        assert len(page["items"]) == 1
        assert page["next"] is not None


async def test_why_reads_running_jobs_brief_and_in_pages(
    spring: Mainspring, client: Client, asked: list[tuple[int, bool]]
) -> None:
    (id,) = await put(spring, 1)
    async with client() as http:
        asked.clear()
        assert (await http.get(f"/jobs/{id}/why")).status_code == 200
    assert (PAGE_RUNNING_JOBS, True) in asked
    assert all(brief or limit == 1 for limit, brief in asked)


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_bulk_update_reads_large_jobs_one_at_a_time(
    spring: Mainspring, client: Client, asked: list[tuple[int, bool]], dry_run: bool
) -> None:
    await put(spring, 5)
    bulk = {"action": "update", "all": True, "update": {"arguments": {"to": "b"}}, "dry_run": dry_run}
    async with client("operator") as http:
        asked.clear()
        assert (await http.post("/jobs/bulk", json=bulk)).json()["done"] == 5
        assert all(brief or limit == 1 for limit, brief in asked)
        asked.clear()
        preview = {"action": "cancel", "all": True, "dry_run": True}
        assert (await http.post("/jobs/bulk", json=preview)).json()["done"] == 5
        assert [brief for _, brief in asked] == [True]


async def test_arguments_with_too_many_parts_cannot_be_edited(spring: Mainspring, client: Client) -> None:
    countless = f'{{"to":[{"[]," * 250_000}[]]}}'
    (id,) = await put(spring, 1, payload=countless, metadata={})
    async with client("operator") as http:
        edit = await http.patch(f"/jobs/{id}", json={"arguments": {"token": "b"}})
        assert (edit.status_code, edit.json()["code"]) == (422, "bad_payload")
        assert "too many parts" in edit.json()["detail"]
        assert (await http.get(f"/jobs/{id}")).json()["payload"] == "***"
    assert (await spring.jobs.get(id)).payload == countless


async def test_a_job_with_too_many_metadata_parts_is_unreadable_and_affects_no_other_job(tmp_path: Path) -> None:
    """An earlier release has stored the job: decoding it would block the process, to show it as well as to run it."""
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def send(to: str = "") -> None: ...

    (id,) = await put(app, 1, metadata={"rows": [[]] * (MAX_CONTAINERS + 1)})
    other = await send.enqueue()
    await app.worker().drain()
    assert (await other.job()).state is State.COMPLETED
    signed = {"Authorization": f"Bearer {await app.keys.create('ops', 'operator')}"}
    async with browser(app.asgi(), headers=signed) as http:
        shown = (await http.get(f"/jobs/{id}")).json()
        assert shown["failure"]["type"] == UNREADABLE
        assert "more than 200,000 lists and objects" in shown["failure"]["message"]
        assert (shown["payload"], shown["metadata"]) == ({"to": "a"}, {})
        assert {one["id"] for one in (await http.get("/jobs")).json()["items"]} == {id, other.id}
        assert (await http.delete(f"/jobs/{id}")).status_code == 204
    await app.close()


async def test_waiting_for_a_large_job_reads_it_brief(
    spring: Mainspring, client: Client, asked: list[tuple[int, bool]]
) -> None:
    (id,) = await put(spring, 1)
    await spring.jobs.cancel(id)
    async with client() as http:
        asked.clear()
        answer = await http.get(f"/jobs/{id}?wait=30")
    assert len(answer.json()["metadata"]["text"]) == LARGE
    assert asked.count((1, False)) == 1
    assert (1, True) in asked
