"""mainspring prune."""

from __future__ import annotations

import json

SMALL = """
from datetime import timedelta
from mainspring import Mainspring, Retention

app = Mainspring("sqlite:///jobs.db", history_keep=0, history_days=0)

@app.task
async def add(a: int) -> int:
    return a

@app.task(retention=Retention(age=None))
async def keep() -> None:
    pass
"""


def test_prune_removes_and_counts(cli, here, inside, shop):
    here.joinpath("shop.py").write_text(SMALL)

    async def some(app):
        await app.enqueue_many([app.tasks["add"].job(n) for n in range(3)] + [app.tasks["keep"].job()])
        await app.drain()

    inside(some)
    assert cli("prune", "--app", shop).stdout == "3 finished jobs removed\n"
    (left,) = json.loads(cli("jobs", "list", "--json", "--app", shop).stdout)
    assert left["task"] == "keep"
    again = cli("prune", "--app", shop).stdout
    assert again == "nothing to remove: retention keeps every finished job of sqlite:///jobs.db\n"


def test_prune_json(cli, shop, enqueued):
    enqueued("add", "a=1")
    assert json.loads(cli("prune", "--json", "--app", shop).stdout) == {"removed": 0}


def test_prune_without_an_app_asks_for_confirmation(cli, store):
    refused = cli("prune", "--store", store, input="n\n")
    assert refused.exit_code == 1
    assert "without its tasks' own retention and its archive hook?" in refused.stderr
    assert cli("prune", "--store", store, "--yes").exit_code == 0
