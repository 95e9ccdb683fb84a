"""Reads the SQL and Lua files of this package."""

from __future__ import annotations

import os
from typing import Protocol, cast


class _DataLoader(Protocol):
    def get_data(self, path: str) -> bytes: ...


def read_package_file(name: str) -> str:
    """The text of a file of mainspring.stores. Its loader reads it, also from a zip archive: importlib.resources, which
    would import zipfile, tempfile, urllib and ipaddress, costs every process 2 MB."""
    loader = cast(_DataLoader, __spec__.loader)
    return loader.get_data(os.path.join(os.path.dirname(__file__), *name.split("/"))).decode()
