"""A store of another package is registered by an entry point, opened by its URL, and keeps the contract."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mainspring import Mainspring
from mainspring.errors import BadSetting
from mainspring.store import Store
from mainspring.stores import BUILT_IN, ENTRY_POINTS, open_store
from mainspring.testing.contract.build import Contract
from mainspring.testing.contract.documents import DocumentContract
from mainspring.testing.contract.feed import FeedContract
from mainspring.testing.contract.lifecycle import LifecycleContract
from mainspring.testing.contract.wait import WaitContract
from source_tree import ROOT

MODULE = '''
from mainspring.errors import BadSetting
from mainspring.stores.memory.store import MemoryStore


class DrawerStore(MemoryStore):
    """Jobs in a drawer."""


def from_url(url, *, shown, clock, durability, **settings):
    if url != "drawer://top":
        raise BadSetting(f"store URL {shown!r} names no drawer: use drawer://top")
    store = DrawerStore(clock)
    store.settings = settings
    return store
'''


@pytest.fixture(autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a store."""
    (tmp_path / "drawer_store.py").write_text(MODULE)
    metadata = tmp_path / "drawer_store-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: drawer-store\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\ndrawer = drawer_store:from_url\n")
    monkeypatch.syspath_prepend(tmp_path)


class Registered(Contract):
    def make_store(self) -> Store:
        store = open_store("drawer://top")
        assert type(store).__name__ == "DrawerStore"
        return store


class TestRegistered(Registered, LifecycleContract, WaitContract, DocumentContract, FeedContract):
    """A part of the contract."""


async def test_an_app_runs_jobs_in_a_registered_store() -> None:
    app = Mainspring("drawer://top")
    work = app.task(lambda: 5, name="work")
    async with app:
        handle = await work.enqueue()
        await app.drain()
        assert await handle.result(timeout=0) == 5


def test_a_registered_store_gets_the_settings_that_are_not_empty() -> None:
    store: Any = open_store("drawer://top", api_key="msk_a", redis_key_prefix="")
    assert store.settings == {"api_key": "msk_a"}


def test_a_registered_store_checks_its_own_url() -> None:
    with pytest.raises(BadSetting, match=r"store URL 'drawer://me:\*\*\*@x' names no drawer"):
        open_store("drawer://me:secret@x")


def test_the_error_of_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(BadSetting, match=r"unknown store 'chest' .*memory://, sqlite:.*; registered here: drawer://$"):
        open_store("chest://x")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db", "redis://127.0.0.1/0", "postgresql://host/db"])
def test_built_in_stores_need_no_metadata(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(**_: Any) -> NoReturn:
        raise AssertionError("metadata is read")

    monkeypatch.setattr(importlib.metadata, "entry_points", read)
    assert open_store(url).capabilities.store


def test_the_package_registers_its_built_in_stores() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][ENTRY_POINTS] == BUILT_IN
