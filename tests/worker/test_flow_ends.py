"""How flows end in a worker: dead with the steps that they died of, cancelled, and put back to work."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flow_kit import STORES, ended, states

from mainspring import BadInput, DeadLetter, Discard, Filter, FlowFailed, FlowFailure, Mainspring, State
from mainspring.events import FlowEnded
from mainspring.records.job import Action
from mainspring.testing import Faults, FaultStore, VirtualClock


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_file: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{shutil.copy(empty_file, tmp_path)}"


async def test_failed_flow_names_its_dead_steps_and_is_never_retried(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def charge() -> str:
        raise ValueError("card refused")

    @app.task
    async def pack() -> str:
        await clock.sleep(30)
        raise Discard("no boxes")

    @app.task
    async def ship(a: str, b: str) -> str:
        return a + b

    @app.flow(max_retries=5)
    def fulfil() -> str:
        return ship.step(charge.step(), pack.step())

    async with app:
        run = await fulfil.enqueue()
        job = await ended(app, clock, run)
        assert (job.state, job.runs, job.attempt) == (State.DEAD, 2, 1)
        assert job.failure is not None
        assert job.failure.type == "FlowFailed"
        text = job.failure.message
        assert text.startswith("dead steps: charge (ValueError: card refused, job ")
        assert ", pack (Discard: no boxes, job " in text
        assert await states(app, run) == {"charge": "dead", "pack": "dead", "ship": "not_run"}
        with pytest.raises(FlowFailed, match="FlowFailed: dead steps: charge"):
            await run.result(timeout=1)
        why = [reason.text for reason in await app.flows.why(run.id)]
        assert "ship was not run: charge, pack failed" in why


class RetriedMeanwhile:
    """A store in which the dead step is put back to work just before the flow's first conclusion is stored."""

    def __init__(self, store: Any, clock: VirtualClock, retried: list[bool]) -> None:
        self._store, self._clock, self._retried = store, clock, retried

    def clone(self) -> Any:
        inner = self._store.clone()
        return self if inner is self._store else RetriedMeanwhile(inner, self._clock, self._retried)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def finish(self, outcomes: Any, **given: Any) -> Any:
        if not self._retried and any(outcome.concludes is not None for outcome in outcomes):
            self._retried.append(True)
            await self._store.change(Action.RETRY, Filter(tasks=("check",)), now=self._clock.now(), limit=1)
        return await self._store.finish(outcomes, **given)


async def test_event_of_the_end_comes_once_if_a_step_is_put_back_to_work_meanwhile(
    clock: VirtualClock, url: str
) -> None:
    app, heard, runs = Mainspring(url, clock=clock), list[FlowEnded](), list[int]()
    app._engine.wrap_store(lambda store: RetriedMeanwhile(store, clock, []))  # type: ignore[arg-type,return-value]
    app.events.subscribe(FlowEnded, heard.append)

    @app.task(max_retries=0)
    async def check() -> int:
        runs.append(1)
        return 1 // (len(runs) - 1)

    @app.flow
    def flow() -> int:
        return check.step()

    async with app:
        run = await flow.enqueue()
        job = await ended(app, clock, run)
        assert (job.state, len(runs)) == (State.COMPLETED, 2)
        assert [(event.job.id, event.steps) for event in heard] == [(run.id, {"check": "completed"})]


