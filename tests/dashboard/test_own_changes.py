"""A change made on a page shows there at once, also while live updates are paused."""

from __future__ import annotations

from live import Live
from playwright.sync_api import Locator, Page, expect
from scenery import shown
from visit import Visits

from mainspring import every


def cut(page: Page) -> Locator:
    """Stops the feed and the periodic reloads of the page."""
    main = shown(page)
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Paused")).to_be_visible()
    return main


def badge(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Pages").get_by_title("dead jobs")


def dead(live: Live, task: str, **arguments: object) -> str:
    id = live.enqueue(task, **arguments)
    assert live.do(live.app.jobs.wait(id, 20)).state == "dead"
    return id


def test_dead_letters_and_their_badge_follow_an_edit_and_redrive(visit: Visits, live: Live) -> None:
    dead(live, "charge", customer=1, plan="zinc")
    dead(live, "sync_crm", depth=1)
    page = visit(live, "/dead")
    main = cut(page)
    expect(badge(page)).to_have_text("2")
    mine = main.get_by_role("region", name="no plan zinc")
    mine.get_by_role("button", name="Expand").click()
    mine.get_by_role("button", name="Edit and redrive", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Arguments").fill('{"customer": 1, "plan": "team"}')
    dialog.get_by_role("button", name="Redrive").click()
    expect(mine).to_have_count(0)
    expect(badge(page)).to_have_text("1")


def test_the_badge_follows_the_deletion_of_a_group(visit: Visits, live: Live) -> None:
    dead(live, "charge", customer=2, plan="lead")
    page = visit(live, "/dead")
    main = cut(page)
    before = int(badge(page).inner_text())
    main.get_by_role("region", name="no plan lead").get_by_role("button", name="Delete these").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Delete 1 job").click()
    dialog.get_by_role("button", name="Done").click()
    expect(main.get_by_role("region", name="no plan lead")).to_have_count(0)
    expect(badge(page)).to_have_count(0) if before == 1 else expect(badge(page)).to_have_text(str(before - 1))


def test_tabs_of_the_job_list_follow_a_cancellation(visit: Visits, live: Live) -> None:
    live.enqueue("send_email", "ada@example.org", options={"delay": 3600, "tags": ["cut"]})
    page = visit(live, "/jobs?tag=cut")
    main = cut(page)
    tabs = page.get_by_role("navigation", name="States")
    expect(tabs.get_by_role("link", name="scheduled 1")).to_be_visible()
    main.get_by_role("row").filter(has_text="send_email").get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(tabs.get_by_role("link", name="cancelled 1")).to_be_visible()
    expect(main.get_by_role("row").filter(has_text="send_email")).to_contain_text("cancelled")


def test_a_job_page_follows_its_actions(visit: Visits, live: Live) -> None:
    id = live.enqueue("send_email", "ada@example.org", options={"delay": 3600})
    page = visit(live, f"/jobs/{id}")
    main = cut(page)
    status = main.get_by_role("status").first
    main.get_by_role("button", name="Pause", exact=True).click()
    expect(status).to_have_text("paused")
    main.get_by_role("button", name="Resume", exact=True).click()
    expect(status).to_have_text("scheduled")
    main.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    expect(status).to_have_text("cancelled")


def test_queues_schedules_and_workers_follow_their_actions(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("followed", every(1).hours, "sync_crm"))
    page = visit(live, "/queues")
    main = cut(page)
    main.get_by_role("button", name="Pause queue mail").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    main.get_by_role("button", name="Resume queue mail").click()
    expect(main.get_by_role("button", name="Pause queue mail")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    main.get_by_role("button", name="Pause followed").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(main.get_by_role("button", name="Resume followed")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("w")
    main.get_by_role("button", name="Drain worker").click()
    expect(main.get_by_role("button", name="Resume worker")).to_be_visible()
    main.get_by_role("button", name="Resume worker").click()
    expect(main.get_by_role("button", name="Drain worker")).to_be_visible()


def test_triggers_webhooks_and_keys_follow_their_actions(visit: Visits, live: Live) -> None:
    live.do(live.app.webhooks.create("pager", "https://example.org/hook", events=["job.dead"]))
    live.do(live.app.triggers.create("till", task="sync_crm"))
    page = visit(live, "/webhooks", role="admin")
    main = cut(page)
    for kind, name in (("webhook", "pager"), ("trigger", "till")):
        main.get_by_role("button", name=f"Disable {kind} {name}").click()
        expect(main.get_by_role("button", name=f"Enable {kind} {name}")).to_be_visible()
    main.get_by_role("button", name="Delete trigger till").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(main.get_by_role("row").filter(has_text="till")).to_have_count(0)
