"""mainspring jobs logs."""

from __future__ import annotations

import json
import re
import signal

import pytest

from mainspring.cli import render
from mainspring.clock import EPOCH
from mainspring.records.run import LogLine

SAY = 'say=["hello","warning|careful","error|bad"]'


@pytest.fixture
def talked(enqueued, work):
    """A job that has logged three lines."""
    id = enqueued("talk", SAY)
    work()
    return id


def texts(shown: str) -> list[str]:
    return [line.split(maxsplit=3)[3] for line in shown.splitlines() if line.startswith("2")]


def test_log_line_has_instant_and_level(cli, shop, talked):
    title, *lines = cli("jobs", "logs", talked, "--app", shop).stdout.splitlines()
    assert title == "run 1"
    pattern = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z (info     hello|warning  careful|error    bad)"
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert len(lines) == 3


@pytest.mark.parametrize(("level", "style"), [(50, "bold red"), (30, "yellow"), (25, "green"), (10, "dim")])
def test_log_level_has_a_colour(level, style):
    _, span = render.log_line(LogLine(1, 1, EPOCH, level, "x")).spans
    assert span.style == style


def test_logs_level_filter(cli, shop, talked):
    assert texts(cli("jobs", "logs", talked, "--level", "warning", "--app", shop).stdout) == ["careful", "bad"]
    none = cli("jobs", "logs", talked, "--level", "critical", "--app", shop)
    assert (none.exit_code, none.stdout) == (0, "")
    assert none.stderr == f"job {talked} has logged nothing at level critical or above\n"


def test_logs_of_one_run(cli, shop, enqueued, work):
    id = enqueued("talk", SAY, "fail=true")
    work()
    cli("jobs", "retry", id, "--app", shop)
    work()
    both = cli("jobs", "logs", id, "--app", shop).stdout.splitlines()
    assert [line for line in both if line.startswith("run")] == ["run 1", "run 2"]
    assert cli("jobs", "logs", id, "--run", "1", "--app", shop).stdout.splitlines() == both[:4]
    assert cli("jobs", "logs", id, "--run", "2", "--app", shop).stdout.splitlines() == both[4:]


def test_logs_of_an_unknown_run_is_an_error(cli, shop, talked):
    refused = cli("jobs", "logs", talked, "--run", "3", "--app", shop)
    assert refused.exit_code == 1
    assert refused.stderr == f"error: job {talked} has begun 1 run, so there is no run 3\n"


def test_logs_of_a_job_without_log_lines_is_no_error(cli, shop, enqueued):
    id = enqueued("add", "a=1")
    none = cli("jobs", "logs", id, "--app", shop)
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", f"job {id} has logged nothing so far\n")
    assert cli("jobs", "logs", id, "--json", "--app", shop).stdout == "[]\n"


@pytest.mark.parametrize("more", [[], ["--follow"]])
def test_logs_of_an_unknown_job_is_an_error(cli, shop, more):
    refused = cli("jobs", "logs", "nope", *more, "--app", shop)
    assert refused.exit_code == 1
    assert "there is no job 'nope'" in refused.stderr


def test_logs_json(cli, shop, talked):
    first, *_ = json.loads(cli("jobs", "logs", talked, "--json", "--app", shop).stdout)
    assert (first["run"], first["n"], first["level"], first["level_name"]) == (1, 1, 20, "info")
    assert (first["text"], first["at"][-1]) == ("hello", "Z")


def test_log_text_cannot_forge_lines_or_control_the_terminal(cli, shop, enqueued, work):
    id = enqueued("talk", "say:=" + json.dumps(["one\n2030-01-01 00:00:00.000Z error    forged \x1b[2J[bold]x"]))
    work()
    shown = cli("jobs", "logs", id, "--app", shop).stdout
    assert "\x1b" not in shown
    assert "\n    2030-01-01 00:00:00.000Z error    forged \\x1b[2J[bold]x\n" in shown


def test_logs_of_several_pages(cli, shop, enqueued, work):
    id = enqueued("talk", f"say:={json.dumps(['x'] * 700)}", "fail=true")
    work()
    cli("jobs", "retry", id, "--app", shop)
    work()
    assert len(texts(cli("jobs", "logs", id, "--app", shop).stdout)) == 1400


def test_follow_of_a_finished_job_shows_all_and_ends(cli, shop, talked):
    shown = cli("jobs", "logs", talked, "--follow", "--app", shop)
    assert texts(shown.stdout) == ["hello", "careful", "bad"]
    assert shown.stderr == f"job {talked} is completed\n"


def test_follow_as_json_is_a_document_a_line(cli, shop, talked):
    shown = cli("jobs", "logs", talked, "--follow", "--json", "--app", shop).stdout
    assert [json.loads(line)["text"] for line in shown.splitlines()] == ["hello", "careful", "bad"]


def test_follow_shows_lines_as_they_come_until_the_job_ends(process, enqueued, shop):
    id = enqueued("talk", SAY)
    following = process("jobs", "logs", id, "-f", "--app", shop)
    worker = process("worker", shop)
    assert following.line("hello")
    code, shown, errors = following.end()
    assert (code, texts(shown)) == (0, ["hello", "careful", "bad"])
    assert errors == f"job {id} is completed"
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0


def test_ctrl_c_ends_following_without_a_traceback(process, enqueued, shop, work):
    id = enqueued("talk", SAY, "fail=true", "--max-retries", "9")
    work()
    following = process("jobs", "logs", id, "--follow", "--app", shop)
    following.line("bad")
    following.signal(signal.SIGINT)
    code, _, errors = following.end()
    assert code == 130
    assert errors.strip() == ""
