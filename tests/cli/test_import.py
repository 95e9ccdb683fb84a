"""mainspring import crontab: the status of each line, and idempotence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHOP = """
from mainspring import Mainspring

app = Mainspring("sqlite:///jobs.db")

@app.task
async def shell(command: str) -> None: ...

@app.task
async def shell_as(command: str, user: str) -> None: ...

@app.task
async def add(a: int) -> None: ...
"""
TAB = """
# the nightly things
MAILTO=ops
0 2 * * * /usr/bin/backup --all
*/5 * * * * poll
@reboot /usr/bin/warm-up
61 * * * * broken
30 9 * * * date +\\%F
"""

Import = Callable[..., dict[str, Any]]


@pytest.fixture
def shop(here: Path) -> str:
    here.joinpath("shop.py").write_text(SHOP)
    return "shop:app"


@pytest.fixture
def tab(here: Path) -> Callable[[str], str]:
    """A crontab file of that text."""

    def write(text: str = TAB) -> str:
        here.joinpath("tab").write_text(text)
        return "tab"

    return write


@pytest.fixture
def take(cli: Callable[..., Any], shop: str) -> Import:
    """The JSON report of an import."""

    def told(*args: str) -> dict[str, Any]:
        result = cli("import", "crontab", *args, "--app", shop, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return told


@pytest.fixture
def stored(cli: Callable[..., Any], shop: str) -> Callable[[], dict[str, dict[str, Any]]]:
    """The schedules of the store by name."""

    def read() -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in json.loads(cli("schedules", "list", "--json", "--app", shop).stdout)}

    return read


def became(told: dict[str, Any]) -> dict[int, str]:
    return {line["number"]: line["status"] for line in told["lines"]}


def test_import_report_has_a_status_per_line(take, tab):
    told = take(tab())
    assert became(told) == {3: "ignored", 4: "new", 5: "new", 6: "refused", 7: "refused", 8: "flagged"}
    assert (told["new"], told["flagged"], told["refused"], told["ignored"], told["made"]) == (2, 1, 2, 1, 0)
    backup = told["lines"][1]
    assert (backup["name"], backup["meaning"]) == ("backup", "at 02:00 every day")
    assert backup["kwargs"] == {"command": "/usr/bin/backup --all"}


def test_import_report_has_reasons(cli, shop, tab):
    said = cli("import", "crontab", tab(), "--app", shop)
    assert said.exit_code == 0
    _, _, reasons = said.stdout.partition("REASONS\n")
    assert "line 3: MAILTO: mails what a command prints to ops" in reasons
    assert "line 6: @reboot runs when the machine starts" in reasons
    assert "line 7: cron '61 * * * *': minute 61 is not within 0-59" in reasons
    assert "line 8: \\% is a plain % in cron" in reasons
    assert said.stdout.endswith("\n2 new, 1 flagged, 2 refused, 1 ignored\n")
    assert said.stderr == "nothing was written: --write --task NAME makes those that are new\n"


def test_import_without_write_changes_nothing(take, tab, stored):
    take(tab(), "--task", "shell")
    assert stored() == {}


def test_import_write_creates_new_and_skips_flagged(take, tab, stored):
    told = take(tab(), "--task", "shell", "--write")
    assert became(told) == {3: "ignored", 4: "made", 5: "made", 6: "refused", 7: "refused", 8: "flagged"}
    assert set(stored()) == {"backup", "poll"}
    spec = stored()["backup"]["spec"]
    assert (spec["task"], spec["payload"]) == ("shell", {"command": "/usr/bin/backup --all"})


def test_imported_schedules_have_the_policies_of_cron(take, tab, stored):
    take(tab("0 2 * * * a"), "--task", "shell", "--write")
    take(tab("0 3 * * * b"), "--task", "shell", "--write", "--overlap", "queue", "--catch-up", "latest")
    a, b = stored()["a"]["spec"], stored()["b"]["spec"]
    assert (a["overlap"], a["catch_up"]) == ("allow", "skip")
    assert (b["overlap"], b["catch_up"]) == ("queue", "latest")


def test_import_flagged_creates_flagged_lines(take, tab, stored):
    assert became(take(tab(), "--task", "shell", "--write", "--flagged"))[8] == "made"
    assert "date" in stored()


def test_import_is_idempotent(cli, shop, tab, take, stored):
    words = ("--task", "shell", "--write", "--flagged")
    take(tab(), *words)
    before = stored()
    again = cli("import", "crontab", tab(), *words, "--app", shop)
    assert stored() == before
    assert "= there" in again.stdout
    assert again.stdout.endswith("\n3 there, 2 refused, 1 ignored\n")
    assert again.stderr == "nothing was changed in sqlite:///jobs.db\n"


def test_import_recognises_moved_lines(take, tab, stored):
    take(tab("0 1 * * * run a\n0 2 * * * run b\n"), "--task", "shell", "--write")
    assert set(stored()) == {"run", "run-2"}
    told = take(tab("# new\n\n0 2 * * * run b\n0 1 * * * run a\n"), "--task", "shell", "--write")
    assert [(line["status"], line["name"]) for line in told["lines"]] == [("there", "run-2"), ("there", "run")]
    assert len(stored()) == 2


def test_two_equal_crontab_lines_are_imported_as_two_schedules_only_once(take, tab, stored):
    text = "0 1 * * * run\n0 1 * * * run\n"
    assert take(tab(text), "--task", "shell", "--write")["made"] == 2
    assert take(tab(text), "--task", "shell", "--write")["there"] == 2
    assert len(stored()) == 2


def test_existing_schedule_matches_only_one_of_two_equal_crontab_lines(take, tab):
    take(tab("0 1 * * * run\n"), "--task", "shell", "--write")
    again = take(tab("0 1 * * * run\n0 1 * * * run\n"), "--task", "shell", "--write")
    assert became(again) == {1: "there", 2: "made"}


def test_import_does_not_change_another_schedule_of_that_name(take, tab, stored):
    take(tab("0 1 * * * run"), "--task", "shell", "--write")
    before = stored()
    (line,) = take(tab("0 2 * * * run"), "--task", "shell", "--write")["lines"]
    assert line["status"] == "differs"
    assert "there is another schedule 'run' (shell, at 01:00 every day)" in line["reasons"][0]
    assert stored() == before
    take(tab("0 2 * * * run"), "--task", "shell", "--write", "--prefix", "cron-")
    assert set(stored()) == {"run", "cron-run"}


def test_import_as_intervals(take, tab, stored):
    told = take(
        tab("*/5 * * * * poll\n*/7 * * * * odd\n0 9 * * * daily\n"), "--task", "shell", "--as-intervals", "--write"
    )
    assert became(told) == {1: "made", 2: "flagged", 3: "made"}
    trigger = stored()["poll"]["spec"]["trigger"]
    assert (trigger["kind"], trigger["seconds"], trigger["anchor"]) == ("every", 300, "1970-01-01T00:00:00Z")
    assert stored()["poll"]["next_run_at"][14:16] in {f"{n:02}" for n in range(0, 60, 5)}
    assert stored()["daily"]["spec"]["trigger"]["kind"] == "cron"
    assert take(tab("*/5 * * * * poll"), "--task", "shell", "--as-intervals", "--write")["there"] == 1


def test_import_time_zone_and_cron_tz(take, tab):
    text = "0 9 * * * a\nCRON_TZ=Asia/Tokyo\n0 9 * * * b\n"
    meanings = [line["meaning"] for line in take(tab(text), "--tz", "Europe/Paris")["lines"]]
    assert meanings == ["at 09:00 every day, Europe/Paris", "at 09:00 every day, Asia/Tokyo"]


def test_system_crontab_passes_the_user_to_the_task(take, tab, stored):
    take(tab("0 2 * * * root run it"), "--system", "--task", "shell_as", "--write")
    assert stored()["run"]["spec"]["payload"] == {"command": "run it", "user": "root"}
    assert take(tab("0 2 * * * root run it"), "--system", "--task", "shell_as", "--write")["there"] == 1


def test_system_crontab_user_without_a_parameter_is_flagged(take, tab):
    (line,) = take(tab("0 2 * * * root run it"), "--system", "--task", "shell")["lines"]
    assert line["status"] == "flagged"
    assert "runs as root in cron, and as the worker's own user here" in line["reasons"][0]


def test_import_from_stdin(cli, shop):
    done = cli("import", "crontab", "-", "--app", shop, input="0 2 * * * run\n")
    assert "+ new  run" in done.stdout


def test_import_of_an_empty_file_has_a_hint(cli, shop, tab):
    done = cli("import", "crontab", tab("# nothing\n\n"), "--app", shop)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "tab has no schedules" in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--write"], 2, "which task runs the command lines? Give --task NAME"),
        (["--flagged"], 2, "--flagged goes with --write"),
        (["--write", "--task", "shel"], 1, "did you mean 'shell'?"),
        (["--task", "add"], 1, "task 'add' has no argument 'command' (takes: a)"),
    ],
)
def test_invalid_import_changes_nothing(cli, shop, tab, stored, options, code, said):
    refused = cli("import", "crontab", tab(), *options, "--app", shop)
    assert refused.exit_code == code
    assert said in refused.stderr
    assert stored() == {}


def test_crontab_lines_with_an_unknown_time_zone_are_refused(take, tab):
    (line,) = take(tab("0 9 * * * a"), "--tz", "Europe/Pariss")["lines"]
    assert line["status"] == "refused"
    assert "there is no time zone 'Europe/Pariss'; did you mean Europe/Paris" in line["reasons"][0]


def test_missing_crontab_file_is_a_usage_error(cli, shop):
    refused = cli("import", "crontab", "nowhere", "--app", shop)
    assert refused.exit_code == 2
    assert "nowhere" in refused.stderr


def test_crontab_text_cannot_control_the_terminal(cli, shop, tab):
    said = cli("import", "crontab", tab("0 2 * * * run \x1b[2J\n99 * * * * \x1b[2J\n"), "--app", shop).stdout
    assert "\x1b" not in said
