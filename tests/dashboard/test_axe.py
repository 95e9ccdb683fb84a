"""axe finds no serious or critical problem on any page, light or dark; and every page fits a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live import Live
from playwright.sync_api import Page, ViewportSize
from scenery import LISTS, follow, furnish
from visit import Visits

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text(encoding="utf-8")
RUN = "(rules) => axe.run({resultTypes: ['violations'], ...rules}).then((found) => found.violations)"
# The rules whose result can differ in the other colour scheme.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
GRAVE = ("serious", "critical")
PHONE = ViewportSize(width=360, height=740)


@pytest.fixture(scope="module")
def addresses(live: Live) -> list[str]:
    return furnish(live)


def faults(page: Page, scheme: str = "light") -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found: list[Any] = [
        fault for fault in page.evaluate(RUN, COLOURS if scheme == "dark" else {}) if fault["impact"] in GRAVE
    ]
    return [
        f"{page.url} {fault['id']}: {node['html']}\n{node['failureSummary']}"
        for fault in found
        for node in fault["nodes"]
    ]


def in_both_schemes(page: Page) -> list[str]:
    found = faults(page)
    page.emulate_media(color_scheme="dark")
    found += faults(page, "dark")
    page.emulate_media(color_scheme="light")
    return found


def test_every_page_is_accessible_in_both_schemes_and_fits_a_phone(
    visit: Visits, live: Live, addresses: list[str]
) -> None:
    page = visit(live, role="admin", color_scheme="light")
    desk = page.viewport_size
    assert desk is not None
    found: list[str] = []
    wide: dict[str, int] = {}
    for address in addresses:
        follow(page, live.address + address)
        found += in_both_schemes(page)
        page.set_viewport_size(PHONE)
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide[address] = width
        page.set_viewport_size(desk)
    assert not found, "\n".join(found)
    assert wide == {}


def test_the_sign_in_page_is_accessible(visit: Visits, live: Live) -> None:
    visit.expects("status of 401")
    page = visit(live, role=None, color_scheme="light")
    page.get_by_label("API key").wait_for()
    assert in_both_schemes(page) == []


def test_pages_of_an_empty_store_are_accessible(visit: Visits, empty: Live) -> None:
    page = visit(empty, role="admin")
    found: list[str] = []
    for address in LISTS:
        follow(page, empty.address + address)
        found += faults(page)
    assert not found, "\n".join(found)
