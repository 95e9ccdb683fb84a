"""Forms that create something are empty at first: two clicks never run anything with made-up values."""

from __future__ import annotations

import pytest
from live import Live
from playwright.sync_api import Locator, Page, expect
from scenery import shown
from visit import Visits

from mainspring import Filter, every


def ask(page: Page, button: str) -> Locator:
    shown(page).get_by_role("button", name=button).first.click()
    return page.get_by_role("dialog")


def test_an_enqueue_form_has_no_task_and_no_values(visit: Visits, live: Live) -> None:
    page = visit(live, "/jobs")
    dialog = ask(page, "Enqueue a job")
    enqueue = dialog.get_by_role("button", name="Enqueue")
    expect(dialog.get_by_label("Task")).to_have_value("")
    expect(enqueue).to_be_disabled()
    dialog.get_by_label("Task").select_option("charge")
    arguments = dialog.get_by_label("Arguments")
    expect(arguments).to_have_value('{\n  "customer": <integer>,\n  "plan": <text>\n}')
    expect(enqueue).to_be_disabled()
    arguments.fill('{"customer": 5, "plan": <text>}')
    expect(dialog.get_by_role("alert").filter(has_text="Replace <text> with a value.")).to_be_visible()
    expect(enqueue).to_be_disabled()
    arguments.fill('{"customer": 5, "plan": "<team>"}')
    expect(enqueue).to_be_enabled()
    assert live.do(live.app.jobs.list(Filter(tasks=("charge",)))) == []


def test_a_task_without_required_arguments_can_be_enqueued_once_chosen(visit: Visits, live: Live) -> None:
    page = visit(live, "/jobs")
    dialog = ask(page, "Enqueue a job")
    dialog.get_by_label("Task").select_option("sync_crm")
    expect(dialog.get_by_label("Arguments")).to_have_value("{}")
    expect(dialog.get_by_role("button", name="Enqueue")).to_be_enabled()


def test_a_new_schedule_form_has_no_trigger(visit: Visits, live: Live) -> None:
    page = visit(live, "/schedules")
    dialog = ask(page, "New schedule")
    expect(dialog.get_by_label("Cron expression")).to_have_value("")
    dialog.get_by_label("Name").fill("hasty")
    dialog.get_by_label("Task", exact=True).fill("sync_crm")
    for kind, field in (
        ("Cron", "Cron expression"),
        ("Interval", "Every"),
        ("Days and weeks", "At these times of day"),
    ):
        dialog.get_by_label(kind, exact=True).check()
        expect(dialog.get_by_label(field)).to_have_value("")
        dialog.get_by_role("button", name="Create").click()
        expect(dialog).to_be_visible()
    assert "hasty" not in [row.name for row in live.do(live.app.schedules.list())]


def test_a_backfill_form_has_no_range(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("empty range", every(1).days, "sync_crm"))
    page = visit(live, "/schedules/empty%20range")
    dialog = ask(page, "Backfill")
    expect(dialog.get_by_label("From")).to_have_value("")
    expect(dialog.get_by_role("button", name="Preview")).to_be_disabled()


@pytest.mark.parametrize("button", ["New webhook", "New trigger"])
def test_webhook_and_trigger_forms_are_empty(visit: Visits, live: Live, button: str) -> None:
    page = visit(live, "/webhooks", role="admin")
    dialog = ask(page, button)
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_be_visible()
    if button == "New trigger":
        dialog.get_by_label("Arguments from the message").select_option("some")
        expect(dialog.get_by_label("Mapping")).to_have_value("")
        expect(dialog.get_by_role("button", name="Create")).to_be_disabled()
