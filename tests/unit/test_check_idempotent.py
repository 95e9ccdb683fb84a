"""jobs.check_idempotent(): planted faults are found at their line, sound tasks pass."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mainspring import BadInput, Context, Mainspring
from mainspring.middleware import Next
from mainspring.task.task import Task
from mainspring.testing import IdempotencyReport
from mainspring.testing.crash import CrashPoint
from mainspring.testing.idempotency import sample


class Bank:
    """A payment provider: it charges once for each key."""

    def __init__(self) -> None:
        self.charges: list[int] = []
        self._keys: set[str] = set()

    async def charge(self, amount: int, key: str | None = None) -> None:
        await asyncio.sleep(0)
        if key is None or key not in self._keys:
            self.charges.append(amount)
        if key is not None:
            self._keys.add(key)


class World:
    """The services that the tasks use, and a database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = str(folder / "shop.db")
        self.bank = Bank()
        self.mails: list[str] = []
        self.items: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        self.bank = Bank()
        self.mails.clear()
        self.items.clear()
        self.items["stock"] = 5
        self.log.unlink(missing_ok=True)
        with closing(sqlite3.connect(self.db)) as db, db:
            db.execute("create table if not exists orders (id integer, state text)")
            db.execute("create table if not exists paid (id integer primary key, state text)")
            db.execute("delete from orders")
            db.execute("delete from paid")

    def state(self) -> Any:
        with closing(sqlite3.connect(self.db)) as db, db:
            rows = [db.execute(f"select * from {table} order by id").fetchall() for table in ("orders", "paid")]
        log = self.log.read_text() if self.log.exists() else ""
        return self.bank.charges, self.mails, sorted(self.items.values()), rows, log

    @property
    def log(self) -> Path:
        return self.folder / "orders.log"

    async def send(self, to: str) -> None:
        await asyncio.sleep(0)
        self.mails.append(to)

    async def put(self, name: str, value: int) -> None:
        await asyncio.sleep(0)
        self.items[name] = value


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("memory://")


async def check(app: Mainspring, world: World, fn: Callable[..., Any], **options: Any) -> IdempotencyReport:
    """Checks the function as a task with one argument."""
    task: Task[Any, Any] = fn if isinstance(fn, Task) else app.task(fn)
    async with app.testing() as jobs:
        return await jobs.check_idempotent(task, 7, state=world.state, reset=world.reset, raises=False, **options)


def fault_line(fn: Any) -> int:
    """The line of a function that is marked as its fault."""
    lines, start = inspect.getsourcelines(fn)
    return next(start + index for index, line in enumerate(lines) if "# fault" in line)


# planted faults


