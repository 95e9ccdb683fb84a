"""A worker inside a web app's lifespan: FastAPI(lifespan=lifespan), Starlette(lifespan=lifespan), or plain ASGI.

Prints:
    lifespan.startup.complete
    202 queued
    sent to ada@example.com
    lifespan.shutdown.complete
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mainspring import Mainspring

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
jobs = Mainspring("memory://")
sent = asyncio.Event()


@jobs.task(queue="mail")
async def send_email(to: str) -> None:
    print(f"sent to {to}")
    sent.set()


@asynccontextmanager
async def lifespan(web: object) -> AsyncIterator[None]:
    async with jobs, jobs.worker(queues=["mail"], concurrency=10):
        yield  # the web app serves; afterwards the worker stops claiming and lets its jobs end


async def web(scope: Message, receive: Receive, send: Send) -> None:
    """An ASGI application; with a framework you write only its routes."""
    if scope["type"] == "lifespan":
        await receive()
        async with lifespan(web):
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await send_email.enqueue("ada@example.com")
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b"queued"})


async def main() -> None:
    """What a server such as uvicorn does with it."""
    signals: asyncio.Queue[Message] = asyncio.Queue()
    started = asyncio.Event()

    async def tell(message: Message) -> None:
        print(message["type"])
        started.set()

    living = asyncio.create_task(web({"type": "lifespan"}, signals.get, tell))
    await signals.put({"type": "lifespan.startup"})
    await started.wait()
    answer: list[Message] = []

    async def respond(message: Message) -> None:
        answer.append(message)

    await web({"type": "http", "path": "/"}, signals.get, respond)
    print(answer[0]["status"], answer[1]["body"].decode())
    await asyncio.wait_for(sent.wait(), 10)
    await signals.put({"type": "lifespan.shutdown"})
    await living


if __name__ == "__main__":
    asyncio.run(main())
