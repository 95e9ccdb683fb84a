"""Every page, light and dark, as axe sees it: nothing serious, nothing critical. And no page wider than a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live import Live
from playwright.sync_api import Page, ViewportSize
from scenery import LISTS, furnish, shown
from visit import Visits

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text(encoding="utf-8")
RUN = "(rules) => axe.run({resultTypes: ['violations'], ...rules}).then((found) => found.violations)"
# What the other scheme can change.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
GRAVE = ("serious", "critical")
PHONE = ViewportSize(width=360, height=740)


@pytest.fixture(scope="module")
def addresses(live: Live) -> list[str]:
    return furnish(live)


def faults(page: Page, scheme: str = "light") -> list[str]:
    page.evaluate(AXE)
    found: list[Any] = [
        fault for fault in page.evaluate(RUN, COLOURS if scheme == "dark" else {}) if fault["impact"] in GRAVE
    ]
    return [
        f"{page.url} {fault['id']}: {node['html']}\n{node['failureSummary']}"
        for fault in found
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(visit: Visits, live: Live, addresses: list[str], scheme: str) -> None:
    page = visit(live, role="admin", color_scheme=scheme)
    found: list[str] = []
    for address in addresses:
        page.goto(live.address + address)
        shown(page)
        found += faults(page, scheme)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_where_one_signs_in(visit: Visits, live: Live, scheme: str) -> None:
    visit.expects("status of 401")
    page = visit(live, role=None, color_scheme=scheme)
    page.get_by_label("API key").wait_for()
    assert faults(page) == []


def test_no_page_has_to_be_scrolled_sideways_on_a_phone(visit: Visits, live: Live, addresses: list[str]) -> None:
    page = visit(live, role="admin", viewport=PHONE)
    wide = {}
    for address in addresses:
        page.goto(live.address + address)
        shown(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide[address] = width
    assert wide == {}


def test_an_empty_store_shows_pages_without_a_fault(visit: Visits, empty: Live) -> None:
    page = visit(empty, role="admin")
    found: list[str] = []
    for address in LISTS:
        page.goto(empty.address + address)
        shown(page)
        found += faults(page)
    assert not found, "\n".join(found)
