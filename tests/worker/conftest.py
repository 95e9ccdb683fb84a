"""An app on a virtual clock, on memory and on SQLite: the worker must not know the difference."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path, empty_file: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{shutil.copy(empty_file, tmp_path)}"


@pytest.fixture
def app(url: str, clock: VirtualClock) -> Mainspring:
    return Mainspring(url, clock=clock)
