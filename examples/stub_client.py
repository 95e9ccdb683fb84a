"""A process that enqueues without the task's code: here both sides are in one file, on one SQLite file.

Prints:
    by stub: 40 x 30 from the worker
    by name: 20 x 10 from the worker
    refused by the stub: task 'resize' has no argument 'depth' (takes: path, width, height)
"""

import asyncio
import tempfile
from pathlib import Path

from mainspring import BadPayload, Mainspring


def web_app(store: str) -> Mainspring:
    """The web process: a signature, no code."""
    app = Mainspring(store)

    @app.stub
    def resize(path: str, width: int, height: int = 10) -> str: ...  # type: ignore[empty-body]

    return app


def worker_app(store: str) -> Mainspring:
    """The worker process: the code, under the same name."""
    app = Mainspring(store)

    @app.task
    async def resize(path: str, width: int, height: int = 10) -> str:
        return f"{width} x {height} from the worker"

    return app


async def main(store: str) -> None:
    web, worker, anybody = web_app(store), worker_app(store), Mainspring(store)
    async with web, worker, anybody, worker.worker():
        job = await web.tasks["resize"].enqueue("a.png", 40, height=30)
        print(f"by stub: {await job.result(timeout=10)}")

        # An app without any tasks sends by name; nothing checks the arguments before the worker does.
        job = await anybody.enqueue("resize", path="a.png", width=20)
        print(f"by name: {await job.result(timeout=10)}")

        try:
            await web.tasks["resize"].enqueue("a.png", 40, depth=3)
        except BadPayload as refused:
            print(f"refused by the stub: {refused}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{Path(folder, 'jobs.db')}"))
