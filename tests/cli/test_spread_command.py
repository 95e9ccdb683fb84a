"""mainspring schedules spread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from mainspring import every
from mainspring.cli.app_loader import load_app
from mainspring.cli.schedule_spread import histogram, spread
from mainspring.schedule.balance.distribution import Distribution, Peak
from mainspring.testing.contract.build import NOW

Command = Callable[..., Result]


@pytest.fixture
def command() -> Command:
    def call(*args: str, said: str | None = None) -> Result:
        return CliRunner().invoke(spread, [*args], input=said)

    return call


@pytest.fixture
def crowd(shop: str) -> None:
    """Three hourly schedules at the same second."""

    async def make() -> None:
        app = load_app(shop)
        async with app:
            began = app.clock.now().replace(microsecond=0)
            for name in "abc":
                task = app.tasks["sleep"]
                await app.schedules.create(name, every().hour, task, kwargs={"seconds": 0}, start_at=began)
                await app.schedules.update(name, spread=True)

    asyncio.run(make())


def test_spread_shows_ticks_by_hour(command: Command, shop: str, crowd: None) -> None:
    said = command("--app", shop).stdout.splitlines()
    assert said[0].startswith("72 ticks of 3 schedules in 24 hours; score 0.")
    assert len(said) == 26
    assert all(line.endswith(f"Z 3 {'█' * 50}") for line in said[1:25])
    assert said[25].startswith("peak: ")


def test_spread_without_ticks_has_a_hint(command: Command, shop: str) -> None:
    said = command("--app", shop)
    assert (said.exit_code, said.stdout) == (0, "")
    assert "no schedule of sqlite:///jobs.db has a tick in the next 24 hours" in said.stderr


def test_spread_json(command: Command, shop: str, crowd: None) -> None:
    found = json.loads(command("--app", shop, "--json").stdout)
    assert (found["hours"], found["total"], found["schedules"]) == ([3] * 24, 72, 3)
    assert found["peak"]["count"] >= 1


def test_rebalance_asks_for_confirmation(command: Command, shop: str, crowd: None) -> None:
    refused = command("--app", shop, "--rebalance", said="n\n")
    assert refused.exit_code == 1
    assert "2 schedules would move; score 0." in refused.stdout
    assert "move 2 schedules in sqlite:///jobs.db?" in refused.stderr
    done = command("--app", shop, "--rebalance", "--yes")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "2 schedules moved")
    again = command("--app", shop, "--rebalance")
    assert (again.exit_code, again.stdout.splitlines()[0][:22]) == (0, "0 schedules would move")
    assert "  2 schedules left alone: moved lately" in again.stdout


def test_rebalance_json(command: Command, shop: str, crowd: None) -> None:
    done = json.loads(command("--app", shop, "--rebalance", "--yes", "--json").stdout)
    assert [move["name"] for move in done["moves"]] == ["a", "b"]
    assert (done["dry_run"], done["changed"]) == (False, [])
    assert done["after"] > done["before"]


def test_histogram_bars_are_scaled_and_visible() -> None:
    hours = (1000, 1, 0, *[500] * 21)
    found = Distribution(since=NOW, schedules=1, hours=hours, minutes=(), peak=Peak(NOW, 1), score=1)
    lines = [line.split(" ", 1)[1] for line in histogram(found)]
    assert lines[:4] == [f"1,000 {'█' * 50}", "    1 █", "    0", f"  500 {'█' * 25}"]
