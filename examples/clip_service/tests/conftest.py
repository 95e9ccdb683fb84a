"""A small database, the partners, and the service on a virtual clock, for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clip_service import client
from clip_service.database import engine
from clip_service.partners import Partners
from clip_service.seed import seed
from clip_service.tasks import app
from mainspring.testing import Harness, VirtualClock

pytest_plugins = ["mainspring.testing.plugin"]  # lets pytest run coroutine tests

CLIPS = 500
START = int(VirtualClock().now().timestamp())


@pytest.fixture
def partners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Partners]:
    """The stand-ins, beside a database that holds CLIPS clips."""
    partners = Partners()
    monkeypatch.setenv("CLIP_SERVICE_URL", f"sqlite:///{tmp_path}/clips.db")
    monkeypatch.setenv("CLIP_SERVICE_EXPORTS", str(tmp_path / "exports"))
    monkeypatch.setenv("CLIP_SERVICE_PARTNERS", partners.start())
    assert seed(START, CLIPS)
    yield partners
    client.close()
    engine().dispose()
    partners.stop()


@pytest.fixture
def jobs(partners: Partners) -> Iterator[Harness]:
    with app.testing() as jobs:
        yield jobs
