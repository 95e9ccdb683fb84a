"""mainspring jobs output."""

from __future__ import annotations

import json
import signal

import pytest

SHOP = """
from typing import Any
from mainspring import Context, Mainspring, Retry

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2)

@app.task
async def stream(ctx: Context, chunks: list[Any], times: int = 1, fail: bool = False) -> None:
    for chunk in chunks * times:
        await ctx.write(chunk)
    if fail and ctx.job.runs == 1:
        raise Retry(0)
"""


@pytest.fixture
def shop(here):
    here.joinpath("shop.py").write_text(SHOP)
    return "shop:app"


@pytest.fixture
def written(enqueued, work):
    """A job that has written texts and other values."""
    id = enqueued("stream", "chunks:=" + json.dumps(["one ", "two", {"three": 3}, None, "fo", "ur"]))
    work()
    return id


def test_texts_follow_each_other_and_other_values_are_lines(cli, shop, written):
    assert cli("jobs", "output", written, "--app", shop).stdout == 'one two\n{"three":3}\nnull\nfour\n'
    assert cli("jobs", "output", written, "--after", "4", "--app", shop).stdout == "four\n"


def test_output_json(cli, shop, written):
    chunks = json.loads(cli("jobs", "output", written, "--json", "--app", shop).stdout)
    assert [chunk["value"] for chunk in chunks] == ["one ", "two", {"three": 3}, None, "fo", "ur"]
    assert (chunks[2]["n"], chunks[2]["run"], chunks[2]["full"], chunks[2]["at"][-1]) == (3, 1, False, "Z")


def test_output_of_each_run_and_of_one(cli, shop, enqueued, process):
    id = enqueued("stream", 'chunks:=["a","b"]', "fail=true")
    following = process("jobs", "output", id, "-f", "--app", shop)
    worker = process("worker", shop)
    code, shown, errors = following.end()
    assert (code, shown.splitlines()) == (0, ["ab", "ab"])
    assert errors.splitlines() == ["run 2 begins", f"job {id} is completed"]
    worker.signal(signal.SIGTERM)
    assert worker.end()[0] == 0
    assert cli("jobs", "output", id, "--run", "1", "--app", shop).output == "ab\n"
    assert [json.loads(line)["n"] for line in lines(cli, shop, id, "--run", "2")] == [3, 4]


def lines(cli, shop, id, *more):
    return cli("jobs", "output", id, "--follow", "--json", *more, "--app", shop).stdout.splitlines()


def test_a_full_output_says_so(cli, shop, enqueued, work):
    id = enqueued("stream", "chunks:=" + json.dumps(["x" * 60_000]), "times=18")
    work()
    shown = cli("jobs", "output", id, "--app", shop)
    assert shown.stdout == "x" * 60_000 * 17 + "\n"
    assert shown.stderr == "the output was full: what the run wrote after this is not kept\n"


def test_output_cannot_control_the_terminal(cli, shop, enqueued, work):
    id = enqueued("stream", "chunks:=" + json.dumps(["\x1b[2J", {"a": "\x1b[2J"}]))
    work()
    assert cli("jobs", "output", id, "--app", shop).stdout == '\\x1b[2J\n{"a":"\\u001b[2J"}\n'


@pytest.mark.parametrize("more", [[], ["--follow"], ["--json"]])
def test_output_of_an_unknown_job_is_an_error(cli, shop, more):
    refused = cli("jobs", "output", "nope", *more, "--app", shop)
    assert refused.exit_code == 1
    assert "there is no job 'nope'" in refused.stderr