async def test_handler_of_a_flow_is_called_once_with_the_dead_steps(clock: VirtualClock, url: str) -> None:
    app, faults, heard = Mainspring(url, clock=clock), Faults(), list[FlowFailure]()
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]
    letters: list[DeadLetter] = []

    @app.task
    async def alert(failure: FlowFailure) -> None:
        heard.append(failure)

    @app.dead_letter
    async def bury(letter: DeadLetter) -> None:
        letters.append(letter)

    @app.task(max_retries=1)
    async def charge(order: str, amount: int) -> str:
        raise ValueError("card refused")

    @app.flow(on_failure=alert)
    def fulfil(order: str) -> str:
        return charge.step(order, 5)

    async with app:
        run = await fulfil.enqueue("a-1")
        # The outcome that concludes the flow is stored, and the reply is lost, once; then it is not stored, once.
        faults.fail("finish", after=3, moment="after")
        faults.fail("finish", after=4, moment="before")
        job = await ended(app, clock, run)
        assert job.state is State.DEAD
    (failure,) = heard
    assert (failure.job_id, failure.task, failure.arguments) == (run.id, "fulfil", {"order": "a-1"})
    assert failure.failure.type == "FlowFailed"
    (step,) = failure.steps
    assert (step.name, step.task, step.attempts) == ("charge", "charge", 2)
    assert step.arguments == {"order": "a-1", "amount": 5}
    assert (step.failure.type, step.failure.message) == ("ValueError", "card refused")
    assert sorted(letter.task for letter in letters) == ["charge", "fulfil"]
    assert len(faults.injected) == 2


async def test_letter_of_a_flow_that_is_too_long_leaves_arguments_out(app: Mainspring, clock: VirtualClock) -> None:
    app.configure(payload_limit=6_000)
    heard: list[FlowFailure] = []

    @app.task
    async def alert(failure: FlowFailure) -> None:
        heard.append(failure)

    @app.task(max_retries=0)
    async def charge(text: str) -> str:
        raise ValueError("refused")

    @app.flow(on_failure=alert)
    def fulfil(text: str) -> list[str]:
        return [charge.step(text) for _ in range(3)]

    async with app:
        run = await fulfil.enqueue("x" * 4_000)
        await ended(app, clock, run)
    (failure,) = heard
    assert [step.failure.type for step in failure.steps] == ["ValueError"] * 3
    assert {step.arguments for step in failure.steps} == {"(left out: too long for a letter; see the job)"}


async def test_cleanup_after_a_failure_gets_none_for_what_is_absent(app: Mainspring, clock: VirtualClock) -> None:
    refunded: list[str | None] = []

    @app.task
    async def charge() -> str:
        return "txn"

    @app.task(max_retries=0)
    async def ship(txn: str) -> str:
        raise ValueError("no truck")

    @app.task
    async def refund(txn: str | None, shipped: str | None) -> None:
        refunded.append(txn)
        assert shipped is None

    @app.task
    async def always(txn: str | None) -> None:
        refunded.append(f"end {txn}")

    @app.flow
    def fulfil() -> str:
        txn = charge.step()
        done = ship.step(txn)
        refund.using(on="failure", after=done).step(txn, done)
        always.using(on="end", after=done).step(txn)
        return done

    async with app:
        run = await fulfil.enqueue()
        job = await ended(app, clock, run)
        assert job.state is State.DEAD
        assert sorted(map(str, refunded)) == ["end txn", "txn"]


