"""All routes of the API, and a call that does not wait for the end of a stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from litestar import Litestar
from litestar.routes import HTTPRoute


class Route(NamedTuple):
    method: str
    path: str
    opt: dict[str, Any]
    noun: str
    """The first word of its own path, or the noun that the route declares."""
    parameters: frozenset[str] = frozenset()
    """The names of its query parameters."""

    @property
    def role(self) -> str | None:
        return self.opt.get("role")

    @property
    def is_page(self) -> bool:
        """Whether the route belongs to the dashboard and not to the API."""
        return bool(self.opt.get("page"))

    @property
    def scope(self) -> str | None:
        if self.opt.get("unscoped"):
            return None
        writes = self.method != "GET" and not self.opt.get("reads")
        return f"{self.noun}:{'write' if writes else 'read'}"

    @property
    def filled(self) -> str:
        """The path with a value in place of every parameter."""
        return re.sub(r"\{[^}]*\}", "01a1ddfb-bf5f-7000-b16a-c135fb4afd13", self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def routes(app: Litestar) -> Iterator[Route]:
    for route in app.routes:
        assert isinstance(route, HTTPRoute), f"{route.path} is no HTTP route: nobody guards it"
        for method, (handler, expected) in route.route_handler_map.items():
            if method != "OPTIONS":
                own = next(iter(handler.paths)).strip("/").split("/")[0]
                parameters = frozenset(one.field_alias for one in expected.expected_query_params)
                yield Route(str(method), route.path, handler.opt, handler.opt.get("noun") or own, parameters)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str
    """The whole body; empty for a stream of events."""


async def call(
    service: Any, route: Route, headers: Mapping[str, str] | None = None, body: bytes = b"{}", path: str | None = None
) -> Answer:
    """The response; a stream of events is closed as soon as it has begun."""
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    begun: list[Any] = []
    text = bytearray()
    sent = {"Host": "127.0.0.1:8000", "Content-Type": "application/json", **(headers or {})}
    scope = {
        "type": "http", "http_version": "1.1", "asgi": {"version": "3.0"}, "scheme": "http", "method": route.method,
        "path": path or route.filled, "raw_path": (path or route.filled).encode(), "query_string": b"",
        "root_path": "", "client": ("127.0.0.1", 4711), "server": ("127.0.0.1", 8000), "state": {},
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
    }  # fmt: skip
    bodies = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        if (part := next(bodies, None)) is not None:
            return part
        await answered
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            said = {name.decode(): value.decode() for name, value in message["headers"]}
            begun.extend([message["status"], said])
        text.extend(message.get("body", b""))
        whole = message["type"] == "http.response.body" and not message.get("more_body")
        stream = begun[1].get("content-type", "").startswith("text/event-stream")
        if (whole or stream) and not answered.done():
            answered.set_result(Answer(*begun, "" if stream else text.decode()))

    run = asyncio.ensure_future(service(scope, receive, send))
    try:
        await asyncio.wait({run, answered}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        if run.done() and not answered.done():
            await run
        assert answered.done(), f"{route} does not answer"
        return await answered
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
