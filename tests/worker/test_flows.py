"""Flows in a worker: steps run in order, get the values of others, and the flow ends with its result."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import flow_jobs
import msgspec
import pytest
from flow_kit import STORES, ended, states
from msgspec.structs import replace

from mainspring import BadFlow, BadInput, Context, Filter, Finish, Mainspring, Skip, State, first
from mainspring.events import JobEnded
from mainspring.stores.memory.store import MemoryStore
from mainspring.testing import Faults, FaultStore, VirtualClock


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_file: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{shutil.copy(empty_file, tmp_path)}"


class Order(msgspec.Struct):
    id: str
    items: list[str]


class Check(msgspec.Struct):
    ok: bool
    score: int = 0


class Big(msgspec.Struct):
    text: str
    n: int


async def test_diamond_runs_both_middle_steps_at_once_and_gives_the_last_both_values(
    app: Mainspring, clock: VirtualClock
) -> None:
    running: set[str] = set()
    together: list[set[str]] = []

    @app.task
    async def begin(order: Order) -> Order:
        return order

    async def middle(name: str) -> None:
        running.add(name)
        await clock.sleep(1)
        together.append(set(running))
        running.discard(name)

    @app.task
    async def left(order: Order) -> Check:
        await middle("left")
        return Check(ok=True, score=len(order.items))

    @app.task
    async def right(order: Order) -> str:
        await middle("right")
        return order.id

    @app.task
    async def join(check: Check, id: str) -> str:
        assert isinstance(check, Check)
        return f"{id}:{check.score}"

    @app.flow
    def diamond(order: Order) -> str:
        begun = begin.step(order)
        return join.step(left.step(begun), right.step(begun))

    async with app:
        run = await diamond.enqueue(Order("a", ["x", "y"]))
        job = await ended(app, clock, run)
        assert job.state is State.COMPLETED
        assert await run.result(timeout=1) == "a:2"
        assert together[0] == {"left", "right"}
        assert await states(app, run) == dict.fromkeys(("begin", "left", "right", "join"), "completed")


async def test_flow_is_planned_once_with_its_decoded_input(app: Mainspring, clock: VirtualClock) -> None:
    planned: list[Any] = []

    @app.task
    async def one(name: str) -> str:
        return name.upper()

    @app.flow
    def loop(order: Order, express: bool = False) -> list[str]:
        planned.append(order)
        return [one.step(item) for item in order.items]

    async with app:
        run = await loop.enqueue(Order("a", ["x", "y", "z"]))
        await ended(app, clock, run)
        assert planned == [Order("a", ["x", "y", "z"])]
        assert await run.result(timeout=1) == ["X", "Y", "Z"]
        job = await run.job()
        assert (job.runs, job.attempt) == (2, 1)


async def test_flow_whose_input_leads_to_no_step_completes(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def send(to: str) -> None: ...

    @app.flow
    def send_all(people: list[str]) -> int:
        for to in people:
            send.step(to)
        return len(people)

    async with app:
        run = await send_all.enqueue([])
        assert (await ended(app, clock, run)).state is State.COMPLETED
        assert await run.result() == 0


async def test_flow_without_a_result_completes_with_none(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def one() -> int:
        return 1

    @app.flow
    def silent() -> None:
        one.step()

    async with app:
        run = await silent.enqueue()
        assert (await ended(app, clock, run)).state is State.COMPLETED
        assert await run.result(timeout=1) is None


async def test_flow_that_looks_at_a_value_while_it_is_planned_is_dead_at_once(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task
    async def check() -> Check:
        return Check(True)

    @app.flow
    def curious() -> None:
        if check.step().ok:
            check.step()

    async with app:
        run = await curious.enqueue()
        job = await ended(app, clock, run)
        assert (job.state, job.runs) == (State.DEAD, 1)
        assert job.failure is not None
        assert job.failure.type == "BadFlow"
        assert "is not known while the flow is planned" in job.failure.message
        assert "if check.step().ok:" in job.failure.stack


async def test_flow_that_gives_bad_options_to_a_step_is_dead_at_once(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def check() -> None: ...

    @app.flow
    def hasty() -> None:
        check.using(delay=-1).step()

    async with app:
        run = await hasty.enqueue()
        job = await ended(app, clock, run)
        assert (job.state, job.runs) == (State.DEAD, 1)
        assert job.failure is not None
        assert job.failure.type == "BadFlow"
        assert "option delay of task 'check'" in job.failure.message


async def test_planning_that_fails_is_retried_as_the_flow_says(app: Mainspring, clock: VirtualClock) -> None:
    tries: list[int] = []

    @app.task
    async def one() -> int:
        return 1

    @app.flow(max_retries=2)
    def moody() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no config")
        return one.step()

    async with app:
        run = await moody.enqueue()
        job = await ended(app, clock, run)
        assert (job.state, len(tries)) == (State.COMPLETED, 3)


async def test_condition_skips_a_step_and_what_needs_its_value(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def check(score: int) -> Check:
        return Check(ok=score > 50, score=score)

    @app.task
    async def charge(check: Check) -> str:
        return "paid"

    @app.task
    async def ship(paid: str, check: Check) -> str:
        return "shipped"

    @app.task
    async def report(paid: str | None, check: Check) -> str:
        return f"report of {paid}"

    @app.flow
    def sell(score: int) -> str:
        checked = check.step(score)
        paid = charge.using(when=checked.ok & (checked.score >= 60)).step(checked)
        ship.step(paid, checked)
        return report.step(paid, checked)

    async with app:
        low, high = await sell.enqueue(55), await sell.enqueue(70)
        await ended(app, clock, low)
        assert await states(app, low) == {
            "check": "completed", "charge": "skipped", "ship": "skipped", "report": "completed",
        }  # fmt: skip
        assert await low.result(timeout=1) == "report of None"
        assert await high.result(timeout=1) == "report of paid"
        because = {step.name: step.skipped_because for step in await app.flows.steps(low.id)}
        assert because == {"check": None, "charge": "when", "ship": "absent", "report": None}
        why = [reason.text for reason in await app.flows.why(low.id)]
        assert (
            "charge was skipped: check.ok and check.score >= 60 did not hold (check.ok = true, check.score = 55)" in why
        )


async def test_task_that_raises_skip_counts_as_skipped(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def maybe() -> int:
        raise Skip("nothing to do")

    @app.task
    def returned() -> int:
        return Skip("neither")  # type: ignore[return-value]

    @app.task
    async def then(a: int) -> int:
        return a

    @app.task
    async def accepts(a: int | None, b: int | None) -> str:
        return f"{a} {b}"

    @app.flow
    def skips() -> str:
        a, b = maybe.step(), returned.step()
        then.step(a)
        return accepts.using(after=then.using(step="again").step(1)).step(a, b)

    async with app:
        run = await skips.enqueue()
        await ended(app, clock, run)
        assert await run.result(timeout=1) == "None None"
        found = {step.name: (step.state, step.skipped_because) for step in await app.flows.steps(run.id)}
        assert found["maybe"] == ("skipped", "said")
        assert found["returned"] == ("skipped", "said")
        assert found["then"] == ("skipped", "all-skipped")


async def test_large_value_goes_by_reference_and_its_parts_too(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[int] = []

    @app.task
    async def make() -> Big:
        return Big("x" * 100_000, 7)

    @app.task
    async def whole(big: Big, times: int) -> int:
        seen.append(len(big.text))
        return len(big.text) * times

    @app.task
    def part(text: str, nested: dict[str, list[Any]]) -> list[Any]:
        return [len(text), nested["a/b"][1]]

    @app.flow
    def large() -> list[Any]:
        big = make.step()
        return [whole.step(big, 2), part.step(big.text, {"a/b": [1, big.n]})]

    async with app:
        run = await large.enqueue()
        await ended(app, clock, run)
        assert await run.result(timeout=1) == [200_000, [100_000, 7]]
        (job,) = await app.jobs.list(Filter(tasks=("whole",)))
        assert len(job.payload) < 200
        assert len(job.refs) == 1


async def test_large_result_of_a_flow_is_read_from_its_step(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def make(n: int) -> str:
        return "x" * n

    @app.flow
    def pass_on(n: int) -> str:
        return make.step(n)

    async with app:
        run = await pass_on.enqueue(50_000)
        await ended(app, clock, run)
        assert await run.result(timeout=1) == "x" * 50_000


async def test_result_over_the_limit_that_a_step_needs_kills_its_step(app: Mainspring, clock: VirtualClock) -> None:
    app.configure(result_limit=10_000)

    @app.task
    async def make() -> str:
        return "x" * 20_000

    @app.task
    async def use(text: str) -> int:
        return len(text)

    @app.flow
    def too_large() -> int:
        return use.step(make.step())

    async with app:
        run = await too_large.enqueue()
        job = await ended(app, clock, run)
        assert job.state is State.DEAD
        assert job.failure is not None
        assert "make (ResultLost: the result is 20,002 bytes" in job.failure.message
        assert await states(app, run) == {"make": "dead", "use": "not_run"}


async def test_value_whose_step_was_deleted_kills_the_step_that_needs_it(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def make() -> str:
        return "x" * 20_000

    @app.task
    async def use(text: str) -> int:
        return len(text)

    @app.flow
    def broken() -> int:
        return use.using(delay=60).step(make.step())

    async with app:
        run = await broken.enqueue()
        await ended(app, clock, run, seconds=10)
        (made,) = await app.jobs.list(Filter(tasks=("make",)))
        await app.jobs.delete(made.id)
        job = await ended(app, clock, run)
        assert job.state is State.DEAD
        assert job.failure is not None
        assert "its job was deleted" in job.failure.message


async def test_sub_flow_three_levels_deep_ends_its_parents_in_order(app: Mainspring, clock: VirtualClock) -> None:
    order: list[str] = []

    @app.task
    async def leaf(n: int) -> int:
        order.append(f"leaf {n}")
        return n + 1

    @app.task
    async def after(n: int) -> int:
        order.append(f"after {n}")
        return n

    @app.flow
    def third(n: int) -> int:
        return leaf.step(n)

    @app.flow
    def second(n: int) -> int:
        return after.step(third.step(leaf.step(n)))

    @app.flow
    def outermost(n: int) -> int:
        return after.step(second.step(leaf.step(n)))

    async with app:
        run = await outermost.enqueue(0)
        job = await ended(app, clock, run)
        assert job.state is State.COMPLETED, job.failure
        assert await run.result(timeout=1) == 3
        assert order == ["leaf 0", "leaf 1", "leaf 2", "after 3", "after 3"]


async def test_delay_of_a_step_counts_from_its_release(app: Mainspring, clock: VirtualClock) -> None:
    at: list[Any] = []

    @app.task
    async def note() -> int:
        at.append(clock.now())
        return 1

    @app.task
    async def late(n: int) -> int:
        at.append(clock.now())
        return n

    @app.flow
    def patient() -> int:
        return late.using(delay=timedelta(minutes=10)).step(note.step())

    async with app:
        run = await patient.enqueue()
        await ended(app, clock, run, minutes=11)
        assert timedelta(minutes=10) <= at[1] - at[0] < timedelta(minutes=10, seconds=10)


async def test_keys_delay_priority_and_expiry_act_on_a_flow_as_on_a_job(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def one() -> int:
        await clock.sleep(60)
        return 1

    @app.flow
    def keyed() -> int:
        return one.step()

    async with app:
        run = await keyed.using(unique_key="k").enqueue()
        async with app.worker():
            await clock.elapse(seconds=10)
            assert (await run.job()).state is State.WAITING
            again = await keyed.using(unique_key="k").enqueue()
            assert (again.id, again.status) == (run.id, "duplicate")
            await clock.elapse(minutes=2)
            third = await keyed.using(unique_key="k").enqueue()
            assert third.status == "new"
            await clock.elapse(minutes=2)
        late = await keyed.using(delay=3600).enqueue()
        gone = await keyed.using(delay=0, expires=1).enqueue()
        clock.advance(seconds=5)
        await ended(app, clock, gone, seconds=10)
        assert (await gone.job()).state is State.EXPIRED
        assert (await late.job()).shown(clock.now()) == "scheduled"


async def test_flow_that_has_begun_does_not_expire_while_it_waits(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def slow() -> int:
        await clock.sleep(120)
        return 1

    @app.flow(expires=60)
    def brief() -> int:
        return slow.step()

    async with app:
        run = await brief.enqueue()
        assert (await ended(app, clock, run)).state is State.COMPLETED


async def test_schedule_with_overlap_skip_skips_while_its_flow_waits(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def slow() -> int:
        await clock.sleep(150)
        return 1

    @app.every(minutes=1, overlap="skip")
    @app.flow
    def nightly() -> int:
        return slow.step()

    async with app, app.worker():
        await clock.elapse(minutes=7, seconds=30)
        flows = await app.flows.list(["nightly"], newest=False)
        assert [job.state for job in flows][:2] == [State.COMPLETED] * 2
        assert len(flows) == 3
        await app.schedules.pause("nightly")
        await clock.elapse(minutes=5)
        skipped = [tick for tick in await app.schedules.ticks("nightly") if tick.what == "skipped"]
        assert len(skipped) >= 3


async def test_duration_of_a_flow_in_statistics_is_from_its_plan_to_its_end(
    app: Mainspring, clock: VirtualClock
) -> None:
    @app.task
    async def slow() -> int:
        await clock.sleep(100)
        return 1

    @app.flow
    def measured() -> int:
        return slow.step()

    async with app:
        run = await measured.enqueue()
        await ended(app, clock, run)
        stats = await app.stats(task="measured")
        found = stats.by_task["measured"]
        assert found.runs == 1
        assert found.p50 is not None
        assert 95 < found.p50 < 115


async def test_store_without_flows_refuses_to_enqueue_a_flow(clock: VirtualClock) -> None:
    class OwnStore(MemoryStore):
        capabilities = replace(MemoryStore.capabilities, flows=False)

    app = Mainspring(OwnStore(clock), clock=clock)

    @app.flow
    def any_flow() -> None: ...

    with pytest.raises(BadInput, match="has no flows"):
        await any_flow.enqueue()


async def test_middleware_sees_the_planning_run(clock: VirtualClock, url: str) -> None:
    seen: list[str] = []

    async def layer(ctx: Context, call_next: Any) -> Any:
        seen.append(ctx.job.task)
        return await call_next(ctx)

    app = Mainspring(url, clock=clock, middleware=[layer])

    @app.task
    async def one() -> int:
        return 1

    @app.flow
    def watched() -> int:
        return one.step()

    async with app:
        run = await watched.enqueue()
        assert (await ended(app, clock, run)).state is State.COMPLETED
        assert seen == ["watched", "one"]


async def test_flows_of_one_claim_are_read_in_few_calls(clock: VirtualClock, url: str) -> None:
    app, faults = Mainspring(url, clock=clock), Faults()
    reads: list[int] = []

    @app.task(queue="steps")
    async def one(n: int) -> int:
        return n

    @app.flow
    def small(n: int) -> int:
        return one.step(n)

    class Counting(FaultStore):
        def __getattr__(self, name: str) -> Any:
            if name == "flows":
                inner = self._store.flows  # type: ignore[attr-defined]

                async def flows(ids: Any) -> Any:
                    reads.append(len(ids))
                    await asyncio.sleep(0)
                    return await inner(ids)

                return flows
            return super().__getattr__(name)

    app._engine.wrap_store(lambda store: Counting(store, faults))  # type: ignore[arg-type,return-value]
    async with app:
        runs = await app.enqueue_many([small.job(n) for n in range(40)])
        for queue in ("default", "steps", "default"):
            async with app.worker(queues=[queue], concurrency=100):
                await clock.elapse(minutes=1)
        assert [await run.result(timeout=1) for run in runs] == list(range(40))
        assert len(reads) <= 4
        assert sum(reads) == 40


async def test_steps_of_a_flow_keep_options_of_their_tasks(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(queue="stock", priority=7, max_retries=1)
    async def failing() -> int:
        raise ValueError("no")

    @app.flow(queue="flows")
    def options() -> int:
        return failing.using(tags=["eu"]).step()

    async with app:
        run = await options.enqueue()
        await ended(app, clock, run)
        (job,) = await app.jobs.list(Filter(tasks=("failing",)))
        assert (job.queue, job.priority, job.tags, job.attempt) == ("stock", 7, ("eu",), 2)
        assert (await run.job()).queue == "flows"


async def test_first_returns_the_value_of_the_step_that_has_one(app: Mainspring, clock: VirtualClock) -> None:
    @app.task(max_retries=0)
    async def main(fails: bool) -> str:
        if fails:
            raise ValueError("no")
        return "main"

    @app.task
    async def fallback(value: str | None) -> str:
        return f"fallback for {value}"

    @app.flow
    def safe(fails: bool) -> str:
        tried = main.step(fails)
        return first(tried, fallback.using(on="failure").step(tried))

    async with app:
        good, bad = await safe.enqueue(False), await safe.enqueue(True)
        await ended(app, clock, good)
        assert await good.result(timeout=1) == "main"
        assert await bad.result(timeout=1) == "fallback for None"
        assert (await states(app, good))["fallback"] == "skipped"


async def test_finish_raised_or_returned_ends_the_flow_with_its_value(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def search(n: int) -> str:
        await clock.sleep(n)
        if n == 5:
            raise Finish({"found": n})
        return "no"

    @app.task
    def quick() -> Any:
        return Finish("quick")

    @app.task
    async def after(found: str) -> str:
        return found

    @app.flow
    def race() -> Any:
        return [after.step(search.step(n)) for n in (5, 500, 600)]

    @app.flow
    def returned() -> Any:
        return after.step(quick.step())

    async with app:
        run, other = await race.enqueue(), await returned.enqueue()
        job = await ended(app, clock, run, seconds=60)
        assert job.state is State.COMPLETED
        assert await run.result(timeout=1) == {"found": 5}
        assert await other.result(timeout=1) == "quick"
        found = await states(app, run)
        assert [found[name] for name in ("search", "search-2", "search-3")] == ["completed", "cancelled", "cancelled"]
        assert {found[name] for name in ("after", "after-2", "after-3")} == {"cancelled"}


def test_bad_flow_is_bad_input() -> None:
    assert issubclass(BadFlow, BadInput)


async def test_finish_with_a_value_over_the_limit_kills_its_step(app: Mainspring, clock: VirtualClock) -> None:
    app.configure(result_limit=1_000)

    @app.task(max_retries=3)
    async def search() -> str:
        raise Finish("x" * 2_000)

    @app.flow
    def found() -> str:
        search.step()
        return search.using(step="other", delay=60).step()

    async with app:
        run = await found.enqueue()
        await ended(app, clock, run, minutes=3)
        job = await run.job()
        assert job.state is State.DEAD
        assert job.failure is not None
        assert "search (ResultLost: the result is 2,002 bytes" in job.failure.message


async def test_step_in_a_process_gets_large_values_and_may_skip_or_finish(app: Mainspring, clock: VirtualClock) -> None:
    @app.task
    async def make() -> str:
        return "x" * 20_000

    measure = app.task(executor="process")(flow_jobs.measure)
    decline = app.task(executor="process")(flow_jobs.decline)
    stop = app.task(executor="process")(flow_jobs.stop)

    @app.flow
    def children() -> int:
        size = measure.step(make.step())
        return stop.using(after=decline.step()).step(size)

    async with app:
        run = await children.enqueue()
        job = await ended(app, clock, run)
        assert job.state is State.COMPLETED, job.failure
        assert await run.result(timeout=1) == {"size": 20_000}
        assert (await states(app, run))["decline"] == "skipped"


async def test_flow_enqueued_in_a_transaction_runs_only_if_that_is_committed(
    tmp_path: Path, empty_file: Path, clock: VirtualClock
) -> None:
    path = shutil.copy(empty_file, tmp_path)
    app = Mainspring(f"sqlite:///{path}", clock=clock)

    @app.task
    async def one() -> int:
        return 1

    @app.flow
    def small() -> int:
        return one.step()

    async with app:
        with closing(sqlite3.connect(path)) as db:
            await small.using(within=db).enqueue()
            db.rollback()
            run = await small.using(within=db).enqueue()
            db.commit()
        assert [job.id for job in await app.flows.list()] == [run.id]
        await ended(app, clock, run)
        assert await run.result(timeout=1) == 1


async def test_flow_whose_parameters_have_changed_concludes_as_it_was_planned(url: str, clock: VirtualClock) -> None:
    before, after = Mainspring(url, clock=clock), Mainspring(url, clock=clock)

    async def one(n: int) -> int:
        return n

    def old(n: int) -> int:
        return before.tasks["one"].step(n)

    def new(text: str, more: list[str]) -> int:
        raise AssertionError("it is planned already")

    for app, function in ((before, old), (after, new)):
        app.task(one)
        app.flow(name="changed")(function)
    if url == "memory://":
        after._engine.wrap_store(lambda _: before._engine._root)
    async with before, after:
        run = await before.tasks["changed"].enqueue(5)
        async with before.worker():
            await clock.elapse(milliseconds=1)
        assert (await ended(after, clock, run)).state is State.COMPLETED
        assert await run.result(timeout=1) == 5


async def test_events_of_a_flow_are_a_suspension_and_one_end(app: Mainspring, clock: VirtualClock) -> None:
    seen: list[tuple[str, str, State]] = []

    @app.on(JobEnded)
    def note(event: JobEnded) -> None:
        seen.append((type(event).__name__, event.job.task, event.outcome.state))

    @app.task
    async def skipped() -> int:
        raise Skip("not today")

    @app.flow
    def small() -> None:
        skipped.step()

    async with app:
        await ended(app, clock, await small.enqueue())
    assert seen == [
        ("JobEnded", "small", State.WAITING),
        ("JobEnded", "skipped", State.COMPLETED),
        ("JobEnded", "small", State.COMPLETED),
    ]
