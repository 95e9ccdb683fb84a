"""MAINSPRING_LOG_FORMAT=json: every line of stderr is an object that names its job."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

SHOP = """
import logging
from mainspring import Context, Mainspring

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2)

@app.task(max_retries=0)
async def send(ctx: Context, token: str) -> None:
    logging.getLogger("shop").warning("token=%s", token)
    ctx.log.info("begun")
    raise ValueError("bad password=" + token)
"""


@pytest.fixture
def shop(here: Path) -> str:
    here.joinpath("shop.py").write_text(SHOP)
    return "shop:app"


@pytest.mark.parametrize("more", [(), ("--workers", "2")], ids=["one", "several"])
def test_json_log_format_writes_one_object_per_line_with_its_job(process, shop, enqueued, more):
    id = enqueued("send", "token=kan4ri-vogel")
    one = process("worker", shop, *more, MAINSPRING_LOG_FORMAT="json")
    one.logged('"message": "dead send')
    one.signal(signal.SIGTERM)
    code, _, errors = one.end()
    assert code == 0
    assert "kan4ri-vogel" not in errors
    lines = [json.loads(line) for line in errors.splitlines()]
    about = {line["message"]: line for line in lines if line.get("job_id") == id}
    assert {"token=***", "begun", f"dead send {id}, attempt 1: ValueError: bad password=***"} <= set(about)
    for line in about.values():
        assert (line["task"], line["attempt"], line["queue"]) == ("send", 1, "default")
        assert line["worker"]
        assert line.get("process") in ((1, 2) if more else (None,))


def test_console_log_line_names_its_job(process, shop, enqueued):
    id = enqueued("send", "token=kan4ri-vogel")
    one = process("worker", shop)
    assert one.logged("token=").endswith(f"WARNING shop: token=*** (send {id}, attempt 1)")
    one.signal(signal.SIGTERM)
    assert "kan4ri-vogel" not in one.end()[2]


FORGED = "2026-11-16 10:00:00,000 INFO    mainspring: all is well"
FORGER = r"""
import logging
from mainspring import Mainspring

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2)

@app.task(max_retries=0)
async def send(words: str) -> None:
    try:
        raise ValueError(f"no\n{words}\r\n{words}")
    except ValueError:
        logging.getLogger("shop").exception("failed\n%s", words)
        raise
"""


def test_job_messages_and_errors_cannot_forge_console_log_lines(process, here, enqueued, shop):
    here.joinpath("shop.py").write_text(FORGER)
    enqueued("send", f"words={FORGED}")
    one = process("worker", shop)
    one.logged("dead send")
    one.signal(signal.SIGTERM)
    lines = one.end()[2].splitlines()
    assert any(rf"shop: failed\n{FORGED}" in line for line in lines)
    assert any(line.endswith(FORGED) for line in lines)  # a line of the stack trace
    assert [line for line in lines if line.startswith(FORGED[:19])] == []
