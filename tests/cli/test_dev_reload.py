"""mainspring dev as a process: reloads, and its console."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from mainspring.supervisor.reloader import POLL_SECONDS

APP = """
    import logging
    from mainspring import Context, Mainspring

    import near

    app = Mainspring("sqlite:///jobs.db", poll_interval=0.1)
    own = logging.getLogger("shop.own")


    @app.task
    async def greet() -> str:
        return near.WORD


    @app.task
    async def late() -> str:
        import lazy

        return lazy.WORD


    @app.task
    async def chatter(ctx: Context, lines: int) -> None:
        for n in range(lines):
            ctx.log.info("line %d", n)
            own.info("mine %d", n)
        own.error("an error after all")


    @app.task
    async def parrot(ctx: Context) -> None:
        for _ in range(500):
            ctx.log.info("the same again")
"""


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "chat.py").write_text(dedent(APP))
    (here / "near.py").write_text("WORD = 'near'\n")
    (here / "lazy.py").write_text("WORD = 'lazy'\n")
    (here / "strange.py").write_text("WORD = 'strange'\n")
    return here


@pytest.fixture
def developing(process: Any, folder: Path) -> Any:
    started = process("dev", "chat:app", "--port", "0", "--no-auth")
    started.line("running on")
    return started


def restarts(developing: Any) -> list[str]:
    return [line for line in developing.errors() if "restarting:" in line]


def stop(developing: Any) -> None:
    developing.signal(signal.SIGINT)
    assert developing.end()[0] == 0


def test_dev_restarts_for_each_file_the_app_has_imported_and_for_no_other(
    developing: Any, folder: Path, cli: Any, until: Any
) -> None:
    (folder / "strange.py").write_text("WORD = 'stranger'\n")
    (folder / "new.py").write_text("")
    (folder / "near.py").write_text("WORD = 'nearer'\n")
    assert "restarting: near.py changed" in developing.logged("restarting:")
    developing.line("running on")
    assert len(restarts(developing)) == 1

    # A file that was imported later.
    job = cli("enqueue", "--app", "chat:app", "late").stdout.split()[0]
    until(lambda: "completed" in cli("jobs", "show", job, "--app", "chat:app").stdout)
    # The report follows within a second; a file that is written before it counts, too.
    (folder / "lazy.py").write_text("WORD = 'lazier'\n")
    assert "restarting: lazy.py changed" in developing.logged("restarting:")
    developing.line("running on")
    stop(developing)
    assert len(restarts(developing)) == 2


def test_dev_restarts_once_for_a_burst_of_changes(developing: Any, folder: Path) -> None:
    texts = {name: (folder / name).read_text() for name in ("near.py", "chat.py")}
    ends_at, n = time.monotonic() + 4 * POLL_SECONDS, 0
    while time.monotonic() < ends_at:  # during several checks
        n += 1
        for name, text in texts.items():
            (folder / name).write_text(f"{text}\n# {n}\n")
    assert "restarting: chat.py and 1 more changed" in developing.logged("restarting:")
    developing.line("running on")
    stop(developing)
    assert len(restarts(developing)) == 1


def test_dev_limits_the_log_lines_of_a_job_but_shows_its_error_and_a_repeated_line_once(
    developing: Any, cli: Any
) -> None:
    job = cli("enqueue", "--app", "chat:app", "chatter", "lines=400").stdout.split()[0]
    developing.logged("an error after all")
    summary = developing.logged("more lines from chatter")
    cli("enqueue", "--app", "chat:app", "parrot")
    assert "… 499 more lines from parrot" in developing.logged("more lines from parrot")
    stop(developing)
    shown = [line for line in developing.errors() if re.search(r"(line|mine) \d+", line)]
    assert 1 <= len(shown) <= 100
    assert f"mainspring jobs logs {job}, or dev --all-lines" in summary
    hidden = sum(int(found[1].replace(",", "")) for line in developing.errors()
                 if (found := re.search(r"… ([\d,]+) more lines? from chatter", line)))  # fmt: skip
    assert len(shown) + hidden == 800
    assert len([line for line in developing.errors() if "the same again" in line]) == 1


def test_dev_prints_a_sign_in_link_and_how_to_stop_and_all_log_lines_if_asked(
    process: Any, folder: Path, cli: Any
) -> None:
    developing = process("dev", "chat:app", "--port", "0", "--all-lines", "--no-reload")
    link = developing.line("Open http://127.0.0.1:")
    assert re.fullmatch(r"Open http://127\.0\.0\.1:\d+/#token=\S+ \(it signs you in: once, within an hour\)", link)
    developing.line("running on sqlite:///jobs.db, 4 tasks")
    developing.line("Ctrl-C stops it")
    cli("enqueue", "--app", "chat:app", "chatter", "lines=50")
    developing.logged("an error after all")
    stop(developing)
    assert len([line for line in developing.errors() if re.search(r"(line|mine) \d+", line)]) == 100
