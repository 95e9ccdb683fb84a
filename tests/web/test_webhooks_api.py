"""/webhooks, /triggers and /hooks over HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from http_client import Client

from mainspring import Mainspring, Retention, every, signal
from mainspring.api.routes.triggers import MAX_MESSAGE_BYTES
from mainspring.testing import VirtualClock
from mainspring.webhook.record import STANDINGS, Standing

URL = "https://hooks.example.com/services/T0K3N?x=1"
HOOK = {"name": "ops", "url": URL, "events": ["job.dead"]}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def signed(
    body: bytes, clock: VirtualClock, id: str = "msg_1", *, ago: int = 0, secret: str = SECRET
) -> dict[str, str]:
    """The headers as the standard defines them, without our code."""
    timestamp = str(int(clock.now().timestamp()) - ago)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(made).decode()}",
    }


# webhooks


async def test_a_webhook_is_created_and_its_secret_returned_once(client: Client) -> None:
    async with client("admin") as http:
        made = await http.post("/webhooks", json=HOOK | {"queues": ["mail"], "include": ["result"]})
        assert made.status_code == 201
        secret = made.json()["secret"]
        assert secret.startswith("whsec_")
        hook = made.json()["webhook"]
        assert (hook["name"], hook["url"], hook["events"]) == ("ops", URL, ["job.dead"])
        assert (hook["queues"], hook["tasks"], hook["include"]) == (["mail"], None, ["result"])
        assert (hook["failures"], hook["delivered_at"], hook["disabled_at"]) == (0, None, None)
        one, all = await http.get("/webhooks/ops"), await http.get("/webhooks")
        assert (one.json(), all.json()) == (hook, [hook])
        assert "whsec_" not in one.text + all.text


async def test_the_path_of_a_webhook_url_is_shown_to_admins_only(client: Client) -> None:
    async with client("admin") as admin, client("operator") as operator, client("viewer") as viewer:
        await admin.post("/webhooks", json=HOOK)
        for http in (operator, viewer):
            for path in ("/webhooks", "/webhooks/ops"):
                answer = await http.get(path)
                assert answer.status_code == 200
                assert "https://hooks.example.com/…" in answer.text
                assert "T0K3N" not in answer.text


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"url": "https://169.254.169.254/"}, 422, "bad_input"),
        ({"events": []}, 422, "invalid"),
        ({"events": ["job.born"]}, 422, "invalid"),
        ({"colour": "red"}, 422, "invalid"),
        ({"name": "a b"}, 422, "invalid"),
        ({"secret": "hunter2"}, 422, "bad_input"),
        ({"name": "there"}, 409, "hook_exists"),
    ],
)
async def test_an_invalid_webhook_is_refused(
    client: Client, spring: Mainspring, given: Any, status: int, code: str
) -> None:
    await spring.webhooks.create("there", URL, ["job.dead"])
    async with client("admin") as http:
        answer = await http.post("/webhooks", json=HOOK | given)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_webhook_edit_with_an_outdated_etag_is_412(client: Client, spring: Mainspring) -> None:
    await spring.webhooks.create("ops", URL, ["job.dead"])
    async with client("admin") as http:
        etag = (await http.get("/webhooks/ops")).headers["etag"]
        edited = await http.patch("/webhooks/ops", json={"note": "a", "disabled": True}, headers={"If-Match": etag})
        assert (edited.status_code, edited.json()["note"]) == (200, "a")
        assert edited.json()["disabled_reason"] == "by an operator"
        for stale in (etag, '"x"'):
            late = await http.patch("/webhooks/ops", json={"note": "b"}, headers={"If-Match": stale})
            assert (late.status_code, late.json()["code"]) == (412, "hook_changed")
        assert (await http.patch("/webhooks/ops", json={"note": "c"}, headers={"If-Match": "*"})).status_code == 200


async def test_a_webhook_is_rotated_tested_and_deleted(client: Client, spring: Mainspring) -> None:
    first = (await spring.webhooks.create("ops", URL, ["job.dead"])).secret
    async with client("admin") as http:
        rotated = await http.post("/webhooks/ops/rotate")
        assert (rotated.status_code, rotated.json()["secret"] != first) == (200, True)
        assert (await http.post("/webhooks/ops/rotate", json={"overlap": 60, "secret": SECRET})).json()[
            "secret"
        ] == SECRET
        tested = await http.post("/webhooks/ops/test")
        assert tested.status_code == 202
        page = (await http.get("/webhooks/ops/deliveries")).json()
        assert [job["id"] for job in page["items"]] == [tested.json()["id"]]
        assert (await http.delete("/webhooks/ops")).status_code == 204
        for path in ("", "/deliveries"):
            gone = await http.get(f"/webhooks/ops{path}")
            assert (gone.status_code, gone.json()["code"]) == (404, "hook_not_found")


async def test_a_webhook_is_shown_with_the_state_of_its_deliveries(
    client: Client, spring: Mainspring, clock: VirtualClock
) -> None:
    await spring.webhooks.create("ops", URL, ["job.dead"])
    went = Standing(name="ops", failures=3, failed_at=clock.now(), error="it answered 500: token=s3cret")
    await STANDINGS.add(await spring.connect(), went, clock.now())
    async with client("viewer") as http:
        for hook in ((await http.get("/webhooks")).json()[0], (await http.get("/webhooks/ops")).json()):
            assert (hook["failures"], hook["error"]) == (3, "it answered 500: token=***")


# triggers


async def test_a_trigger_is_created_shown_edited_rotated_and_deleted(client: Client) -> None:
    async with client("admin") as http:
        made = await http.post(
            "/triggers", json={"name": "orders", "task": "send", "arguments": "body", "kwargs": {"token": "t0k3n"}}
        )
        assert made.status_code == 201
        assert made.json()["secret"].startswith("whsec_")
        one = await http.get("/triggers/orders")
        assert one.json() == made.json()["trigger"] == (await http.get("/triggers")).json()[0]
        assert (one.json()["task"], one.json()["arguments"], one.json()["kwargs"]) == ("send", "body", {"token": "***"})
        tag = {"If-Match": one.headers["etag"]}
        changed = await http.patch("/triggers/orders", json={"arguments": {"to": "body.to"}, "queue": "q"}, headers=tag)
        assert (changed.json()["arguments"], changed.json()["queue"]) == ({"to": "body.to"}, "q")
        assert (await http.patch("/triggers/orders", json={"note": "x"}, headers=tag)).status_code == 412
        assert (await http.post("/triggers/orders/rotate")).json()["secret"] != made.json()["secret"]
        assert (await http.delete("/triggers/orders")).status_code == 204
        assert (await http.get("/triggers/orders")).status_code == 404
        wrong = await http.post("/triggers", json={"name": "orders", "task": "sent"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "unknown_task")


# hooks


async def made(spring: Mainspring) -> None:
    await spring.triggers.create("orders", task="send", arguments="body", secret=SECRET)


async def test_a_repeated_signed_message_makes_one_job_and_gets_the_same_response(
    client: Client, spring: Mainspring, clock: VirtualClock
) -> None:
    await made(spring)
    body = b'{"to": "ada"}'
    async with client(None) as http:
        first = await http.post("/hooks/orders", content=body, headers=signed(body, clock))
        assert first.status_code == 202
        again = await http.post("/hooks/orders", content=body, headers=signed(body, clock))
    assert (again.status_code, again.json()) == (202, first.json())
    (job,) = await spring.jobs.list()
    assert (job.id, job.task, job.payload) == (first.json()["job_id"], "send", '{"to":"ada"}')


@pytest.mark.parametrize("gone", ["deleted", "pruned"])
async def test_a_repeated_signed_message_makes_no_second_job_after_its_job_was_removed(
    client: Client, spring: Mainspring, clock: VirtualClock, gone: str
) -> None:
    @spring.task(retention=Retention(keep=0, age=timedelta(0)))
    async def brief(to: str) -> None: ...

    await spring.triggers.create("orders", task="brief", arguments="body", secret=SECRET)
    body = b'{"to": "ada"}'
    headers = signed(body, clock)
    async with client(None) as http, client("operator") as operator:
        first = await http.post("/hooks/orders", content=body, headers=headers)
        if gone == "deleted":
            assert (await operator.delete(f"/jobs/{first.json()['job_id']}")).status_code == 204
        else:
            await spring.drain()
        clock.advance(minutes=4)  # within the window of a replay
        assert await spring.prune() == (gone == "pruned")
        again = await http.post("/hooks/orders", content=body, headers=headers)
        assert (again.status_code, again.json()) == (202, first.json())
        assert (await operator.get("/jobs")).json()["items"] == []


async def test_a_signed_message_fires_a_schedule(client: Client, spring: Mainspring, clock: VirtualClock) -> None:
    spring.schedule("nightly", every(1).days, spring.tasks["send"], kwargs={"to": "bob"})
    await spring.triggers.create("now", schedule="nightly", secret=SECRET)
    async with client(None) as http:
        answer = await http.post("/hooks/now", content=b"", headers=signed(b"", clock))
    job = await spring.jobs.get(answer.json()["job_id"])
    assert (answer.status_code, job.schedule) == (202, "nightly")


async def test_an_unknown_trigger_is_indistinguishable_from_a_wrong_signature(
    client: Client, spring: Mainspring, clock: VirtualClock
) -> None:
    await made(spring)
    good = signed(b"{}", clock)
    async with client(None) as http:
        answers = [
            await http.post("/hooks/orders", content=b"{}", headers=good | {"webhook-signature": "v1,AAAA"}),
            await http.post("/hooks/orders", content=b"{}"),
            await http.post("/hooks/orders", content=b"{ }", headers=good),
            await http.post("/hooks/others", content=b"{}", headers=good),
            await http.post("/hooks/others", content=b"{}"),
            await http.post("/hooks/others", content=b"{}", headers=signed(b"{}", clock, ago=3600)),
        ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({json.dumps(answer.json() | {"instance": ""}) for answer in answers}) == 1
    assert {tuple(sorted(set(answer.headers) - {"date"})) for answer in answers} == {tuple(sorted(answers[0].headers))}
    assert list(await spring.jobs.list()) == []


async def test_a_stale_message_is_400_and_a_message_that_does_not_fit_its_task_is_422(
    client: Client, spring: Mainspring, clock: VirtualClock
) -> None:
    await made(spring)
    async with client(None) as http:
        stale = await http.post("/hooks/orders", content=b"{}", headers=signed(b"{}", clock, ago=301))
        assert (stale.status_code, stale.json()["code"]) == (400, "stale")
        for body in (b"{}", b"no JSON", b'{"to": 7}', b'{"nobody": "x"}'):
            unfit = await http.post("/hooks/orders", content=body, headers=signed(body, clock))
            assert (unfit.status_code, unfit.json()["code"]) == (422, "bad_payload")


@pytest.mark.parametrize("name", ["orders", "others"])
async def test_a_message_that_is_too_long_is_413_with_or_without_a_content_length(
    client: Client, spring: Mainspring, clock: VirtualClock, name: str
) -> None:
    await made(spring)
    whole = b"x" * (MAX_MESSAGE_BYTES + 1)
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        """A body without a Content-Length header."""
        nonlocal sent
        while sent < 100:
            sent += 1
            yield b"x" * (MAX_MESSAGE_BYTES // 4)

    async with client(None) as http:
        assert (await http.post(f"/hooks/{name}", content=whole, headers=signed(whole, clock))).status_code == 413
        assert (await http.post(f"/hooks/{name}", content=parts())).status_code == 401
        assert sent <= 1
        assert (await http.post(f"/hooks/{name}", content=parts(), headers=signed(b"", clock))).status_code == 413
        assert sent < 10
        short = b" " * (MAX_MESSAGE_BYTES - 13) + b'{"to": "ada"}'
        fits = await http.post("/hooks/orders", content=short, headers=signed(short, clock))
        assert fits.status_code == 202


async def test_a_message_may_have_any_content_type_and_is_parsed_only_if_signed(
    client: Client, spring: Mainspring, clock: VirtualClock
) -> None:
    await made(spring)
    body = b'{"to": "ada"}'
    async with client(None) as http:
        headers = signed(body, clock) | {"content-type": "text/plain"}
        assert (await http.post("/hooks/orders", content=body, headers=headers)).status_code == 202
        deep = b"[" * 500_000
        assert (await http.post("/hooks/orders", content=deep)).status_code == 401


# hostile messages with a valid signature


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"rows":[' + b"[]," * 300_000 + b"1]}", "more than 200,000 lists and objects"),
        (b'{"rows":[' + b'"",' * 310_000 + b"1]}", "300,000 texts"),
        (b'{"n":' + b"9" * 5000 + b"}", "not JSON|64 bits"),
        (b'{"n":' + b"[" * 600 + b"]" * 600 + b"}", "nested too deeply"),
        (b"[" * 500_000, "more than 200,000|not JSON"),
        (b'{"to":"\xff"}', "not JSON"),
        (b'{"to":"\\ud800"}', "not JSON"),
        (b'{"to":"\\u0000"}', "NUL"),
        (b'{"n":1e999}', "not JSON"),
    ],
    ids=["lists", "texts", "digits", "levels", "brackets", "no UTF-8", "a lone surrogate", "NUL", "infinity"],
)
async def test_a_signed_message_with_an_invalid_payload_is_refused(
    spring: Mainspring, client: Client, clock: VirtualClock, body: bytes, words: str
) -> None:
    @spring.task
    async def take(to: str = "", n: Any = None, rows: Any = None) -> None: ...

    await spring.triggers.create("paid", task="take", arguments="body", secret=SECRET)
    async with client(None) as http:
        answer = await http.post("/hooks/paid", content=body, headers=signed(body, clock))
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_payload")
    assert re.search(words, answer.json()["detail"])
    assert await spring.jobs.list() == []


async def test_a_job_of_a_trigger_has_the_trigger_as_enqueued_by(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    await spring.triggers.create("paid", task="fail", secret=SECRET)
    async with client(None) as http:
        answer = await http.post("/hooks/paid", content=b"{}", headers=signed(b"{}", clock))
    assert (await spring.jobs.get(answer.json()["job_id"])).enqueued_by == "trigger:paid"


async def test_a_message_gives_a_signal_to_the_flow_that_it_names(
    spring: Mainspring, client: Client, clock: VirtualClock
) -> None:
    @spring.flow
    def ask() -> Any:
        return signal("payment")

    run, other = await ask.enqueue(), await ask.enqueue()
    options = {"signal": "payment", "job": "body.data.flow", "arguments": {"amount": "body.data.amount"}}
    async with client("admin") as http:
        for wrong, error in (
            ({"signal": "payment"}, "go together"),
            ({"signal": "payment", "job": "body", "task": "ask"}, "give one of them"),
            ({"signal": "payment", "job": "data.flow"}, "taken from"),
            ({"signal": "", "job": "body"}, "a signal's name"),
            ({**options, "queue": "a"}, "gives a signal to a job"),
        ):
            refused = await http.post("/triggers", json={"name": "paid", **wrong})
            assert (refused.status_code, error in refused.json()["detail"]) == (422, True)
        made = await http.post("/triggers", json={"name": "paid", "secret": SECRET, "kwargs": {"ok": True}, **options})
        assert (made.json()["trigger"]["signal"], made.json()["trigger"]["job"]) == ("payment", "body.data.flow")
    async with client(None) as http:
        for body, id, status in (
            ({"flow": run.id, "amount": 5}, "msg_1", 202),
            ({"flow": run.id, "amount": 5}, "msg_1", 202),
            ({"flow": run.id, "amount": 6}, "msg_2", 409),
            ({"flow": other.id, "amount": 6}, "msg_2", 202),
            ({"flow": "none", "amount": 6}, "msg_3", 404),
            ({"flow": 5, "amount": 6}, "msg_4", 422),
            ({"amount": 6}, "msg_5", 422),
        ):
            text = json.dumps({"data": body}).encode()
            answer = await http.post("/hooks/paid", content=text, headers=signed(text, clock, id))
            assert answer.status_code == status, answer.text
    await spring.drain()
    assert [await flow.result(timeout=0) for flow in (run, other)] == [
        {"amount": 5, "ok": True}, {"amount": 6, "ok": True}
    ]  # fmt: skip
