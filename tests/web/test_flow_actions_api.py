"""POST /flows with plans as JSON, and the actions on flows."""

from __future__ import annotations

from typing import Any

import pytest
from http_client import ORIGIN, Client, browser
from msgspec import Struct

from mainspring import AuditFilter, Mainspring, signal

PLAN: dict[str, Any] = {
    "name": "import",
    "steps": [
        {"name": "last", "task": "total", "args": {"parts": {"$step": "each"}}, "after": ["greet"]},
        {"name": "each", "task": "double", "map": {"over": [1, 2, 3]}},
        {"name": "greet", "task": "send", "args": {"to": "ada"}, "options": {"priority": 5}},
    ],
    "result": {"$step": "last"},
}


class Approval(Struct):
    ok: bool


@pytest.fixture
def spring(spring: Mainspring) -> Mainspring:
    @spring.task
    async def double(n: int) -> int:
        return 2 * n

    @spring.task
    async def total(parts: list[int]) -> int:
        return sum(parts)

    @spring.task(max_retries=0)
    async def pay(broken: list[bool]) -> str:
        if paid["broken"]:
            raise ConnectionError("the bank is closed")
        return "paid"

    paid = {"broken": True}

    @spring.task
    async def mend() -> None:
        paid["broken"] = False

    @spring.flow
    def buy() -> str:
        return pay.step([True])

    return spring


# plans


async def test_signals_are_given(spring: Mainspring, client: Client) -> None:
    @spring.flow
    def ask() -> Approval:
        return signal("approval", Approval)

    id = (await ask.enqueue()).id
    await spring.drain()
    async with client("operator") as http:
        for path, body, status, code in (
            (f"{id}/signals/aproval", {"value": 1}, 404, "signal_unknown"),
            ("none/signals/approval", {"value": 1}, 404, "job_not_found"),
            (f"{id}/signals/approval", {"value": {"ok": "yes"}}, 422, "bad_input"),
            (f"{id}/signals/approval", {"values": 1}, 422, "invalid"),
        ):
            refused = await http.post(f"/flows/{path}", json=body)
            assert (refused.status_code, refused.json()["code"]) == (status, code)
        (step,) = (await http.get(f"/flows/{id}")).json()["steps"]
        assert (step["kind"], step["task"], step["status"], step["signal"]["waits"]) == ("signal", "", "waiting", True)
        assert step["signal"]["schema"]["$ref"] == "#/$defs/Approval"
        for key, status in (("m-1", 202), ("m-1", 202), ("m-2", 409)):
            answer = await http.post(
                f"/flows/{id}/signals/approval", json={"value": {"ok": True}}, headers={"Idempotency-Key": key}
            )
            assert answer.status_code == status
        assert answer.json()["code"] == "signal_twice"
        await spring.drain()
        flow = (await http.get(f"/flows/{id}")).json()
        assert (flow["job"]["state"], flow["steps"][0]["value"]) == ("completed", '{"ok":true}')
        other = (await spring.tasks["mend"].enqueue()).id
        assert (await http.post(f"/flows/{other}/signals/any")).json() == {"id": other, "signal": "any"}
        await spring.drain()
        late = await http.post(f"/flows/{other}/signals/more")
        assert (late.status_code, late.json()["code"]) == (410, "signal_late")
    entries = await spring.audit.list(AuditFilter(action="flows.signal"))
    assert {(entry.target, entry.who.partition("-")[0]) for entry in entries} >= {
        (other, "key:operator"), (id, "key:operator")
    }  # fmt: skip


