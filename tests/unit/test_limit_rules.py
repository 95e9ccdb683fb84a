"""The rules of limits: rates, room and turns."""

from hypothesis import given
from hypothesis import strategies as st

from mainspring.records.limit import AT_ONCE, StoredLimit, group_key, limit_key_of, limit_name
from mainspring.stores.rules.limits import (
    MAX_AHEAD_MICROS,
    NEW_GROUP,
    GroupState,
    after_start,
    has_room,
    interval_of,
    is_forgotten,
    limit_of,
    opens_at,
    turn_of,
)

NOW = 1_900_000_000_000_000
rates = st.builds(
    StoredLimit,
    name=st.just("task:t"),
    rate=st.integers(1, 1000),
    per=st.sampled_from([0.001, 0.5, 1.0, 7.3, 60.0, 86_400.0]),
    burst=st.integers(1, 20),
)


def starts(limit: StoredLimit, asked: list[int]) -> list[int]:
    """The instants among those asked, in order, at which a job starts."""
    state, started = NEW_GROUP, []
    for at in asked:
        if opens_at(limit, state, 0) <= at:
            state = after_start(limit, state, at)
            started.append(at)
    return started


@given(rates, st.lists(st.integers(0, 120_000_000), min_size=1, max_size=200))
def test_in_no_span_more_jobs_start_than_the_rate_allows(limit: StoredLimit, gaps: list[int]) -> None:
    assert limit.rate is not None
    asked = [NOW + sum(gaps[: n + 1]) // 7 for n in range(len(gaps))]
    started = starts(limit, asked)
    for i, first in enumerate(started):
        for j in range(i, len(started)):
            span = (started[j] - first) / 1_000_000
            assert j - i + 1 <= limit.burst + span * limit.rate / limit.per


@given(rates)
def test_after_a_rest_a_burst_starts_at_once_and_then_one_each_interval(limit: StoredLimit) -> None:
    step = interval_of(limit)
    assert len(starts(limit, [NOW] * (limit.burst + 5))) == limit.burst
    assert starts(limit, [NOW] * limit.burst + [NOW + step - 1, NOW + step])[-1] == NOW + step


def test_a_group_that_was_served_stands_behind_all_that_are_due() -> None:
    limit = StoredLimit(name="task:t")
    served = after_start(limit, NEW_GROUP, NOW)
    assert turn_of(limit, NEW_GROUP, NOW) == NOW < turn_of(limit, served, NOW - 5) == NOW + 1
    assert turn_of(limit, after_start(limit, served, NOW), 0) == NOW + 2


def test_the_order_of_groups_does_not_run_away_from_the_clock() -> None:
    limit, state = StoredLimit(name="task:t"), GroupState(0, NOW + 2 * MAX_AHEAD_MICROS)
    assert opens_at(limit, state, 0) == NOW + MAX_AHEAD_MICROS
    assert after_start(limit, state, NOW).served_at == NOW + MAX_AHEAD_MICROS


def test_room_is_that_of_the_group_and_of_the_limit() -> None:
    both = StoredLimit(name="task:t", running=2, total=3)
    assert [has_room(both, *used) for used in ((0, 0), (1, 2), (2, 2), (0, 3))] == [True, True, False, False]
    assert has_room(StoredLimit(name="task:t"), 10**6, 10**6)
    assert not has_room(StoredLimit(name="task:t", running=0), 0, 0)


def test_a_limit_has_its_number_in_its_name_or_is_stored_or_limits_nothing() -> None:
    assert limit_of(f"{AT_ONCE}50\nflow", None).running == 50
    stored = StoredLimit(name="task:t", running=1)
    assert limit_of("task:t\nkey", stored) is stored
    assert limit_of("task:t\nkey", None) == StoredLimit(name="task:t")


def test_the_key_of_a_group_names_its_limit_and_its_key() -> None:
    key = limit_key_of("task:t", "ten:ant\u2028")
    assert (limit_name(key), group_key(key)) == ("task:t", "ten:ant\u2028")
    assert group_key(limit_key_of("queue:q")) == ""


def test_a_group_is_forgotten_when_its_token_and_its_turn_have_come() -> None:
    assert is_forgotten(GroupState(NOW, NOW), NOW)
    assert not is_forgotten(GroupState(NOW + 1, 0), NOW)
    assert not is_forgotten(GroupState(0, NOW + 1), NOW)
