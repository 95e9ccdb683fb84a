"""Finding jobs: by state, by search terms, by a URL that can be shared."""

from __future__ import annotations

import pytest
from live import Live
from playwright.sync_api import Page, expect
from scenery import follow, shown
from visit import Visits

from mainspring import Filter

WORDS = {
    "charge": ["dead"], "queue:mail state:scheduled": ["later"], "tag:vip": ["done"], "email": ["done", "later"],
}  # fmt: skip


@pytest.fixture(scope="module")
def found(live: Live) -> dict[str, str]:
    """The ids of a completed, a dead and a scheduled job, by name."""
    ids = {
        "done": live.enqueue("send_email", "ada@example.org", options={"tags": ["vip"]}),
        "dead": live.enqueue("charge", customer=1, plan="lead"),
        "later": live.enqueue("send_email", "eve@example.org", options={"delay": 3600}),
    }
    for name in ("done", "dead"):
        live.do(live.app.jobs.wait(ids[name], 20))
    return ids


def seen(page: Page, ids: dict[str, str], *names: str) -> None:
    """Expects that the list has these jobs and no others of `ids`."""
    main = shown(page)
    for name, id in ids.items():
        expect(main.locator(f"a[href$='{id}']")).to_have_count(1 if name in names else 0)


def search(page: Page, words: str) -> None:
    field = shown(page).get_by_label("Search jobs")
    field.fill(words)
    field.press("Enter")


def test_a_state_tab_filters_the_job_list_and_changes_the_url(visit: Visits, live: Live, found: dict[str, str]) -> None:
    page = visit(live, "/jobs")
    seen(page, found, "done", "dead", "later")
    page.get_by_role("navigation", name="States").get_by_role("link", name="dead").click()
    seen(page, found, "dead")
    assert "state=dead" in page.url
    page.go_back()
    seen(page, found, "done", "dead", "later")


def test_a_url_with_filters_opens_a_filtered_job_list(visit: Visits, live: Live, found: dict[str, str]) -> None:
    page = visit(live, "/jobs?tag=vip&task=send_email", role="viewer")
    seen(page, found, "done")
    expect(page.get_by_role("group", name="Active filters")).to_contain_text("vip")
    page.get_by_role("button", name="Remove tag vip").click()
    seen(page, found, "done", "later")


def test_tabs_count_the_jobs_of_any_filter(visit: Visits, live: Live, found: dict[str, str]) -> None:
    task = live.app.tasks["send_email"].using(delay=3600, tags=["bulk"])
    live.do(live.app.enqueue_many(task.job(f"{n}@example.org") for n in range(120)))
    page = visit(live, "/jobs?tag=vip")
    tabs = page.get_by_role("navigation", name="States")
    expect(tabs.get_by_role("link", name="completed 1", exact=True)).to_be_visible()
    expect(tabs.get_by_role("link", name="dead 0", exact=True)).to_be_visible()
    expect(tabs.get_by_role("link", name="All 1", exact=True)).to_be_visible()
    page.goto(f"{live.address}/jobs?tag=bulk&state=dead")
    expect(tabs.get_by_role("link", name="scheduled 100+")).to_be_visible()
    live.do(live.app.jobs.delete(Filter(tags=("bulk",))))


def test_search_terms_find_jobs(visit: Visits, live: Live, found: dict[str, str]) -> None:
    page = visit(live, "/queues")
    for words, names in WORDS.items():
        follow(page, f"{live.address}/jobs")
        search(page, words)
        seen(page, found, *names)
        follow(page, f"{live.address}/queues")


def test_a_search_for_an_unknown_state_shows_a_message_and_an_id_opens_its_job(
    visit: Visits, live: Live, found: dict[str, str]
) -> None:
    page = visit(live, "/jobs")
    search(page, "state:lost")
    expect(shown(page).get_by_role("alert")).to_contain_text("Unknown state lost")
    search(page, found["dead"])
    expect(shown(page).get_by_role("heading", name="charge", level=1)).to_be_visible()


def test_a_job_is_enqueued_from_the_page(visit: Visits, live: Live, found: dict[str, str]) -> None:
    page = visit(live, "/jobs")
    shown(page).get_by_role("button", name="Enqueue a job").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Task").select_option("send_email")
    dialog.get_by_label("Arguments").fill('{"to": "new@example.org"}')
    dialog.get_by_role("button", name="Enqueue").click()
    expect(shown(page).get_by_role("heading", name="send_email", level=1)).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("sent to new@example.org")


def test_an_empty_job_list_has_an_example(visit: Visits, empty: Live) -> None:
    page = visit(empty, "/jobs")
    expect(shown(page)).to_contain_text("No jobs yet")
    expect(page.get_by_role("main")).to_contain_text(".enqueue(")
