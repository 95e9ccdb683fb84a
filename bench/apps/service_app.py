"""The service, and beside it a handler of the same framework that only answers."""

from __future__ import annotations

import os
from typing import Any

from litestar import Litestar, get, post
from litestar.params import JSONBody
from msgspec import Struct

from mainspring import Mainspring


class Call(Struct):
    task: str
    arguments: dict[str, Any] = {}


class Made(Struct):
    id: str


@post("/nothing")
async def nothing(data: JSONBody[Call]) -> Made:
    return Made("x")


@get("/nothing")
async def none() -> Made:
    return Made("x")


app = Mainspring(os.environ["MAINSPRING_STORE"])


@app.task
async def send(to: str, subject: str) -> None: ...


_service, _bare = app.asgi(), Litestar([nothing, none], logging_config=None, openapi_config=None)


async def both(scope: Any, receive: Any, send: Any) -> None:
    bare = scope["type"] == "http" and scope["path"] == "/nothing"
    await (_bare if bare else _service)(scope, receive, send)
