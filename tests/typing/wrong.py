"""What a user must not write: each line marked as wrong is reported by mypy --strict and pyright, and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.routing import Mount

from mainspring import (
    Breaker,
    Collect,
    Context,
    Filter,
    Mainspring,
    Results,
    Retention,
    Task,
    Window,
    at,
    cron,
    every,
    signal,
)
from mainspring.events import JobEnded

app = Mainspring("memory://")


@app.task
async def send(to: str, subject: str = "hi") -> int:
    return len(to + subject)


@app.task
def resize(path: str, width: int) -> bytes:
    return f"{path}{width}".encode()


@app.task
async def export(ctx: Context, user: int) -> datetime:
    return datetime.now(UTC)


@app.task(queue="mail")
def report(ctx: Context, kind: str) -> None:
    return None


def one_mail(mail: str) -> int:
    return len(mail)


@app.task(collect=Collect(size=100, delay=5))
async def digest(mails: list[str]) -> int:
    return len(mails)


@app.stub
def elsewhere(path: str) -> int:
    raise NotImplementedError


async def arguments() -> None:
    await send.enqueue(5)  # wrong
    await send.enqueue()  # wrong
    await send.enqueue("ada", cc="bob")  # wrong
    await send.enqueue("ada", "hi", "more")  # wrong
    await send.enqueue("ada", subject=None)  # wrong
    await resize.enqueue("a.png", width="640")  # wrong
    await resize.enqueue("a.png")  # wrong
    await elsewhere.enqueue(path=5)  # wrong
    await send.using(priority=5).enqueue(5)  # wrong
    send.job(5)  # wrong
    await digest.enqueue(5)  # wrong
    await digest.enqueue(["a"])  # wrong
    await digest.enqueue("a", "b")  # wrong
    app.task(collect=5)(digest)  # wrong
    app.task(collect=Collect(size=100, delay=5))(one_mail)  # wrong
    Collect(size=100)  # wrong
    resize.job("a.png", height=5)  # wrong
    send.sync.enqueue(5)  # wrong
    send.sync.using(priority=5).enqueue(5)  # wrong


async def context(ctx: Context) -> None:
    await export.enqueue(ctx, 42)  # wrong
    await export.enqueue(ctx=ctx, user=42)  # wrong
    await export.enqueue("42")  # wrong
    await report.enqueue(ctx, "daily")  # wrong
    await report.enqueue(5)  # wrong
    export.job(ctx, 42)  # wrong
    await export.enqueue(await ctx.step(one_mail, "ada"), "daily")  # wrong
    await send.enqueue(await ctx.step(one_mail, "ada"))  # wrong
    await send.enqueue(await ctx.run(send, "ada"))  # wrong
    await ctx.run(send, 5)  # wrong
    export.sync.enqueue(ctx, 42)  # wrong


async def options() -> None:
    send.using(qeue="mail")  # wrong
    send.using(queue=5)  # wrong
    send.using(queue=None)  # wrong
    send.using(priority="high")  # wrong
    send.using(timeout=[5])  # wrong
    send.using(max_retries=1.5)  # wrong
    send.using(on_conflict="ignore")  # wrong
    send.using(run_at="2030-01-01")  # wrong
    send.using(unique_key=5)  # wrong
    send.using(backoff=lambda n: 5.0)  # wrong
    send.using(retry_on=ValueError)  # wrong
    send.using(executor="process")  # wrong
    send.using(breaker=5)  # wrong
    send.using(tags=5)  # wrong
    send.sync.using(priority="high")  # wrong


async def results() -> None:
    text: str = await (await send.enqueue("ada")).result()  # wrong
    number: int = await send.enqueue("ada")  # wrong
    (await send.enqueue("ada")).result()  # wrong
    await (await send.enqueue("ada")).result(timeout=[10])  # wrong
    (await (await export.enqueue(42)).result()).upper()  # wrong
    late: str = resize.sync.enqueue("a.png", 640).result()  # wrong
    print(text, number, late)


async def steering() -> None:
    await app.jobs.list(Filter(states=("finished",)))  # wrong
    await app.jobs.get(5)  # wrong
    await app.enqueue_many([send])  # wrong
    app.worker(queues=5)  # wrong
    await app.jobs.list(sort="priority")  # wrong
    await app.jobs.update("id", prio=5)  # wrong
    await app.jobs.reschedule("id", [60])  # wrong
    await app.dead.redrive(5)  # wrong
    await app.stats([3600])  # wrong
    await app.workers.resize("host-1", "20")  # wrong


def triggers() -> None:
    print(every(5).mintues)  # wrong
    every([5])  # wrong
    every(minuts=5)  # wrong
    every().day.at(9)  # wrong
    every(5)  # .minutes is missing
    every(5).next(datetime.now(UTC))  # wrong
    at(5)  # wrong
    Window("08:00", "18:00", outside="drop")  # wrong


@app.task(queue=5)  # wrong
async def bad_queue(a: int) -> None: ...


@app.task(delay=5)  # wrong
async def bad_option(a: int) -> None: ...


@app.task(executor="fork")  # wrong
def bad_executor(a: int) -> None: ...


@app.task(on_failure=send)  # wrong
def bad_handler(a: int) -> None: ...


@app.task(retention=30)  # wrong
def bad_retention(a: int) -> None: ...


@app.task(retention={"dead": 30})  # wrong
def bad_retentions(a: int) -> None: ...


@app.task(breaker=5)  # wrong
def bare_breaker(a: int) -> None: ...


@app.task(breaker=Breaker(failures="3"))  # wrong
def bad_breaker(a: int) -> None: ...


@app.task(retention=Retention(age=30))  # wrong
def bad_age(a: int) -> None: ...


@app.dead_letter  # wrong
def bad_letter(letter: str) -> None: ...


@app.on(JobEnded)  # wrong
def bad_subscriber(event: int) -> None: ...


@app.every(minutes="5")  # wrong
def bad_interval() -> None: ...


@app.every(minutes=5, overlap="never")  # wrong
def bad_overlap() -> None: ...


@app.cron("0 9 * * *", input=lambda: {"a": 1})  # wrong
def bad_input(a: int) -> None: ...


@app.cron(5)  # wrong
def bad_cron() -> None: ...


@app.every(hours=1)
async def hourly(ctx: Context, a: int) -> str:
    return str(a)


app.schedule("x", "0 9 * * *", send)  # wrong
app.schedule("x", cron("0 9 * * *"), "send")  # wrong
app.schedule("x", cron("0 9 * * *"), send, catch_up="none")  # wrong


async def scheduling() -> None:
    await hourly.enqueue("a")  # wrong
    await app.schedules.backfill("x", "2030-01-01")  # wrong
    await app.schedules.update("x", jitter=[5])  # wrong


def passed_on(task: Task[[int], str]) -> None: ...


passed_on(send)  # wrong


Starlette(routes=[Mount("/ops", app.asgi)])  # wrong
app.asgi(auth="no")  # wrong


@app.on(every(5))  # wrong
def bad_trigger() -> None: ...


@app.on(cron.HOURLY, overlp="skip")  # wrong
def bad_trigger_option() -> None: ...


app.schedule("x", cron.HOURY, send)  # wrong
send.using(delay=[5])  # wrong
Filter(states=("retring",))  # wrong


# flows


@app.task
async def count(to: str, limit: int) -> int:
    return limit


@app.task
async def total(parts: Results[int]) -> int:
    return sum([value async for value in parts])


@app.task
async def texts(parts: list[str]) -> None: ...


@app.task
async def text(part: str) -> str:
    return part


@app.task
async def sizes_of(file: str) -> AsyncIterator[int]:
    yield len(file)


@app.flow
def wiring(people: list[str], sizes: list[int]) -> int:
    size = count.step("ada", 5)
    count.step(size, "ada")  # wrong
    count.step("ada")  # wrong
    count.step("ada", 5, 6)  # wrong
    count.step("ada", limit="5")  # wrong
    text.step(size)  # wrong
    text.step(size.name)  # wrong
    counts = count.map(people, 5)
    count.map(people)  # wrong
    count.map(people, "5")  # wrong
    count.map(people, limit="5")  # wrong
    count.map(5, 5)  # wrong
    count.map(sizes, 5)  # wrong for pyright
    texts.step(counts)  # wrong
    text.map(sizes_of.step("a.txt"))  # wrong for pyright
    count.step(sizes_of.step("a.txt"), 5)  # wrong
    total.step(sizes_of.step("a.txt"))  # wrong
    sizes_of.step(5)  # wrong
    total.step(text.map(people))  # wrong
    signal("size", int, timeout=[5])  # wrong
    signal(5, int)  # wrong
    text.step(signal("size", int))  # wrong
    text.step(signal("name", str, timeout=5, default=None))  # wrong
    total.step(sizes)  # wrong
    total.step(count.map(people, size))
    return text.step("ada")  # wrong


@app.flow
def wrong_map(people: list[str]) -> list[int]:
    return text.map(people)  # wrong


def step_options(size: int) -> None:
    count.using(on="always")  # wrong
    count.using(optional="yes")  # wrong
    count.using(failed_ratio="half")  # wrong
    count.using(step=5)  # wrong
    count.using(wen=size)  # wrong
    app.flow(executor="process")  # wrong
    app.flow(soft_timeout=5)  # wrong
    app.flow(fail_fast="yes")  # wrong


@app.flow(fail_fast=True)
def no_flow(people: list[str]) -> None: ...


async def flows() -> None:
    await no_flow.enqueue([5])  # wrong
    await no_flow.enqueue()  # wrong
