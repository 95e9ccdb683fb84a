"""Who could have been relied on, and when."""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct


class Spell(Struct):
    """A time in which one process was well."""

    since: float
    makes: Collection[str]
    """Schedules whose input it can make."""
    until: float | None = None


class Watch:
    """Knows of each process when it worked and was reached."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._now: dict[str, Spell] = {}
        self._spells: list[Spell] = []

    def well(self, host: str, lag: float, makes: Collection[str]) -> None:
        """It is well, and so many seconds from now it has caught up with the world."""
        if host not in self._now:
            self._now[host] = Spell(self._time() + lag, makes)
            self._spells.append(self._now[host])

    def ill(self, host: str) -> None:
        spell = self._now.pop(host, None)
        if spell is not None:
            spell.until = self._time()

    def longest(self, since: float, maker: str | None) -> float:
        """The most seconds since then for which one process was well that can make that schedule's input."""
        now, found = self._time(), 0.0
        for spell in self._spells:
            if maker is None or maker in spell.makes:
                end = now if spell.until is None else spell.until
                found = max(found, end - max(spell.since, since))
        return found
