"""/jobs/{id}/output: pages of what a job has written, and the same through a client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from http_client import Client

from mainspring import Context, Mainspring
from mainspring.testing import VirtualClock


async def wrote(app: Mainspring, *chunks: Any) -> str:
    """The id of a completed job that has written these chunks."""

    async def write(ctx: Context) -> None:
        for chunk in chunks:
            await ctx.write(chunk)

    app.tasks.pop("write", None)
    id = (await app.task(name="write")(write).enqueue()).id
    await app.drain()
    return id


async def test_output_is_paged_by_number(spring: Mainspring, client: Client) -> None:
    id = await wrote(spring, "one", {"two": 2}, None, "four")
    async with client("viewer") as http:
        first = (await http.get(f"/jobs/{id}/output?limit=3")).json()
        rest = (await http.get(f"/jobs/{id}/output?after={first['next']}")).json()
        end = (await http.get(f"/jobs/{id}/output?after={rest['next']}")).json()
        newest = (await http.get(f"/jobs/{id}/output?newest=true&limit=2")).json()
    assert [(one["n"], one["run"], one["value"]) for one in first["items"] + rest["items"]] == [
        (1, 1, "one"),
        (2, 1, {"two": 2}),
        (3, 1, None),
        (4, 1, "four"),
    ]
    assert not any(one["full"] for one in first["items"])
    assert (first["next"], first["ended"], rest["next"], end) == (3, False, 4, {"items": [], "next": 4, "ended": True})
    assert [one["n"] for one in newest["items"]] == [3, 4]


async def test_secrets_in_output_are_masked(spring: Mainspring, client: Client) -> None:
    id = await wrote(spring, "token=hush", {"password": "hush", "n": 1}, "x" * 40_000 + " token=hush")
    async with client("viewer") as http:
        answer = await http.get(f"/jobs/{id}/output")
    assert answer.json()["items"][1]["value"] == {"password": "***", "n": 1}
    assert "hush" not in answer.text


async def test_output_is_hidden_from_viewers_with_hide_payloads(spring: Mainspring, client: Client) -> None:
    spring.configure(hide_payloads=True)
    id = await wrote(spring, "the plan")
    for role, shown in (("viewer", "***"), ("operator", "the plan")):
        async with client(role) as http:  # type: ignore[arg-type]
            assert (await http.get(f"/jobs/{id}/output")).json()["items"][0]["value"] == shown


async def test_a_full_output_says_so(spring: Mainspring, client: Client) -> None:
    id = await wrote(spring, *["x" * 60_000] * 18)
    async with client("viewer") as http:
        page = (await http.get(f"/jobs/{id}/output?newest=true&limit=1")).json()
    ((n, full, value),) = [(one["n"], one["full"], one["value"]) for one in page["items"]]
    assert (n, full, value) == (18, True, None)


async def test_a_request_waits_for_output(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    go, end = asyncio.Event(), asyncio.Event()

    @spring.task
    async def write(ctx: Context) -> None:
        await go.wait()
        await ctx.write("at last")
        await end.wait()

    id = (await write.enqueue()).id
    async with client("viewer") as http, spring.worker():
        assert (await http.get(f"/jobs/{id}/output")).json() == {"items": [], "next": 0, "ended": False}
        waiting = asyncio.create_task(http.get(f"/jobs/{id}/output?wait=30"))
        await clock.elapse(seconds=3)
        assert not waiting.done()
        go.set()
        await clock.elapse(seconds=1)
        assert [one["value"] for one in (await waiting).json()["items"]] == ["at last"]
        waiting = asyncio.create_task(http.get(f"/jobs/{id}/output?wait=30&after=1"))
        await clock.elapse(seconds=31)
        assert (await waiting).json() == {"items": [], "next": 1, "ended": False}
        waiting = asyncio.create_task(http.get(f"/jobs/{id}/output?wait=30&after=1"))
        end.set()
        await clock.elapse(seconds=3)
        assert (await waiting).json()["ended"]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=1001", "wait=31", "wait=-1", "run=1"])
async def test_an_invalid_page_of_output_is_refused(spring: Mainspring, client: Client, query: str) -> None:
    id = await wrote(spring, "one")
    async with client("viewer") as http:
        answer = await http.get(f"/jobs/{id}/output?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")
