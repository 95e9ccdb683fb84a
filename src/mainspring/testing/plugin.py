"""A pytest plugin that runs each coroutine test in its own event loop, for at most a minute."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable

import pytest

MAX_TEST_SECONDS = 60.0

# The fixtures are a module of their own because the entry point loads them into every pytest run: a project whose
# coroutine tests run under another plugin must not get this one as well.
pytest_plugins = ["mainspring.testing.fixtures"]
pytest.register_assert_rewrite("mainspring.testing.contract", "mainspring.testing.stops", "mainspring.testing.twin")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test with its fixtures. Returns None for other tests: pytest runs them."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    named = inspect.signature(test).parameters.keys() & pyfuncitem.funcargs.keys()
    asyncio.run(_bounded(test(**{name: pyfuncitem.funcargs[name] for name in named})))
    return True


async def _bounded(test: Awaitable[object]) -> None:
    async with asyncio.timeout(MAX_TEST_SECONDS):
        await test