async def test_a_plan_is_enqueued_and_runs(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        answer = await http.post("/flows", json={**PLAN, "unique_key": "import:7", "tags": ["night"]})
        assert (answer.status_code, answer.json()["status"]) == (201, "new")
        id = answer.json()["id"]
        assert answer.headers["Location"] == f"flows/{id}"
        again = await http.post("/flows", json={**PLAN, "unique_key": "import:7"})
        assert (again.status_code, again.json()) == (200, {"id": id, "status": "duplicate", "duplicate": True})
        await spring.drain()
        flow = (await http.get(f"/flows/{id}")).json()
        listed = (await http.get("/flows")).json()["items"]
    assert (flow["job"]["state"], flow["job"]["result"], flow["job"]["tags"]) == ("completed", 12, ["night"])
    assert [step["name"] for step in flow["steps"]] == ["each", "greet", "last"]
    assert flow["job"]["metadata"] == {"flow": "import"}
    assert [item["id"] for item in listed] == [id]


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"steps": []}, "invalid", "length >= 1"),
        ({"stepz": []}, "invalid", "stepz"),
        ({"steps": [{"name": "a", "task": "send", "argz": {}}]}, "invalid", "argz"),
        ({"steps": [{"name": "a", "task": "sned"}]}, "bad_flow", "'sned' is registered in this app; did you mean"),
        ({"steps": [{"name": "a", "task": "send"}]}, "bad_flow", "step 'a': argument 'to' of task 'send' is missing"),
        ({"steps": [{"name": "a", "task": "mend"}] * 2}, "bad_flow", "two steps are named 'a'"),
        ({"steps": [{"name": "a", "task": "mend", "after": ["b"]}]}, "bad_flow", "'a' needs step 'b', and there is"),
        (
            {"steps": [{"name": n, "task": "mend", "after": [m]} for n, m in ("ab", "bc", "ca")]},
            "bad_flow",
            "the steps need each other in a circle: a -> c -> b -> a",
        ),
        ({"result": {"$step": "lats"}}, "bad_flow", "there is no step 'lats'; did you mean 'last'?"),
        ({"priority": 10**9}, "invalid", "priority"),
        ({"unique_key": "a", "idempotency_key": "b"}, "bad_input", "unique_key"),
    ],
)  # fmt: skip
async def test_a_wrong_plan_is_refused_with_the_reason(
    spring: Mainspring, client: Client, changes: dict[str, Any], code: str, text: str
) -> None:
    async with client("operator") as http:
        answer = await http.post("/flows", json=PLAN | changes)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert text in answer.json()["detail"]
    assert not await spring.jobs.list()


async def test_a_plan_with_too_many_steps_is_refused(spring: Mainspring, client: Client) -> None:
    steps = [{"name": f"s{n}", "task": "mend"} for n in range(10_001)]
    async with client("operator") as http:
        answer = await http.post("/flows", json={"steps": steps})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
        answer = await http.post("/flows", json={"steps": steps[:-1]})
        assert answer.status_code == 201


async def test_a_masked_secret_in_a_plan_is_refused(spring: Mainspring, client: Client) -> None:
    steps = [{"name": "a", "task": "send", "args": {"to": "ada", "token": "***"}}]
    async with client("operator") as http:
        answer = await http.post("/flows", json={"steps": steps})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_input")
    assert "token is ***" in answer.json()["detail"]


