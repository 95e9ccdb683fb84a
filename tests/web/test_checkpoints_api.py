"""/jobs/{id}/checkpoints: the stored steps of a job, in pages, through a client, and on its page."""

from __future__ import annotations

from http_client import Client

from mainspring import Context, Mainspring
from mainspring.records.run import Checkpoint


async def walked(app: Mainspring, *values: object) -> str:
    """The id of a job that has stored these values, and sleeps."""

    async def walk(ctx: Context) -> None:
        for value in values:
            await ctx.step(lambda value=value: value, name="part")  # type: ignore[misc]
        await ctx.sleep(hours=1)

    app.tasks.pop("walk", None)
    id = (await app.task(name="walk")(walk).enqueue()).id
    await app.drain()
    return id


async def test_checkpoints_are_paged_by_number(spring: Mainspring, client: Client) -> None:
    id = await walked(spring, "one", {"two": 2}, None)
    async with client("viewer") as http:
        first = (await http.get(f"/jobs/{id}/checkpoints?limit=2")).json()
        rest = (await http.get(f"/jobs/{id}/checkpoints?after={first['next']}")).json()
        wrong = await http.get(f"/jobs/{id}/checkpoints?after=-1")
    found = [(one["n"], one["name"], one["value"]) for one in (*first["items"], *rest["items"])]
    assert found[:3] == [(1, "part", "one"), (2, "part#2", {"two": 2}), (3, "part#3", None)]
    assert [name for _, name, _ in found[3:]] == ["sleep"]
    assert (first["next"], rest["next"], wrong.status_code) == (2, None, 400)


async def test_secrets_in_checkpoints_are_masked(spring: Mainspring, client: Client) -> None:
    id = await walked(spring, {"password": "hunter2"})
    async with client("viewer") as http:
        text = (await http.get(f"/jobs/{id}/checkpoints")).text
    assert "hunter2" not in text


async def test_why_says_that_a_job_sleeps(spring: Mainspring) -> None:
    id = await walked(spring)
    job = await spring.jobs.get(id)
    (reason, *_) = await spring.jobs.why(id)
    assert (reason.code, reason.until) == ("asleep", job.run_at)


async def test_checkpoints_of_a_job_without_durable_steps(spring: Mainspring) -> None:
    async def plain() -> None: ...

    spring.tasks.pop("plain", None)
    id = (await spring.task(name="plain")(plain).enqueue()).id
    await spring.drain()
    found: list[Checkpoint] = list(await spring.jobs.checkpoints(id))
    assert found == []
