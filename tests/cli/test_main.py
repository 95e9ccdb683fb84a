"""The command itself: help, version, exit codes, and imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import click
import pytest

from mainspring.cli import COMMANDS, main


def test_command_line_without_arguments_lists_every_command(cli):
    shown = cli()
    assert shown.exit_code == 0
    for name, summary in COMMANDS.items():
        assert name in shown.stdout
        assert summary in shown.stdout


def test_version_option_prints_the_package_version(cli):
    from importlib.metadata import version

    assert cli("--version").stdout == f"mainspring {version('mainspring')}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_summary_in_help_is_the_commands_own_first_line(name):
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert (command.help or "").splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(cli, name):
    shown = cli(name, "--help")
    assert shown.exit_code == 0
    assert f"mainspring {name}" in shown.stdout


@pytest.mark.parametrize("args", [[], ["--help"], ["--version"]])
def test_help_imports_neither_rich_nor_a_store(args):
    code = (
        "import sys; from mainspring.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print([name for name in sys.modules if name == 'rich' or name.startswith('mainspring.stores.')])"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_unknown_command_is_a_usage_error(cli):
    refused = cli("wroker")
    assert refused.exit_code == 2
    assert "No such command 'wroker'" in refused.stderr


@pytest.mark.parametrize("words", [["jobs", "list", "--queue"], ["why"], ["jobs", "cancel"], ["enqueue"]])
def test_argument_that_is_not_utf8_is_a_usage_error(shop, words):
    args = [sys.executable, "-m", "mainspring.cli", *words, b"\xff", "--app", shop]
    done = subprocess.run(args, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("'\\udcff' is not UTF-8 text\n")


def test_mainspring_error_is_one_line_and_exit_code_1(cli, store):
    refused = cli("jobs", "show", "nope", "--store", store)
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert refused.stderr == "error: there is no job 'nope' in the store (never enqueued, or deleted)\n"


def test_errors_never_show_a_password(cli):
    refused = cli("jobs", "list", "--store", "nosuch://me:s3cret@host/db?password=s3cret")
    assert refused.exit_code == 1
    assert "s3cret" not in refused.stderr
    assert "nosuch://me:***@host/db?password=***" in refused.stderr


def test_ctrl_c_ends_with_130_and_no_traceback(process, enqueued, shop):
    waiting = process("enqueue", "add", "a=1", "--app", shop, "--wait", "60")
    waiting.line("-7")
    waiting.signal(signal.SIGINT)
    code, _, errors = waiting.end()
    assert code == 130
    assert "Traceback" not in errors


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_closed_pipe_is_no_error(enqueued, more):
    enqueued("add", "a=1")
    read, write = os.pipe()
    os.close(read)
    args = [sys.executable, "-m", "mainspring.cli", "jobs", "list", "--app", "shop:app", *more]
    done = subprocess.run(args, stdout=write, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    os.close(write)
    assert done.stderr == ""


def test_a_terminal_without_unicode_gets_question_marks(process, enqueued, shop):
    enqueued("greet", "name=Zoë")
    code, out, errors = process("jobs", "list", "--app", shop, PYTHONIOENCODING="ascii").end()
    assert (code, errors.strip()) == (0, "")
    assert "? pending" in out
