"""Fixtures: an app on each store, with a clock that the test controls."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.store import Store
from mainspring.stores import open_store
from mainspring.testing.clock import VirtualClock
from mainspring.testing.contract.build import NOW


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes MAINSPRING_* variables that the environment of the tests may have."""
    for name in os.environ:
        if name.startswith("MAINSPRING_"):
            monkeypatch.delenv(name)


@pytest.fixture
def clock() -> VirtualClock:
    """A virtual clock at noon; it stands still until a test moves it."""
    return VirtualClock(NOW)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    store = open_store(url, clock=clock, durability="relaxed")
    yield store
    asyncio.run(store.close())


@pytest.fixture
def make_app(store: Store, clock: VirtualClock) -> Callable[..., Mainspring]:
    """Apps that share one store, each with its own settings and tasks."""

    def make(**settings: Any) -> Mainspring:
        return Mainspring(store, clock=clock, **settings)

    return make


@pytest.fixture
def app(make_app: Callable[..., Mainspring]) -> Mainspring:
    return make_app()
