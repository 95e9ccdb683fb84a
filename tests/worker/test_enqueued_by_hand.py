"""Audit entries for jobs that people enqueue."""

from __future__ import annotations

import json

import pytest

from mainspring import AuditFilter, Filter, Mainspring, act_as
from mainspring.control.audit_words import reason_of, target_text
from mainspring.records.audit import AuditEntry


@pytest.fixture
def send(app: Mainspring):  # type: ignore[no-untyped-def]
    @app.task(queue="mail")
    async def send(to: str) -> None: ...

    return send


async def test_a_job_enqueued_by_hand_is_in_the_audit_log(app: Mainspring, send) -> None:  # type: ignore[no-untyped-def]
    async with app:
        with act_as("ada"):
            (handle,) = await app.enqueue_by_hand([send.job("bob")])
        (entry,) = await app.audit.list()
        assert (entry.who, entry.action, entry.target) == ("ada", "jobs.enqueue", handle.id)
        assert json.loads(entry.asked) == {"task": "send", "queue": "mail", "jobs": 1}
        assert json.loads(entry.outcome or "") == {"done": 1, "refused": 0, "ids": [handle.id]}
        assert await app.audit.enqueued_by(await handle.job()) == "ada"


async def test_jobs_enqueued_by_code_are_not_in_the_audit_log(app: Mainspring, send) -> None:  # type: ignore[no-untyped-def]
    async with app:
        with act_as("ada"):
            handle = await send.enqueue("bob")
        (other,) = await app.enqueue_by_hand([send.job("bob")])
        assert list(await app.audit.list()) == []
        for one in (handle, other):
            assert await app.audit.enqueued_by(await one.job()) is None


async def test_a_batch_enqueued_by_hand_is_one_audit_entry(app: Mainspring, send) -> None:  # type: ignore[no-untyped-def]
    async with app:
        with act_as("ada"):
            handles = await app.enqueue_by_hand([send.job(f"p{n}") for n in range(120)])
        (entry,) = await app.audit.list(AuditFilter(action="jobs.enqueue"))
        assert json.loads(entry.outcome or "")["done"] == len(handles) == 120
        assert target_text(entry.action, entry.target).startswith("100 jobs: ")


async def test_a_refused_enqueue_by_hand_is_audited_with_its_error(app: Mainspring, send) -> None:  # type: ignore[no-untyped-def]
    async with app:
        job = send.using(unique_key="k", on_conflict="raise").job("bob")
        await app.enqueue_many([send.using(unique_key="k").job("bob")])
        with act_as("ada"), pytest.raises(Exception, match="k"):
            await app.enqueue_by_hand([job])
        (entry,) = await app.audit.list()
        assert "JobExists" in json.loads(entry.outcome or "")["error"]


@pytest.mark.parametrize(
    ("action", "target", "text"),
    [
        ("jobs.cancel", "0190", "0190"),
        ("jobs.cancel", "{}", "all jobs"),
        ("jobs.cancel", '{"queues":["mail"]}', "jobs in queue mail"),
        ("jobs.retry", '{"states":["dead"],"tasks":["a","b"],"errors":["E: x"]}',
         "dead jobs of task a or b that failed with E: x"),
        ("jobs.retry", '{"task":"send","error":"E: no"}', "jobs of task send that failed with E: no"),
        ("jobs.delete", '{"ids":["1","2","3","4","5"]}', "5 jobs: 1, 2, 3, and 2 more"),
        ("schedules.pause", '{"task":"send","status":"active"}', "active schedules of task send"),
        ("schedules.delete", '{"names":["a","b"]}', "2 schedules: a, b"),
        ("schedules.resume", '{"owner":"user","q":"x"}', "schedules declared by users with a name like x"),
        ("jobs.delete", '{"ids":["1","2","3"],"ids_count":1200}', "1,200 jobs: 1, 2, 3, and 1,197 more"),
        ("jobs.cancel", '{"tasks":["a","b","c"],"tasks_count":50}', "jobs of task a or b or c or 47 more"),
        ("workers.drain", "{}", "all workers"),
        ("queues.pause", "{not json", "{not json"),
    ],
)  # fmt: skip
def test_target_text_describes_a_filter_in_words(action: str, target: str, text: str) -> None:
    assert target_text(action, target) == text


async def test_the_reason_of_an_audit_entry_is_its_cancel_reason_or_pause_note(app: Mainspring, send) -> None:  # type: ignore[no-untyped-def]
    async with app:
        await send.using(delay=60).enqueue("bob")
        with act_as("ada"):
            await app.jobs.cancel(Filter(), reason="no longer wanted")
            await app.queues.pause("mail")
        paused, cancelled = await app.audit.list()
    assert (reason_of(cancelled), reason_of(paused)) == ("no longer wanted", None)
    assert (
        reason_of(AuditEntry(id="1", at=cancelled.at, who="a", action="x", target="", asked='{"note":"why"}')) == "why"
    )
