"""Bulk actions on jobs, by filter or selection: the question has the count, the result the refusals."""

from __future__ import annotations

from live import Live
from playwright.sync_api import Page, expect
from scenery import shown
from visit import Visits

from mainspring import AuditFilter, Filter


def later(live: Live, tag: str, n: int) -> None:
    """Enqueues jobs that are due tomorrow."""
    task = live.app.tasks["send_email"].using(delay=86_400, tags=[tag])
    live.do(live.app.enqueue_many(task.job(f"{k}@example.org") for k in range(n)))


def states(live: Live, tag: str) -> set[str]:
    return {str(job.state) for job in live.do(live.app.jobs.list(Filter(tags=(tag,)), limit=200))}


def ask(page: Page, action: str) -> None:
    page.get_by_role("region", name="Selected jobs").get_by_role("button", name=action).click()


def test_all_jobs_of_a_filter_are_cancelled_after_a_confirmation(visit: Visits, live: Live) -> None:
    later(live, "campaign", 60)
    later(live, "other", 3)
    page = visit(live, "/jobs?tag=campaign&state=scheduled")
    shown(page).get_by_label("Select all on this page").check()
    expect(page.get_by_role("region", name="Selected jobs")).to_contain_text("50 jobs selected")
    page.get_by_role("button", name="Select all that match").click()
    ask(page, "Cancel")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("60 jobs")
    assert states(live, "campaign") == {"pending"}
    dialog.get_by_label("Reason").fill("the campaign is off")
    dialog.get_by_role("button", name="Cancel 60 jobs").click()
    expect(dialog).to_contain_text("60 jobs cancelled")
    dialog.get_by_role("button", name="Done").click()
    expect(dialog).to_have_count(0)
    assert (states(live, "campaign"), states(live, "other")) == ({"cancelled"}, {"pending"})
    (entry, *_) = live.do(live.app.audit.list(AuditFilter(action="jobs.cancel"), limit=1))
    assert entry.who == "key:operator"
    jobs = live.do(live.app.jobs.list(Filter(tags=("campaign",)), limit=1))
    assert jobs[0].cancel_reason == "the campaign is off"


def test_refused_jobs_are_counted_with_the_reason(visit: Visits, live: Live) -> None:
    later(live, "mixed", 2)
    id = live.enqueue("send_email", "done@example.org", options={"tags": ["mixed"]})
    live.do(live.app.jobs.wait(id, 20))
    page = visit(live, "/jobs?tag=mixed")
    shown(page).get_by_label("Select all on this page").check()
    ask(page, "Pause")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("they are completed")
    dialog.get_by_role("button", name="Pause 2 jobs").click()
    expect(dialog).to_contain_text("2 jobs paused")
    assert states(live, "mixed") == {"paused", "completed"}


def test_selected_jobs_are_changed(visit: Visits, live: Live) -> None:
    later(live, "few", 3)
    page = visit(live, "/jobs?tag=few")
    boxes = shown(page).get_by_role("checkbox", name="Select send_email")
    boxes.nth(0).check()
    boxes.nth(2).check()
    ask(page, "Cancel")
    page.get_by_role("dialog").get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_role("dialog")).to_contain_text("2 jobs cancelled")
    assert states(live, "few") == {"cancelled", "pending"}


def test_closing_the_bulk_dialog_changes_nothing(visit: Visits, live: Live) -> None:
    later(live, "kept", 2)
    page = visit(live, "/jobs?tag=kept")
    shown(page).get_by_label("Select all on this page").check()
    ask(page, "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert states(live, "kept") == {"pending"}
