"""Texts that are JSON, put together without decoding them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec


def encode_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def object_text(texts: Mapping[str, str]) -> str:
    """A JSON object of texts that are JSON."""
    return f"{{{','.join([f'{_quoted(name)}:{text}' for name, text in texts.items()])}}}"


@lru_cache(maxsize=1000)
def _quoted(name: str) -> str:
    return encode_text(name)


def pointer_part(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
