"""mainspring tasks and mainspring settings."""

from __future__ import annotations

import json


def test_tasks_are_listed_with_queue_options_schedules_and_code(cli, shop, inside):
    async def scheduled(app):
        from mainspring import every

        await app.schedules.create("often", every(minutes=5), "add", kwargs={"a": 1})

    inside(scheduled)
    found = {one["name"]: one for one in json.loads(cli("tasks", "--json", "--app", shop).stdout)}
    assert sorted(found) == ["add", "fail", "greet", "sleep", "talk"]
    assert (found["add"]["queue"], found["add"]["schedules"]) == ("mail", ["often"])
    assert found["fail"]["options"] == {"max_retries": 0}
    assert found["add"]["code"] == "shop.py:8"
    assert found["add"]["executor"] == "async"
    lines = cli("tasks", "--app", shop).stdout.splitlines()
    assert lines[0].split() == ["TASK", "QUEUE", "RUNS", "IN", "OPTIONS", "SCHEDULES", "CODE"]
    assert lines[1].split() == ["add", "mail", "async", "often", "shop.py:8"]
    assert len(json.loads(cli("tasks", "add", "--json", "--app", shop).stdout)) == 1


def test_unknown_task_and_a_store_without_an_app_are_refused(cli, shop, store):
    wrong = cli("tasks", "ad", "--app", shop)
    assert (wrong.exit_code, "there is no task 'ad' in this app" in wrong.stderr) == (1, True)
    alone = cli("tasks", "--store", store)
    assert (alone.exit_code, "give --app" in alone.stderr) == (1, True)


def test_settings_are_listed_with_their_source(cli, shop, monkeypatch):
    monkeypatch.setenv("MAINSPRING_GRACE", "5m")
    monkeypatch.setenv("MAINSPRING_API_KEY", "msk_secret")
    found = {one["name"]: one for one in json.loads(cli("settings", "--json", "--app", shop).stdout)}
    assert (found["beat"]["value"], found["beat"]["source"]) == (0.2, "argument")
    assert (found["grace"]["value"], found["grace"]["source"]) == (300, "environment")
    assert (found["retry_max"]["value"], found["retry_max"]["source"]) == (3, "default")
    assert (found["api_key"]["value"], found["api_key"]["secret"]) == ("***", True)
    text = cli("settings", "--changed", "--app", shop).stdout
    assert "msk_secret" not in text
    rows = [line.split()[:4] for line in text.splitlines()[1:]]
    assert ["beat", "0.2", "seconds", "argument"] in rows
    assert ["grace", "300", "seconds", "MAINSPRING_GRACE"] in rows
    assert not any(row[0] == "retry_max" for row in rows)


def test_one_setting_is_shown_and_an_unknown_setting_has_a_hint(cli, shop):
    (one,) = json.loads(cli("settings", "lease", "--json", "--app", shop).stdout)
    assert (one["name"], one["variable"]) == ("lease", "MAINSPRING_LEASE")
    wrong = cli("settings", "leese", "--app", shop)
    assert (wrong.exit_code, "did you mean" in wrong.stderr) == (2, True)


def test_a_password_in_the_stores_url_is_not_shown(cli, monkeypatch):
    shown = cli("settings", "store", "--json", "--store", "postgresql://ada:hunter2@127.0.0.1:1/jobs").stdout
    assert "hunter2" not in shown
    assert "127.0.0.1" in shown
