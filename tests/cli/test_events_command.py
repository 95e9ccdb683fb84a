"""mainspring events: the live feed of other processes."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import timedelta

import pytest

from mainspring import Mainspring


def test_events_of_another_process_are_shown(process, cli, shop, enqueued):
    worker = process("worker", shop)
    following = process("events", "--type", "job", "--task", "add", "--app", shop)
    worker.line("worker ")
    while "job.completed" not in (line := following.line("  ")):
        enqueued("add", "a=1")  # until the worker has noticed the watch
    assert " add " in line
    assert " after " in line
    following.signal(signal.SIGINT)
    code, shown, errors = following.end()
    assert code == 130
    assert {line.split()[2] for line in shown.splitlines()} <= {
        "job.enqueued", "job.started", "job.completed", "reset",
    }  # fmt: skip
    assert "to continue from here: --after " in errors
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


@pytest.fixture
def told(shop):
    """A feed of five events."""

    async def tell() -> None:
        async with Mainspring("sqlite:///jobs.db") as app:
            store, now = await app.connect(), app.clock.now()
            await store.news(after=0, limit=0, until=now + timedelta(hours=1))
            at = now.isoformat()
            for n in range(5):
                await store.publish([f'{{"type":"queue.paused","at":"{at}","queue":"q{n}"}}'], now=now)

    asyncio.run(tell())


def test_events_after_option_shows_the_stored_events_after_a_number(cli, shop, told):
    shown = cli("events", "--after", "2", "--count", "3", "--app", shop)
    assert [line.split()[0::2] for line in shown.stdout.splitlines()] == [
        ["3", "queue.paused"], ["4", "queue.paused"], ["5", "queue.paused"],
    ]  # fmt: skip
    assert [line.split()[3] for line in shown.stdout.splitlines()] == ["q2", "q3", "q4"]
    assert shown.stderr == "to continue from here: --after 5\n"


def test_events_json_is_one_document_per_line(cli, shop, told):
    shown = cli("events", "--after", "3", "--count", "2", "--queue", "q3", "--queue", "q4", "--json", "--app", shop)
    documents = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(one["n"], one["type"], one["queue"]) for one in documents] == [
        (4, "queue.paused", "q3"), (5, "queue.paused", "q4"),
    ]  # fmt: skip


def test_unknown_event_type_is_refused(cli, shop):
    refused = cli("events", "--type", "job.strated", "--app", shop)
    assert refused.exit_code == 1
    assert "did you mean 'job.started'?" in refused.stderr
