"""Vigil: whether a worker's loops still turn."""

from __future__ import annotations

from collections.abc import Mapping

from .clock import Clock


class Vigil:
    """Knows when each loop turned last. One that has not begun to turn is not late."""

    def __init__(self, clock: Clock, bounds: Mapping[str, float]) -> None:
        """`bounds`: how many seconds each loop may take to turn."""
        self._clock = clock
        self._bounds = bounds
        self._turned: dict[str, float] = {}

    def turn(self, loop: str, rest: float = 0.0) -> None:
        """It has turned, and may rest for so many seconds beyond its bound before it turns again."""
        self._turned[loop] = self._clock.monotonic() + rest

    def late(self) -> list[str]:
        """A sentence for each loop that has stood still for longer than it may."""
        now = self._clock.monotonic()
        still = {loop: now - self._turned[loop] for loop in self._bounds if loop in self._turned}
        return [
            f"its {loop} loop has not turned for {seconds:.0f} s"
            for loop, seconds in still.items()
            if seconds > self._bounds[loop]
        ]
