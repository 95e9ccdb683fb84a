"""Text that is safe to show: no passwords, nothing that steers the terminal."""

from __future__ import annotations

from ..logs.formatters import printable as clean
from ..mask import mask_text as redacted

__all__ = ["clean", "redacted", "safe"]


def safe(text: str) -> str:
    return clean(redacted(text))
