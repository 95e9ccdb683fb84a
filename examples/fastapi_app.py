"""FastAPI: routes that enqueue, a worker in the lifespan, and the API of jobs mounted under /ops.

Serve it with `uvicorn fastapi_app:web`; here it is asked in place of that.

Prints:
    POST /invoices/7: 202
    GET /ops/api/v1/jobs without a key: 401
    GET /ops/api/v1/jobs/…: completed, 'invoice 7 sent'
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

from mainspring import Mainspring

jobs = Mainspring("memory://")


@jobs.task
async def send_invoice(number: int) -> str:
    return f"invoice {number} sent"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with jobs, jobs.worker():
        yield


web = FastAPI(lifespan=lifespan)
web.mount("/ops", jobs.asgi())


@web.post("/invoices/{number}", status_code=202)
async def order(number: int) -> dict[str, str]:
    return {"job": (await send_invoice.enqueue(number)).id}


async def main() -> None:
    async with web.router.lifespan_context(web), client() as http:
        made = await http.post("/invoices/7")
        print("POST /invoices/7:", made.status_code)
        print("GET /ops/api/v1/jobs without a key:", (await http.get("/ops/api/v1/jobs")).status_code)
        key = {"Authorization": f"Bearer {await jobs.keys.create('me', 'viewer')}"}
        job = (await http.get(f"/ops/api/v1/jobs/{made.json()['job']}?wait=20", headers=key)).json()
        print(f"GET /ops/api/v1/jobs/…: {job['state']}, {job['result']!r}")


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://127.0.0.1")


if __name__ == "__main__":
    asyncio.run(main())
