"""Sets up Django in the child process of a worker, with the databases of the worker: in tests, the test databases."""

from __future__ import annotations

import json
from typing import Any

import django
from django.db import connections


def databases() -> str:
    """The names of the databases in this process, for set_up()."""
    settings: Any = connections.settings
    return json.dumps({alias: str(database["NAME"]) for alias, database in settings.items()})


def set_up(names: str) -> None:
    settings: Any = connections.settings
    for alias, name in json.loads(names).items():
        settings[alias]["NAME"] = name
    django.setup()
