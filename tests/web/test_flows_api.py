"""/flows: lists, one flow with its steps and picture, steps, and the items of maps."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from http_client import Client
from msgspec import Struct

from mainspring import Mainspring, Skip
from mainspring.api.routes import flows as routes
from mainspring.testing import VirtualClock


class Check(Struct):
    ok: bool
    score: int
    token: str = "tok-1"


@pytest.fixture
def spring(spring: Mainspring) -> Mainspring:
    app = spring

    @app.task(queue="stock", max_retries=0)
    async def reserve(item: str, order: int) -> str:
        if item == "bad":
            raise ValueError("password=hush is out of stock")
        return f"{item} for {order}"

    @app.task
    async def check(order: int) -> Check:
        return Check(order > 0, order)

    @app.task(max_retries=0)
    async def charge(order: int) -> str:
        if order == 13:
            raise ConnectionError("password=hush")
        return f"txn-{order}"

    @app.task
    async def ship(order: int, txn: str, items: list[str]) -> str:
        return f"{order} {txn} {len(items)}"

    @app.task
    async def refund(order: int, txn: str | None) -> None: ...

    @app.flow(queue="flows")
    def fulfil(order: int, items: list[str]) -> str:
        checked = check.step(order)
        reserved = reserve.map(items, order)
        txn = charge.using(when=checked.ok & (checked.score >= 5)).step(order)
        done = ship.step(order, txn, reserved)
        refund.using(on="failure", after=done).step(order, txn)
        return done

    @app.flow
    def both(orders: list[int]) -> list[str]:
        return [fulfil.using(step=f"part/{order}").step(order, ["tea"]) for order in orders]

    return app


async def started(spring: Mainspring, order: int = 7, items: tuple[str, ...] = ("tea", "cups")) -> str:
    return (await spring.tasks["fulfil"].enqueue(order, list(items))).id


async def ended(spring: Mainspring, *args: Any) -> str:
    id = await started(spring, *args)
    await spring.drain()
    return id


# one flow


async def test_a_completed_flow_is_shown_with_its_steps_and_graph(spring: Mainspring, client: Client) -> None:
    id = await ended(spring)
    async with client("viewer") as http:
        flow = (await http.get(f"/flows/{id}")).json()
        assert flow["job"] == (await http.get(f"/jobs/{id}")).json()
    assert (flow["stopping"], flow["parent"]) == (False, None)
    assert flow["planned_at"] == flow["ended_at"] == flow["job"]["finished_at"]
    steps = {step["name"]: step for step in flow["steps"]}
    assert [(name, step["status"], step["kind"]) for name, step in steps.items()] == [
        ("check", "completed", "step"),
        ("reserve", "completed", "map"),
        ("charge", "completed", "step"),
        ("ship", "completed", "step"),
        ("refund", "skipped", "step"),
    ]
    assert steps["reserve"]["items"] == {
        "total": 2, "made": 2, "completed": 2, "dead": 0, "cancelled": 0, "open": 0
    }  # fmt: skip
    assert (steps["reserve"]["queue"], steps["reserve"]["job_id"], steps["reserve"]["attempts"]) == (
        "stock",
        None,
        None,
    )
    assert steps["charge"]["when"] == "check.ok and check.score >= 5"
    assert (steps["charge"]["value"], steps["charge"]["attempts"], steps["charge"]["job_state"]) == (
        '"txn-7"', 1, "completed"
    )  # fmt: skip
    assert (steps["ship"]["needs"], steps["ship"]["on"]) == (["reserve", "charge"], "success")
    assert (steps["refund"]["reason"], steps["refund"]["skipped_because"], steps["refund"]["on"]) == (
        "refund was skipped: it runs after a failure, and there was none", "not-needed", "failure"
    )  # fmt: skip
    graph = flow["graph"]
    assert [node["id"] for node in graph["nodes"]] == list(steps)
    assert [(edge["from"], edge["to"], edge["kind"], edge["label"]) for edge in graph["edges"]] == [
        ("check", "charge", "when", "check.ok and check.score >= 5"),
        ("reserve", "ship", "value", None),
        ("charge", "ship", "value", None),
        ("charge", "refund", "failure", "on failure"),
        ("ship", "refund", "failure", None),
    ]
    assert all(0 <= x <= graph["width"] for edge in graph["edges"] for x, _ in edge["points"])


async def test_a_flow_is_shown_before_it_is_planned_and_while_it_waits(spring: Mainspring, client: Client) -> None:
    id = await started(spring)
    async with client("viewer") as http:
        flow = (await http.get(f"/flows/{id}")).json()
        assert (flow["job"]["state"], flow["steps"], flow["graph"], flow["planned_at"]) == ("pending", [], None, None)
        for path in ("graph.svg", "graph.mmd", "steps/check"):
            answer = await http.get(f"/flows/{id}/{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "flow_not_found"), path
        await spring.drain(queues=["flows"])
        flow = (await http.get(f"/flows/{id}")).json()
        assert flow["job"]["shown"] == "waiting"
        steps = {step["name"]: step for step in flow["steps"]}
        assert (steps["check"]["status"], steps["reserve"]["status"]) == ("pending", "running")
        assert steps["ship"]["reason"] == "waits for reserve, charge"
        await spring.flows.cancel(id, "password=hush")
        flow = (await http.get(f"/flows/{id}")).json()
    assert (flow["stopping"], flow["job"]["cancel_reason"]) == (True, "password=***")


async def test_dead_steps_say_why_with_secrets_masked(spring: Mainspring, client: Client) -> None:
    id = await ended(spring, 13)
    async with client("viewer") as http:
        text = (await http.get(f"/flows/{id}")).text
        steps = {step["name"]: step for step in (await http.get(f"/flows/{id}")).json()["steps"]}
        why = (await http.get(f"/flows/{id}/why")).json()
    assert "hush" not in text + str(why)
    assert (steps["charge"]["status"], steps["ship"]["status"]) == ("dead", "not_run")
    assert steps["charge"]["failure"]["message"] == "password=***"
    assert "stack" not in steps["charge"]["failure"]
    assert steps["ship"]["reason"] == "ship was not run: charge failed"
    assert [reason["code"] for reason in why] == ["final", "step_not_run"]


async def test_user_data_of_flows_is_hidden_from_viewers(spring: Mainspring, client: Client) -> None:
    spring.configure(hide_payloads=True)
    id, skipped = await ended(spring), await ended(spring, 3)
    async with client("viewer") as http:
        text = (await http.get(f"/flows/{id}")).text + (await http.get(f"/flows/{id}/steps/charge")).text
        text += (await http.get(f"/flows/{skipped}")).text + (await http.get(f"/flows/{skipped}/why")).text
        text += (await http.get(f"/flows/{id}/steps/reserve/items")).text
        text += (await http.get(f"/flows/{id}/graph.svg")).text + (await http.get(f"/flows/{id}/graph.mmd")).text
    assert "txn-7" not in text
    assert "score" not in text
    async with client("operator") as http:
        assert "check.score" in (await http.get(f"/flows/{id}/graph.svg")).text


async def test_a_flow_in_a_step_names_its_parent(spring: Mainspring, client: Client) -> None:
    outer = (await spring.tasks["both"].enqueue([7])).id
    await spring.drain()
    async with client("viewer") as http:
        (step,) = (await http.get(f"/flows/{outer}")).json()["steps"]
        assert (step["kind"], step["status"], step["name"]) == ("flow", "completed", "part/7")
        inner = (await http.get(f"/flows/{step['job_id']}")).json()
        assert inner["parent"] == {"flow": outer, "step": "part/7"}
        one = (await http.get(f"/flows/{outer}/steps/part%2F7")).json()
    assert one["job"]["id"] == step["job_id"]
    assert {key: value for key, value in one.items() if key != "job"} == step


async def test_what_is_no_flow_is_404(spring: Mainspring, client: Client) -> None:
    job, flow = (await spring.tasks["send"].enqueue("a")).id, await ended(spring)
    async with client("viewer") as http:
        for path, code in {
            "nope": "job_not_found",
            job: "flow_not_found",
            f"{job}/why": "flow_not_found",
            f"{job}/graph.svg": "flow_not_found",
            f"{flow}/steps/chekc": "flow_not_found",
            f"{flow}/steps/chekc/items": "flow_not_found",
        }.items():
            answer = await http.get(f"/flows/{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, code), path
        answer = await http.get(f"/flows/{flow}/steps/check/items")
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_parameter")


async def test_the_reason_of_a_dead_map_is_masked(spring: Mainspring, client: Client) -> None:
    @spring.task
    async def odd() -> Any:
        return {"password": "hush"}

    @spring.flow
    def maps() -> None:
        spring.tasks["reserve"].map(odd.step(), 1)

    id = (await spring.tasks["maps"].enqueue()).id
    await spring.drain()
    async with client("viewer") as http:
        step = (await http.get(f"/flows/{id}")).json()["steps"][1]
    assert step["status"] == "dead"
    assert "hush" not in str(step)
    assert step["reason"]


# items


async def test_items_of_a_map_are_listed_in_pages(spring: Mainspring, client: Client) -> None:
    id = await ended(spring, 7, ("a", "bad", "c", "bad", "e"))
    async with client("viewer") as http:
        path = f"/flows/{id}/steps/reserve/items"
        first = (await http.get(f"{path}?limit=3")).json()
        assert [(item["index"], item["state"]) for item in first["items"]] == [
            (0, "completed"), (1, "dead"), (2, "completed")
        ]  # fmt: skip
        rest = (await http.get(f"{path}?limit=3&after={first['next']}")).json()
        assert ([item["index"] for item in rest["items"]], rest["next"]) == ([3, 4], None)
        dead = (await http.get(f"{path}?state=dead&limit=1")).json()
        assert [item["index"] for item in dead["items"]] == [1]
        dead = (await http.get(f"{path}?state=dead&limit=5&after={dead['next']}")).json()
        assert ([item["index"] for item in dead["items"]], dead["next"]) == ([3], None)
        assert (await http.get(f"{path}?after=-2")).status_code == 400
        items = (await http.get(f"/flows/{id}")).json()["steps"][1]["items"]
    assert items == {"total": 5, "made": 5, "completed": 3, "dead": 2, "cancelled": 0, "open": 0}


async def test_no_item_is_left_out_behind_a_full_page(spring: Mainspring, client: Client) -> None:
    id = await ended(spring, 7, ("a", "bad", "c", "d"))
    async with client("viewer") as http:
        path = f"/flows/{id}/steps/reserve/items?state=completed&limit=2"
        page = (await http.get(path)).json()
        assert ([item["index"] for item in page["items"]], page["next"]) == ([0, 2], 2)
        page = (await http.get(f"{path}&after=2")).json()
    assert [item["index"] for item in page["items"]] == [3]


async def test_a_search_for_items_looks_at_a_bounded_number(
    spring: Mainspring, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MAX_SCANNED_PAGES", 2)
    id = await ended(spring, 7, ("a", "b", "c", "d", "bad"))
    async with client("viewer") as http:
        path = f"/flows/{id}/steps/reserve/items?state=dead&limit=2"
        page = (await http.get(path)).json()
        assert page == {"items": [], "next": 3}
        page = (await http.get(f"{path}&after=3")).json()
    assert ([item["index"] for item in page["items"]], page["next"]) == ([4], None)


# lists


async def test_flows_are_listed_with_how_far_they_are(spring: Mainspring, client: Client, clock: VirtualClock) -> None:
    done = await ended(spring, 7)
    clock.advance(seconds=1)
    dead = await ended(spring, 13)
    clock.advance(seconds=1)
    await spring.tasks["send"].enqueue("a")
    waiting = await started(spring)
    await spring.drain(queues=["flows"])
    clock.advance(seconds=1)
    pending = await started(spring)
    async with client("viewer") as http:
        items = (await http.get("/flows")).json()["items"]
        assert [(item["id"], item["shown"]) for item in items] == [
            (pending, "pending"), (waiting, "waiting"), (dead, "dead"), (done, "completed")
        ]  # fmt: skip
        assert [item["flow"] for item in items] == [
            None,
            {"steps": 5, "done": 0, "dead": 0, "running": 2, "items": {"made": 2, "ended": 0}},
            {"steps": 5, "done": 5, "dead": 1, "running": 0, "items": {"made": 2, "ended": 2}},
            {"steps": 5, "done": 5, "dead": 0, "running": 0, "items": {"made": 2, "ended": 2}},
        ]

        async def listed(query: str) -> list[str]:
            return [item["id"] for item in (await http.get(f"/flows?{query}")).json()["items"]]

        assert await listed("open=true") == [pending, waiting]
        assert await listed("open=true&state=waiting&state=dead") == [waiting]
        assert await listed("state=dead") == [dead]
        assert await listed("task=both") == []
        page = (await http.get("/flows?limit=3")).json()
        assert await listed(f"after={page['next']}") == [done]
        assert (await http.get("/flows?limit=0")).status_code == 400
        assert (await http.get("/flows?queue=mail")).status_code == 400
        answer = await http.get("/flows?task=ship")
        assert answer.status_code == 400
        assert "task 'ship' is no flow" in answer.json()["detail"]


# pictures


async def test_a_flow_is_drawn_as_svg_and_as_mermaid(spring: Mainspring, client: Client) -> None:
    @spring.task
    async def odd(text: str) -> str:
        raise Skip

    @spring.flow
    def strange() -> None:
        odd.using(step='<script>alert("1")</script>').step("a")

    id = (await spring.tasks["strange"].enqueue()).id
    await spring.drain()
    async with client("viewer") as http:
        answer = await http.get(f"/flows/{id}/graph.svg")
        mermaid = await http.get(f"/flows/{id}/graph.mmd")
    assert answer.headers["Content-Type"] == "image/svg+xml"
    assert answer.headers["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    )
    root = ElementTree.fromstring(answer.text)
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert any('<script>alert("1")' in (one.text or "") for one in root.iter())
    assert mermaid.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert mermaid.text.startswith("flowchart LR\n")
    assert "<script" not in mermaid.text


# shapes


async def test_a_flow_is_drawn_without_an_input(spring: Mainspring, client: Client) -> None:
    async with client("viewer") as http:
        shape = (await http.get("/flows/shapes/fulfil")).json()
        assert shape["task"] == "fulfil"
        assert [(step["name"], step["kind"], step["needs"], step["on"]) for step in shape["steps"]] == [
            ("check", "step", [], "success"),
            ("reserve", "map", [], "success"),
            ("charge", "step", ["check"], "success"),
            ("ship", "step", ["reserve", "charge"], "success"),
            ("refund", "step", ["charge", "ship"], "failure"),
        ]
        assert shape["steps"][2]["when"] == "check.ok and check.score >= 5"
        assert [node["id"] for node in shape["graph"]["nodes"]] == [step["name"] for step in shape["steps"]]
        answer = await http.get("/flows/shapes/both")
        assert (answer.status_code, answer.json()["code"]) == (409, "bad_flow")
        assert "its steps depend on orders" in answer.json()["detail"]
        for name in ("send", "fulfill"):
            answer = await http.get(f"/flows/shapes/{name}")
            assert (answer.status_code, answer.json()["code"]) == (404, "flow_not_found")
        assert "did you mean 'fulfil'?" in answer.json()["detail"]


async def test_an_error_of_a_function_that_plans_is_masked(spring: Mainspring, client: Client) -> None:
    @spring.flow
    def fails() -> None:
        raise ValueError("password=hush")

    async with client("viewer") as http:
        answer = await http.get("/flows/shapes/fails")
    assert answer.status_code == 409
    assert answer.json()["detail"].endswith("its function raises ValueError without an input: password=***")
