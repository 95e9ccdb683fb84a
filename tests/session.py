"""A Python session for the code of one page: a JSON line in for each block, a JSON line out for what it printed."""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
import sys
import traceback
from contextlib import redirect_stdout
from typing import Any


async def play() -> None:
    names: dict[str, Any] = {"__name__": "__page__"}
    while line := await asyncio.to_thread(sys.stdin.readline):
        block = json.loads(line)
        print(json.dumps(await _run(block["text"], block["place"], names)), flush=True)


async def _run(text: str, place: str, names: dict[str, Any]) -> dict[str, str]:
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            code = compile(text, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            value = eval(code, names)
            if inspect.iscoroutine(value):
                await value
    except Exception:
        return {"printed": printed.getvalue(), "error": traceback.format_exc()}
    return {"printed": printed.getvalue(), "error": ""}


asyncio.run(play())
