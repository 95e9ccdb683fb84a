"""Fixtures for tests of the API: an app on a memory store with a virtual clock, and HTTP clients for it.

- `spring`: an app with a task or two, opened by the first request. `clock`: its VirtualClock.
- `client`: `async with client("operator") as http: await http.get("/queues")`: an httpx client whose paths are under
  /api/v1 unless they name one of the root (/health/live, /metrics, /openapi.json, /hooks/…). The role is viewer,
  operator or admin, with `scopes=[…]` if wanted; None: not signed in. It uses a real API key of that role.
- `service`: the same ASGI application that `client` talks to, for tests that need another transport.

`from http_client import Client, browser` has the types, and clients of other addresses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from http_client import Client, browser

from mainspring import Context, Mainspring
from mainspring.records.api_key import Role
from mainspring.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def spring(clock: VirtualClock) -> Mainspring:
    app = Mainspring("memory://", clock=clock)

    @app.task(queue="mail")
    async def send(ctx: Context, to: str, token: str = "") -> dict[str, str]:
        ctx.log.info("sending to %s", to)
        return {"sent": to, "token": token}

    @app.task(max_retries=0)
    async def fail(why: str = "no") -> None:
        raise ValueError(why)

    return app


@pytest.fixture
def service(spring: Mainspring) -> Any:
    return spring.asgi()


@pytest.fixture
def client(spring: Mainspring, service: Any) -> Client:
    @asynccontextmanager
    async def signed_in(
        role: Role | None = "viewer", scopes: Collection[str] | None = None, address: str = "127.0.0.1"
    ) -> AsyncIterator[httpx.AsyncClient]:
        headers = {}
        if role is not None:
            name = f"{role}-{len(await spring.keys.list())}"
            headers = {"Authorization": f"Bearer {await spring.keys.create(name, role, scopes)}"}
        async with browser(service, address, headers=headers) as http:
            yield http

    return signed_in
