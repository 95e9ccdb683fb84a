"""The result of deleting in bulk what retention does not keep."""

from __future__ import annotations

from msgspec import Struct


class Pruning(Struct, frozen=True):
    """What one call of `prune` deleted."""

    jobs: int = 0
    rows: int = 0
    """Documents and audit entries."""
