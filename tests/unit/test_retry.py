"""Backoff: the n-th delay of each curve, its jitter, and what is refused."""

import math
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Backoff, BadSetting

FAR = 1_000_000


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff(jitter=0), [1, 2, 4, 8, 16]),
        (Backoff(initial=0.5, multiplier=3, jitter=0), [0.5, 1.5, 4.5, 13.5, 40.5]),
        (Backoff(initial=10, max=25, jitter=0), [10, 20, 25, 25, 25]),
        (Backoff(initial=7, multiplier=1, jitter=0), [7, 7, 7, 7, 7]),
        (Backoff.constant(5, jitter=0), [5, 5, 5, 5, 5]),
        (Backoff.constant(7200, jitter=0), [7200] * 5),
        (Backoff.linear(2, jitter=0), [2, 4, 6, 8, 10]),
        (Backoff.linear(10, max=25, jitter=0), [10, 20, 25, 25, 25]),
    ],
)
def test_backoff_delay_follows_the_curve(backoff: Backoff, delays: list[float]) -> None:
    assert [backoff.delay(n) for n in range(1, 6)] == delays


@pytest.mark.parametrize(
    "backoff",
    [Backoff(), Backoff(multiplier=1e300), Backoff(multiplier=1.0001), Backoff.linear(1), Backoff.constant(9)],
)
def test_backoff_delay_never_exceeds_the_cap(backoff: Backoff) -> None:
    assert 0 < backoff.delay(FAR) <= backoff.max


backoffs = st.builds(
    Backoff,
    initial=st.floats(1e-3, 100),
    multiplier=st.floats(1, 1e6),
    max=st.floats(100, 1e6),
    jitter=st.floats(0, 0.99),
    curve=st.sampled_from(["exponential", "linear"]),
)


@given(backoffs, st.integers(1, FAR), st.text())
def test_backoff_jitter_only_shortens_the_delay(backoff: Backoff, n: int, seed: str) -> None:
    full = backoff.full_delay(n)
    assert full * (1 - backoff.jitter) <= backoff.delay(n, seed) <= full
    assert backoff.delay(n, seed) > 0


@given(backoffs, st.integers(1, 1000))
def test_backoff_delay_never_decreases(backoff: Backoff, n: int) -> None:
    assert backoff.full_delay(n) <= backoff.full_delay(n + 1)


def test_backoff_jitter_spreads_many_jobs_evenly() -> None:
    backoff = Backoff.constant(100, jitter=0.5)
    delays = sorted(backoff.delay(1, f"job {n}") for n in range(1000))
    assert delays[0] < 52 < 74 < delays[500] < 76 < 98 < delays[-1]


def test_backoff_jitter_is_constant_for_a_job() -> None:
    assert Backoff().delay(3, "a job") == Backoff().delay(3, "a job")
    assert Backoff().delay(3, "a job") != Backoff().delay(3, "another")


def test_backoff_jitter_is_on_by_default() -> None:
    assert {curve.jitter for curve in (Backoff(), Backoff.constant(1), Backoff.linear(1))} == {0.25}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"initial": 0}, "backoff needs 0 < initial <= max, got initial=0, max=3600.0"),
        ({"initial": -1}, "backoff needs 0 < initial <= max, got initial=-1, max=3600.0"),
        ({"initial": 10, "max": 5}, "backoff needs 0 < initial <= max, got initial=10, max=5"),
        ({"initial": math.nan}, "backoff needs 0 < initial <= max, got initial=nan, max=3600.0"),
        ({"multiplier": 0.5}, "backoff multiplier must be at least 1, got 0.5"),
        ({"jitter": 1}, "backoff jitter is a share from 0 up to (not including) 1, got 1"),
        ({"jitter": -0.1}, "backoff jitter is a share from 0 up to (not including) 1, got -0.1"),
        ({"jitter": math.nan}, "backoff jitter is a share from 0 up to (not including) 1, got nan"),
    ],
)
def test_backoff_refuses_bad_parameters(given: dict[str, float], message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        Backoff(**given)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "given",
    [
        {"multiplier": math.nan},
        {"max": math.inf},
        {"initial": math.inf, "max": math.inf},
        {"initial": "soon"},
        {"initial": Decimal("0.5")},
        {"multiplier": "2"},
        {"jitter": None},
        {"jitter": False},
        {"curve": "cubic"},
    ],
    ids=str,
)
def test_backoff_refuses_values_that_cannot_be_stored(given: dict[str, Any]) -> None:
    """A job whose backoff cannot be decoded would end every worker that claims it."""
    with pytest.raises(BadSetting, match=next(iter(given))):
        Backoff(**given)


@pytest.mark.parametrize("backoff", [Backoff(), Backoff.constant(5), Backoff.linear(2, max=9), Backoff(multiplier=1.5)])
def test_backoff_is_stored_with_its_job(backoff: Backoff) -> None:
    assert msgspec.json.decode(msgspec.json.encode(backoff), type=Backoff) == backoff
