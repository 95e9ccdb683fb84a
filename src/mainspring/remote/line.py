"""The line to the API, as control finds it."""

from __future__ import annotations

from typing import Any

from ..control.ground import Ground
from ..stores.http.line import Line


async def line_of(ground: Ground) -> Line:
    store: Any = await ground.opened()
    found: Line = store.line
    return found
