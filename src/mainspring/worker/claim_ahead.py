"""ClaimAhead: how many jobs a worker claims beyond its slots, while its runs end at once."""

from __future__ import annotations

from math import inf

from ..clock import Clock

# Jobs claimed ahead begin about this much later, if the runs before them take as long as the last ones.
AHEAD_SECONDS = 0.005
# Runs that ended longer ago than this say nothing about the next ones.
RECENT_SECONDS = 0.05
# A run that has waited this long for a slot is released, so that another worker may take its job.
MAX_WAIT_SECONDS = 0.05
# Most jobs to claim ahead for each slot.
MAX_PER_SLOT = 8
# Number of slots from which on no job is claimed ahead: larger claims cost as much a job.
ENOUGH_SLOTS = 1000


class ClaimAhead:
    """Counts the last runs that ended, one after the other, without ever waiting."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_a_row = 0
        self._jobs_in_time = inf
        self._until = 0.0

    def note_ended(self, runs: int, seconds: float) -> None:
        """Records that `runs` runs ended without waiting, in `seconds` together."""
        self._in_a_row += runs
        self._jobs_in_time = runs * AHEAD_SECONDS / seconds if seconds > 0 else inf
        self._until = self._clock.monotonic() + RECENT_SECONDS

    def note_wait(self) -> None:
        """Records that a run waits, for a slot or for anything else: the next ones may do so, too."""
        self._in_a_row = 0

    def jobs(self, slots: int) -> int:
        """How many jobs to claim ahead: no more than the last runs in a row that ended without waiting.

        None with one slot: its jobs run in the order of their priority.
        """
        if slots == 1 or not self._in_a_row or self._clock.monotonic() > self._until:
            return 0
        return max(0, int(min(self._in_a_row, self._jobs_in_time, MAX_PER_SLOT * slots, ENOUGH_SLOTS - slots)))
