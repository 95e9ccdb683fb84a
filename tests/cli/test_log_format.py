"""MAINSPRING_LOG_FORMAT=json: every line of stderr is an object, with the job that it is about."""

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
def test_a_worker_logs_objects(process, shop, enqueued, more):
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


def test_the_console_names_the_job_of_a_line(process, shop, enqueued):
    id = enqueued("send", "token=kan4ri-vogel")
    one = process("worker", shop)
    assert one.logged("token=").endswith(f"WARNING shop: token=*** (send {id}, attempt 1)")
    one.signal(signal.SIGTERM)
    assert "kan4ri-vogel" not in one.end()[2]
