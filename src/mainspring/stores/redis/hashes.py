"""Reads of whole hashes."""

from __future__ import annotations

from collections.abc import Sequence

from .shard import Shard


async def read_hash(shard: Shard, key: str) -> dict[str, bytes]:
    return to_dict(await shard.call("HGETALL", key))


def to_dict(pairs: Sequence[bytes]) -> dict[str, bytes]:
    """The reply to HGETALL as a dict."""
    return {field.decode(): value for field, value in zip(pairs[::2], pairs[1::2], strict=True)}
