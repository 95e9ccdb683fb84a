"""Every chaos test gets a crew, and leaves no process behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("audit", "crew")

from crew import Crew  # noqa: E402 (after the line that makes its asserts speak)


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    try:
        yield crew
    finally:
        crew.close()
