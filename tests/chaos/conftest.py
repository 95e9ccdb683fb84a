"""Every chaos test gets a crew, and leaves no process behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("audit", "crew")

import ticking  # noqa: E402 (after the line that makes its asserts speak)
from crew import Crew  # noqa: E402


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    try:
        yield crew
    finally:
        crew.close()


@pytest.fixture
def clockwork(tmp_path: Path) -> Iterator[Crew]:
    """A crew whose workers tell what they fire, on clocks that can be wrong."""
    crew = Crew(tmp_path, ticking)
    try:
        yield crew
    finally:
        crew.close()
