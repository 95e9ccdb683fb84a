"""Findings of the doctor: the subject of a check, its verdict and the remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Verdict = Literal["ok", "warn", "bad"]


class Finding(Struct, frozen=True):
    """The result of one check."""

    about: str
    verdict: Verdict
    text: str
    remedy: str = ""
    """What to do. Empty only if the verdict is ok."""


def worst_verdict(findings: Iterable[Finding]) -> Verdict:
    found = {finding.verdict for finding in findings}
    return "bad" if "bad" in found else "warn" if "warn" in found else "ok"


def format_size(count: int) -> str:
    """A number of bytes as text for people: 512 B, 4.0 KB, 31 MB, 1.2 GB."""
    amount, unit = float(count), "B"
    for bigger in ("KB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1024, bigger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 9.95 else f"{amount:.1f} {unit}"
