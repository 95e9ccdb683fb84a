"""Forms that show a secret as *** and are saved: the secret stays."""

from __future__ import annotations

from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits

from mainspring import every

SECRET = "kan4ri"
URL = f"smtp://user:{SECRET}@mail.example.org"


def test_a_schedule_whose_other_argument_is_changed_keeps_its_secret(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("hidden", every(52).weeks, "send_email", kwargs={"to": URL}))
    page = visit(live, "/schedules/hidden")
    shown(page).get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit hidden")
    arguments = dialog.get_by_label("Arguments")
    expect(arguments).to_have_value('{\n  "to": "smtp://user:***@mail.example.org"\n}')
    arguments.fill('{ "to": "smtp://user:***@mail.example.org" }')  # changed, and means the same
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    assert live.do(live.app.schedules.get("hidden")).spec.payload == f'{{"to":"{URL}"}}'


def test_a_schedule_whose_masked_argument_stands_for_nothing_is_not_saved(visit: Visits, live: Live) -> None:
    visit.expects("status of 422")
    live.do(live.app.schedules.create("plain", every(52).weeks, "send_email", kwargs={"to": "ada@example.org"}))
    page = visit(live, "/schedules/plain")
    shown(page).get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit plain")
    dialog.get_by_label("Arguments").fill('{ "to": "smtp://user:***@mail.example.org" }')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert").filter(has_text="stands for a secret")).to_be_visible()
    assert live.do(live.app.schedules.get("plain")).spec.payload == '{"to":"ada@example.org"}'


def test_a_job_that_is_edited_keeps_its_secret(visit: Visits, live: Live) -> None:
    job = live.app.tasks["send_email"].using(delay=86_400, metadata={"api_key": SECRET})
    handle = live.do(job.enqueue(to=URL))
    page = visit(live, f"/jobs/{handle.id}")
    shown(page).get_by_role("button", name="Edit", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit this job")
    dialog.get_by_label("Priority").fill("7")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    saved = live.do(live.app.jobs.get(handle.id))
    assert (saved.priority, saved.payload, saved.metadata["api_key"]) == (7, f'{{"to":"{URL}"}}', SECRET)
