"""A process that reaches no database enqueues over HTTP: it has the address of a server, and a key.

Prints:
    the other process has no store but http://127.0.0.1:…
    its job ran here: sent to ada@example.com
"""

import asyncio
import os
import socket
import subprocess
import sys

import uvicorn

from mainspring import Mainspring


def near() -> Mainspring:
    """Where the database is, and the code."""
    app = Mainspring("memory://")

    @app.task
    async def send(to: str) -> str:
        return f"sent to {to}"

    return app


def far() -> None:
    """The other process: $MAINSPRING_STORE and $MAINSPRING_API_KEY say where it asks, a stub says what."""
    app = Mainspring()

    @app.stub
    def send(to: str) -> str: ...  # type: ignore[empty-body]

    print("the other process has no store but", app.settings.store)
    job = send.sync.enqueue("ada@example.com")
    print("its job ran here:", job.result(timeout=60))


async def main() -> None:
    app, listener = near(), socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app.asgi(), log_level="warning", ws="none"))
    async with app, app.worker():
        serving = asyncio.create_task(server.serve([listener]))
        key = await app.keys.create("shop", "operator")
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        there = os.environ | {"MAINSPRING_STORE": address, "MAINSPRING_API_KEY": key}
        await asyncio.to_thread(subprocess.run, [sys.executable, __file__, "far"], env=there, check=True, timeout=90)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    far() if sys.argv[1:] else asyncio.run(main())
