"""Tasks of flows that run in child processes, which find them by name."""

from __future__ import annotations

from typing import Any

from mainspring import Finish, Skip


def measure(text: str) -> int:
    return len(text)


def decline() -> None:
    raise Skip("not today")


def stop(size: int) -> Any:
    return Finish({"size": size})
