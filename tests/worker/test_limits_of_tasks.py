"""Limits as users say them: on tasks, by calls, in flows and schedules, changed at run time; and what `why` says."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring import BadInput, BadTask, Limit, Mainspring, every
from mainspring.records.limit import limit_key_of


@pytest.fixture
def app(tmp_path: Any) -> Mainspring:
    return Mainspring(f"sqlite:///{tmp_path}/jobs.db")


class Gauge:
    """Counts the runs of each key that go on at once."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.order: list[str] = []

    async def pass_through(self, key: str) -> None:
        self.now[key] = self.now.get(key, 0) + 1
        self.most[key] = max(self.most.get(key, 0), self.now[key])
        self.order.append(key)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now[key] -= 1


async def test_a_task_runs_as_many_jobs_of_a_key_at_once_as_its_limit_says(app: Mainspring) -> None:
    gauge = Gauge()

    @app.task(limit=Limit(running=2, by="customer"))
    async def charge(customer: str, amount: int) -> None:
        await gauge.pass_through(customer)

    async with app:
        await app.enqueue_many(charge.job(f"c{n % 3}", n) for n in range(60))
        assert await app.drain() == 60
    assert set(gauge.most.values()) == {2}


async def test_all_workers_together_keep_the_limit(app: Mainspring) -> None:
    gauge = Gauge()

    @app.task(limit=Limit(running=3))
    async def export(n: int) -> None:
        await gauge.pass_through("")

    async with app:
        await app.enqueue_many(export.job(n) for n in range(50))
        runs = await asyncio.gather(*(app.worker(concurrency=10).drain() for _ in range(3)))
    assert sum(runs) == 50
    assert gauge.most == {"": 3}


async def test_keys_take_turns_where_nothing_is_limited(app: Mainspring) -> None:
    gauge = Gauge()

    @app.task(limit=Limit(by="tenant"))
    async def work(tenant: str) -> None:
        await gauge.pass_through(tenant)

    async with app:
        await app.enqueue_many(work.job("many") for _ in range(40))
        await app.enqueue_many(work.job("few") for _ in range(3))
        await app.worker(concurrency=1).drain()
    assert gauge.order.index("few") < 3
    assert [n for n, one in enumerate(gauge.order) if one == "few"][-1] < 8


async def test_a_rate_holds_in_every_minute() -> None:
    app = Mainspring("memory://")
    started: list[float] = []

    @app.task(limit=Limit(rate=3, per=timedelta(minutes=1), burst=2))
    async def call(n: int) -> None:
        started.append(app.clock.now().timestamp())

    async with app.testing() as jobs:
        for n in range(9):
            await call.enqueue(n)
        await jobs.advance(minutes=3)
    begin = started[0]
    assert [round(at - begin) for at in started] == [0, 0, 20, 40, 60, 80, 100, 120, 140]


