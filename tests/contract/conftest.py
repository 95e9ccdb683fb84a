"""Coroutine tests of a class that has a `runner` share its event loop."""

import asyncio
import inspect

import pytest

from mainspring.testing.plugin import MAX_TEST_SECONDS

pytest.register_assert_rewrite("golden.trial")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    runner: asyncio.Runner | None = getattr(pyfuncitem.cls, "runner", None)
    if runner is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    named = inspect.signature(pyfuncitem.obj).parameters.keys() & pyfuncitem.funcargs.keys()
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in named})
    runner.run(asyncio.wait_for(test, MAX_TEST_SECONDS))
    return True
