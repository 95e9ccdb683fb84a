"""A pytest plugin: coroutine tests run, each in its own event loop and never for longer than a minute."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

import pytest

LIMIT = 60.0

# Apart from this file, as an installed Mainspring loads them in everybody's tests: who lets another plugin
# run coroutine tests must not find them run by this one.
pytest_plugins = ["mainspring.testing.fixtures"]
pytest.register_assert_rewrite("mainspring.testing.contract", "mainspring.testing.stops", "mainspring.testing.twin")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test with the fixtures it names; leaves the others to pytest."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    named = inspect.signature(test).parameters.keys() & pyfuncitem.funcargs.keys()
    asyncio.run(_bounded(test(**{name: pyfuncitem.funcargs[name] for name in named})))
    return True


async def _bounded(test: Awaitable[object]) -> None:
    async with asyncio.timeout(LIMIT):
        await test
