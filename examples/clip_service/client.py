"""Calls to partners over HTTP, and what a bad answer means for the job that asked."""

from functools import cache
from typing import Any

import httpx

from mainspring import Context, Retry
from mainspring.middleware import Next

from .settings import settings

TIMEOUT_SECONDS = 3.0


class Unavailable(Exception):
    """The partner failed or did not answer in time: worth another try."""


class Throttled(Unavailable):
    """The partner asks for a rest of `seconds`."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Refused(Exception):
    """The partner will not do it, however often it is asked."""


def call(method: str, path: str, *, params: dict[str, Any] | None = None, json: Any = None) -> dict[str, Any]:
    """The answer as JSON. Raises Unavailable, Throttled or Refused."""
    what = f"{method} /{path.split('/')[1]}"
    try:
        response = _client(settings().partners).request(method, path, params=params, json=json)
    except httpx.TransportError as error:
        raise Unavailable(f"{what}: {type(error).__name__}") from error
    if response.status_code == 429:
        raise Throttled(f"{what}: too many requests", float(response.headers.get("Retry-After", 10)))
    if response.status_code >= 500:
        raise Unavailable(f"{what}: status {response.status_code}")
    if response.status_code >= 400:
        raise Refused(f"{what}: status {response.status_code}: {response.json().get('error')}")
    answer: dict[str, Any] = response.json()
    return answer


@cache
def _client(base_url: str) -> httpx.Client:
    """One for all threads, with connections that are kept."""
    return httpx.Client(base_url=base_url, timeout=TIMEOUT_SECONDS)


def close() -> None:
    """Ends the connections to the partners of the settings."""
    _client(settings().partners).close()
    _client.cache_clear()


async def rest_when_throttled(ctx: Context, call_next: Next) -> Any:
    """Middleware of the app: a throttled run is retried when the partner says, not when the task's backoff does."""
    try:
        return await call_next(ctx)
    except Throttled as throttled:
        raise Retry(after=throttled.seconds, reason=str(throttled)) from throttled
