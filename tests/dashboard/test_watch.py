"""The checks that other tests rely on: every error on a page is noticed."""

from __future__ import annotations

import pytest
from live import Live
from visit import Visits

WRONG = {
    "console error: no": "console.error('no')",
    "console warning: no": "console.warn('no')",
    "uncaught: Error: later": "setTimeout(() => { throw new Error('later') })",
    "uncaught: Error: refused": "Promise.reject(new Error('refused'))",
    "dialog alert: no": "alert('no')",
    "request failed: GET": "fetch('http://127.0.0.1:1/').catch(() => {})",
}
IMAGE = "() => document.body.append(Object.assign(document.createElement('img'), {src: 'data:,no'}))"


@pytest.mark.parametrize("said", WRONG)
def test_a_page_error_is_recorded_as_a_complaint(visit: Visits, live: Live, said: str) -> None:
    visit.expects(".")
    page = visit(live, "/health/live")
    page.goto("about:blank")  # a page without a content security policy
    page.evaluate(f"() => {{ {WRONG[said]} }}")
    visit.hear(page, said)


def test_a_content_security_policy_violation_is_recorded_as_a_complaint(visit: Visits, live: Live) -> None:
    visit.expects(".")
    page = visit(live, "/health/live")
    page.evaluate(IMAGE)
    visit.hear(page, "content security policy: img-src data")


def test_an_unexpected_complaint_fails_the_test(visit: Visits, live: Live) -> None:
    visit.expects("known")
    page = visit(live, "/health/live")
    page.evaluate("() => { console.error('a known one'); console.error('a new one') }")
    visit.hear(page, "a new one")
    with pytest.raises(AssertionError, match="a new one"):
        visit.settle()
    visit.expects("a new one")
