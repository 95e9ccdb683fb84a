"""Signing in with the first-run link, a key or a wrong key, and signing out."""

from __future__ import annotations

from pathlib import Path

from live import Live
from playwright.sync_api import Page, expect
from visit import Visits

from mainspring.api.access.first_run import create_token, sign_in_url

# The browser logs this when the page requests its session and there is none.
REFUSED = "status of 401"


def form(page: Page, secret: str) -> None:
    page.get_by_label("API key").fill(secret)
    page.get_by_role("button", name="Sign in").click()


def test_the_first_run_link_signs_in_and_its_token_is_removed_from_the_url(visit: Visits, tmp_path: Path) -> None:
    live = Live(tmp_path, keys=False, works=False)
    try:
        token = live.do(create_token(live.app))
        assert token is not None
        page = visit.browser().new_page()
        page.goto(sign_in_url(live.address, token))
        expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_visible()
        expect(page.get_by_label("Signed in as first-start")).to_be_visible()
        assert page.url == f"{live.address}/"
    finally:
        live.close()


def test_signing_in_with_a_key_opens_the_requested_page(visit: Visits, live: Live) -> None:
    visit.expects(REFUSED)
    page = visit(live, "/queues", role=None)
    form(page, live.keys["operator"])
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()
    expect(page.get_by_label("Signed in as key:operator")).to_be_visible()


def test_a_wrong_key_shows_a_message(visit: Visits, live: Live) -> None:
    visit.expects(REFUSED)
    page = visit(live, role=None)
    form(page, "msk_0123456789ab_" + "a" * 43)
    expect(page.get_by_role("alert")).to_contain_text("key")
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_have_count(0)
    form(page, live.keys["viewer"])
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_visible()


def test_a_session_survives_a_reload(visit: Visits, live: Live) -> None:
    page = visit(live)
    page.reload()
    expect(page.get_by_label("Signed in as key:operator")).to_be_visible()


def test_signing_out_ends_the_session(visit: Visits, live: Live) -> None:
    visit.expects(REFUSED)
    page = visit(live, "/jobs")
    page.get_by_label("Signed in as key:operator").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()


def test_revoking_the_key_of_a_session_shows_the_sign_in_form(visit: Visits, live: Live) -> None:
    visit.expects(REFUSED)
    secret = live.do(live.app.keys.create("leaver", "viewer"))
    page = visit(live, role=None)
    form(page, secret)
    expect(page.get_by_label("Signed in as key:leaver")).to_be_visible()
    live.do(live.app.keys.revoke("leaver"))
    expect(page.get_by_label("API key")).to_be_visible()
