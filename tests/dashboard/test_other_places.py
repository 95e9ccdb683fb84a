"""The dashboard under a path prefix, without sign-in, and without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from litestar.types import ASGIApp
from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits

PREFIX = "/ops/jobs"


def mounted(service: ASGIApp) -> ASGIApp:
    app = FastAPI()
    app.mount(PREFIX, service)  # type: ignore[arg-type]
    return app  # type: ignore[return-value]


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    live = Live(tmp_path_factory.mktemp("inside"), wrap=mounted, under=PREFIX)
    yield live
    live.close()


def test_all_requests_of_a_mounted_dashboard_are_under_its_path_prefix(visit: Visits, inside: Live) -> None:
    asked: list[str] = []
    page = visit.browser().new_page()
    page.on("request", lambda request: asked.append(request.url))
    visit.sign_in(page, inside, "operator")
    id = inside.enqueue("send_email", "ada@example.org")
    page.goto(f"{inside.address}/jobs/{id}")
    expect(shown(page)).to_contain_text("send_email")
    page.get_by_role("link", name="Queues").click()
    expect(shown(page)).to_contain_text("mail")
    assert page.url == f"{inside.address}/queues"
    page.reload()
    expect(shown(page)).to_contain_text("mail")
    assert [url for url in asked if not url.startswith(f"{inside.address}/")] == []


def test_sign_in_works_under_a_path_prefix(visit: Visits, inside: Live) -> None:
    visit.expects("status of 401")
    page = visit(inside, "/queues", role=None)
    page.get_by_label("API key").fill(inside.keys["operator"])
    page.get_by_role("button", name="Sign in").click()
    expect(shown(page).get_by_role("heading", name="Queues", level=1)).to_be_visible()


def test_a_dashboard_without_auth_allows_actions_without_sign_in(visit: Visits, tmp_path: Path) -> None:
    live = Live(tmp_path, auth=False)
    try:
        live.enqueue("send_email", "ada@example.org")
        page = visit(live, "/queues", role=None)
        expect(shown(page)).to_contain_text("mail")
        expect(page.get_by_role("link", name="API keys")).to_be_visible()
        page.get_by_role("button", name="Pause queue mail").click()
        page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_role("button", name="Resume queue mail")).to_be_visible()
    finally:
        live.close()


def test_a_page_without_javascript_suggests_the_command_line(visit: Visits, live: Live) -> None:
    visit.expects(r"\.js: csp")  # the browser reports blocked scripts like this
    page = visit(live, role=None, java_script_enabled=False)
    said = page.locator("noscript p")  # Playwright finds no text inside of noscript
    expect(said).to_be_visible()
    expect(said).to_contain_text("This page needs JavaScript")
    expect(said).to_contain_text("mainspring jobs")
