"""Where the service keeps its data and finds its partners, read from the environment."""

import os
from typing import NamedTuple


class Settings(NamedTuple):
    url: str
    """The database of the clips and of the jobs: sqlite:///clips.db or postgresql://user:password@host/name."""
    partners: str
    """Base URL of everything the service calls over HTTP."""
    exports: str
    """The folder that exports are written to."""


def settings() -> Settings:
    """Read at each call: a task in a process of its own finds them in the environment it inherits."""
    return Settings(
        url=os.environ.get("CLIP_SERVICE_URL", "sqlite:///clips.db"),
        partners=os.environ.get("CLIP_SERVICE_PARTNERS", "http://127.0.0.1:8001"),
        exports=os.environ.get("CLIP_SERVICE_EXPORTS", "exports"),
    )
