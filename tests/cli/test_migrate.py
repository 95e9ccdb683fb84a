"""mainspring migrate."""

from __future__ import annotations

import json


def test_status_tells_both_versions(cli, store):
    state = json.loads(cli("migrate", "status", "--store", store, "--json").stdout)
    assert state["store"] == store
    assert state["version"] == state["newest"]
    assert state["current"] is True
    assert cli("migrate", "status", "--store", store).stdout.endswith(": up to date\n")


def test_up_has_nothing_to_do_on_an_opened_store(cli, store):
    assert cli("migrate", "up", "--store", store).stdout.endswith(", nothing to do\n")


def test_down_says_what_is_lost_and_asks(cli, store, inside, enqueued):
    enqueued("add", "a=1")
    enqueued("add", "a=2")
    refused = cli("migrate", "down", "--to", "0", "--store", store, input="n\n")
    assert refused.exit_code == 1
    assert "drop every table of sqlite:///jobs.db? 2 job(s) and their history are lost." in refused.stderr
    assert inside(lambda app: app.stats()).pending == 2
    done = cli("migrate", "down", "--to", "0", "--store", store, "--yes")
    assert done.exit_code == 0
    assert done.stdout.endswith("-> 0\n")
    assert inside(lambda app: app.stats()).pending == 0


def test_down_warns_of_running_workers(cli, store, shop, process):
    process("worker", shop).line("worker")
    asked = cli("migrate", "down", "--to", "0", "--store", store, input="n\n")
    assert "1 running worker(s) will fail: stop them first." in asked.stderr


def test_the_wrong_way_names_the_right_one(cli, store):
    back = cli("migrate", "up", "--to", "0", "--store", store)
    assert (back.exit_code, back.stderr.endswith("mainspring migrate down --to 0 goes back\n")) == (1, True)
    on = cli("migrate", "down", "--to", "99", "--store", store)
    assert (on.exit_code, on.stderr.endswith("mainspring migrate up --to 99 goes on\n")) == (1, True)


def test_a_version_nobody_knows_is_refused(cli, store):
    refused = cli("migrate", "up", "--to", "99", "--store", store)
    assert refused.exit_code == 1
    assert "there is no schema version 99" in refused.stderr
