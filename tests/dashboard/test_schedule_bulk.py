"""Bulk actions on schedules: selected by hand or by a filter, after a question with the count."""

from __future__ import annotations

from live import Live
from playwright.sync_api import Locator, Page, expect
from scenery import shown
from visit import Visits

from mainspring import AuditFilter, Filter, every
from mainspring.control import ScheduleFilter

PHONE = {"width": 390, "height": 844}


def create(live: Live, prefix: str, n: int) -> list[str]:
    async def each() -> None:
        for name in names:
            await live.app.schedules.create(name, every(52).weeks, "send_email", kwargs={"to": "ada@example.org"})

    names = [f"{prefix}-{k:04}" for k in range(n)]
    live.do(each())
    return names


def select(page: Page, *names: str) -> None:
    for name in names:
        page.get_by_role("checkbox", name=f"Select {name}").check()


def ask(page: Page, action: str) -> Locator:
    page.get_by_role("region", name="Selected schedules").get_by_role("button", name=action).click()
    return page.get_by_role("dialog")


def still(page: Page) -> Locator:
    """Stops the feed and the periodic reloads: later changes on the page come from the action itself."""
    main = shown(page)
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="Paused")).to_be_visible()
    return main


def test_selected_schedules_are_paused_with_a_note_and_resumed(visit: Visits, live: Live) -> None:
    one, two, three = create(live, "sync", 3)
    page = visit(live, "/schedules?q=sync-")
    main = still(page)
    select(page, one, three)
    dialog = ask(page, "Pause")
    expect(dialog).to_contain_text("2 schedules")
    dialog.get_by_label("Note").fill("the CRM is down")
    dialog.get_by_role("button", name="Pause 2 schedules").click()
    expect(dialog).to_contain_text("2 schedules paused")
    dialog.get_by_role("button", name="Done").click()
    expect(page.get_by_role("region", name="Selected schedules")).to_have_count(0)
    expect(main.get_by_role("row").filter(has_text="Paused: the CRM is down")).to_have_count(2)
    expect(main.get_by_role("button", name=f"Pause {two}")).to_be_visible()
    (entry, *_) = live.do(live.app.audit.list(AuditFilter(action="schedules.pause"), limit=1))
    assert (entry.who, '"done":2' in str(entry.outcome)) == ("key:operator", True)
    page.get_by_label("Select all on this page").check()
    dialog = ask(page, "Resume")
    expect(dialog).to_contain_text("1: they are not paused")
    dialog.get_by_role("button", name="Resume 2 schedules").click()
    dialog.get_by_role("button", name="Done").click()
    expect(main.get_by_role("button", name="Pause sync-")).to_have_count(3)


def test_selected_schedules_run_now_and_a_deleted_schedule_is_reported(visit: Visits, live: Live) -> None:
    names = create(live, "bill", 3)
    page = visit(live, "/schedules?q=bill-")
    still(page)
    page.get_by_label("Select all on this page").check()
    live.do(live.app.schedules.delete(names[1]))
    dialog = ask(page, "Run now")
    expect(dialog).to_contain_text("1 schedule would be skipped")
    dialog.get_by_role("button", name="Run 2 schedules now").click()
    expect(dialog).to_contain_text("2 schedules triggered")
    expect(dialog).to_contain_text("there is no schedule")
    jobs = live.do(live.app.jobs.list(Filter(schedules=tuple(names))))
    assert sorted(job.schedule or "" for job in jobs) == [names[0], names[2]]


def test_more_than_a_thousand_schedules_that_match_a_filter_are_deleted(visit: Visits, live: Live) -> None:
    names = create(live, "herd", 1020)
    (kept,) = create(live, "kept", 1)
    page = visit(live, "/schedules?q=herd-")
    main = still(page)
    page.get_by_label("Select all on this page").check()
    expect(page.get_by_role("region", name="Selected schedules")).to_contain_text("50 schedules selected")
    page.get_by_role("button", name="Select all that match this filter").click()
    dialog = ask(page, "Delete")
    expect(dialog).to_contain_text("1,020 schedules")
    assert len(live.do(live.app.schedules.many.pause(ScheduleFilter(q="herd-"), dry_run=True)).done) == 1000
    (late,) = create(live, "herd-late", 1)  # matches the filter, but was not counted
    dialog.get_by_role("button", name="Delete 1,020 schedules").click()
    expect(dialog).to_contain_text("1,020 schedules deleted")
    dialog.get_by_role("button", name="Done").click()
    expect(main.get_by_role("link", name=late)).to_be_visible()
    expect(main.get_by_role("link", name=names[0])).to_have_count(0)
    assert {late, kept} <= {row.name for row in live.do(live.app.schedules.list())}


def test_schedules_are_selected_on_a_phone(visit: Visits, live: Live) -> None:
    names = create(live, "pocket", 2)
    page = visit(live, "/schedules?q=pocket-", viewport=PHONE)
    shown(page)
    page.get_by_label("Select page").check()
    dialog = ask(page, "Pause")
    dialog.get_by_role("button", name="Pause 2 schedules").click()
    expect(dialog).to_contain_text("2 schedules paused")
    assert {live.do(live.app.schedules.get(name)).status for name in names} == {"paused"}