async def test_fail_fast_cancels_the_rest(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def bad() -> int:
        raise ValueError("no")

    @app.task
    async def slow() -> int:
        await clock.sleep(1000)
        return 1

    @app.task
    async def after(n: int) -> int:
        return n

    @app.flow(fail_fast=True)
    def hasty() -> list[int]:
        return [bad.step(), after.step(slow.step())]

    async with app:
        run = await hasty.enqueue()
        job = await ended(app, clock, run, seconds=60)
        assert job.state is State.DEAD
        assert await states(app, run) == {"bad": "dead", "slow": "cancelled", "after": "cancelled"}


# cancel


async def test_cancelled_flow_ends_when_the_last_run_has_ended(app: Mainspring, clock: VirtualClock) -> None:
    ran: list[str] = []

    @app.task
    async def slow() -> int:
        await clock.sleep(1000)
        return 1

    @app.task
    async def never(n: int) -> int:
        ran.append("never")
        return n

    @app.task
    async def tidy(n: int | None) -> None:
        ran.append(f"tidy {n}")

    @app.flow
    def inner() -> int:
        return never.step(slow.step())

    @app.flow
    def outer() -> int:
        done = never.step(inner.step())
        pending = never.using(delay=5000, step="pending").step(1)
        tidy.using(on="end", after=pending).step(done)
        return done

    async with app:
        run = await outer.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
            await app.flows.cancel(run.id, "customer")
            job = await run.job()
            assert (job.state, job.cancel_reason) == (State.WAITING, "customer")
            codes = [reason.code for reason in await app.jobs.why(run.id)]
            assert codes[0] == "cancelling"
            await clock.elapse(seconds=60)
        job = await run.job()
        assert (job.state, job.cancel_reason) == (State.CANCELLED, "customer")
        assert ran == ["tidy None"]
        assert await states(app, run) == {
            "inner": "cancelled", "never": "cancelled", "pending": "cancelled", "tidy": "completed",
        }  # fmt: skip
        (nested,) = await app.jobs.list(Filter(tasks=("inner",)))
        assert nested.state is State.CANCELLED
        await app.flows.cancel(run.id)  # idempotent


async def test_second_cancel_ends_cleanups_too(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def slow(n: int | None) -> int:
        await clock.sleep(1000)
        return 1

    @app.flow
    def cleaning() -> None:
        first = slow.step(1)
        slow.using(on="end", step="cleanup").step(first)

    async with app:
        run = await cleaning.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
            await app.flows.cancel(run.id)
            await clock.elapse(seconds=60)
            assert (await states(app, run))["cleanup"] == "running"
            await app.flows.cancel(run.id)
            await clock.elapse(seconds=60)
        assert (await run.job()).state is State.CANCELLED


async def test_cancel_of_a_flow_with_many_items_goes_on_without_its_caller(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.rules.flows.MAX_CANCELLED_JOBS", 20)
    monkeypatch.setattr("mainspring.worker.flow_tasks.PAGE_JOBS", 30)

    @app.task
    async def item(n: int) -> int:
        return n

    @app.flow
    def many() -> list[int]:
        return item.using(delay=3600).map(list(range(150)))

    async with app:
        run = await many.enqueue()
        await ended(app, clock, run, seconds=10)
        await app.flows.cancel(run.id)
        items = await app.jobs.list(Filter(tasks=("item",)), limit=1000)
        assert Counter(job.state for job in items) == {State.CANCELLED: 20, State.PENDING: 130}
        job = await ended(app, clock, run, seconds=30)
        assert job.state is State.CANCELLED
        items = await app.jobs.list(Filter(tasks=("item",)), limit=1000)
        assert Counter(job.state for job in items) == {State.CANCELLED: 150}


async def test_second_cancel_reaches_all_of_many_flows_in_a_map(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.rules.flows.MAX_CANCELLED_JOBS", 2)

    @app.task
    async def slow(n: int | None) -> int:
        await clock.sleep(1000)
        return 1

    @app.flow
    def cleaning(n: int) -> None:
        slow.using(on="end", step="cleanup").step(slow.step(n))

    @app.flow
    def many() -> None:
        cleaning.map(list(range(5)))

    async with app:
        run = await many.enqueue()
        async with app.worker():
            await clock.elapse(seconds=5)
            await app.flows.cancel(run.id)
            await clock.elapse(seconds=60)
            nested = await app.jobs.list(Filter(tasks=("cleaning",)))
            assert [(await app.flows.get(job.id)).step("cleanup").state for job in nested] == ["running"] * 5
            await app.flows.cancel(run.id)
            await clock.elapse(seconds=60)
        assert (await run.job()).state is State.CANCELLED
        assert {job.state for job in await app.jobs.list(Filter(tasks=("cleaning",)))} == {State.CANCELLED}


async def test_deleted_flow_takes_all_of_its_jobs_along(
    app: Mainspring, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.rules.flows.MAX_CANCELLED_JOBS", 20)

    @app.task
    async def item(n: int) -> int:
        return n

    @app.flow
    def many() -> list[int]:
        return item.map(list(range(100)))

    async with app:
        run = await many.enqueue()
        await ended(app, clock, run)
        await app.jobs.delete(run.id)
        async with app.worker():
            await clock.elapse(seconds=30)
        assert list(await app.jobs.list(Filter(tasks=("item",)))) == []


# retry


async def test_redriven_step_resumes_its_flow_and_completed_steps_do_not_run_again(
    app: Mainspring, clock: VirtualClock
) -> None:
    ran: list[str] = []
    broken = True

    @app.task
    async def check() -> int:
        ran.append("check")
        return 1

    @app.task(max_retries=0)
    async def charge(n: int) -> int:
        ran.append("charge")
        if broken:
            raise ValueError("down")
        return n

    @app.task
    async def ship(n: int) -> int:
        ran.append("ship")
        return n

    @app.task
    async def tidy(n: int | None) -> None:
        ran.append("tidy")

    @app.flow
    def fulfil() -> int:
        done = ship.step(charge.step(check.step()))
        tidy.using(on="end").step(done)
        return done

    async with app:
        run = await fulfil.enqueue()
        assert (await ended(app, clock, run)).state is State.DEAD
        assert ran == ["check", "charge", "tidy"]
        broken = False
        (dead,) = await app.jobs.list(Filter(tasks=("charge",)))
        await app.dead.redrive(dead.id)
        assert (await run.job()).state is State.WAITING
        assert (await ended(app, clock, run)).state is State.COMPLETED
        assert ran == ["check", "charge", "tidy", "charge", "ship", "tidy"]
        assert await run.result(timeout=1) == 1


async def test_retry_of_a_flow_puts_its_dead_steps_back_to_work(app: Mainspring, clock: VirtualClock) -> None:
    ran: list[str] = []
    broken = True

    @app.task(max_retries=0)
    async def item(n: int) -> int:
        ran.append(f"item {n}")
        if broken and n == 1:
            raise ValueError("down")
        return n

    @app.task(max_retries=0)
    async def other() -> int:
        if broken:
            raise ValueError("down")
        return 7

    @app.flow
    def fulfil() -> list[Any]:
        return [item.map([0, 1, 2]), other.step()]

    async with app:
        run = await fulfil.enqueue()
        assert (await ended(app, clock, run)).state is State.DEAD
        broken = False
        await app.flows.retry(run.id)
        assert (await ended(app, clock, run)).state is State.COMPLETED
        assert await run.result(timeout=1) == [[0, 1, 2], 7]
        assert sorted(ran) == ["item 0", "item 1", "item 1", "item 2"]


async def test_dead_step_is_retried_while_other_steps_go_on(app: Mainspring, clock: VirtualClock) -> None:
    broken = True

    @app.task(max_retries=0)
    async def other() -> int:
        if broken:
            raise ValueError("down")
        return 7

    @app.task
    async def slow() -> int:
        await clock.sleep(100)
        return 1

    @app.flow
    def fulfil() -> list[int]:
        return [other.step(), slow.step()]

    async with app:
        run = await fulfil.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
            assert await states(app, run) == {"other": "dead", "slow": "running"}
            broken = False
            await app.flows.retry(run.id)
            await clock.elapse(minutes=5)
        assert await run.result(timeout=1) == [7, 1]


async def test_cancelled_flow_with_a_map_completes_after_a_retry(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def item(n: int) -> int:
        await clock.sleep(100)
        return n

    @app.flow
    def many() -> list[int]:
        return item.map([1, 2, 3])

    async with app:
        run = await many.enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
            await app.flows.cancel(run.id)
            await clock.elapse(minutes=1)
            assert (await run.job()).state is State.CANCELLED
            await app.flows.retry(run.id)
            await clock.elapse(minutes=5)
        assert await run.result(timeout=1) == [1, 2, 3]


# crashes


async def test_worker_killed_between_plan_and_conclusion_loses_nothing(clock: VirtualClock, url: str) -> None:
    app, ran = Mainspring(url, clock=clock), list[str]()

    @app.task
    async def one() -> int:
        ran.append("one")
        return 1

    @app.task
    async def two(n: int) -> int:
        ran.append("two")
        return n + 1

    @app.flow
    def chain() -> int:
        return two.step(one.step())

    faults = Faults()
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]
    async with app:
        run = await chain.enqueue()
        for moment in ("before", "after", "before", "after"):
            # This worker stores one more outcome, and then dies: its next one is in the store, or is not.
            faults.clear()
            faults.fail("finish", after=1, times=10_000, moment=moment, error=lambda: RuntimeError("killed"))  # type: ignore[arg-type]
            with suppress(BaseException):
                async with app.worker():
                    await clock.elapse(seconds=30)
                    raise RuntimeError("killed")
            await clock.elapse(minutes=5)
        faults.clear()
        job = await ended(app, clock, run, minutes=30)
        assert job.state is State.COMPLETED
        assert await run.result(timeout=1) == 2
        assert set(ran) == {"one", "two"}


async def test_every_outcome_repeated_runs_no_step_twice(clock: VirtualClock, url: str) -> None:
    app, faults, ran = Mainspring(url, clock=clock), Faults(), list[int]()
    app._engine.wrap_store(lambda store: FaultStore(store, faults))  # type: ignore[arg-type,return-value]
    lost = iter([True, False] * 10_000)
    faults.when("finish", lambda: next(lost), moment="after")

    @app.task
    async def item(n: int) -> int:
        ran.append(n)
        return n

    @app.task
    async def total(parts: list[int]) -> int:
        ran.append(-1)
        return sum(parts)

    @app.flow
    def fan() -> int:
        return total.step(item.map(list(range(20))))

    async with app:
        run = await fan.enqueue()
        job = await ended(app, clock, run, hours=1)
        assert job.state is State.COMPLETED
        assert sorted(ran) == list(range(-1, 20))
        assert await run.result(timeout=1) == 190


async def test_chain_and_row_of_a_thousand_steps_end_with_a_small_row(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def add(n: int) -> int:
        return n + 1

    @app.flow
    def chain(count: int) -> int:
        value = add.step(0)
        for _ in range(count - 1):
            value = add.step(value)
        return value

    @app.flow
    def row(count: int) -> None:
        for n in range(count):
            add.step(n)

    async with app:
        run, other = await chain.enqueue(1000), await row.enqueue(1000)
        async with app.worker(concurrency=200):
            await clock.elapse(timedelta(hours=1))
        assert await run.result(timeout=1) == 1000
        assert (await other.job()).state is State.COMPLETED
        import msgspec

        for found in await app._engine._root.flows([run.id, other.id]):  # type: ignore[attr-defined]
            assert len(msgspec.json.encode(found.row)) < 4096


# run again


async def test_step_whose_arguments_are_values_of_its_flow_is_not_run_again_by_itself(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task
    async def one(n: int) -> int:
        return n

    @app.flow
    def inner(found: list[int]) -> None:
        one.step(len(found))

    @app.task
    async def total(found: list[int]) -> int:
        return sum(found)

    @app.flow
    def outer() -> None:
        found = one.map([1, 2])
        inner.step(found)
        total.step(found)

    async with app:
        run = await outer.enqueue()
        await ended(app, clock, run)
        for name in ("inner", "total"):
            (job,) = await app.jobs.list(Filter(tasks=(name,)))
            with pytest.raises(BadInput, match=f"values of flow {run.id}, whose step it is: replay that one"):
                await app.jobs.run_again(job.id)
        item = (await app.flows.items(run.id, "one"))[0]
        assert (await app.jobs.run_again(item.id)).status == "new"
