"""Windows of ids: together they contain every id once, in the order of the list, up to its end."""

import pytest

from mainspring.stores.postgres.id_windows import DAY_MICROSECONDS, id_after, micros_of_id, windows_of

NOW = 20_000 * DAY_MICROSECONDS + 5_000_000
ID = "019280f2-c400-7000-8000-000000000001"
IDS = ["", "by-hand", "0", ID, "018f0000-0000-7000-8000-000000000001", "~", "zzz", f"{ID}0"]


def places(id: str, newest: bool, until: str | None) -> list[int]:
    """The numbers of the windows that contain the id."""
    windows = list(windows_of(newest, NOW, until))
    return [n for n, (low, high) in enumerate(windows) if (low is None or id >= low) and (high is None or id < high)]


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("id", IDS)
def test_every_id_is_in_one_window(id: str, newest: bool) -> None:
    assert len(places(id, newest, None)) == 1


@pytest.mark.parametrize("newest", [True, False])
def test_a_window_comes_before_later_ones_in_the_order_of_the_list(newest: bool) -> None:
    where = [places(id, newest, None)[0] for id in sorted(IDS, reverse=newest)]
    assert where == sorted(where)


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("until", IDS[1:])
def test_no_window_goes_beyond_the_last_id(until: str, newest: bool) -> None:
    for id in IDS:
        assert len(places(id, newest, until)) == (id >= until if newest else id <= until)


def test_an_id_begins_with_its_time() -> None:
    assert micros_of_id("00000000-0005-7000-8000-000000000000", 9) == 5000
    assert [micros_of_id(id, 9) for id in ("by-hand", "", "~")] == [9, 9, 9]
    assert ID < id_after(ID) < f"{ID}1"
