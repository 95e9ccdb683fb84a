"""Pause a queue, read on a job's page why it waits, and resume the queue there."""

from __future__ import annotations

import re

from live import Live
from playwright.sync_api import expect
from scenery import follow, shown
from visit import Visits

from mainspring import Filter, act_as


def test_a_queue_is_paused_and_resumed_on_the_queues_page(visit: Visits, live: Live) -> None:
    live.enqueue("send_email", "ada@example.org")
    page = visit(live, "/queues")
    shown(page)
    page.get_by_role("button", name="Pause queue mail").click()
    dialog = page.get_by_role("dialog", name="Pause queue mail")
    dialog.get_by_label("Note").fill("the <b>provider</b> is down")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("button", name="Resume queue mail")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="mail")
    expect(row).to_contain_text("paused by key:operator")
    expect(row).to_contain_text("the <b>provider</b> is down")
    assert live.do(live.app.queues.list())
    page.get_by_role("button", name="Resume queue mail").click()
    expect(page.get_by_role("button", name="Pause queue mail")).to_be_visible()


def test_the_job_page_has_the_reason_why_a_job_waits_and_resumes_its_queue(visit: Visits, live: Live) -> None:
    live.do(live.app.queues.pause("any"))
    id = live.enqueue("echo", "patience")
    page = visit(live, f"/jobs/{id}")
    why = shown(page).get_by_role("region", name="Why")
    expect(why).to_contain_text("paused")
    why.get_by_role("button", name="Resume queue any").click()
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("completed")


def test_a_paused_queue_is_explained_on_every_page_that_shows_it(visit: Visits, live: Live) -> None:
    async def pause() -> None:
        with act_as("ada"):
            await live.app.queues.pause("any", "ticket 4711")

    live.do(pause())
    id = live.enqueue("echo", "held")
    page = visit(live, f"/jobs/{id}")
    why = shown(page).get_by_role("region", name="Why")
    expect(why).to_contain_text(re.compile(r"Queue 'any' was paused by ada at .* ago\): ticket 4711"))
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline).to_contain_text("queue paused")
    expect(timeline).not_to_contain_text("waiting for a worker")
    expect(follow(page, f"{live.address}/queues/any")).to_contain_text("paused by ada")
    expect(page.get_by_role("main")).to_contain_text("ticket 4711")
    expect(follow(page, f"{live.address}/").get_by_text("Queue any is paused by ada")).to_be_visible()
    live.do(live.app.queues.resume("any"))
    live.do(live.app.jobs.wait(id, 20))
    expect(follow(page, f"{live.address}/jobs/{id}").get_by_role("region", name="Timeline")).to_contain_text(
        "queue paused"
    )


def test_a_finished_job_is_run_again_as_a_new_job(visit: Visits, live: Live) -> None:
    id = live.enqueue("echo", "once", options={"tags": ["again"]})
    live.do(live.app.jobs.wait(id, 20))
    page = visit(live, f"/jobs/{id}")
    shown(page).get_by_role("button", name="Run again").click()
    dialog = page.get_by_role("dialog", name="Run again as a new job?")
    expect(dialog).to_contain_text("new job of echo in queue any")
    dialog.get_by_role("button", name="Run again").click()
    expect(page).not_to_have_url(f"{live.address}/jobs/{id}")
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("completed")
    first, again = live.do(live.app.jobs.list(Filter(tags=("again",)), newest=False))
    assert (first.id, again.payload, again.queue) == (id, first.payload, "any")
    expect(page).to_have_url(f"{live.address}/jobs/{again.id}")


def test_a_job_that_is_due_later_can_be_run_now(visit: Visits, live: Live) -> None:
    id = live.enqueue("echo", "early", options={"delay": 3600})
    page = visit(live, f"/jobs/{id}")
    why = shown(page).get_by_role("region", name="Why")
    expect(why).to_contain_text("due")
    why.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("completed")


def test_a_dead_job_is_edited_and_redriven_on_its_page(visit: Visits, live: Live) -> None:
    id = live.enqueue("charge", customer=12, plan="copper")
    live.do(live.app.jobs.wait(id, 20))
    page = visit(live, f"/jobs/{id}")
    why = shown(page).get_by_role("region", name="Why")
    expect(why).to_contain_text("there is no plan copper")
    why.get_by_role("button", name="Edit and redrive").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Arguments").fill('{"customer": 12, "plan": "free"}')
    dialog.get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("completed")
    expect(page.get_by_role("group", name="Result")).to_contain_text("paid: 0")


def test_a_job_in_an_unserved_queue_has_the_command_to_start_a_worker(visit: Visits, empty: Live) -> None:
    id = empty.enqueue("echo", "alone")
    page = visit(empty, f"/jobs/{id}")
    why = shown(page).get_by_role("region", name="Why")
    expect(why).to_contain_text("mainspring worker")
