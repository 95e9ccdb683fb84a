"""The pytest fixtures `mainspring_clock`, `mainspring_store` and `mainspring_app`; loaded by an entry point."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..app import Mainspring
from ..store import Store
from ..stores import open_store
from .clock import VirtualClock


@pytest.fixture
def mainspring_clock() -> VirtualClock:
    """A virtual clock; it stands still at the beginning of 2030 until the test moves it."""
    return VirtualClock()


@pytest.fixture
def mainspring_store(mainspring_clock: VirtualClock) -> Store:
    """An empty memory store. Override it with a fixture of the same name in your conftest.py."""
    return open_store("memory://", clock=mainspring_clock)


@pytest.fixture
def mainspring_app(mainspring_store: Store, mainspring_clock: VirtualClock) -> Iterator[Mainspring]:
    """An app without tasks on `mainspring_store` and `mainspring_clock`; closed after the test."""
    app = Mainspring(mainspring_store, clock=mainspring_clock)
    yield app
    app.sync.close()
