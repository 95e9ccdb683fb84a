"""The cost of a first visit: bytes and requests, all from this server."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from chromium import Chromium
from live import Live
from playwright.sync_api import Request, expect
from scenery import shown
from visit import Visits

from mainspring.api.routes.dashboard_files import DASHBOARD, site

BYTES, REQUESTS = 200_000, 80


class Fetched(NamedTuple):
    url: str
    size: int
    headers: dict[str, str]

    @property
    def is_file(self) -> bool:
        return urlsplit(self.url).path.startswith("/ui/")


@pytest.fixture(scope="module")
def fetched(chromium: Chromium, live: Live) -> list[Fetched]:
    """All responses of a cold load of the overview, except for the feed, which does not end."""
    return chromium.do(load, Visits(chromium), live)


def load(visit: Visits, live: Live) -> list[Fetched]:
    asked: list[Request] = []
    context = visit.browser()
    context.on("requestfinished", lambda request: asked.append(request))
    page = context.new_page()
    visit.sign_in(page, live, "operator")
    page.goto(live.address)
    shown(page)
    expect(page.get_by_role("button", name="Live")).to_be_visible()
    answers = [(one, answer) for one in asked if (answer := one.response())]
    try:
        return [Fetched(one.url, one.sizes()["responseBodySize"], answer.headers) for one, answer in answers]
    finally:
        visit.close()


def test_a_cold_load_is_small(fetched: list[Fetched]) -> None:
    assert sum(one.size for one in fetched) < BYTES, sorted((one.size, one.url) for one in fetched)


def test_all_files_together_fit_into_200_kib() -> None:
    assert sum(len(file.gzipped) for file in site().files.values()) <= 200 * 1024


def test_files_are_served_without_comments_and_with_the_same_line_numbers() -> None:
    ours = {name: file for name, file in site().files.items() if name.endswith(".js") and "vendor" not in name}
    for name, file in ours.items():
        lines = zip(
            (DASHBOARD / name).read_text(encoding="utf-8").splitlines(), file.body.decode().splitlines(), strict=True
        )
        changed = [(line.strip(), kept) for line, kept in lines if line != kept]
        assert changed, name  # each has a comment at its beginning
        assert [one for one in changed if one[1] or not one[0].startswith(("//", "/*", "*"))] == [], name


def test_a_cold_load_has_few_requests(fetched: list[Fetched]) -> None:
    assert len(fetched) < REQUESTS


def test_all_requests_go_to_this_server(fetched: list[Fetched], live: Live) -> None:
    assert {one.url.startswith(f"{live.origin}/") for one in fetched} == {True}


def test_files_are_compressed_and_cached_forever(fetched: list[Fetched]) -> None:
    files = [one.headers for one in fetched if one.is_file]
    assert len(files) > 20
    assert {headers["cache-control"] for headers in files} == {"public, max-age=31536000, immutable"}
    assert {headers["content-encoding"] for headers in files} == {"gzip"}


def test_a_second_load_fetches_no_cached_file_again(visit: Visits, live: Live) -> None:
    page = visit(live)
    shown(page)
    page.reload()
    shown(page)
    sent = page.evaluate("performance.getEntriesByType('resource').filter((o) => o.transferSize).map((o) => o.name)")
    assert [url for url in sent if not urlsplit(url).path.startswith("/api/")] == []


def test_the_html_page_is_revalidated(visit: Visits, live: Live) -> None:
    page = visit(live)
    answer = page.reload()
    assert answer is not None
    assert answer.headers["cache-control"] == "no-cache"
