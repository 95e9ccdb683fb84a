"""The watch: which processes were healthy, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct


class HealthySpan(Struct):
    """A time in which one process was healthy."""

    since: float
    computes: Collection[str]
    """Schedules whose input the process can compute."""
    until: float | None = None


class Watch:
    """Records when each process worked and could reach the store."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._now: dict[str, HealthySpan] = {}
        self._spans: list[HealthySpan] = []

    def mark_healthy(self, host: str, lag: float, computes: Collection[str]) -> None:
        """The host is healthy; it counts as recovered after `lag` seconds."""
        if host not in self._now:
            self._now[host] = HealthySpan(self._time() + lag, computes)
            self._spans.append(self._now[host])

    def mark_unhealthy(self, host: str) -> None:
        span = self._now.pop(host, None)
        if span is not None:
            span.until = self._time()

    def longest_healthy(self, since: float, computed: str | None) -> float:
        """The longest time since `since`, in seconds, for which one process was healthy.

        With `computed`, of the processes that can compute the input of that schedule.
        """
        now, found = self._time(), 0.0
        for span in self._spans:
            if computed is None or computed in span.computes:
                end = now if span.until is None else span.until
                found = max(found, end - max(span.since, since))
        return found
