"""Keyboard shortcuts: search, navigation and help."""

from __future__ import annotations

import pytest
from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits

GO = {"g s": "Schedules", "g q": "Queues", "g d": "Dead letters", "g w": "Workers", "g j": "Jobs", "g o": "Overview"}


def test_the_slash_key_focuses_the_search(visit: Visits, live: Live) -> None:
    page = visit(live, "/queues")
    shown(page)
    page.keyboard.press("/")
    search = page.get_by_label("Search jobs")
    expect(search).to_be_focused()
    page.keyboard.type("g j ? /")  # text in the search field, not shortcuts
    expect(search).to_have_value("g j ? /")


def test_g_and_a_letter_go_to_a_page(visit: Visits, live: Live) -> None:
    page = visit(live)
    shown(page)
    for keys, title in GO.items():
        for key in keys.split():
            page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()
        expect(
            page.get_by_role("link", name=title, exact=False).and_(page.locator("[aria-current=page]"))
        ).to_be_visible()


def test_the_question_mark_key_shows_the_keyboard_help_and_escape_hides_it(visit: Visits, live: Live) -> None:
    page = visit(live)
    shown(page)
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard")
    expect(help_).to_contain_text("go to Jobs")
    page.keyboard.press("Escape")
    expect(help_).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", level=1, name="Jobs")).to_be_visible()


def test_p_pauses_the_live_updates(visit: Visits, live: Live) -> None:
    page = visit(live)
    shown(page)
    expect(page.get_by_role("button", name="Live")).to_be_visible()
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Paused")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Live")).to_be_visible()


def test_the_first_tab_focuses_the_skip_link(visit: Visits, live: Live) -> None:
    page = visit(live)
    shown(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()


@pytest.mark.parametrize("path", ["/", "/jobs", "/schedules"])
def test_the_focus_is_visible(visit: Visits, live: Live, path: str) -> None:
    page = visit(live, path)
    shown(page)
    for _ in range(12):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")
