"""mainspring why."""

from __future__ import annotations

import json
import re

from msgspec.structs import replace


def test_why_prints_reasons_and_when_they_end(cli, shop, enqueued):
    id = enqueued("add", "a=1", "--delay", "2h")
    cli("queues", "pause", "mail", "--app", shop)
    told = cli("why", id, "--app", shop)
    assert told.exit_code == 0
    head, due, paused, nobody = told.stdout.splitlines()
    assert head == f"◔ scheduled  add  {id}"
    assert due.startswith("  • it is due at 2")
    assert due.endswith("Z (in 1h)")
    assert re.fullmatch(r"  • queue 'mail' was paused by cli:\S+ \d+ s ago \(2.*Z\); resume it to go on", paused)
    assert nobody == "  • no worker is alive: start one with `mainspring worker`"


def test_why_json(cli, shop, enqueued):
    id = enqueued("add", "a=1", "--delay", "2h")
    told = json.loads(cli("why", id, "--json", "--app", shop).stdout)
    assert (told["id"], told["task"], told["shown"]) == (id, "add", "scheduled")
    due, nobody = told["reasons"]
    assert (due["code"], due["until"][-1], nobody["code"], nobody["until"]) == ("not_due", "Z", "no_worker", None)


def test_why_names_the_blocking_job(cli, shop, enqueued):
    first = enqueued("add", "a=1", "--unique-key", "k")
    cli("jobs", "cancel", first, "--app", shop)
    second = enqueued("add", "a=1", "--unique-key", "k")
    told = cli("why", first, "--app", shop).stdout
    assert f"  • it cannot be retried while key 'k' is held by job {second} (pending)\n" in told
    assert told.endswith(f"    in the way: {second}\n")


def test_why_of_a_dead_job_shows_its_failure(cli, shop, enqueued, work):
    id = enqueued("fail", "why=no\x1b[2J\nluck")
    work()
    told = cli("why", id, "--app", shop)
    assert told.exit_code == 0
    assert "it has been dead since" in told.stdout
    assert "ValueError: no\\x1b[2J luck" in told.stdout


def test_why_of_a_job_of_another_version_explains_version_skew(cli, shop, inside, work):
    async def enqueue(app):
        other = replace(app.tasks["add"].job(1), payload='{"a":1,"c":2}', fingerprint="aabbccddee")
        (handle,) = await app.enqueue_many([other])
        return handle.id

    id = inside(enqueue)
    work()
    told = cli("why", id, "--app", shop).stdout
    assert told.startswith(f"◔ scheduled  add  {id}\n")
    words = " ".join(told.split())
    assert "its arguments (a, c) were made by version aabbccddee, this worker has version" in words
    assert "(a: int, b: int = …). If no worker can read it by 2" in words
    assert "No live worker has version aabbccddee of task 'add': deploy one, or change the arguments" in words
    (reason, _) = json.loads(cli("why", id, "--json", "--app", shop).stdout)["reasons"]
    assert reason["code"] == "version_skew"


def test_why_of_an_unknown_job_is_an_error(cli, shop):
    refused = cli("why", "nope", "--app", shop)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "there is no job 'nope' in the store" in refused.stderr


def test_why_without_an_id_is_a_usage_error(cli, shop):
    refused = cli("why", "--app", shop)
    assert refused.exit_code == 2
    assert "mainspring why [OPTIONS] ID" in refused.stderr
