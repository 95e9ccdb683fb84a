"""A browser that is reused by the next test keeps nothing but the dashboard's files."""

from __future__ import annotations

from typing import Any

from chromium import Chromium
from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits

LOADED = "performance.getEntriesByType('resource').filter((o) => o.name.includes('/ui/')).map((o) => o.transferSize)"


def leave_traces(chromium: Chromium, live: Live) -> Any:
    visit = Visits(chromium)
    page = visit(live, "/jobs", role="admin", locale="en-US")
    shown(page)
    page.evaluate("[localStorage, sessionStorage].forEach((one) => one.setItem('left', 'behind'))")
    page.context.set_offline(True)
    context = page.context
    visit.settle()
    visit.close()
    return context


def look_for_traces(chromium: Chromium, live: Live, lent: Any) -> None:
    visit = Visits(chromium)
    page = visit(live, "/jobs", role=None, locale="en-US")
    assert page.context is lent
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.context.cookies() == []
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    sizes = page.evaluate(LOADED)
    assert sizes
    assert set(sizes) == {0}, "the files were fetched again"
    visit.close()


def test_a_reused_browser_has_no_session_and_no_storage_and_is_online(chromium: Chromium, live: Live) -> None:
    lent = chromium.do(leave_traces, chromium, live)
    chromium.do(look_for_traces, chromium, live, lent)


def test_a_browser_of_a_failed_test_is_not_reused(chromium: Chromium, live: Live) -> None:
    def fail() -> Any:
        visit = Visits(chromium)
        context = visit(live, "/jobs", locale="en-NZ").context
        visit.close()
        return context

    failed = chromium.do(fail)
    assert failed not in chromium.kept[repr([("locale", "en-NZ")])]
