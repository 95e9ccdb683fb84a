"""Fixtures for pytest: a clock, a store and an app of the test's own; an installed Mainspring brings them by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..app import Mainspring
from ..store import Store
from ..stores import open_store
from .clock import VirtualClock


@pytest.fixture
def mainspring_clock() -> VirtualClock:
    """Stands still at the beginning of 2030 until the test moves it."""
    return VirtualClock()


@pytest.fixture
def mainspring_store(mainspring_clock: VirtualClock) -> Store:
    """A fresh memory store; a fixture of the same name in your conftest.py puts another in its place."""
    return open_store("memory://", clock=mainspring_clock)


@pytest.fixture
def mainspring_app(mainspring_store: Store, mainspring_clock: VirtualClock) -> Iterator[Mainspring]:
    """An app without tasks on that store and that clock, closed after the test."""
    app = Mainspring(mainspring_store, clock=mainspring_clock)
    yield app
    app.sync.close()
