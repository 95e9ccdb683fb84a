"""mainspring limits."""

from __future__ import annotations

import json

import pytest

SHOP = """
from mainspring import Limit, Mainspring

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2)

@app.task(limit=Limit(running=1, by="customer"))
async def charge(customer: str) -> None: ...

@app.task(limit=Limit(rate=100, per="1m", burst=5))
async def call() -> None: ...
"""


@pytest.fixture
def limited(shop, here, inside):
    """An app with two limits, which a worker has stored."""
    here.joinpath("shop.py").write_text(SHOP)

    async def start_a_worker(app):
        async with app.worker():
            pass

    inside(start_a_worker)
    return shop


def test_limits_are_listed(cli, limited):
    table = [line.split() for line in cli("limits", "list", "--app", limited).stdout.splitlines()]
    assert table[1:] == [
        ["task:call", "any", "any", "100", "in", "1m,", "burst", "5", "0", "0"],
        ["task:charge", "1", "any", "any", "customer", "0", "0"],
    ]
    call, charge = json.loads(cli("limits", "list", "--app", limited, "--json").stdout)
    assert charge == {
        "name": "task:charge", "running": 1, "rate": None, "per": 1.0, "burst": 1, "total": None, "by": ["customer"],
        "jobs_running": 0, "keys": 0,
    }  # fmt: skip
    assert (call["rate"], call["per"], call["burst"]) == (100, 60, 5)


def test_no_limits_are_a_hint(cli, shop):
    empty = cli("limits", "list", "--app", shop)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "sqlite:///jobs.db has no limits" in empty.stderr


def test_keys_that_wait_are_shown(cli, limited):
    cli("limits", "set", "task:charge", "--running", "0", "--app", limited)
    for customer in ("ada", "ada", "bob"):
        cli("enqueue", "charge", f"customer={customer}", "--app", limited)
    table = [line.split() for line in cli("limits", "show", "task:charge", "--app", limited).stdout.splitlines()]
    assert table[1:] == [["ada", "0", "2"], ["bob", "0", "1"]]
    (bob,) = json.loads(cli("limits", "show", "task:charge", "--key", "bob", "--app", limited, "--json").stdout)
    assert bob == {"key": "bob", "running": 0, "waiting": 1, "next_at": None, "holders": []}
    assert "no job of 'task:call' runs or waits" in cli("limits", "show", "task:call", "--app", limited).stderr


def test_what_is_not_given_stays(cli, limited):
    said = cli("limits", "set", "task:call", "--total", "7", "--app", limited)
    assert said.stdout == "limit 'task:call': running any, total 7, rate 100 in 1m, burst 5\n"
    said = cli("limits", "set", "task:call", "--rate", "none", "--app", limited)
    assert said.stdout == "limit 'task:call': running any, total 7, rate any\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("task:call",), "say what to change"),
        (("task:call", "--running", "many"), "'many' is no whole number, and not 'none'"),
        (("task:none", "--running", "1"), "there is no limit 'task:none'; known: task:call, task:charge"),
        (("task:charge", "--burst", "3"), "act only with rate="),
        (("task:charge", "--running", "9999999"), "a whole number from 0 to 1,000,000"),
    ],
)
def test_bad_numbers_change_nothing(cli, limited, words, error):
    before = cli("limits", "list", "--app", limited, "--json").stdout
    refused = cli("limits", "set", *words, "--app", limited)
    assert refused.exit_code in (1, 2)
    assert error in refused.stderr
    assert cli("limits", "list", "--app", limited, "--json").stdout == before


def test_a_limit_is_removed(cli, limited):
    assert cli("limits", "remove", "task:call", "--app", limited).stdout == "limit 'task:call' is removed\n"
    again = cli("limits", "remove", "task:call", "--app", limited)
    assert again.stdout == "there was no limit 'task:call' (known: task:charge)\n"
    assert "a limit is named task:NAME" in cli("limits", "remove", "charge", "--app", limited).stderr