async def test_a_repeated_plan_is_enqueued_once(spring: Mainspring, client: Client) -> None:
    async with client("operator") as http:
        answers = [await http.post("/flows", json=PLAN, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    assert len(await spring.flows.list()) == 1


async def test_a_plan_by_a_browser_session_is_in_the_audit_log(spring: Mainspring, service: Any) -> None:
    http = browser(service)
    key = await spring.keys.create("ada", "operator")
    assert (await http.post("/session", json={"key": key})).status_code == 200
    made = await http.post("/flows", json=PLAN, headers={"Origin": ORIGIN})
    assert made.status_code == 201, made.text
    (entry,) = await spring.audit.list(AuditFilter(action="jobs.enqueue"))
    assert (entry.who, entry.target) == ("key:ada", made.json()["id"])
    assert (await spring.jobs.get(made.json()["id"])).enqueued_by == "key:ada"


async def test_viewers_may_not_change_flows(spring: Mainspring, client: Client) -> None:
    id = (await spring.tasks["buy"].enqueue()).id
    async with client("viewer") as http:
        actions = ("cancel", "retry", "skip", "replay", "signals/approval")
        for path in ("/flows", *(f"/flows/{id}/{action}" for action in actions)):
            assert (await http.post(path, json=PLAN if path == "/flows" else {})).status_code == 403
    async with client("operator", scopes=["jobs:write"]) as http:
        assert (await http.post(f"/flows/{id}/cancel")).status_code == 403
    async with client("operator", scopes=["flows:write"]) as http:
        assert (await http.post(f"/flows/{id}/cancel")).status_code == 200


# actions


async def test_a_flow_is_cancelled_and_the_audit_trail_says_who(spring: Mainspring, client: Client) -> None:
    @spring.flow
    def slow() -> None:
        spring.tasks["mend"].using(delay=60).step()

    id = (await spring.tasks["slow"].enqueue()).id
    await spring.drain()
    async with client("operator") as http:
        job = (await http.post(f"/flows/{id}/cancel", json={"reason": "no longer wanted"})).json()
    assert (job["id"], job["cancel_reason"]) == (id, "no longer wanted")
    await spring.drain()
    assert (await spring.jobs.get(id)).state == "cancelled"
    (entry,) = await spring.audit.list()
    assert (entry.action, entry.target, entry.who.partition("-")[0]) == ("jobs.cancel", id, "key:operator")


async def test_dead_steps_of_a_flow_are_retried(spring: Mainspring, client: Client) -> None:
    id = (await spring.tasks["buy"].enqueue()).id
    await spring.drain()
    await spring.tasks["mend"].enqueue()
    await spring.drain()
    async with client("operator") as http:
        assert (await http.get(f"/flows/{id}")).json()["job"]["state"] == "dead"
        job = (await http.post(f"/flows/{id}/retry")).json()
        assert job["state"] == "waiting"
        await spring.drain()
        assert (await http.get(f"/flows/{id}")).json()["job"]["result"] == "paid"
        answer = await http.post(f"/flows/{id}/retry")
        assert (answer.status_code, answer.json()["code"]) == (409, "invalid_transition")


async def test_a_dead_step_is_skipped(spring: Mainspring, client: Client) -> None:
    id = (await spring.tasks["buy"].enqueue()).id
    await spring.drain()
    async with client("operator") as http:
        for body, status in (
            ({"step": "pai"}, 404),
            ({"step": "pay", "reason": "x" * 201}, 422),
            ({"step": "pay", "why": "x"}, 422),
        ):
            assert (await http.post(f"/flows/{id}/skip", json=body)).status_code == status
        job = (await http.post(f"/flows/{id}/skip", json={"step": "pay", "reason": "token=hush, in cash"})).json()
        assert (job["id"], job["state"]) == (id, "pending")
        await spring.drain()
        flow = (await http.get(f"/flows/{id}")).json()
    assert (flow["job"]["state"], flow["steps"][0]["status"], flow["steps"][0]["skipped_because"]) == (
        "completed", "skipped", "operator"
    )  # fmt: skip
    assert flow["steps"][0]["note"] == "token=*** in cash"
    (entry,) = await spring.audit.list(AuditFilter(action="flows.skip"))
    assert (entry.target, entry.who.partition("-")[0]) == (id, "key:operator")


async def test_a_flow_is_replayed(spring: Mainspring, client: Client) -> None:
    id = (await spring.tasks["buy"].enqueue()).id
    async with client("operator") as http:
        assert (await http.post(f"/flows/{id}/replay")).status_code == 409
        await spring.drain()
        for body, status in (({"from": "pai"}, 404), ({"step": "pay"}, 422), ({"from": "pay", "arguments": {}}, 422)):
            assert (await http.post(f"/flows/{id}/replay", json=body)).status_code == status, body
        await spring.tasks["mend"].enqueue()
        await spring.drain()
        wanted: dict[str, Any] = {"json": {"from": "pay"}, "headers": {"Idempotency-Key": "k"}}
        made, again = [await http.post(f"/flows/{id}/replay", **wanted) for _ in range(2)]
        assert (made.status_code, made.headers["Location"]) == (201, f"flows/{made.json()['id']}")
        assert made.json() == again.json()
        whole = await http.post(f"/flows/{id}/replay")
        await spring.drain()
        for new in (made, whole):
            flow = (await http.get(f"/flows/{new.json()['id']}")).json()
            assert (flow["job"]["state"], flow["job"]["result"], flow["replay_of"]) == ("completed", "paid", id)
        assert (await http.get(f"/flows/{id}")).json()["replay_of"] is None
        mend = (await spring.tasks["mend"].enqueue()).id
        assert (await http.post(f"/flows/{mend}/replay")).status_code == 404
    entries = await spring.audit.list(AuditFilter(action="flows.replay"))
    assert {entry.target for entry in entries} == {id}


async def test_a_flow_that_died_before_it_was_planned_is_planned_again(spring: Mainspring, client: Client) -> None:
    wrong = {"plan": True}

    @spring.flow
    def odd() -> None:
        spring.tasks["send"].step(*([] if wrong["plan"] else ["ada"]))

    id = (await spring.tasks["odd"].enqueue()).id
    await spring.drain()
    wrong["plan"] = False
    async with client("operator") as http:
        assert (await http.get(f"/flows/{id}")).json()["job"]["state"] == "dead"
        assert (await http.post(f"/flows/{id}/retry")).json()["state"] == "pending"
        await spring.drain()
        assert (await http.get(f"/flows/{id}")).json()["job"]["state"] == "completed"


async def test_actions_on_what_is_no_flow_are_404(spring: Mainspring, client: Client) -> None:
    job = (await spring.tasks["send"].enqueue("a")).id
    async with client("operator") as http:
        for action in ("cancel", "retry"):
            for id, code in ((job, "flow_not_found"), ("nope", "job_not_found")):
                answer = await http.post(f"/flows/{id}/{action}")
                assert (answer.status_code, answer.json()["code"]) == (404, code)
    assert (await spring.jobs.get(job)).state == "pending"
