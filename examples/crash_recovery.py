"""kill -9 a worker in the middle of a job: another one runs the job again, within lease + sweep.

Prints:
    first worker has the job: attempt 1
    first worker killed
    second worker has run it: attempt 2
    runs: crashed, completed
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from mainspring import Context, Mainspring, State


def make_app(file: str) -> Mainspring:
    # A silent worker's jobs are taken over within lease + sweep; the defaults are 20 s + 5 s.
    app = Mainspring(f"sqlite:///{file}", beat=0.2, lease=1, sweep=0.2)

    @app.task
    async def work(ctx: Context) -> int:
        if ctx.attempt == 1:
            await asyncio.sleep(3600)  # the run that is killed
        return ctx.attempt

    return app


async def main(file: str) -> None:
    app = make_app(file)
    async with app:
        handle = await app.tasks["work"].enqueue()
        first = await asyncio.create_subprocess_exec(sys.executable, __file__, file)
        while (job := await handle.job()).state is not State.RUNNING:  # noqa: ASYNC110  another process runs it
            await asyncio.sleep(0.02)
        print(f"first worker has the job: attempt {job.attempt}")
        first.kill()
        await first.wait()
        print("first worker killed")
        async with app.worker():
            print(f"second worker has run it: attempt {await handle.result(timeout=30)}")
        runs = await app.executions.list(job_id=handle.id)
        print(f"runs: {', '.join(run.ending for run in runs)}")


async def worker(file: str) -> None:
    await make_app(file).worker().run()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(worker(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(main(str(Path(folder, "jobs.db"))))
