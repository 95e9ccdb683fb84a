"""The same job enqueued twice: one job, and what to do with the second call.

Prints:
    return: the same job, duplicate=True, text='first'
    raise: key 'report:2' is held by job …
    replace: the same job, text='second'
    debounce: the same job, text='second', later than before: True
    Key(args=True): same call duplicate=True, other call duplicate=False
    free again after it has completed: True
    idempotency_key is still taken: True
"""

import asyncio
import json

from mainspring import Handle, JobExists, Key, Mainspring

app = Mainspring("memory://")


@app.task
async def report(text: str) -> str:
    return text


@app.task(unique_key=Key(args=True))
async def resize(path: str) -> None: ...


async def main() -> None:
    async with app:
        await the_four_answers()
        await composed_keys()
        await after_the_end()


async def the_four_answers() -> None:
    one = report.using(unique_key="report:1", delay=60)
    first, second = await one.enqueue("first"), await one.enqueue("second")
    print(f"return: {same(first, second)}, duplicate={second.duplicate}, text={await text(second)!r}")

    two = report.using(unique_key="report:2", delay=60, on_conflict="raise")
    await two.enqueue("first")
    try:
        await two.enqueue("second")
    except JobExists as exists:
        print(f"raise: {exists}")

    three = report.using(unique_key="report:3", delay=60, on_conflict="replace")
    first, second = await three.enqueue("first"), await three.enqueue("second")
    print(f"replace: {same(first, second)}, text={await text(second)!r}")

    # Each new call puts the job off, but never further than 600 s after its creation.
    four = report.using(unique_key="report:4", delay=60, on_conflict="debounce", debounce_limit=600)
    first = await four.enqueue("first")
    before = (await first.job()).run_at
    second = await four.enqueue("second")
    later = (await second.job()).run_at > before
    print(f"debounce: {same(first, second)}, text={await text(second)!r}, later than before: {later}")


async def composed_keys() -> None:
    await resize.enqueue("a.png")
    again, other = await resize.enqueue("a.png"), await resize.enqueue("b.png")
    print(f"Key(args=True): same call duplicate={again.duplicate}, other call duplicate={other.duplicate}")


async def after_the_end() -> None:
    unique, idempotent = report.using(unique_key="day:1"), report.using(idempotency_key="day:2")
    await unique.enqueue("first")
    await idempotent.enqueue("first")
    await app.drain()  # both complete
    print(f"free again after it has completed: {not (await unique.enqueue('second')).duplicate}")
    print(f"idempotency_key is still taken: {(await idempotent.enqueue('second')).duplicate}")


def same(one: Handle[str], other: Handle[str]) -> str:
    return "the same job" if one.id == other.id else "another job"


async def text(handle: Handle[str]) -> str:
    """The argument as the store has it: a payload is a JSON object by parameter name."""
    payload: dict[str, str] = json.loads((await handle.job()).payload)
    return payload["text"]


if __name__ == "__main__":
    asyncio.run(main())
