"""New jobs passed as data have the same bounds as those that a task makes; none is stored if one is refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import BadInput, Filter, Mainspring, act_as
from mainspring.ids import new_id
from mainspring.records.job import NewJob

OVER = {
    "metadata": ({"a": "x" * 65_536}, "metadata of a job of task 'send'.*at most 65,536 bytes as JSON"),
    "tags": (tuple(f"t{n}" for n in range(101)), "tags of a job of task 'send'.*at most 100 tags, got 101"),
    "queue": ("q" * 201, "a queue name is 1 to 200 printable characters"),
    "unique_key": ("k" * 513, "unique_key of a job of task 'send' must be 1 to 512 printable"),
    "idempotency_key": ("k" * 513, "idempotency_key of a job of task 'send' must be 1 to 512 printable"),
}


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring("memory://")

    @app.task
    async def send(to: str = "") -> None: ...

    return app


def hand_made(app: Mainspring, **given: Any) -> NewJob:
    return NewJob(id=new_id(app.clock.now()), task="send", payload='{"to":"a"}', **given)


@pytest.mark.parametrize("name", OVER)
async def test_enqueue_many_refuses_all_jobs_if_one_exceeds_a_bound(app: Mainspring, name: str) -> None:
    value, words = OVER[name]
    good, bad = hand_made(app), replace(hand_made(app), **{name: value})
    with pytest.raises(BadInput, match=words):
        await app.enqueue_many([good, bad])
    with act_as("ada"), pytest.raises(BadInput, match=words):
        await app.enqueue_by_hand([good, bad])
    assert await app.jobs.list(Filter()) == []
    assert await app.audit.list() == []


@pytest.mark.parametrize(
    "given",
    [{"metadata": {"n": float("nan")}}, {"metadata": {"a": "\x00"}}, {"metadata": {1: 2}}, {"tags": ("a", "b\n")}],
    ids=str,
)
async def test_enqueue_many_refuses_a_job_that_cannot_be_stored(app: Mainspring, given: Any) -> None:
    with pytest.raises(BadInput, match="of a job of task 'send'"):
        await app.enqueue_many([hand_made(app, **given)])


async def test_enqueue_many_checks_shared_tags_and_metadata_once(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    monkeypatch.setattr("mainspring.task.new_jobs.checked_options", lambda given, of: looked.append(given))
    made = app.tasks["send"].using(tags=["a"], metadata={"b": 1})
    await app.enqueue_many(made.job(str(n)) for n in range(100))
    assert len(looked) == 2


async def test_enqueue_many_refuses_a_job_of_an_internal_task(app: Mainspring) -> None:
    job = replace(hand_made(app), task="mainspring.webhook")
    for enqueue in (app.enqueue_many, app.enqueue_by_hand):
        with pytest.raises(LookupError, match="internal"):
            await enqueue([job])
