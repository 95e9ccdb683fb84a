"""Schedule pages: create with a preview, run, pause, and backfill."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits

from mainspring import Filter, at, every


def test_the_new_schedule_form_previews_the_cron_expression_while_it_is_typed(visit: Visits, live: Live) -> None:
    visit.expects("status of 422")  # the response to an incomplete cron expression
    page = visit(live, "/schedules")
    shown(page).get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog", name="New schedule")
    dialog.get_by_label("Name").fill("digest")
    dialog.get_by_label("Task", exact=True).fill("send_email")
    rule = dialog.get_by_label("Cron expression")
    rule.fill("61 * * * *")
    expect(dialog.get_by_role("alert").filter(has_text="minute")).to_be_visible()
    rule.fill("0 9 * * mon-fri")
    preview = dialog.get_by_role("region", name="Preview")
    expect(preview.get_by_role("row").filter(has_text="09:00:00")).to_have_count(10)
    dialog.get_by_label("Arguments").fill('{"to": "ada@example.org"}')
    dialog.get_by_role("button", name="Create").click()
    expect(shown(page).get_by_role("heading", name="digest", level=1)).to_be_visible()
    made = live.do(live.app.schedules.get("digest"))
    assert made.spec.task == "send_email"


def test_a_taken_schedule_name_is_refused_in_the_form(visit: Visits, live: Live) -> None:
    visit.expects("status of 409")
    live.do(live.app.schedules.create("taken", every(1).days, "sync_crm"))
    page = visit(live, "/schedules")
    shown(page).get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog", name="New schedule")
    dialog.get_by_label("Name").fill("taken")
    dialog.get_by_label("Task", exact=True).fill("sync_crm")
    dialog.get_by_label("Cron expression").fill("0 9 * * *")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert").filter(has_text="there already")).to_be_visible()


def test_a_schedule_that_is_run_now_opens_its_job_page(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("yearly", every(52).weeks, "send_email", kwargs={"to": "now@example.org"}))
    page = visit(live, "/schedules/yearly")
    shown(page).get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()
    expect(shown(page).get_by_role("heading", name="send_email", level=1)).to_be_visible()
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("completed")
    expect(page.get_by_role("link", name="yearly")).to_be_visible()


def test_a_schedule_is_paused_with_a_note_and_resumed(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("hourly", every(1).hours, "sync_crm"))
    page = visit(live, "/schedules")
    shown(page).get_by_role("button", name="Pause hourly").click()
    dialog = page.get_by_role("dialog", name="Pause hourly")
    dialog.get_by_label("Note").fill("the CRM is down, ask Ada")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("row").filter(has_text="hourly")).to_contain_text("the CRM is down, ask Ada")
    page.get_by_role("button", name="Resume hourly").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause hourly")).to_be_visible()
    assert live.do(live.app.schedules.get("hourly")).paused_at is None


def test_a_backfill_is_previewed_and_then_created(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("daily", every(1).days, "send_email", kwargs={"to": "past@example.org"}))
    page = visit(live, "/schedules/daily")
    shown(page).get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog", name="Backfill daily")
    dialog.get_by_role("button", name="last 7 days").click()
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text(re.compile(r"Would create [67] jobs"))
    assert made(live) == 0
    dialog.get_by_role("button", name=re.compile(r"Create [67] jobs")).click()
    expect(dialog).to_contain_text(re.compile(r"Created [67] jobs"))
    assert made(live) in (6, 7)


def made(live: Live) -> int:
    return len(live.do(live.app.jobs.list(Filter(schedules=("daily",)), limit=50)))


def test_an_ended_schedule_cannot_be_paused(visit: Visits, live: Live) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1)
    live.do(live.app.schedules.create("once", at(soon), "send_email", kwargs={"to": "once@example.org"}))
    page = visit(live, "/schedules")
    row = shown(page).get_by_role("row").filter(has_text="once")
    expect(row).to_contain_text("ended")
    expect(row.get_by_role("button", name="Run once now")).to_be_visible()
    expect(row.get_by_role("button", name="Pause once")).to_have_count(0)


def test_a_schedule_is_deleted_after_a_confirmation(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("doomed", every(1).days, "sync_crm"))
    page = visit(live, "/schedules/doomed")
    shown(page).get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(shown(page).get_by_role("heading", name="Schedules", level=1)).to_be_visible()
    assert "doomed" not in [row.name for row in live.do(live.app.schedules.list())]
