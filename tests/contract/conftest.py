"""Coroutine tests of a class that has a `runner` share its event loop."""

import asyncio
import inspect
import os

import pytest

from mainspring.testing.plugin import MAX_TEST_SECONDS

pytest.register_assert_rewrite("golden.trial")

# The groups of the contract in which releases of Python may differ: threads, encoding, transactions.
CORE = ("lifecycle", "enqueue", "claim", "claim_expiry", "finish", "fire", "report", "documents")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves only these groups with MAINSPRING_TEST_CONTRACT=core, as scripts/test-pythons sets it."""
    if os.environ.get("MAINSPRING_TEST_CONTRACT") == "core":
        items[:] = [item for item in items if _group(item) in (None, *CORE)]


def _group(item: pytest.Item) -> str | None:
    """The group of a contract test; None for any other test."""
    package, _, group = getattr(item, "function", item).__module__.rpartition(".")
    return group if package == "mainspring.testing.contract" else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    runner: asyncio.Runner | None = getattr(pyfuncitem.cls, "runner", None)
    if runner is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    named = inspect.signature(pyfuncitem.obj).parameters.keys() & pyfuncitem.funcargs.keys()
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in named})
    runner.run(asyncio.wait_for(test, MAX_TEST_SECONDS))
    return True
