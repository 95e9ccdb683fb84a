"""Dead letters: find a failure, read it, edit and redrive jobs, alone or in a group."""

from __future__ import annotations

from live import Live
from playwright.sync_api import Locator, Page, expect
from scenery import shown
from visit import Visits

from mainspring import Filter


def group(page: Page, words: str) -> Locator:
    return shown(page).get_by_role("region", name=words)


def dead(live: Live, task: str, **arguments: object) -> str:
    id = live.enqueue(task, **arguments)
    assert live.do(live.app.jobs.wait(id, 20)).state == "dead"
    return id


def test_a_dead_job_is_found_edited_and_redriven(visit: Visits, live: Live) -> None:
    id = dead(live, "charge", customer=7, plan="gold")
    page = visit(live, "/dead")
    mine = group(page, "no plan gold")
    expect(mine).to_contain_text("there is no plan gold: choose one of free, team, enterprise")
    mine.get_by_role("button", name="Expand").click()
    expect(mine.get_by_role("link", name=id)).to_be_visible()
    expect(mine.get_by_role("group", name="Stack trace")).to_be_visible()
    expect(mine.get_by_role("group", name="Stack trace")).to_contain_text("in _price")
    mine.get_by_role("button", name="Edit and redrive", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit and redrive")
    dialog.get_by_label("Arguments").fill('{"customer": 7, "plan": "team"}')
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("status")).to_contain_text("Queued again")
    done = live.do(live.app.jobs.wait(id, 20))
    assert done.state == "completed"
    expect(group(page, "no plan gold")).to_have_count(0)


def test_redrive_is_disabled_while_the_arguments_are_invalid_json(visit: Visits, live: Live) -> None:
    dead(live, "charge", customer=8, plan="silver")
    page = visit(live, "/dead")
    mine = group(page, "no plan silver")
    mine.get_by_role("button", name="Expand").click()
    mine.get_by_role("button", name="Edit and redrive", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit and redrive")
    dialog.get_by_label("Arguments").fill('{"customer": 8,')
    expect(dialog.get_by_role("alert")).not_to_be_empty()
    expect(dialog.get_by_role("button", name="Redrive")).to_be_disabled()


def test_redrive_with_arguments_that_do_not_fit_the_task_is_refused_with_the_reason(visit: Visits, live: Live) -> None:
    dead(live, "charge", customer=9, plan="bronze")
    page = visit(live, "/dead")
    visit.expects("status of 422")
    mine = group(page, "no plan bronze")
    mine.get_by_role("button", name="Expand").click()
    mine.get_by_role("button", name="Edit and redrive", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit and redrive")
    dialog.get_by_label("Arguments").fill('{"customer": "nine", "plan": "team"}')
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_role("alert").last).to_contain_text("customer")


def test_a_dead_group_is_redriven_after_a_confirmation(visit: Visits, live: Live) -> None:
    for depth in (3, 4, 5):
        dead(live, "sync_crm", depth=depth)
    page = visit(live, "/dead")
    mine = group(page, "sync_crm: ConnectionError")
    expect(mine.get_by_role("link", name="3 jobs")).to_be_visible()
    mine.get_by_role("button", name="Redrive", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("with all their retries")
    dialog.get_by_role("button", name="Redrive 3").click()
    expect(dialog).to_contain_text("3 jobs redriven")
    dialog.get_by_role("button", name="Done").click()
    expect(dialog).to_have_count(0)


def test_a_dead_group_is_titled_by_its_kind_of_failure_and_expands_by_a_click(visit: Visits, live: Live) -> None:
    for plan in ("no 17", "no 23"):
        dead(live, "charge", customer=1, plan=plan)
    page = visit(live, "/dead")
    mine = group(page, "there is no plan no …")
    expect(mine.get_by_role("heading")).to_contain_text("there is no plan no …: choose one of")
    expect(mine).to_contain_text("Newest: ValueError: there is no plan no 23")
    expect(mine.get_by_role("link", name="2 jobs")).to_be_visible()
    mine.get_by_role("heading").click()
    expect(mine.get_by_role("group", name="Stack trace")).to_be_visible()
    mine.get_by_role("heading").click()
    expect(mine.get_by_role("group", name="Stack trace")).to_have_count(0)
    mine.get_by_role("button", name="Expand").press("Enter")
    expect(mine.get_by_role("group", name="Stack trace")).to_be_visible()


def test_a_dead_group_is_redriven_with_changed_arguments(visit: Visits, live: Live) -> None:
    ids = [dead(live, "charge", customer=n, plan="granite") for n in range(3)]
    page = visit(live, "/dead")
    mine = group(page, "no plan granite")
    mine.get_by_role("button", name="Edit and redrive all").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 jobs")
    expect(dialog).to_contain_text("Arguments: customer, plan.")
    redrive = dialog.get_by_role("button", name="Redrive 3 jobs")
    expect(redrive).to_be_disabled()
    dialog.get_by_label("Arguments to change").fill('{"plan": 7}')
    redrive.click()
    expect(dialog).to_contain_text("3 jobs skipped")
    expect(dialog).to_contain_text("do not fit")
    dialog.get_by_role("button", name="Done").click()
    mine.get_by_role("button", name="Edit and redrive all").click()
    dialog.get_by_label("Arguments to change").fill('{"plan": "team"}')
    redrive.click()
    expect(dialog).to_contain_text("3 jobs redriven")
    dialog.get_by_role("button", name="Done").click()
    expect(mine).to_have_count(0)
    results = [live.do(live.app.jobs.wait(id, 20)).result for id in ids]
    assert results == [f'{{"customer":{n},"paid":10}}' for n in range(3)]


def test_closing_the_redrive_dialog_changes_nothing(visit: Visits, live: Live) -> None:
    dead(live, "charge", customer=10, plan="iron")
    page = visit(live, "/dead")
    mine = group(page, "no plan iron")
    mine.get_by_role("button", name="Delete these 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(mine).to_be_visible()
    found = live.do(live.app.jobs.list(Filter(states=("dead",), tasks=("charge",)), limit=50))
    assert any("iron" in str(job.payload) for job in found)


def test_the_dead_letter_page_follows_new_failures(visit: Visits, live: Live) -> None:
    page = visit(live, "/dead")
    shown(page)
    dead(live, "charge", customer=11, plan="tin")
    expect(group(page, "no plan tin")).to_be_visible()
