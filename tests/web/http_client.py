"""HTTP clients for the API in this process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx

ORIGIN = "http://127.0.0.1:8000"
# Paths that are not under /api/v1.
BESIDE = ("/health", "/metrics", "/openapi.json", "/hooks", "/api/")
Client = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


class Http(httpx.AsyncClient):
    def build_request(self, method: str, url: Any, **given: Any) -> httpx.Request:
        beside = str(url).startswith(("http:", "https:", *BESIDE))
        return super().build_request(method, url if beside else f"/api/v1{url}", **given)


def browser(service: Any, address: str = "127.0.0.1", **options: Any) -> Http:
    """An HTTP client at this address that keeps cookies."""
    transport = httpx.ASGITransport(service, client=(address, 4711), raise_app_exceptions=False)
    return Http(transport=transport, base_url=options.pop("base_url", ORIGIN), **options)
