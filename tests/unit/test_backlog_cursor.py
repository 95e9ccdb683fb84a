"""When claims of a long backlog in PostgreSQL continue after the last one, and when they begin at the beginning."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.stores.postgres.claim import SURVEY_EVERY_SECONDS, BacklogCursor, ClaimRequest, ClaimView


def _request() -> ClaimRequest:
    return ClaimRequest(None, "w", ["send"], 100, datetime(2026, 1, 1, tzinfo=UTC))


def _view(groups: int) -> ClaimView:
    rows: list[Any] = [("group", f"queue{n}", "send", 0, 1000 + n, None, 0) for n in range(groups)]
    return ClaimView([*rows, ("expiry", "", "", 0, None, None, 0)])


@pytest.mark.parametrize(
    ("groups", "took", "used"), [(1, 0.005, False), (1, 0.015, True), (1000, 0.015, False), (1000, 0.05, True)]
)
def test_cursor_is_used_after_a_survey_that_is_slow_for_its_number_of_groups(
    groups: int, took: float, used: bool
) -> None:
    cursor = BacklogCursor()
    cursor.learn(_view(groups), _request(), 0.0, took)
    assert (cursor.positions_for(_request()) is not None) == used


def test_quick_survey_ends_the_use_of_the_cursor() -> None:
    cursor = BacklogCursor()
    cursor.learn(_view(1), _request(), 0.0, 1.0)
    cursor.learn(_view(1), _request(), 60.0, 0.001)
    assert cursor.positions_for(_request()) is None


@pytest.mark.parametrize(("took", "rest"), [(0.001, SURVEY_EVERY_SECONDS), (1.0, 50.0)])
def test_surveys_take_a_small_part_of_the_time(took: float, rest: float) -> None:
    cursor = BacklogCursor()
    cursor.learn(_view(1), _request(), 100.0, took)
    assert not cursor.is_survey_due(100.0 + 0.99 * rest)
    assert cursor.is_survey_due(100.0 + 1.01 * rest)
