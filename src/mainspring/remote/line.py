"""The line to the API, as control finds it."""

from __future__ import annotations

from typing import Any

from ..control.ground import Ground
from ..stores.http.line import ApiConnection


async def line_of(ground: Ground) -> ApiConnection:
    store: Any = await ground.opened()
    found: ApiConnection = store.line
    return found
