"""The bounds of a run's output, and its chunks as JSON."""

from __future__ import annotations

from typing import Any

from ..codec import encode
from ..errors import BadInput

# JSON of one chunk.
MAX_CHUNK_BYTES = 64 << 10
# JSON of all chunks of one run.
MAX_OUTPUT_BYTES = 1 << 20
# Of one run. One chunk more tells that the output was full.
MAX_OUTPUT_CHUNKS = 10_000


def encoded_chunk(chunk: Any) -> bytes:
    """The chunk as JSON. Raises BadInput if it is too large, BadPayload if it has no JSON."""
    data = encode(chunk, MAX_CHUNK_BYTES)
    if len(data) > MAX_CHUNK_BYTES:
        raise BadInput(
            f"ctx.write() takes chunks of up to {MAX_CHUNK_BYTES:,} bytes of JSON, got {len(data):,}: "
            "write it in parts, or keep it elsewhere and write its name"
        )
    return data


class OutputLimit:
    """What a run may still write."""

    def __init__(self) -> None:
        self._chunks = MAX_OUTPUT_CHUNKS
        self._bytes = MAX_OUTPUT_BYTES
        self._full = False

    def admit(self, data: bytes) -> bytes | None:
        """The chunk to keep: the given one; an empty one if the output is full with it; None if it was full before."""
        if self._full:
            return None
        self._chunks -= 1
        self._bytes -= len(data)
        self._full = self._chunks < 0 or self._bytes < 0
        return b"" if self._full else data
