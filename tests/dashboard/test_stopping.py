"""Stopping a worker from its list and its page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits


@pytest.fixture
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A live app whose worker has time to finish; each test ends its worker."""
    one = Live(tmp_path_factory.mktemp("crew"), grace=30)
    try:
        yield one
    finally:
        one.close()


def test_a_worker_is_stopped_after_a_confirmation_and_its_running_job_finishes(visit: Visits, crew: Live) -> None:
    id = crew.enqueue("export", "held")
    page = visit(crew, "/workers")
    row = shown(page).get_by_role("row").filter(has_text=crew.worker.id)
    expect(row).to_contain_text("1 of 100")
    row.get_by_role("button", name="Stop worker").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 job may finish within 30 s; the rest run on other workers.")
    expect(dialog).to_contain_text("A process manager may start the worker again.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("open")
    row.get_by_role("button", name="Stop worker").click()
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(row.locator(".state")).to_have_text("stopping")
    expect(row.locator(".state .icon-ended")).to_be_visible()
    expect(row.get_by_role("button")).to_have_count(0)
    crew.cue("held", "end", "done")
    expect(row).to_contain_text("gone")
    assert crew.do(crew.app.workers.list()) == []
    assert crew.do(crew.app.jobs.get(id)).state == "completed"


def test_a_worker_is_stopped_on_its_page(visit: Visits, crew: Live) -> None:
    visit.expects("status of 404")
    page = visit(crew, f"/workers/{crew.worker.id}")
    shown(page).get_by_role("button", name="Stop worker").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("No job is running.")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("gone")
    expect(page.get_by_role("button", name="Stop worker")).to_have_count(0)
