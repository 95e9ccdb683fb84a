"""Masking before truncation: no half of a secret is shown at the end of a truncated text."""

from __future__ import annotations

import time

import pytest

from mainspring.control.audit_log import MAX_ENTRY_BYTES, encode_bounded
from mainspring.mask import MAX_TEXT_CHARACTERS, mask_text
from mainspring.records.outcome import MAX_MESSAGE_CHARACTERS, MAX_STACK_CHARACTERS, clean, failure_of
from mainspring.records.unreadable import MAX_ERROR_CHARACTERS, unreadable_record
from mainspring.task.context import MAX_LINE_CHARACTERS, clean_line

LINES = "\n".join(f"kan4ri{n:05}vogelkan4rivogelkan4rivogelkan4rivogelkan4rivogelkan4ri" for n in range(400))
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}\n-----END RSA PRIVATE KEY-----"
LONG_PASSWORD = "password='" + "kan4ri " * 2000 + "'"
SECRETS = [KEY, LONG_PASSWORD, "postgres://user:kan4rivogel@host/db", '{"api_key": "kan4ri' + "x" * 3000 + '"}']


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("limit", [60, 300, 1000, MAX_MESSAGE_CHARACTERS, MAX_STACK_CHARACTERS])
def test_clean_leaves_no_part_of_a_secret_at_a_truncation(secret: str, limit: int) -> None:
    half = (limit - 50) // 2
    for before in (0, max(0, half - 30), max(0, half - 3), half, half + 10):
        for after in (0, 10, half, 3 * limit):
            text = f"{'x' * before} {secret} {'y ' * after}"
            shown = mask_text(clean(text, limit))
            assert "kan4ri" not in shown
            assert len(clean(text, limit)) <= limit or len(text) <= limit


def test_a_truncated_failure_contains_no_part_of_a_secret() -> None:
    try:
        raise ValueError(f"cannot read {KEY} of the vault " + "z" * MAX_MESSAGE_CHARACTERS)
    except ValueError as error:
        failure = failure_of(error)
    assert "kan4ri" not in failure.message
    assert "kan4ri" not in failure.stack
    assert failure.message.startswith("cannot read ***")


def test_log_lines_and_audit_entries_are_masked_before_truncation() -> None:
    for secret in (KEY, f"postgres://user:{'kan4ri' * 60}@host"):
        for before in (8, 200):
            line = clean_line(f"{'x' * (MAX_LINE_CHARACTERS - before)} {secret}")
            assert "kan4ri" not in line
            assert len(line) <= MAX_LINE_CHARACTERS + 40
    assert "kan4ri" not in encode_bounded(
        {"kwargs": {"key": KEY, "more": "x" * MAX_ENTRY_BYTES}, "note": LONG_PASSWORD}
    )


def test_the_error_of_an_unreadable_record_is_masked_before_truncation() -> None:
    text = "x" * (MAX_ERROR_CHARACTERS - 40) + " postgres://user:kan4ri" + "v" * 100 + "@host"
    assert "kan4ri" not in unreadable_record("job", "one", text).error


def test_clean_leaves_a_short_text_unchanged() -> None:
    assert clean("password=kan4ri", 100) == "password=kan4ri"
    assert clean_line("password=kan4ri") == "password=kan4ri"


def test_clean_keeps_the_start_of_a_text_too_long_to_mask() -> None:
    text = "cannot read it: " + "word " * MAX_TEXT_CHARACTERS
    assert clean(text, 1000).startswith("cannot read it: word word")
    began = time.thread_time()
    assert "kan4ri" not in clean("eyJhbGciOiJI" + "kan4ri" * MAX_TEXT_CHARACTERS, 1000)
    assert time.thread_time() - began < 10


def test_mask_text_hides_the_tail_of_a_secret_truncated_by_an_earlier_release() -> None:
    """An earlier release truncated before masking, so that only the tail of a secret was left."""
    cut = f"cannot read it: {'x' * 300}\n… 2000 characters left out …\n{KEY[-900:]} of the vault"
    assert mask_text(cut) == f"cannot read it: {'x' * 300}\n… 2000 characters left out …\n*** of the vault"
    assert mask_text(f"{KEY[-900:]} of the vault") == "*** of the vault"
