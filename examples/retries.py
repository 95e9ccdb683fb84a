"""How a run ends decides what becomes of its job.

Prints:
    fetch: failed, failed, completed -> completed after 3 attempts
    wait_for_file: snoozed, snoozed, completed -> completed after 1 attempt
    ask_again: failed, completed -> completed after 2 attempts
    parse: discarded -> dead after 1 attempt (Discard: not a number: 'x')
    notify: cancelled -> cancelled after 1 attempt (Cancel: the user has left)
    charge: failed -> dead after 1 attempt (PermissionError: card refused)
    always_fails: failed, failed, failed -> dead after 3 attempts (ConnectionError: no route)
"""

import asyncio
import logging
from contextlib import suppress

from mainspring import Backoff, Cancel, Context, Discard, JobUnfinished, Mainspring, Retry, Snooze

logging.getLogger("mainspring").setLevel(logging.CRITICAL)  # this page is about failures; keep it readable
app = Mainspring("memory://", retry_initial_delay=0.02)


@app.task
async def fetch(ctx: Context) -> None:
    if ctx.attempt < 3:
        raise ConnectionError("no route")  # any exception: retried by the task's rules


@app.task
async def wait_for_file(ctx: Context) -> None:
    if ctx.job.runs < 3:
        raise Snooze(0.02)  # later; costs no attempt


@app.task
async def ask_again(ctx: Context) -> None:
    if ctx.attempt == 1:
        raise Retry(after=0.02, reason="429, Retry-After: 0.02")  # counts as a retry, with its own delay


@app.task
async def parse(text: str) -> int:
    if not text.isdigit():
        raise Discard(f"not a number: {text!r}")  # dead at once
    return int(text)


@app.task
async def notify() -> None:
    raise Cancel("the user has left")  # cancelled, which is not a failure


@app.task(no_retry_on=PermissionError)
async def charge() -> None:
    raise PermissionError("card refused")


@app.task(max_retries=2, backoff=Backoff.constant(0.02))
async def always_fails() -> None:
    raise ConnectionError("no route")


async def main() -> None:
    calls = [fetch.job(), wait_for_file.job(), ask_again.job(), parse.job("x")]
    calls += [notify.job(), charge.job(), always_fails.job()]
    async with app, app.worker():
        for handle in await app.enqueue_many(calls):
            with suppress(JobUnfinished):  # dead or cancelled: there is no value to return
                await handle.result(timeout=10)
            job = await handle.job()
            runs = await app.executions.list(job_id=job.id)
            endings = ", ".join(run.ending for run in runs)
            attempts = "1 attempt" if job.attempt == 1 else f"{job.attempt} attempts"
            reason = f" ({job.failure.type}: {job.failure.message})" if job.failure else ""
            print(f"{job.task}: {endings} -> {job.state} after {attempts}{reason}")


if __name__ == "__main__":
    asyncio.run(main())
