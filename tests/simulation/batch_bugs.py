"""Bugs that can be planted in the code for batches: each breaks one rule of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from mainspring.flow import moves
from mainspring.flow.graph import Graph
from mainspring.records.flow import Flow

from .patch import patch

Plant = Callable[[], AbstractContextManager[None]]


def _second_alarm() -> AbstractContextManager[None]:
    return patch(moves, "has_told", lambda graph, flow, n: False)


def _batch_that_ends_open() -> AbstractContextManager[None]:
    count = moves.count_made

    def closing(graph: Graph, flow: Flow, made: Mapping[int, int], now: datetime) -> Any:
        move = count(graph, flow, made, now)
        counts = {n: replace(one, closed=one.made > 2 or one.closed) for n, one in move.flow.counts.items()}
        return replace(move, flow=replace(move.flow, counts=counts))

    return patch(moves, "count_made", closing)


BUGS: Mapping[str, tuple[str, Plant]] = {
    "second-alarm": ("on_failure of a batch is called again after a dead job was put back to work", _second_alarm),
    "batch-that-ends-open": ("a batch of three jobs is closed although nobody has said so", _batch_that_ends_open),
}
