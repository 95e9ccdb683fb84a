"""What a user may write: every line must pass mypy --strict and pyright, with these very types."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, assert_type

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from mainspring import (
    Archived,
    Backoff,
    Breaker,
    Collect,
    Context,
    DeadLetter,
    Execution,
    Failure,
    Filter,
    Handle,
    Health,
    Job,
    JobDead,
    Key,
    Leader,
    LogLine,
    Mainspring,
    NewJob,
    Reason,
    Results,
    Retention,
    Retry,
    Schedule,
    ShownState,
    Snooze,
    Stats,
    Task,
    Tick,
    Window,
    Worker,
    at,
    cron,
    every,
    exists,
    first,
    in_,
    not_,
    signal,
)
from mainspring.events import JobEnded
from mainspring.trigger import At, Calendar, Cron, Every

app = Mainspring("memory://", beat=1, lease="20s")


# tasks: async, sync, with Context; bare and with options


@app.task
async def send(to: str, subject: str = "hi") -> int:
    return len(to + subject)


@app.task
def resize(path: str, width: int) -> bytes:
    return f"{path}{width}".encode()


@app.task
async def export(ctx: Context, user: int) -> datetime:
    ctx.log.info("attempt %s of %s", ctx.attempt, ctx.job.id)
    return datetime.now(UTC)


@app.task
def report(ctx: Context) -> None:
    assert_type(ctx.job, Job)


@app.task(queue="mail", priority=5, timeout=timedelta(seconds=30), max_retries=3, tags=["a"], metadata={"k": 1})
async def notify(to: str) -> str:
    return to


@app.task
async def onboard(ctx: Context, path: str) -> None:
    assert_type(await ctx.step(count_words, "a b", name="words"), int)
    assert_type(await ctx.step(encode, path), bytes)
    assert_type(await ctx.sleep("2d"), None)
    assert_type(await ctx.run(send, "ada", subject="a"), int)
    assert_type(await ctx.map(resize, [path], 100), list[bytes])


@app.task
def onboard_plainly(ctx: Context, path: str) -> None:
    assert_type(ctx.sync.step(encode, path), bytes)
    assert_type(ctx.sync.step(count_words, "a b"), int)
    assert_type(ctx.sync.run(send, "ada"), int)
    assert_type(ctx.sync.map(resize, [path], 100), list[bytes])


async def count_words(text: str) -> int:
    return len(text.split())


def encode(path: str) -> bytes:
    return path.encode()


@app.task(name="shrink", backoff=Backoff.linear(2), retry_on=ValueError, no_retry_on=(KeyError,), concurrency=2)
def shrink(path: str) -> float:
    return float(path)


@app.task(timeout=None, backoff=lambda n: n * 2.0, unique_key=Key(args=True), on_conflict="debounce")
async def index(ctx: Context, page: int) -> list[str]:
    return [str(page)]


@app.task
async def pay(ctx: Context, amount: int) -> None:
    async with ctx.transaction() as connection:
        await connection.execute("UPDATE accounts SET balance = balance - $1", amount)
        ctx.complete({"paid": amount})


async def within(connection: sqlite3.Connection, session: object) -> None:
    assert_type(await pay.using(within=connection).enqueue(5), Handle[None])
    assert_type(pay.sync.using(within=session).enqueue(5).duplicate, bool)
    await app.enqueue_many([pay.job(5)], within=session)


@app.task
async def steering(step: int) -> None:
    if step == 1:
        raise Retry(after=5)
    raise Snooze(timedelta(minutes=1))


@app.task(collect=Collect(size=100, delay="5s", grace=1, by="account"), queue="mail")
async def letters(ctx: Context, mails: list[str]) -> int:
    return len(mails)


@app.task(collect=Collect(100, timedelta(seconds=5), by=str.lower), name="lines", priority=3)
def write_lines(lines: list[str]) -> None: ...


@app.stub(collect=Collect(size=100, delay=5))
def count_elsewhere(numbers: list[int]) -> float:
    raise NotImplementedError


@app.stub
def elsewhere(path: str) -> int:
    raise NotImplementedError


@app.stub(name="far", queue="mail", timeout=5)
def far_away(path: str) -> int:
    raise NotImplementedError


async def middleware(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
    return await call_next(ctx)


@app.task(middleware=[middleware])
async def wrapped(a: int) -> int:
    return a


@app.dead_letter
async def mourn(letter: DeadLetter) -> str:
    return f"{letter.job_id}: {letter.failure.message}"


@app.task(on_failure=mourn, breaker=Breaker(failures=3, cooldown=60), retention=Retention(keep=10), failed_ratio=0.1)
async def careful(ctx: Context, rows: int) -> None:
    await ctx.progress(1, rows, "rows")
    ctx.items(success=1)


@app.task(executor="process", memory_limit="512MB", cpu_limit=60, soft_timeout=timedelta(seconds=5))
def render(ctx: Context, scene: str) -> bytes:
    ctx.progress(1)
    ctx.note(scene=scene)
    return scene.encode()


@app.task(breaker=Breaker(5, "5m"), retention={"dead": Retention(age="90d"), "completed": Retention(keep=0)})
def forgetful(letter: DeadLetter) -> None: ...


@app.archive
def put_aside(leaving: Sequence[Archived]) -> None:
    assert_type(leaving[0].job, Job)


@app.on(JobEnded)
def ended(event: JobEnded) -> None:
    assert_type(event.job, Job)


# calls become jobs, results come back


async def enqueue() -> None:
    assert_type(await send.enqueue("ada", subject="hello"), Handle[int])
    assert_type(await send.enqueue("ada"), Handle[int])
    assert_type(await resize.enqueue("a.png", width=640), Handle[bytes])
    assert_type(await export.enqueue(42), Handle[datetime])
    assert_type(await report.enqueue(), Handle[None])
    assert_type(await notify.enqueue("ada"), Handle[str])
    assert_type(await shrink.enqueue("a.png"), Handle[float])
    assert_type(await index.enqueue(page=1), Handle[list[str]])
    assert_type(await elsewhere.enqueue("a.png"), Handle[int])
    assert_type(await far_away.enqueue("a.png"), Handle[int])
    assert_type(await wrapped.enqueue(1), Handle[int])
    assert_type(await careful.enqueue(rows=5), Handle[None])
    assert_type(await render.enqueue("a.blend"), Handle[bytes])
    assert_type(await app.enqueue("send", to="ada"), Handle[Any])
    assert_type(await letters.using(queue="slow").enqueue("hello"), Handle[int])
    assert_type(await write_lines.enqueue("hello"), Handle[None])
    assert_type(count_elsewhere.sync.enqueue(5).result(), float)
    await app.enqueue_many(letters.job(mail) for mail in ("a", "b"))


async def results() -> None:
    handle = await send.enqueue("ada")
    assert_type(await handle.result(timeout=10), int)
    assert_type(await (await export.enqueue(42)).result(), datetime)
    assert_type(await handle.job(), Job)
    assert_type(handle.id, str)
    assert_type(handle.duplicate, bool)
    try:
        await handle.result()
    except JobDead as dead:
        print(dead)


async def using(connection: sqlite3.Connection) -> None:
    assert_type(await send.using(delay=60, priority=5, unique_key="one").enqueue("ada"), Handle[int])
    assert_type(await export.using(run_at=datetime(2030, 1, 1, tzinfo=UTC)).enqueue(42), Handle[datetime])
    assert_type(await send.using(timeout=None, expires=timedelta(hours=1)).enqueue("ada"), Handle[int])
    assert_type(await send.using(unique_key=lambda to, subject: to, on_conflict="raise").enqueue("ada"), Handle[int])
    assert_type(await send.using(within=connection).enqueue("ada"), Handle[int])
    assert_type(await resize.using(backoff=Backoff.constant(5), tags=("a", "b")).enqueue("a", 1), Handle[bytes])


async def many(people: list[str]) -> None:
    assert_type(send.job("ada"), NewJob)
    assert_type(await app.enqueue_many(send.job(to, subject="hi") for to in people), list[Handle[Any]])
    assert_type(await app.enqueue_many([send.job("ada"), export.job(42)]), list[Handle[Any]])


def without_awaiting() -> None:
    handle = send.sync.enqueue("ada", subject="hi")
    assert_type(handle.result(timeout=5), int)
    assert_type(handle.job(), Job)
    assert_type(resize.sync.using(priority=5).enqueue("a.png", 640).result(), bytes)
    assert_type(export.sync.enqueue(42).result(), datetime)


async def the_rest() -> None:
    assert_type(await app.jobs.get("id"), Job)
    for job in await app.jobs.list(Filter(states=("dead", "cancelled"), queues=("mail",)), limit=10):
        assert_type(job, Job)
    for execution in await app.executions.list(job_id="id"):
        assert_type(execution, Execution)
    await app.jobs.cancel(Filter(tags=("a",)), reason="enough")
    await app.queues.pause("mail")
    assert_type(await app.stats(), Stats)
    assert_type(await app.drain(), int)
    async with app, app.worker(queues={"mail": 5, "low": None}, concurrency=10) as worker:
        assert_type(worker, Worker)


async def steering_others() -> None:
    await app.jobs.update("id", priority=5, timeout=None, arguments={"to": "ada"}, tags=["a"])
    await app.jobs.reschedule(Filter(tasks=("send",)), timedelta(hours=1))
    await app.dead.redrive((await app.dead.groups())[0], arguments={"to": "bob"})
    await app.workers.resize("host-1", 20)
    await app.workers.drain(None)
    await app.workers.stop(None)
    for reason in await app.jobs.why("id"):
        assert_type(reason, Reason)
    async for line in app.jobs.tail("id"):
        assert_type(line, LogLine)
    assert_type(await app.stats(timedelta(days=1)), Stats)
    assert_type(await app.stats(None), Stats)
    assert_type(await app.health(), Health)
    assert_type(await app.prune(), int)


# schedules


@app.every(minutes=5, overlap="queue", jitter=timedelta(seconds=30))
async def healthcheck(url: str = "/") -> int:
    return len(url)


@app.cron("0 9 * * mon-fri", tz="Europe/London", window=("08:00", "18:00"), exclude=[date(2030, 12, 25)])
def digest(ctx: Context, kind: str = "daily") -> str:
    assert_type(ctx.scheduled_at, datetime | None)
    return kind


@app.every(hours=1, name="hourly")
@app.cron("0 0 * * *", input=lambda tick: {"to": tick.isoformat()}, depends_on="digest")
@app.task(queue="mail")
async def summary(to: str = "all") -> int:
    return len(to)


async def yesterday(tick: datetime) -> dict[str, str]:
    return {"to": tick.isoformat()}


app.schedule("daily", cron("0 9 * * *"), send, kwargs={"to": "all"}, catch_up="all", max_runs=3)
app.schedule("weekly", every(2).weeks.on("monday").at("14:30"), send, input=yesterday, start_at=datetime.now(UTC))
app.schedule("once", at(datetime(2030, 1, 1, tzinfo=UTC)), report)


async def scheduling() -> None:
    assert_type(await healthcheck.enqueue("/x"), Handle[int])
    assert_type(await digest.enqueue(kind="weekly"), Handle[str])
    assert_type(await summary.enqueue("ada"), Handle[int])
    assert_type(await app.schedules.get("daily"), Schedule)
    assert_type(await app.schedules.list(status="paused"), Sequence[Schedule])
    assert_type(await app.schedules.trigger("daily", kwargs={"to": "ada"}), Handle[Any])
    await app.schedules.pause("daily", "until the move")
    await app.schedules.resume("daily", catch_up=True)
    await app.schedules.update("daily", trigger=every(5).minutes, overlap="skip")
    for tick in await app.schedules.ticks("daily"):
        assert_type(tick, Tick)
    for coming in await app.schedules.preview("daily", 3):
        assert_type(coming.at, datetime)
    done = await app.schedules.backfill("daily", datetime.now(UTC), dry_run=True)
    assert_type(done.made, list[datetime])


def triggers() -> None:
    assert_type(every(5).minutes, Every)
    assert_type(every(hours=1, minutes=30), Every)
    assert_type(every(timedelta(minutes=5)), Every)
    assert_type(every().monday.at("14:30"), Calendar)
    assert_type(every(2).weeks.on("mon", 3).at("14:30").in_zone("Europe/London"), Calendar)
    assert_type(every().day.at("09:00", tz="Europe/London"), Calendar | Every)
    assert_type(at("2030-01-01T09:00", tz="Europe/London"), At)
    assert_type(every().day.next(datetime.now(UTC)), datetime | None)
    assert_type(Window("22:00", "06:00", "mon-fri", outside="move"), Window)


def passed_on(task: Task[[str], str]) -> None:
    """A task keeps its signature when it is handed to a function."""


passed_on(notify)


async def leading(leader: Leader) -> None:
    async def count() -> int:
        return leader.check()

    assert_type(app.leader("reindex", ttl=timedelta(seconds=10)), Leader)
    assert_type(await leader.acquire(5, keep=True), int)
    assert_type(await leader.run(count), int)
    assert_type(leader.term, int | None)

    @leader.on_change
    def told(leading: bool) -> None: ...


# the dashboard and the API inside another application

web = FastAPI()
web.mount("/ops", app.asgi())
site = Starlette(routes=[Mount("/ops", app.asgi()), Mount("/free", app=app.asgi(auth=False))])


# triggers of any kind, and constants


@app.on(every().day.at("09:00"), overlap="skip", name="morning")
async def morning(count: int = 0) -> int:
    return count


@app.on(cron.HOURLY)
def hourly(ctx: Context) -> None: ...


@app.on(at(datetime(2040, 1, 1, tzinfo=UTC)))
@app.task(timeout="4s", expires="1d")
async def once() -> None: ...


@app.cron(cron.DAILY, tz="Europe/London", grace="10m")
async def daily() -> None: ...


@app.every("5m", jitter="30s")
async def often() -> None: ...


@app.on(JobEnded)
async def note_duration(event: JobEnded) -> None:
    assert_type(event.duration, timedelta | None)


morning.using(delay=timedelta(hours=1)).job(count=3)
assert_type(cron.YEARLY, Cron)
some = Filter(states=(ShownState.RETRYING, "dead"))
often.using(delay="1h30m", timeout="5m")
Backoff("4s", max=timedelta(hours=1))


# flows: what a step returns has the type of its task's result


@dataclass
class Order:
    id: str
    items: list[str]


@dataclass
class Check:
    ok: bool
    score: int


@app.task
async def validate(order: Order) -> Check:
    return Check(True, len(order.items))


@app.task(queue="stock")
async def reserve(ctx: Context, item: str, order_id: str) -> int:
    return len(item + order_id)


@app.task
def charge(order: Order, check: Check) -> str:
    return order.id


@app.task
async def ship(order: Order, txn: str, slots: list[int]) -> str:
    return txn


@app.task
async def refund(order: Order, txn: str | None) -> None: ...


@app.task
async def total(parts: Results[int]) -> int:
    async for index, _ in parts.items():
        assert_type(index, int)
    async for _, failure in parts.failures():
        assert_type(failure, Failure)
    return sum([value async for value in parts])


@app.task
def total_in_a_thread(parts: Results[int], least: int = 0) -> int:
    return sum(value for value in parts if value >= least)


@app.stub
def lines(file: str) -> AsyncIterator[str]:
    raise NotImplementedError


@app.task
async def read(ctx: Context, file: str) -> AsyncIterator[str]:
    assert_type(ctx.made, int)
    yield file


@app.task
def read_in_a_thread(file: str) -> Iterator[str]:
    yield file


@app.flow
def fulfil(order: Order, express: bool = False) -> str:
    check = validate.step(order)
    assert_type(check, Check)
    slots = reserve.using(failed_ratio=0.1).map(order.items, order.id)
    txn = charge.using(when=(check.score >= 80) | check.ok, max_retries=8).step(order, check)
    done = ship.using(delay=0 if express else 3600, after=[check, txn], step="ship").step(order, txn, slots)
    refund.using(on="failure", after=done, optional=True).step(order, txn=txn)
    total.using(when=not_(in_(check.score, [1, 2]))).step(slots)
    total_in_a_thread.using(when=exists(check)).step(slots, least=check.score)
    reserve.map(lines.step("a.txt"), order.id)
    assert_type(read.step("a.txt"), AsyncIterator[str])
    total.step(reserve.map(read.step("a.txt"), order.id))
    reserve.using(failed_ratio=0.01).map(read_in_a_thread.step("a.txt"), order.id)
    assert_type(first(done, txn), str)
    go = signal("approval", Check, timeout=timedelta(days=3), after=[check, txn])
    assert_type(go, Check)
    assert_type(signal("call", Check, timeout="7d", default=None), Check | None)
    assert_type(signal("any", after=done), Any)
    refund.using(when=go.ok, step="again").step(order, txn)
    return first(done, txn)


@app.flow(name="nightly", fail_fast=True, on_failure=mourn, unique_key=Key(args=True), timeout=timedelta(days=10))
def fulfil_all(orders: list[Order]) -> list[str]:
    return fulfil.map(orders, express=True)


async def flows(order: Order) -> None:
    assert_type(await fulfil.enqueue(order), Handle[str])
    assert_type(await fulfil.using(unique_key=order.id).enqueue(order, express=True), Handle[str])
    assert_type(await fulfil_all.enqueue([order]), Handle[list[str]])
    run = await fulfil.enqueue(order)
    assert_type(await run.signal("approval", {"ok": True}, delivery="m-1"), None)
    assert_type(run.sync.signal("approval"), None)


app.schedule("every-night", cron("0 2 * * *"), fulfil_all, kwargs={"orders": []})
