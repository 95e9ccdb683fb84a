"""Where a Redis store is."""

from __future__ import annotations


class Place:
    """Placeholder until the real one comes."""

    def __init__(self, url: str, shown: str) -> None:
        self.url, _, options = url.partition("?")
        self.prefix = options.partition("=")[2] or "mainspring"
        self.base = f"{{{self.prefix}}}"
        self.shown = shown