def double_insert(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        with sqlite3.connect(world.db) as db:
            db.execute("insert into orders values (?, 'new')", [order])
            db.commit()  # fault
        await world.bank.charge(5, key=f"{order}")

    return task


def double_charge(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        await world.put("seen", order)
        await world.bank.charge(5)  # fault
        await world.put("paid", order)

    return task


def read_modify_write(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        left = world.items["stock"]
        await asyncio.sleep(0)
        world.items["stock"] = left - 1  # fault

    return task


def file_append(world: World, app: Mainspring) -> Any:
    def task(order: int) -> None:
        text = f"order {order}\n"
        with world.log.open("a") as log:
            log.write(text)  # fault
        assert world.log.exists()

    return task


def enqueue_without_key(world: World, app: Mainspring) -> Any:
    @app.task
    async def ship(order: int) -> None: ...

    async def task(order: int) -> None:
        await ship.enqueue(order)  # fault
        await world.put("shipping", order)

    return task


def enqueue_in_a_thread(world: World, app: Mainspring) -> Any:
    @app.task
    async def ship(order: int) -> None: ...

    def start(order: int) -> None:
        if "shipping" not in world.items:
            ship.sync.enqueue(order)
            world.items["shipping"] = order

    def task(order: int) -> None:
        start(order)  # fault

    return task


def counter_increment(world: World, app: Mainspring) -> Any:
    def task(order: int) -> None:
        if order:
            world.items["stock"] += 1  # fault

    return task


def mail_sent_twice(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        if str(order) not in world.items:
            await world.send("ada")  # fault
            await world.put(str(order), 1)

    return task


def list_append(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        for name in ("a", "b"):
            await asyncio.sleep(0)
            world.mails.append(name)  # fault

    return task


def put_with_random_id(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        await world.put(str(uuid4()), order)  # fault
        await world.send("ada") if not world.mails else None

    return task


def delete_then_fail(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        left = world.items["stock"]
        await world.put("done", left)
        del world.items["stock"]  # fault
        await asyncio.sleep(0)

    return task


def a_part_of_a_gather(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        await asyncio.gather(world.bank.charge(5), world.put("seen", 1))  # fault

    return task


def refund_in_finally(world: World, app: Mainspring) -> Any:
    """Its `finally` would make up for it, and does not run when the process dies."""

    async def task(order: int) -> None:
        world.items["stock"] -= 1
        try:
            await asyncio.sleep(0)
            world.items["sold"] = order
        finally:
            world.items["stock"] += 1

    return task


def charge_in_a_step(world: World, app: Mainspring) -> Any:
    """The worker may die before the step is stored, and then it is called again."""

    async def task(ctx: Context, order: int) -> None:
        await ctx.step(world.bank.charge, 5)  # fault
        await ctx.sleep("1d")
        await world.put("paid", order)

    return task


FAULTS = [
    double_insert,
    double_charge,
    read_modify_write,
    file_append,
    enqueue_without_key,
    enqueue_in_a_thread,
    counter_increment,
    mail_sent_twice,
    list_append,
    put_with_random_id,
    delete_then_fail,
    a_part_of_a_gather,
    charge_in_a_step,
]


@pytest.mark.parametrize("planted", FAULTS, ids=lambda one: one.__name__)
async def test_a_planted_fault_is_found_at_its_line(planted: Any, world: World, app: Mainspring) -> None:
    task = planted(world, app)
    report = await check(app, world, task)
    assert report.line == fault_line(task), report
    assert report.file == __file__
    assert not report.idempotent
    assert "# fault" in str(report)


async def test_no_finally_block_runs_in_a_process_that_has_died(world: World, app: Mainspring) -> None:
    report = await check(app, world, refund_in_finally(world, app))
    assert not report.idempotent
    assert report.found.startswith("the job is completed")


# sound tasks


def upsert(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        with sqlite3.connect(world.db) as db:
            db.execute("insert into paid values (?, 'paid') on conflict (id) do update set state = 'paid'", [order])
        await world.put("seen", order)

    return task


def idempotency_key(world: World, app: Mainspring) -> Any:
    async def task(ctx: Context, order: int) -> None:
        await world.bank.charge(5, key=ctx.job.id)
        await world.put("paid", order)

    return task


def one_transaction(world: World, app: Mainspring) -> Any:
    """Two writes of one transaction, and the check that says whether it has been."""

    def task(order: int) -> None:
        with sqlite3.connect(world.db) as db:
            db.execute("begin immediate")
            if db.execute("select 1 from paid where id = ?", [order]).fetchone() is None:
                db.execute("insert into orders values (?, 'paid')", [order])
                db.execute("insert into paid values (?, 'paid')", [order])

    return task


def check_then_act(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        db = sqlite3.connect(world.db)
        try:
            db.execute("insert into paid values (?, 'paid')", [order])
            await asyncio.sleep(0)
            db.commit()
        except sqlite3.IntegrityError:
            pass
        finally:
            db.close()

    return task


def enqueue_with_key(world: World, app: Mainspring) -> Any:
    @app.task
    async def ship(order: int) -> None: ...

    async def task(order: int) -> None:
        await ship.using(idempotency_key=f"ship-{order}").enqueue(order)
        await world.put("shipping", order)

    return task


def file_replaced(world: World, app: Mainspring) -> Any:
    def task(order: int) -> None:
        part = world.log.with_suffix(".part")
        part.write_text(f"order {order}\n")
        part.replace(world.log)

    return task


def absolute_value(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        await asyncio.gather(world.put("a", order), world.put("b", order + 1))

    return task


def with_a_lock(world: World, app: Mainspring) -> Any:
    """The lock of the dead process is free in the next one."""
    lock, turn = threading.Lock(), asyncio.Lock()

    async def task(order: int) -> None:
        with lock:
            await world.put("a", order)
        async with turn:
            await world.put("b", order)

    return task


def delete_if_there(world: World, app: Mainspring) -> Any:
    def task(order: int) -> None:
        world.items.pop("stock", None)
        world.items["done"] = order

    return task


def sleeping(world: World, app: Mainspring) -> Any:
    async def task(order: int) -> None:
        await world.put("began", order)
        await app.clock.sleep(60)
        await world.put("ended", order)

    return task


def children(world: World, app: Mainspring) -> Any:
    """Tasks, generators and an executor of its own die with it."""

    async def numbers() -> Any:
        try:
            for n in range(3):
                await asyncio.sleep(0)
                yield n
        finally:
            world.items["finally"] = 1

    async def one(n: int) -> None:
        await world.put(f"{n}", n)

    async def task(order: int) -> None:
        async with asyncio.TaskGroup() as group:
            async for n in numbers():
                group.create_task(one(n))
        assert await asyncio.to_thread(abs, -order) == order
        world.items["finally"] = 2

    return task


def stored_steps(world: World, app: Mainspring) -> Any:
    """What is random is made in a step, and so once."""

    async def make_key() -> str:
        await asyncio.sleep(0)
        return str(uuid4())

    async def task(ctx: Context, order: int) -> None:
        key = await ctx.step(make_key)
        await ctx.step(world.bank.charge, 5, key)
        await ctx.sleep("1d")
        await asyncio.gather(*(ctx.step(world.put, f"{n}", n) for n in range(3)))
        world.items["sold"] = order

    return task


def stored_steps_of_a_plain_function(world: World, app: Mainspring) -> Any:
    def make_key() -> str:
        return str(uuid4())

    def put(key: str, value: object) -> None:
        world.items[key] = value

    def task(ctx: Context, order: int) -> None:
        ctx.sync.step(put, "key", len(ctx.sync.step(make_key)))
        ctx.sync.step(put, "sold", order)

    return task


SOUND = [
    upsert,
    idempotency_key,
    one_transaction,
    check_then_act,
    enqueue_with_key,
    file_replaced,
    absolute_value,
    with_a_lock,
    delete_if_there,
    sleeping,
    children,
    stored_steps,
    stored_steps_of_a_plain_function,
]


@pytest.mark.parametrize("sound", SOUND, ids=lambda one: one.__name__)
async def test_a_sound_task_passes(sound: Any, world: World, app: Mainspring) -> None:
    report = await check(app, world, sound(world, app))
    assert report.idempotent, report
    assert report.tried == report.points > 2
    assert not report.sampled


# flows


class Flows:
    """Flows over the same services; the tasks of their steps are in the same app."""

    def __init__(self, world: World, app: Mainspring) -> None:
        @app.task
        async def charge(order: int) -> str:
            await world.put("charged", order)
            return f"txn-{order}"

        @app.task
        def ship(order: int, txn: str) -> int:
            world.items[txn] = order
            return order

        @app.task
        async def thank(order: int) -> None:
            await world.send("ada")  # fault

        @app.task
        async def numbers(order: int) -> AsyncIterator[int]:
            for n in range(3):
                yield n + order

        @app.task
        async def pack(n: int) -> int:
            await world.put(f"item {n}", n)
            return n

        @app.task
        async def count(items: list[int]) -> int:
            world.items["sum"] = sum(items)
            return sum(items)

        @app.flow
        def buy(order: int) -> int:
            return ship.using(delay="1d").step(order, charge.step(order))

        @app.flow
        def buy_and_thank(order: int) -> int:
            txn = charge.step(order)
            thank.using(after=txn).step(order)
            return ship.step(order, txn)

        @app.flow
        def pack_all(order: int) -> int:
            return count.step(pack.map(numbers.step(order)))

        @app.flow
        def all_of_it(order: int) -> int:
            return ship.step(pack_all.step(order), charge.step(order))

        self.thank, self.buy, self.buy_and_thank, self.all_of_it = thank, buy, buy_and_thank, all_of_it


@pytest.mark.parametrize("name", ["buy", "all_of_it"])
async def test_a_sound_flow_passes_at_each_line_of_each_step(name: str, world: World, app: Mainspring) -> None:
    report = await check(app, world, getattr(Flows(world, app), name))
    assert report.idempotent, report
    assert report.tried == report.points > 10


async def test_the_faulty_step_of_a_flow_is_found_at_its_line(world: World, app: Mainspring) -> None:
    flows = Flows(world, app)
    report = await check(app, world, flows.buy_and_thank)
    assert (report.line, report.function) == (fault_line(flows.thank.fn), "thank"), report


# what it says


async def test_the_report_says_where_and_what(world: World, app: Mainspring) -> None:
    planted = counter_increment(world, app)
    report = await check(app, world, planted)
    assert (report.task, report.points, report.tried, report.function) == ("task", 3, 2, "task")
    first, *rest = str(report).splitlines()
    assert first == (
        f"task 'task' is not idempotent: its worker died after line {fault_line(planted)} of tests/unit/"
        "test_check_idempotent.py, in task(), and the next run left something else (it died at 2 of 3 points)"
    )
    assert rest == [
        '    world.items["stock"] += 1  # fault',
        "-: one run, +: one that died there, and another one",
        "      the job is completed",
        "      task: 1 job",
        "    - ([], [], [6], [[], []], '')",
        "    + ([], [], [7], [[], []], '')",
    ]


async def test_a_difference_is_an_assertion_error(world: World, app: Mainspring) -> None:
    task = app.task(counter_increment(world, app))
    async with app.testing() as jobs:
        with pytest.raises(AssertionError, match=r"not idempotent: its worker died after line \d+ of"):
            await jobs.check_idempotent(task, 7, state=world.state, reset=world.reset)


async def test_a_task_that_fails_when_it_runs_again_is_found(world: World, app: Mainspring) -> None:
    report = await check(app, world, app.task(max_retries=0)(delete_then_fail(world, app)))
    assert "the job is dead: KeyError: 'stock'" in report.found


async def test_lines_of_helpers_are_points_if_they_are_given(world: World, app: Mainspring) -> None:
    class Shop:
        def sell(self) -> None:
            world.items["stock"] -= 1
            world.items["left"] = world.items["stock"]

    async def task(order: int) -> None:
        Shop().sell()

    without = await check(app, world, app.task(name="without")(task))
    assert (without.function, without.points) == ("task", 1)
    report = await check(app, world, task, also=[Shop])
    assert (report.function, report.points) == ("sell", 3)


async def test_a_wait_in_a_helper_is_a_point(world: World, app: Mainspring) -> None:
    async def pay() -> None:
        world.mails.append("paid")
        await asyncio.sleep(0)
        world.mails.clear()

    async def task(order: int) -> None:
        await pay()
        await asyncio.sleep(0)

    report = await check(app, world, task)
    assert report.idempotent

    async def remember() -> None:
        first = not world.mails
        world.mails.append("seen")
        await asyncio.sleep(0)
        world.mails[:] = ["first"] if first else []

    async def other(order: int) -> None:
        await remember()

    report = await check(app, world, other)
    assert (report.function, report.waited_at is not None and report.waited_at.endswith("in remember()")) == (
        "other",
        True,
    )


async def test_restart_does_what_a_new_process_begins_with(world: World, app: Mainspring) -> None:
    db = sqlite3.connect(world.db, check_same_thread=False)

    async def task(order: int) -> None:
        db.execute("insert into orders values (?, 'new')", [order])
        await asyncio.sleep(0)
        db.rollback()

    world.state()
    report = await check(app, world, task, restart=db.rollback)
    assert report.idempotent, report
    db.close()


async def test_no_middleware_of_the_application_runs_on(world: World) -> None:
    ended = list[str]()

    async def layer(ctx: Context, call_next: Next) -> Any:
        try:
            return await call_next(ctx)
        finally:
            ended.append(ctx.job.state)

    app = Mainspring("memory://", middleware=[layer])

    async def task(order: int) -> None:
        await world.put("seen", order)

    report = await check(app, world, task)
    assert report.points == 2  # the wait, and the end of the run, when the middleware has returned
    assert len(ended) == 2 + 1 + 2


async def test_the_harness_is_as_it_was(world: World, app: Mainspring) -> None:
    @app.task
    async def sell(order: int) -> None:
        await asyncio.sleep(0)

    async with app.testing() as jobs:
        await sell.enqueue(1)
        jobs.clock.advance(hours=1)
        before, now = jobs.enqueued, jobs.clock.now()
        seen = list[int]()
        await jobs.check_idempotent(sell, 2, state=lambda: len(jobs.enqueued), reset=lambda: seen.append(1))
        assert (jobs.enqueued, jobs.clock.now()) == (before, now)
        assert len(seen) == 2 + 2
        assert [job.attempt for job in await jobs.drain()] == [1]


async def test_the_process_is_as_it_was(world: World, app: Mainspring) -> None:
    def hooks() -> tuple[object, ...]:
        return sys.gettrace(), sys.getprofile(), sys.unraisablehook, gc.isenabled(), gc.get_freeze_count()

    before = hooks()
    assert (await check(app, world, file_replaced(world, app))).idempotent
    assert (await check(app, world, app.task(name="other")(children(world, app)))).idempotent
    assert hooks() == before


async def test_hooks_may_be_coroutine_functions(world: World, app: Mainspring) -> None:
    @app.task
    async def sell(order: int) -> None:
        world.items["sold"] = order

    async def state() -> dict[str, int]:
        return world.items

    async def reset() -> None:
        world.reset()

    async with app.testing() as jobs:
        report = await jobs.check_idempotent(sell, 7, state=state, reset=reset, restart=reset)
    assert str(report) == "task 'sell' is idempotent: its worker died at 1 of 1 points"


# misuse


async def test_without_reset_a_changed_state_is_refused(world: World, app: Mainspring) -> None:
    task = app.task(counter_increment(world, app))
    async with app.testing() as jobs:
        with pytest.raises(BadInput, match="task 'task' changes the state: give reset=, a function that puts it back"):
            await jobs.check_idempotent(task, 7, state=world.state)
        with pytest.raises(BadInput, match="reset= does not put back what task 'task' changes"):
            await jobs.check_idempotent(task, 7, state=world.state, reset=lambda: None)


async def test_a_state_that_differs_each_time_is_refused(world: World, app: Mainspring) -> None:
    async def task(order: int) -> None:
        world.mails.append(str(uuid4()))

    with pytest.raises(AssertionError, match="differ though no worker died: state= must leave out"):
        await check(app, world, task)


async def test_a_task_that_fails_anyway_is_refused(world: World, app: Mainspring) -> None:
    @app.task(max_retries=0)
    async def task(order: int) -> None:
        raise ValueError("sold out")

    with pytest.raises(
        AssertionError, match="does not complete when no worker dies: the job is dead: ValueError: sold out"
    ):
        await check(app, world, task)


async def test_a_state_that_cannot_be_copied_is_refused(world: World, app: Mainspring) -> None:
    task = app.task(counter_increment(world, app))
    async with app.testing() as jobs:
        with pytest.raises(
            BadInput, match=r"state\(\) has to return what can be copied and compared, not <unlocked _thread.lock"
        ):
            await jobs.check_idempotent(task, 7, state=threading.Lock)


async def test_what_cannot_be_checked_is_refused(world: World, app: Mainspring) -> None:
    @app.stub
    async def elsewhere(order: int) -> None: ...

    with pytest.raises(BadInput, match="task 'elsewhere' is a stub: check it in the process that has its code"):
        await check(app, world, elsewhere)
    process = app.task(executor="process", name="busy")(counter)
    with pytest.raises(BadInput, match="task 'busy' runs in a process of its own"):
        await check(app, world, process)
    with pytest.raises(BadInput, match="limit= is how many points to try, 1 or more, got 0"):
        await check(app, world, counter_increment(world, app), limit=0)


def counter(order: int) -> None: ...


# many points


def test_a_sample_has_each_line_and_no_more_than_its_limit() -> None:
    loop = [CrashPoint("a.py", line, "f") for line in (2, 3, 4)]
    points = [CrashPoint("a.py", 1, "f"), *loop * 1000, CrashPoint("a.py", 5, "f")]
    numbers = sample(points, 100)
    assert len(numbers) == len(set(numbers)) == 100
    assert {points[number - 1] for number in numbers} == set(points)
    assert numbers[0] == 1
    assert numbers[-1] == len(points)
    assert max(after - before for before, after in pairwise(numbers)) < 40
    assert sample(points[:100], 100) == list(range(1, 101))
    many = [CrashPoint("a.py", line, "f") for line in range(500)]
    assert len(set(sample(many, 100))) == 100


async def test_a_sample_is_said_to_be_one(world: World, app: Mainspring) -> None:
    async def task(order: int) -> None:
        for name in range(100):
            world.items[str(name)] = order

    report = await check(app, world, task, limit=10)
    assert (report.tried, report.sampled, report.points > 100) == (10, True, True)
    assert str(report).endswith(
        f"at 10 of {report.points} points; left out are points at lines that are run more than twice"
    )


async def test_a_hundred_points_take_less_than_five_seconds(app: Mainspring) -> None:
    seen = set[int]()

    @app.task
    async def task(order: int) -> None:
        for n in range(25):
            seen.add(n)
            await asyncio.sleep(0)

    began = time.process_time()  # and not the time of day, in which other processes have their part
    async with app.testing() as jobs:
        report = await jobs.check_idempotent(task, 7, state=lambda: seen, reset=seen.clear)
    assert report.tried >= 100
    assert time.process_time() - began < 5
