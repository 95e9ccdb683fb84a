"""Three processes elect a leader on one store; leaders are killed and frozen, and what they count never goes back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import candidate
import pytest
from audit import until
from candidate import POLL, Counter, Note, read_notes
from crew import freeze
from forked import ForkedProcess
from ground import Ground, on_a_server, slow_on_a_server, writable

from servers import Postgres

TTL = 2.0
# Seconds for processes to get their turn on a busy machine, beyond what the rules take.
SLACK = 2.0


class Candidate:
    def __init__(self, url: str, counts: Path, name: str, ttl: float) -> None:
        self.log = counts.with_name(f"{name}.log")
        arguments = [url, str(counts), str(self.log), str(ttl)]
        self.process = ForkedProcess(candidate, arguments, {}, self.log.with_suffix(".stderr"))

    def notes(self, event: str) -> list[Note]:
        return [note for note in read_notes(self.log) if note.event == event]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)


class Race:
    """Three candidates, and which of them counts."""

    def __init__(self, folder: Path, ground: Ground, ttl: float) -> None:
        self._ground, self._counts = ground, folder / "counts.db"
        self.candidates = [Candidate(ground.url, self._counts, name, ttl) for name in ("ada", "bob", "cy")]

    def counting(self) -> Candidate:
        """Returns the leader; waits until it has counted."""
        newest = until(lambda: max((note, n) for n, one in enumerate(self.candidates) for note in one.notes("counted")))
        return self.candidates[newest[1]]

    def followed(self, leader: Candidate, since: float) -> tuple[Candidate, float]:
        """Returns the next leader that counts, and the seconds since `since`."""
        term = leader.notes("leads")[-1].term
        others = [one for one in self.candidates if one is not leader]

        def next_one() -> tuple[Candidate, float] | None:
            begun = [(one, note.at - since) for one in others for note in one.notes("counted") if note.term > term]
            return min(begun, key=lambda pair: pair[1], default=None)

        return until(next_one)

    def freeze(self, leader: Candidate) -> float:
        """SIGSTOP, at a moment when it holds no lock that the others need; when that was."""
        freeze(leader.process, lambda: writable(self._counts) and self._ground.free())
        return time.monotonic()

    def terms(self) -> list[int]:
        counter = Counter(str(self._counts))
        try:
            return counter.terms()
        finally:
            counter.close()

    def check(self) -> None:
        """No term had two leaders, and the count only went forward."""
        led = [note.term for one in self.candidates for note in one.notes("leads")]
        assert sorted(led) == sorted(set(led)), "two led in one term"
        terms = self.terms()
        assert terms == sorted(terms)
        assert set(terms) <= set(led)

    def close(self) -> None:
        for one in self.candidates:
            one.stop()


@pytest.fixture
def ttl() -> float:
    return TTL


@pytest.fixture
def race(tmp_path: Path, ground: Ground, ttl: float) -> Iterator[Race]:
    race = Race(tmp_path, ground, ttl)
    try:
        until(lambda: any(one.notes("counted") for one in race.candidates))
        yield race
    finally:
        race.close()


def test_a_killed_leader_is_replaced_within_its_ttl(race: Race) -> None:
    for _ in range(2):
        leader = race.counting()
        leader.process.kill()
        leader.process.wait(10)
        heir, took = race.followed(leader, time.monotonic())
        assert took < TTL + POLL + SLACK
        assert heir is not leader
    race.check()


def test_a_frozen_leader_is_replaced_and_writes_nothing_when_it_wakes(race: Race) -> None:
    leader = race.counting()
    _, took = race.followed(leader, race.freeze(leader))
    assert took < TTL + POLL + SLACK
    lost = leader.notes("leads")[-1].term
    woken = time.monotonic()
    leader.process.send_signal(signal.SIGCONT)
    until(lambda: [note for note in leader.notes("lost") if note.term == lost])
    # If it was stopped between the check and the write, it tries once more, and the fence refuses it.
    assert [note for note in leader.notes("counted") if note.term == lost and note.at > woken] == []
    race.check()


@slow_on_a_server
@pytest.mark.parametrize("ttl", [60.0])
def test_a_leader_that_stops_gracefully_is_replaced_at_once(race: Race) -> None:
    leader = race.counting()
    leader.process.send_signal(signal.SIGTERM)
    _, took = race.followed(leader, time.monotonic())
    assert took < SLACK
    assert leader.process.wait(10) == 0
    race.check()


@on_a_server
@pytest.mark.slow
def test_leader_terms_increase_after_a_crash_of_the_server(race: Race, postgres: Postgres) -> None:
    for _ in range(3):
        led = max(note.term for one in race.candidates for note in one.notes("leads"))
        postgres.crash()
        pause = time.monotonic() + TTL
        until(lambda: time.monotonic() >= pause)  # noqa: B023
        postgres.start()
        until(lambda: [note for one in race.candidates for note in one.notes("counted") if note.term > led])  # noqa: B023
    race.check()
