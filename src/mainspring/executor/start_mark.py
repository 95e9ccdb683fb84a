"""StartMark: where a child process notes which run it has begun, for its worker to read when it has died."""

from __future__ import annotations

import mmap
import os
import tempfile
from struct import Struct as Layout

_NUMBER, _SPENT = Layout("<q"), Layout("<d")
_BYTES = _NUMBER.size + _SPENT.size


class StartMark:
    """Memory that both processes share: a note costs the child no system call, and does not wake the worker."""

    def __init__(self, file: int) -> None:
        self._map = mmap.mmap(file, _BYTES)

    def note(self, run: int, spent: float) -> None:
        """Run number `run` of this child has begun, which had used `spent` CPU seconds before."""
        _SPENT.pack_into(self._map, _NUMBER.size, spent)
        _NUMBER.pack_into(self._map, 0, run)  # last: the process may die between the two

    def spent_before(self, run: int) -> float | None:
        """The CPU seconds that the child had used before this run; None if the run did not begin."""
        (noted,) = _NUMBER.unpack_from(self._map, 0)
        return _SPENT.unpack_from(self._map, _NUMBER.size)[0] if noted == run else None

    def close(self) -> None:
        self._map.close()


def new_file() -> int:
    """The descriptor of a file for a StartMark: in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("mainspring")
    else:
        with tempfile.TemporaryFile() as on_disk:
            file = os.dup(on_disk.fileno())
    os.truncate(file, _BYTES)
    return file
