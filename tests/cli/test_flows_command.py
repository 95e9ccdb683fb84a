"""mainspring flows."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

FLOWS = """
from msgspec import Struct
from mainspring import Mainspring, first

app = Mainspring("sqlite:///jobs.db", beat=0.2, lease=2)

class Check(Struct):
    ok: bool
    score: int

@app.task
async def check(order: int) -> Check:
    return Check(order > 0, order)

@app.task(queue="stock", max_retries=0)
async def reserve(item: str) -> str:
    if item == "bad":
        raise ValueError("out of stock")
    return item

@app.task(max_retries=0)
async def charge(order: int) -> str:
    from pathlib import Path
    if order == 13 and not Path("open").exists():
        raise ConnectionError("the bank is closed")
    return f"txn-{order}"

@app.task
async def ship(order: int, txn: str, items: list[str]) -> str:
    return f"{order} {txn}"

@app.task
async def refund(txn: str | None) -> None: ...

@app.flow
def fulfil(order: int, items: list[str]) -> str:
    checked = check.step(order)
    txn = charge.using(when=checked.ok & (checked.score >= 5)).step(order)
    done = ship.step(order, txn, reserve.map(items))
    refund.using(on="failure", after=done).step(txn)
    return done

@app.flow
def each(orders: list[int]) -> list[str]:
    return [charge.using(step=f"charge {order}").step(order) for order in orders]
"""

WRONG = """
@app.flow
def miswired(order: int) -> str:
    return ship.step(order, check.step(order), [])

@app.task
async def again(txn: str | None) -> str: ...
@app.task
async def pair(one: str, other: str) -> str: ...

@app.flow
def never(order: int) -> str:
    txn = charge.step(order)
    return pair.step(txn, again.using(on="failure").step(txn))

@app.flow
def stray(order: int) -> str:
    check.step(order)
    return charge.step(order)
"""


@pytest.fixture
def shop(here):
    here.joinpath("flowshop.py").write_text(FLOWS)
    return "flowshop:app"


def enqueued(cli, shop, order=7, items='["tea","cups"]'):
    return cli("enqueue", "fulfil", f"order={order}", f"items:={items}", "--app", shop).stdout.split()[0]


ASKING = """
from mainspring import signal

@app.flow
def ask() -> int:
    return signal("size", int, timeout="3d", default=5)
