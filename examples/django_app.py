"""Django: an asgi.py with views that enqueue, and the API of jobs under /ops.

Serve it with `uvicorn django_app:application`, and run workers beside it; here it is asked in place of that.

Prints:
    POST /invoices/7: 202
    GET /ops/api/v1/jobs without a key: 401
    GET /ops/api/v1/jobs/…: completed, 'invoice 7 sent'
"""

import asyncio
from typing import Any

import httpx
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from mainspring import Mainspring

jobs = Mainspring("memory://")


@jobs.task
async def send_invoice(number: int) -> str:
    return f"invoice {number} sent"


async def order(request: HttpRequest, number: int) -> JsonResponse:
    return JsonResponse({"job": (await send_invoice.enqueue(number)).id}, status=202)


urlpatterns = [path("invoices/<int:number>", order)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])
django, ops = get_asgi_application(), jobs.asgi()


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"].startswith("/ops/"):
        await ops({**scope, "root_path": "/ops"}, receive, send)
    else:
        await django(scope, receive, send)


async def main() -> None:
    async with jobs, jobs.worker(), client() as http:
        made = await http.post("/invoices/7")
        print("POST /invoices/7:", made.status_code)
        print("GET /ops/api/v1/jobs without a key:", (await http.get("/ops/api/v1/jobs")).status_code)
        key = {"Authorization": f"Bearer {await jobs.keys.create('me', 'viewer')}"}
        job = (await http.get(f"/ops/api/v1/jobs/{made.json()['job']}?wait=20", headers=key)).json()
        print(f"GET /ops/api/v1/jobs/…: {job['state']}, {job['result']!r}")


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://127.0.0.1")


if __name__ == "__main__":
    asyncio.run(main())
