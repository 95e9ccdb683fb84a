"""mainspring queues."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from mainspring.cli.sparkline import trail
from mainspring.insight.queue_depth import GRIDS, KIND, Depth, DepthSample
from mainspring.records.document import Document
from mainspring.stores import open_store


def test_queue_list_counts_jobs(cli, shop, enqueued):
    enqueued("add", "a=1")
    enqueued("add", "a=1", "--delay", "1h")
    table = cli("queues", "list", "--app", shop).stdout.splitlines()
    assert table[0].split() == ["QUEUE", "STATE", "PENDING", "SCHEDULED", "RETRYING", "RUNNING"]
    assert table[1].split() == ["mail", "►", "open", "1", "1", "0", "0"]
    (queue,) = json.loads(cli("queues", "list", "--app", shop, "--json").stdout)
    counts = {"pending": 1, "scheduled": 1, "retrying": 0, "running": 0}
    assert queue == {"name": "mail", "paused": False, **counts, "paused_at": None, "paused_by": None, "note": ""}


def test_empty_queue_list_has_a_hint(cli, shop):
    empty = cli("queues", "list", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "no queue of sqlite:///jobs.db holds unfinished jobs; store one" in empty.stderr
    assert json.loads(cli("queues", "list", "--app", shop, "--json").stdout) == []


def test_pause_and_resume_a_queue(cli, shop, enqueued, work):
    enqueued("add", "a=1")
    paused = cli("queues", "pause", "mail", "--app", shop)
    assert paused.stdout == "queue 'mail' is paused; resume it with: mainspring queues resume mail\n"
    assert paused.stderr == ""
    assert "‖ paused" in cli("queues", "list", "--app", shop).stdout
    assert work() == 0
    assert cli("queues", "resume", "mail", "--app", shop).stdout == "queue 'mail' is open again\n"
    assert work() == 1


def test_pause_note_and_author_are_listed(cli, shop, enqueued):
    id = enqueued("add", "a=1")
    cli("queues", "pause", "mail", "--note", "the provider\x1b[31m is down", "--app", shop)
    listed = cli("queues", "list", "--app", shop).stdout
    assert "PAUSED BY" in listed
    assert ": the provider" in listed
    assert "\x1b" not in listed
    said = " ".join(cli("why", id, "--app", shop).stdout.split())
    assert "queue 'mail' was paused by cli:" in said
    assert "is down" in said
    too_long = cli("queues", "pause", "mail", "--note", "x" * 1001, "--app", shop)
    assert (too_long.exit_code, "at most 1,000 characters" in too_long.stderr) == (1, True)


def test_pause_of_an_unknown_queue_has_a_hint(cli, shop, enqueued):
    enqueued("add", "a=1")
    paused = cli("queues", "pause", "mial", "--app", shop)
    assert paused.exit_code == 0
    assert paused.stderr == "it holds no unfinished jobs so far (those that do: mail)\n"
    assert cli("queues", "resume", "mail", "--app", shop).stdout == "queue 'mail' was not paused (paused: mial)\n"


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_invalid_queue_name_is_refused(cli, shop, action):
    refused = cli("queues", action, " ", "--app", shop)
    assert refused.exit_code == 1
    assert "a queue name is 1 to 200 printable characters" in refused.stderr


def looked(folder, depths):
    """Stores depth samples, by their age in minutes."""

    async def write():
        store = open_store(f"sqlite:///{folder}/jobs.db")
        await store.open()
        now = datetime.now(UTC)
        for ago, queues in depths.items():
            at = now - timedelta(minutes=ago)
            found = {name: Depth(n, oldest=float(n)) for name, n in queues.items()}
            total = Depth(sum(queues.values()), oldest=float(max(queues.values(), default=0)))
            text = msgspec.json.encode(DepthSample(at, total, found)).decode()
            documents = [Document(kind=KIND, name=grid.name(at), text=text) for grid in GRIDS]
            await store.put_documents(documents, now=now)
        await store.close()

    asyncio.run(write())


def test_history_draws_pending_jobs_and_dots_for_gaps(cli, shop, tmp_path):
    looked(tmp_path, {59: {"a": 8}, 58: {"a": 4, "b": 1}, 30: {}, 0: {"a": 2, "b": 4}})
    lines = cli("queues", "history", "--app", shop).stdout.splitlines()
    assert lines[0].split() == ["QUEUE", "PENDING", "NOW", "MOST", "OLDEST"]
    assert [line.split()[0] for line in lines[1:]] == ["a", "b", "all"]
    assert [line.split()[-3:] for line in lines[1:]] == [["2", "8", "2.0s"], ["4", "4", "4.0s"], ["6", "8", "4.0s"]]
    assert lines[1].count("█") == 1
    assert lines[1].count("·") >= 26
    one = cli("queues", "history", "b", "--app", shop).stdout.splitlines()
    assert (len(one), one[1].split()[-3:]) == (2, ["4", "4", "4.0s"])
    samples = json.loads(cli("queues", "history", "--app", shop, "--json", "--window", "2h").stdout)
    assert [sample["total"]["pending"] for sample in samples] == [8, 5, 0, 6]


def test_history_without_samples_has_a_hint(cli, shop, enqueued):
    enqueued("add", "a=1")
    empty = cli("queues", "history", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert (
        empty.stderr
        == "no worker of sqlite:///jobs.db has sampled queues in the last 1h; workers do so once a minute\n"
    )
    assert json.loads(cli("queues", "history", "--app", shop, "--json").stdout) == []


def test_history_window_is_limited(cli, shop):
    refused = cli("queues", "history", "--app", shop, "--window", "5d")
    assert refused.exit_code != 0
    assert "kept for 4 days" in refused.stderr


def test_depth_history_trail_shows_maxima_and_dots_for_gaps():
    assert trail([None, 0, 8, 4], 4) == "· █▄"
    assert trail([8, 1, None, None, None, 4], 3) == "█·▄"
    assert trail([1, 2, 8], 2) == "▁█"
    assert trail([], 5) == ""