async def test_the_key_is_made_of_arguments_or_said_by_the_call(app: Mainspring) -> None:
    @app.task(limit=Limit(running=1, by=("region", "user")))
    async def of_two(user: int, region: str) -> None: ...

    @app.task(limit=Limit(by=lambda user: f"user-{user % 10}"))
    async def of_function(user: int) -> None: ...

    @app.task(limit=Limit(running=1))
    async def of_one_key() -> None: ...

    @app.task
    async def without_limit() -> None: ...

    assert of_two.job(7, "eu").limit_key == limit_key_of("task:of_two", "eu/7")
    assert of_two.using(limit_key="x").job(7, "eu").limit_key == limit_key_of("task:of_two", "x")
    assert of_function.job(123).limit_key == limit_key_of("task:of_function", "user-3")
    assert of_one_key.job().limit_key == limit_key_of("task:of_one_key")
    assert without_limit.job().limit_key is None
    assert without_limit.using(limit_key="tenant").job().limit_key == limit_key_of("task:without_limit", "tenant")
    assert app._engine.job("of_two", {"user": 7, "region": "eu"}).limit_key == limit_key_of("task:of_two", "eu/7")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"running": -1}, "running"),
        ({"running": True}, "running"),
        ({"rate": 0}, "rate"),
        ({"rate": 1, "per": 0}, "per"),
        ({"burst": 3}, "rate="),
        ({"rate": 1, "burst": 10**6, "per": 86_400}, "burst"),
        ({"by": ()}, "by"),
        ({"by": 7}, "by"),
        ({"by": "nobody"}, "nobody"),
        ({"total": "x"}, "total"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_by_name(app: Mainspring, limit: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):

        @app.task(limit=Limit(**limit))
        async def work(user: int) -> None: ...


def test_what_is_no_limit_or_no_key_is_refused(app: Mainspring) -> None:
    with pytest.raises(BadInput, match="Limit"):

        @app.task(limit=3)  # type: ignore[call-overload]
        async def one() -> None: ...

    with pytest.raises(TypeError, match="open"):
        Limit(open=5)  # type: ignore[call-arg]
    with pytest.raises(BadTask, match="limit"):

        @app.flow(limit=Limit(running=1))  # type: ignore[call-arg]
        def flow() -> None: ...

    @app.task(limit=Limit(by="user"))
    async def work(user: str) -> None: ...

    for key in ("", "a\nb", "x" * 201):
        with pytest.raises(BadInput, match="printable"):
            work.job(key)
        with pytest.raises(BadInput, match="limit_key"):
            work.using(limit_key=key)


async def test_a_map_runs_as_many_jobs_at_once_as_it_says(app: Mainspring) -> None:
    gauge = Gauge()

    @app.task
    async def resize(n: int) -> int:
        await gauge.pass_through("")
        return n

    @app.flow
    def album() -> Any:
        return resize.using(at_once=4).map(list(range(30)))

    async with app:
        made = await album.enqueue()
        await app.drain()
        assert await made.result() == list(range(30))
    assert gauge.most == {"": 4}


async def test_what_a_step_cannot_have_is_refused_with_the_way_out(app: Mainspring) -> None:
    @app.task(limit=Limit(running=1, by="user"))
    async def work(user: str) -> str:
        return user

    @app.flow
    def by_argument() -> str:
        return work.step("a")

    @app.flow
    def one_step() -> str:
        return work.using(limit_key="a", at_once=2).step("a")

    @app.flow
    def with_key() -> str:
        return work.using(limit_key="a").step("a")

    async with app:
        good, *bad = [await flow.enqueue() for flow in (with_key, by_argument, one_step)]
        await app.drain()
        assert await good.result() == "a"
        failures = [(await app.jobs.get(one.id)).failure for one in bad]
        for failure, said in zip(failures, ("limit_key", "at_once"), strict=True):
            assert failure is not None
            assert said in failure.message


async def test_numbers_are_changed_while_jobs_wait_and_a_restart_keeps_them(app: Mainspring) -> None:
    @app.task(limit=Limit(running=1, by="user"))
    async def work(user: str) -> None: ...

    async with app:
        await app.enqueue_many(work.job("a") for _ in range(3))
        assert await app.drain() == 3
        await app.limits.set("task:work", Limit(running=0))
        await app.enqueue_many(work.job("a") for _ in range(3))
        assert await app.drain() == 0
        (group,) = await app.limits.groups("task:work")
        assert (group.running, group.waiting, group.next_at) == (0, 3, None)
        (use,) = await app.limits.list()
        assert (use.limit.running, use.limit.by) == (0, ("user",))
        await app.limits.remove("task:work")
        assert await app.limits.list() == []
        assert await app.drain() == 3


async def test_code_that_says_another_limit_sets_it(app: Mainspring, tmp_path: Any) -> None:
    def release(limit: Limit) -> Mainspring:
        made = Mainspring(f"sqlite:///{tmp_path}/jobs.db")

        @made.task(limit=limit)
        async def work() -> None: ...

        return made

    first, second = release(Limit(running=1)), release(Limit(running=5))
    async with first:
        await first.drain()
        await first.limits.set("task:work", Limit(running=3))
        await first.drain()
        assert [use.limit.running for use in await first.limits.list()] == [3]
    async with second:
        await second.drain()
        assert [use.limit.running for use in await second.limits.list()] == [5]


async def test_why_says_which_limit_and_who_holds_it(app: Mainspring) -> None:
    said: list[Any] = []

    @app.task(limit=Limit(running=1, by="user"))
    async def work(user: str) -> None:
        said.extend(await app.jobs.why(other.id) if not said else ())

    async with app:
        holder, other = await work.using(priority=1).enqueue("a"), await work.enqueue("a")
        await app.worker(concurrency=2).drain()
        assert (said[0].code, said[0].holders) == ("limit_full", (holder.id,))
        assert "'task:work' for 'a' lets 1 run at once" in said[0].text
        await app.limits.set("task:work", Limit(total=0))
        blocked = await work.enqueue("b")
        assert (await app.jobs.why(blocked.id))[0].code == "limit_full"


async def test_why_says_when_a_rate_lets_the_next_job_start() -> None:
    app = Mainspring("memory://")

    @app.task(limit=Limit(rate=1, per="1m"))
    async def work() -> None: ...

    async with app.testing() as jobs:
        await work.enqueue()
        await jobs.drain()
        waiting, until = await work.enqueue(), app.clock.now() + timedelta(minutes=1)
        reason = (await app.jobs.why(waiting.id))[0]
        assert (reason.code, reason.until) == ("limit_rate", until)


async def test_a_schedule_makes_jobs_with_the_key_of_its_arguments() -> None:
    app = Mainspring("memory://")

    @app.task(limit=Limit(running=1, by="user"))
    async def work(user: str) -> None: ...

    app.schedule("each hour", every(1).hours, work, kwargs={"user": "a"})
    async with app.testing() as jobs:
        await jobs.advance(hours=1)
        by_hand = await app.schedules.trigger("each hour")
        assert {job.limit_key for job in jobs.of(work)} == {limit_key_of("task:work", "a")}
        assert by_hand is not None


@pytest.mark.parametrize("name", ["work", "queue:x", "task:", 7])
async def test_a_name_that_no_limit_can_have_is_refused(app: Mainspring, name: Any) -> None:
    async with app:
        with pytest.raises(BadInput):
            await app.limits.set(name, Limit(running=1))


async def test_a_limit_that_no_code_has_said_cannot_be_set(app: Mainspring) -> None:
    async with app:
        with pytest.raises(BadInput, match="in the code first"):
            await app.limits.set("task:work", Limit(running=1))


def test_a_plan_with_limits_is_the_same_read_as_a_document(app: Mainspring) -> None:
    from mainspring.flow.document import limit_options

    assert limit_options(limit_key_of("task:work", "a")) == {"limit_key": "a"}
    assert limit_options(limit_key_of("task:work")) == {}
    assert limit_options("at_once:7") == {"at_once": 7}


@pytest.mark.parametrize(
    "key", ["a", "task:work", "queue:x\na", "task:work\na\nb", "at_once:x\na", "task:" + "x" * 300 + "\n"]
)
async def test_a_limit_key_that_no_task_makes_is_refused(app: Mainspring, key: str) -> None:
    @app.task
    async def work() -> None: ...

    async with app:
        with pytest.raises(BadInput, match="limit_key"):
            await app.enqueue_many([replace(work.job(), limit_key=key)])