"""


# lists


def test_flows_list_shows_how_far_they_are(cli, shop, work, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert "no flow in sqlite:///jobs.db fits" in cli("flows", "list", "--app", shop).stderr
    done = enqueued(cli, shop)
    work()
    dead = enqueued(cli, shop, 13)
    work()
    pending = enqueued(cli, shop)
    head, *lines = cli("flows", "list", "--app", shop).stdout.splitlines()
    assert head.split() == ["ID", "STATE", "FLOW", "STEPS", "DEAD", "ITEMS", "MADE"]
    wanted = [
        [pending, "○", "pending", "fulfil"],
        [dead, "✗", "dead", "fulfil", "5/5", "1", "2/2"],
        [done, "✓", "completed", "fulfil", "5/5", "2/2"],
    ]
    assert [line.split()[: len(want)] for line, want in zip(lines, wanted, strict=True)] == wanted
    found = json.loads(cli("flows", "list", "--json", "--app", shop, "--state", "dead").stdout)
    assert [(one["id"], one["flow"]["done"], one["flow"]["dead"]) for one in found] == [(dead, 5, 1)]
    assert json.loads(cli("flows", "list", "--json", "--open", "--app", shop).stdout)[0]["flow"] is None
    page = cli("flows", "list", "--limit", "1", "--app", shop)
    after = re.search(r"--after (\S+)", page.stderr)
    assert after is not None
    assert dead in cli("flows", "list", "--limit", "1", "--after", after[1], "--app", shop).stdout


def test_flows_list_of_a_store_names_flows_by_task(cli, shop, store, work):
    id = enqueued(cli, shop)
    work()
    assert id in cli("flows", "list", "--task", "fulfil", "--store", store).stdout


# one flow


def test_flows_show_prints_the_steps_as_a_tree(cli, shop, work, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    id = enqueued(cli, shop, 13, '["tea","bad"]')
    work()
    shown = cli("flows", "show", id, "--app", shop)
    assert shown.exit_code == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == f"✗ dead  fulfil  {id}"
    assert "  steps    5 of 5 have ended" in lines
    table = [line.rstrip() for line in lines[lines.index("") + 1 :]]
    assert table[0].split() == ["STEP", "STATE", "TOOK", "JOB", "ABOUT"]
    steps = {" ".join(re.findall(r"^[├└│─ ]*\w+", line)): line for line in table[1:6]}
    assert list(steps) == ["check", "└─ charge", "   └─ ship", "      └─ refund", "reserve"]
    assert "✓ completed" in steps["check"]
    assert steps["└─ charge"].endswith("ConnectionError: the bank is closed")
    assert "– not run" in steps["   └─ ship"]
    assert "also after reserve" in steps["   └─ ship"]
    assert "✗ dead" in steps["reserve"]
    assert steps["reserve"].endswith("2 of 2 items, 1 dead")
    assert any("ship was not run: charge, reserve failed" in line for line in table)


def test_flows_show_json_has_every_step(cli, shop, work):
    id = enqueued(cli, shop, 3)
    work()
    found = json.loads(cli("flows", "show", id, "--json", "--app", shop).stdout)
    assert (found["id"], found["state"]) == (id, "completed")
    assert {step["name"]: step["state"] for step in found["steps"]}["charge"] == "skipped"
    assert [reason["code"] for reason in found["why"]] == ["step_skipped", "step_skipped", "step_skipped"]


def test_flows_show_refuses_what_is_no_flow(cli, shop):
    id = cli("enqueue", "charge", "order=1", "--app", shop).stdout.split()[0]
    refused = cli("flows", "show", id, "--app", shop)
    assert refused.exit_code == 1
    assert "has no steps: it is no flow" in refused.stderr
    pending = enqueued(cli, shop)
    assert "it was not planned yet" in cli("flows", "show", pending, "--app", shop).stderr


# changes


def test_flows_cancel_and_retry(cli, shop, here, work):
    id = enqueued(cli, shop, 13)
    work()
    here.joinpath("open").write_text("")
    retried = cli("flows", "retry", id, "nope", "--app", shop)
    assert retried.stdout == f"flow {id} (fulfil) goes on\n"
    assert (retried.exit_code, "there is no job 'nope'" in retried.stderr) == (1, True)
    work()
    assert json.loads(cli("flows", "show", id, "--json", "--app", shop).stdout)["state"] == "completed"
    other = enqueued(cli, shop)
    done = cli("flows", "cancel", other, "--reason", "no longer wanted", "--json", "--app", shop)
    assert json.loads(done.stdout) == {"action": "cancel", "done": [other], "refused": []}
    refused = cli("flows", "cancel", id, "--app", shop)
    assert refused.exit_code == 1
    assert "cannot cancel job" in refused.stderr


def test_flows_skip_lets_a_flow_do_without_a_step(cli, shop, work):
    id = enqueued(cli, shop, 13)
    work()
    skipped = cli("flows", "skip", id, "charge", "--reason", "in cash", "--app", shop)
    assert skipped.stdout == "step charge is skipped\n", skipped.stderr
    work()
    found = json.loads(cli("flows", "show", id, "--json", "--app", shop).stdout)
    assert {step["name"]: step["note"] for step in found["steps"]}["charge"] == "in cash"
    assert "in cash" in cli("flows", "show", id, "--app", shop).stdout
    other = enqueued(cli, shop, 13)
    work()
    told = json.loads(cli("flows", "skip", other, "charge", "--json", "--app", shop).stdout)
    assert (told["name"], told["state"], told["skipped_because"]) == ("charge", "skipped", "operator")
    refused = cli("flows", "skip", id, "check", "--app", shop)
    assert refused.exit_code == 1
    assert "check" in refused.stderr


def test_flows_replay_makes_a_new_flow(cli, shop, here, work):
    id = enqueued(cli, shop, 13)
    work()
    here.joinpath("open").write_text("")
    made = cli("flows", "replay", id, "--from", "charge", "--app", shop).stdout.strip()
    told = json.loads(cli("flows", "replay", id, "--args", '{"order": 14}', "--json", "--app", shop).stdout)
    assert told["of"] == id
    work()
    for new in (made, told["id"]):
        found = json.loads(cli("flows", "show", new, "--json", "--app", shop).stdout)
        assert (found["state"], found["metadata"]["replay_of"]) == ("completed", id)
    assert id in cli("flows", "show", made, "--app", shop).stdout
    for wrong, why in ((("--from", "nope"), "no step 'nope'"), (("--args", "[1]"), "arguments by name")):
        refused = cli("flows", "replay", id, *wrong, "--app", shop)
        assert refused.exit_code != 0
        assert why in refused.stderr


def test_flows_signal_gives_a_signal_its_value(cli, shop, here, work):
    here.joinpath("flowshop.py").write_text(FLOWS + ASKING)
    id = cli("enqueue", "ask", "--app", shop).stdout.split()[0]
    work()
    shown = cli("flows", "show", id, "--app", shop).stdout
    assert "waits for a signal" in shown
    assert "the signal 'size' has not been given; at" in " ".join(shown.split())
    for args, error in ((["--value", "yes"], "is no JSON"), (["--value", '"yes"'], "does not fit")):
        refused = cli("flows", "signal", id, "size", *args, "--app", shop)
        assert refused.exit_code == 1
        assert error in refused.stderr
    given = cli("flows", "signal", id, "size", "--value", "7", "--delivery", "m-1", "--app", shop)
    assert given.stdout == f"signal size is given to {id}\n", given.stderr
    again = cli("flows", "signal", id, "size", "--value", "8", "--delivery", "m-1", "--json", "--app", shop)
    assert json.loads(again.stdout) == {"id": id, "signal": "size"}
    work()
    assert json.loads(cli("flows", "show", id, "--json", "--app", shop).stdout)["state"] == "completed"
    twice = cli("flows", "signal", id, "size", "--value", "8", "--app", shop)
    assert (twice.exit_code, "given already" in twice.stderr) == (1, True)


# pictures


def test_flows_draw_shows_a_flow_before_it_has_run(cli, shop, here):
    drawn = cli("flows", "draw", shop, "fulfil")
    assert drawn.exit_code == 0, drawn.stderr
    assert drawn.stdout.splitlines() == [
        "check",
        "└─ charge        when check.ok and check.score >= 5",
        "   └─ ship       also after reserve",
        "      └─ refund  on failure, also after charge",
        "reserve          for each item",
    ]
    assert not here.joinpath("jobs.db").exists()
    svg = cli("flows", "draw", "fulfil", "--app", shop, "--format", "svg").stdout
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    mermaid = cli("flows", "draw", "fulfil", "--app", shop, "--format", "mermaid").stdout
    assert mermaid.startswith("flowchart LR\n")


def test_flows_draw_takes_the_input_that_the_steps_depend_on(cli, shop):
    refused = cli("flows", "draw", shop, "each")
    assert refused.exit_code == 1
    assert "flow 'each': its steps depend on orders; give --input JSON" in refused.stderr
    for given in ('{"orders": [1, 2]}', "[[1, 2]]"):
        drawn = cli("flows", "draw", shop, "each", "--input", given)
        assert drawn.stdout == "charge 1  task charge\ncharge 2  task charge\n"
    wrong = cli("flows", "draw", shop, "each", "--input", '{"order": 1}')
    assert wrong.exit_code == 1
    assert "argument 'order'" in wrong.stderr
    assert (
        "there is no flow 'eech' in this app; did you mean 'each'?"
        in cli("flows", "draw", shop, "eech", "--input", "{}").stderr
    )


def test_flows_draw_of_an_id_shows_the_flow_as_it_is(cli, shop, work):
    id = enqueued(cli, shop, 13)
    work()
    assert "✗ dead" in cli("flows", "draw", id, "--app", shop).stdout
    svg = cli("flows", "draw", id, "--format", "svg", "--app", shop).stdout
    assert 'class="node dead"' in svg


# checks


def test_flows_check_reports_what_is_wrong(cli, shop, here):
    checked = cli("flows", "check", shop)
    assert checked.exit_code == 0, checked.stderr
    assert checked.stdout == "✓ fulfil: 5 steps\n· each: not checked, its steps depend on orders\n"
    here.joinpath("wrongshop.py").write_text(FLOWS + WRONG)
    checked = cli("flows", "check", "--app", "wrongshop:app")
    assert checked.exit_code == 1
    assert checked.stdout.splitlines()[2:] == [
        "✗ miswired: step 'ship': argument 'txn' takes str, and check is Check",
        "✗ never: 3 steps",
        "    pair never runs: it needs the value of again, which runs only if a step has failed that must complete",
        "✓ stray: 2 steps",
        "    nothing reads the value of check",
    ]
    assert "2 of 5 flows are wrong: miswired, never" in checked.stderr
    strict = cli("flows", "check", "wrongshop:app", "--strict", "--json")
    assert strict.exit_code == 1
    assert "3 of 5 flows are wrong" in strict.stderr
    assert json.loads(strict.stdout)[-1] == {
        "flow": "stray",
        "steps": 2,
        "error": None,
        "needs_input": None,
        "never_run": {},
        "unread": ["check"],
    }
