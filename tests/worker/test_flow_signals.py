"""Signals of flows with a worker: waits without a slot, values as their types, timeouts on the virtual clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from flow_kit import ended, states
from msgspec import Struct

from mainspring import (
    BadFlow,
    BadInput,
    BadPayload,
    FlowFailed,
    Mainspring,
    SignalLate,
    SignalRefused,
    SignalTwice,
    SignalUnknown,
    State,
    act_as,
    signal,
)
from mainspring.flow.document import document_of
from mainspring.records.audit import AuditFilter
from mainspring.records.flow import MAX_SIGNAL_BYTES
from mainspring.testing import VirtualClock


class Approval(Struct):
    ok: bool
    by: str = ""


class Shop:
    def __init__(self, app: Mainspring) -> None:
        self.runs: Counter[str] = Counter()

        @app.task
        async def check(order: int) -> str:
            self.runs["check"] += 1
            return f"order {order}"

        @app.task
        async def charge(checked: str, go: Approval) -> str:
            self.runs["charge"] += 1
            assert isinstance(go, Approval)
            return f"{checked} charged, said {go.by}"

        @app.flow
        def fulfil(order: int) -> str:
            checked = check.step(order)
            go = signal("approval", Approval, timeout=timedelta(minutes=30), after=checked)
            return charge.using(when=go.ok).step(checked, go)

        @app.flow
        def careful(order: int) -> str | None:
            checked = check.step(order)
            go = signal("approval", Approval, timeout="30m", default=Approval(ok=False), after=checked)
            return charge.using(when=go.ok).step(checked, go)

        @app.flow
        def ask(order: int) -> Approval:
            return signal("approval", Approval)

        self.fulfil, self.careful, self.ask = fulfil, careful, ask


@pytest.mark.parametrize("when", ["before", "while it waits"])
async def test_a_signal_is_a_value_of_its_type(app: Mainspring, clock: VirtualClock, when: str) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.fulfil.enqueue(3)
        if when == "before":
            await run.signal("approval", Approval(ok=True, by="ada"))
        else:
            assert (await ended(app, clock, run)).state is State.WAITING
            assert await states(app, run) == {"check": "completed", "approval": "waiting", "charge": "waiting"}
            assert [worker for worker in await app.workers.list() if worker.running] == []
            await run.signal("approval", Approval(ok=True, by="ada"))
        await ended(app, clock, run)
        assert await run.result(timeout=0) == "order 3 charged, said ada"
        assert await states(app, run) == {"check": "completed", "approval": "completed", "charge": "completed"}
        assert shop.runs == {"check": 1, "charge": 1}


async def test_the_result_of_a_flow_may_be_a_signal(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.ask.enqueue(3)
        await app.flows.signal(run.id, "approval", Approval(ok=False, by="ada"))
        await ended(app, clock, run)
        assert await run.result(timeout=0) == Approval(ok=False, by="ada")


async def test_a_late_signal_has_its_default(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.careful.enqueue(3)
        assert (await ended(app, clock, run, minutes=29)).state is State.WAITING
        assert (await ended(app, clock, run, minutes=2)).state is State.COMPLETED
        assert await run.result(timeout=0) is None
        assert await states(app, run) == {"check": "completed", "approval": "completed", "charge": "skipped"}
        with pytest.raises(SignalLate, match="its time was over"):
            await run.signal("approval", Approval(ok=True))
        step = (await app.flows.get(run.id)).step("approval")
        assert step.signal is not None
        assert (step.signal.late, step.signal.waits, step.signal.has_default, step.task) == (True, False, True, "")


async def test_a_late_signal_without_a_default_fails_its_flow(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.fulfil.enqueue(3)
        assert (await ended(app, clock, run, minutes=31)).state is State.DEAD
        with pytest.raises(FlowFailed, match=r"dead step: approval \(SignalTimeout: no signal was given in time\)"):
            await run.result(timeout=0)
        await app.flows.retry(run.id)
        await ended(app, clock, run, minutes=1)
        await run.signal("approval", {"ok": True, "by": "grace"})
        await ended(app, clock, run)
        assert await run.result(timeout=0) == "order 3 charged, said grace"
        assert shop.runs == {"check": 1, "charge": 1}


async def test_answers_to_signals(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.ask.enqueue(3)
        await ended(app, clock, run)
        with pytest.raises(SignalUnknown, match="'aproval'"):
            await run.signal("aproval", Approval(ok=True))
        with pytest.raises(BadInput, match=r"'approval' does not fit: .*ok"):
            await run.signal("approval", {"by": "ada"})
        with pytest.raises(BadPayload, match="at most 65,536 are kept"):
            await run.signal("approval", Approval(True, "x" * MAX_SIGNAL_BYTES))
        for name in ("", "x" * 201, "a\n", 5):
            with pytest.raises(BadInput, match="a signal's name"):
                await run.signal(name, 1)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="delivery="):
            await run.signal("approval", Approval(ok=True), delivery="")
        with act_as("ada"):
            await run.signal("approval", Approval(ok=True), delivery="m-1")
        await run.signal("approval", Approval(ok=False), delivery="m-1")
        with pytest.raises(SignalTwice, match="given already"):
            await run.signal("approval", Approval(ok=False))
        await ended(app, clock, run)
        assert await run.result(timeout=0) == Approval(ok=True)
        with pytest.raises(SignalRefused):
            await run.signal("approval", Approval(ok=False), delivery="m-2")
        (entry,) = await app.audit.list(AuditFilter(action="flows.signal"))
        assert (entry.target, entry.who) == (run.id, "ada")


async def test_of_fifty_deliveries_at_once_one_is_given(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.ask.enqueue(3)
        await ended(app, clock, run)
        given = await asyncio.gather(
            *(run.signal("approval", Approval(ok=True, by=str(n))) for n in range(50)), return_exceptions=True
        )
        assert Counter(map(type, given)) == {type(None): 1, SignalTwice: 49}
        await ended(app, clock, run)
        assert (await run.result(timeout=0)).by == str(given.index(None))


async def test_why_says_which_signal_is_waited_for_until_when(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.careful.enqueue(3)
        await ended(app, clock, run)
        (reason,) = await app.flows.why(run.id)
        assert reason.code == "waits_for_signal"
        assert reason.until is not None
        assert reason.text.startswith("waits for charge <- approval: the signal 'approval' has not been given; at ")
        assert reason.text.endswith("Z its default is taken")
        assert "signal" in await app.flows.draw(run.id, "mermaid")
        assert "waits for a signal" in await app.flows.draw(run.id)


async def test_a_replay_takes_a_given_signal_over(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.fulfil.enqueue(3)
        await run.signal("approval", Approval(ok=True, by="ada"))
        await ended(app, clock, run)
        again = await app.flows.replay(run.id, from_="charge")
        await ended(app, clock, again)
        assert await again.result(timeout=0) == "order 3 charged, said ada"
        assert shop.runs == {"check": 1, "charge": 2}
        with pytest.raises(SignalTwice):
            await again.signal("approval", Approval(ok=False))
        anew = await app.flows.replay(run.id)
        assert (await ended(app, clock, anew)).state is State.WAITING


async def test_a_replay_takes_a_timeout_over(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.careful.enqueue(3)
        await ended(app, clock, run, minutes=31)
        again = await app.flows.replay(run.id, from_="charge")
        await ended(app, clock, again)
        assert (await states(app, again))["charge"] == "skipped"
        with pytest.raises(SignalLate):
            await again.signal("approval", Approval(ok=True))


async def test_a_signal_is_skipped(app: Mainspring, clock: VirtualClock) -> None:
    shop = Shop(app)
    async with app:
        run = await shop.fulfil.enqueue(3)
        await ended(app, clock, run)
        view = await app.flows.skip(run.id, "approval", "by phone")
        assert (view.state, view.note) == ("skipped", "by phone")
        assert (await ended(app, clock, run)).state is State.COMPLETED


async def test_other_jobs_keep_signals(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def nap() -> None: ...

    async with app:
        run = await nap.enqueue()
        await run.signal("any", 5)
        with pytest.raises(BadInput, match="it is no flow"):
            await app.flows.get(run.id)
        assert (await ended(app, clock, run)).state is State.COMPLETED
        with pytest.raises(SignalLate, match="the job is completed"):
            await run.signal("other", 5)


# plans


async def test_a_written_plan_has_signals(app: Mainspring, clock: VirtualClock) -> None:
    Shop(app)
    plan = {
        "name": "asked",
        "steps": [
            {"name": "go", "signal": {"timeout": 60, "default": {"ok": True, "by": "nobody"}}},
            {"name": "charge", "task": "charge", "args": {"checked": "x", "go": {"$step": "go"}}},
        ],
        "result": {"$step": "charge"},
    }
    async with app:
        run = await app.flows.enqueue(plan)
        await ended(app, clock, run)
        assert await run.result(timeout=0) == "x charged, said nobody"
        other = await app.flows.enqueue(plan)
        await other.signal("go", Approval(ok=True, by="ada"))
        await ended(app, clock, other, seconds=5)
        assert await other.result(timeout=0) == "x charged, said ada"


def test_a_plan_with_signals_is_written_and_read(app: Mainspring) -> None:
    shop = Shop(app)
    builder = app.plan("asked")
    checked = builder.step("check", 3)
    go = builder.signal("go", Approval, timeout="1h", default=Approval(ok=False), after=checked)
    builder.returns(builder.step(app.tasks["charge"], checked, go))
    document = builder.document()
    assert document["steps"][1]["after"] == ["check"]
    assert document["steps"][1]["signal"]["timeout"] == 3600
    assert document["steps"][1]["signal"]["default"] == {"ok": False, "by": ""}
    from mainspring.flow.document import plan_from_document

    assert document_of(plan_from_document(document, app), "asked") == document
    assert shop.runs == {}


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ({"name": "a"}, "neither a task nor a signal"),
        ({"name": "a", "signal": {}, "task": "check"}, "a signal has no 'task'"),
        ({"name": "a", "signal": {}, "when": True}, "a signal has no 'when'"),
        ({"name": "a", "signal": {"default": 5}}, "it needs a timeout="),
        ({"name": "a", "signal": {"timeout": -5}}, "timeout="),
        ({"name": "a", "signal": {"schema": {"x": "y" * 20_000}}}, "at most 16,384 bytes"),
        ({"name": "a" * 300, "signal": {}}, "a signal's name"),
    ],
)
def test_wrong_signals_of_written_plans_are_refused(app: Mainspring, step: Any, problem: str) -> None:
    from mainspring.flow.document import plan_from_document

    Shop(app)
    with pytest.raises(BadFlow, match=problem):
        plan_from_document({"steps": [step]}, app)


def test_wrong_signals_are_refused_when_planned(app: Mainspring) -> None:
    shop = Shop(app)
    builder = app.plan("asked")
    checked = builder.step(app.tasks["check"], 3)
    for options, problem in [
        ({"default": 5}, "it needs a timeout="),
        ({"default": checked, "timeout": 5}, "known now"),
        ({"default": {"ok": "yes"}, "timeout": 5}, "default= does not fit"),
        ({"timeout": "soon"}, "timeout="),
        ({"after": 5}, "after= takes values of other steps"),
    ]:
        with pytest.raises(BadFlow, match=problem):
            builder.signal("go", Approval, **options)
    builder.signal("go", Approval)
    with pytest.raises(BadFlow, match="two steps are named 'go'"):
        builder.signal("go", Approval)
    with pytest.raises(BadFlow, match="signal\\('go'\\) is called outside of a flow"):
        signal("go", Approval)
    assert shop.runs == {}


def test_the_value_of_a_signal_goes_where_its_type_goes(app: Mainspring) -> None:
    Shop(app)
    builder = app.plan("asked")
    with pytest.raises(BadFlow, match="takes"):
        builder.step("check", builder.signal("go", Approval))
