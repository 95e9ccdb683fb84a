"""Viewers see every page, but no actions."""

from __future__ import annotations

import pytest
from live import Live
from playwright.sync_api import Page, expect
from scenery import follow, furnish, shown
from visit import Visits

# Names of elements that change something, on any page.
ACTS = (
    "Pause", "Resume", "Cancel", "Retry", "Redrive", "Delete", "Run now", "Run ", "Enqueue", "New schedule", "Backfill",
    "Edit", "Reschedule", "Move next tick", "Drain", "Resize", "Stop", "Rebalance", "New key", "Revoke", "New webhook",
    "Create", "Select",
)  # fmt: skip
# Pages for admins only, and elements of other pages that change nothing.
FOR_ADMINS = ("/audit", "/keys", "/webhooks", "/settings")
LOOKS = ("Run 1", "Run 2")
NAMES = "(all) => all.map((one) => one.getAttribute('aria-label') || one.innerText)"


@pytest.fixture(scope="module")
def addresses(live: Live) -> list[str]:
    return furnish(live)


def acts(page: Page) -> list[str]:
    """The buttons, checkboxes and fields of a page that change something."""
    found = []
    for role in ("button", "checkbox"):
        for name in page.get_by_role("main").get_by_role(role).evaluate_all(NAMES):
            if name.strip().startswith(ACTS) and not name.strip().startswith(LOOKS):
                found.append(f"{page.url}: {name}")
    return found


def test_a_viewer_sees_no_action_on_any_page(visit: Visits, live: Live, addresses: list[str]) -> None:
    page = visit(live, role="viewer")
    found = []
    for address in addresses:
        if address.startswith(FOR_ADMINS):
            continue
        follow(page, live.address + address)
        found += acts(page)
    assert found == []


def test_an_operator_sees_actions_on_pages(visit: Visits, live: Live, addresses: list[str]) -> None:
    page = visit(live, "/jobs", role="operator")
    for address in ("/jobs", "/queues", "/schedules/nightly"):
        follow(page, live.address + address)
        assert acts(page)


def test_admin_pages_are_hidden_from_viewers(visit: Visits, live: Live) -> None:
    page = visit(live, role="viewer")
    pages = page.get_by_role("navigation", name="Pages", exact=True)
    expect(pages.get_by_role("link", name="Jobs")).to_be_visible()
    expect(pages.get_by_role("link", name="API keys")).to_have_count(0)


def test_a_forbidden_page_names_the_required_role(visit: Visits, live: Live) -> None:
    visit.expects("status of 403")
    page = visit(live, "/keys", role="viewer")
    expect(shown(page)).to_contain_text("admin")
