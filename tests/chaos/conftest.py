"""Every chaos test gets a crew, and leaves no process behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("audit", "books", "crew", "flow_audit", "trouble")

import ticking  # noqa: E402 (after the line that makes its asserts speak)
from crew import Crew  # noqa: E402
from ground import Database, File, Ground, Keys  # noqa: E402


@pytest.fixture(params=["file", "server"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """Each test runs on every store, unless it names some."""
    match request.param:
        case "file":
            return File(tmp_path)
        case "keys":
            return Keys(request.getfixturevalue("redis"))
        case "sentinel":
            return Keys(request.getfixturevalue("redis_sentinel"))
        case "cluster":
            return Keys(request.getfixturevalue("redis_cluster"))
        case _:
            return Database(request.getfixturevalue("postgres"))


@pytest.fixture
def crew(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    crew = Crew(tmp_path, ground)
    try:
        yield crew
    finally:
        crew.close()


@pytest.fixture
def clockwork(tmp_path: Path, ground: Ground) -> Iterator[Crew]:
    """A crew whose workers log what they fire, on clocks that can be wrong."""
    crew = Crew(tmp_path, ground, ticking)
    try:
        yield crew
    finally:
        crew.close()
