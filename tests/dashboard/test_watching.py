"""Pages follow a running job live: progress, log and end, without a reload."""

from __future__ import annotations

import re
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from live import Live
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect
from scenery import shown
from stories import Cues, stories
from visit import Visits

from mainspring import Backoff, InvalidTransition, Mainspring, StoreUnavailable
from mainspring.stores import open_store
from mainspring.testing import Faults, FaultStore


def stay(page: Page) -> None:
    """Marks the page, so that a reload is noticed."""
    page.evaluate("window.stayed = true")


def stayed(page: Page) -> bool:
    return bool(page.evaluate("window.stayed === true"))


def state(page: Page) -> Locator:
    return page.get_by_role("main").get_by_role("status").first


def test_the_job_list_follows_a_job_to_its_end(visit: Visits, live: Live) -> None:
    page = visit(live, "/jobs?task=export")
    shown(page)
    stay(page)
    id = live.enqueue("export", "listed")
    row = page.get_by_role("row").filter(has=page.locator(f"a[href$='{id}']"))
    expect(row).to_contain_text("running")
    live.cue("listed", "progress", 40, 80, "halfway through the rows")
    expect(row).to_contain_text("50")
    live.cue("listed", "end", None)
    expect(row).to_contain_text("completed")
    assert stayed(page)


def test_the_job_page_follows_a_job_to_its_end(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "followed")
    page = visit(live, f"/jobs/{id}")
    shown(page)
    stay(page)
    expect(state(page)).to_have_text("running")
    live.cue("followed", "log", "opening the file")
    log = page.get_by_role("log")
    expect(log).to_contain_text("opening the file")
    live.cue("followed", "progress", 30, 100, "rows")
    bar = page.get_by_role("progressbar", name="Progress of run 1")
    expect(bar).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("30 of 100")
    live.cue("followed", "log", "closing the file")
    expect(log).to_contain_text("closing the file")
    live.cue("followed", "end", {"rows": 100})
    expect(state(page)).to_have_text("completed")
    expect(page.get_by_role("group", name="Result")).to_contain_text("rows: 100")
    assert stayed(page)


def test_a_scroll_of_the_log_that_comes_after_its_page_was_left_does_no_harm(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "left")
    page = visit(live, f"/jobs/{id}")
    live.cue("left", "log", "opening the file")
    box = page.get_by_role("log")
    expect(box).to_contain_text("opening the file")
    left = box.element_handle()
    page.get_by_role("navigation").get_by_role("link", name="Queues").click()
    expect(box).to_have_count(0)
    left.dispatch_event("scroll")
    live.cue("left", "end", None)


def test_the_job_page_follows_the_output_of_a_job(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "told")
    page = visit(live, f"/jobs/{id}")
    shown(page)
    stay(page)
    pane, text = page.get_by_role("region", name="Output", exact=True), page.get_by_role("region", name="Output text")
    expect(state(page)).to_have_text("running")
    expect(pane).to_have_count(0)
    live.cue("told", "write", "Bees ", "do not sleep.")
    expect(text).to_have_text("Bees do not sleep.")
    expect(pane).to_contain_text("run 1 · following")
    live.cue("told", "write", {"bees": 2**60}, "\n".join(f"line {n}" for n in range(200)))
    expect(text).to_contain_text('{"bees":1152921504606846976}')
    expect(page.get_by_text("line 199")).to_be_in_viewport()
    live.cue("told", "write", *["."] * 1200, "many")
    expect(text).to_contain_text(".many")
    live.cue("told", "fail", "enough")
    live.cue("told", "write", "Once more")
    expect(text).to_have_text("Once more", timeout=20_000)
    live.cue("told", "end", None)
    expect(pane).to_contain_text("run 2")
    expect(pane).not_to_contain_text("following")
    assert stayed(page)


def test_the_page_of_a_durable_job_shows_its_steps_and_gives_its_signal(visit: Visits, live: Live) -> None:
    id = live.enqueue("apply", "durable")
    page = visit(live, f"/jobs/{id}")
    steps, why = page.get_by_role("region", name="Durable steps", exact=True), page.get_by_role("region", name="Why")
    timeline = page.get_by_role("region", name="Timeline")
    expect(state(page)).to_have_text("running")
    expect(steps).to_have_count(0)
    live.cue("durable", {"password": "hunter2"})
    live.cue("durable", 7)
    expect(state(page)).to_have_text("waiting")
    expect(steps.locator("tbody tr")).to_have_count(2)
    expect(steps).to_contain_text("step 1")
    expect(steps).not_to_contain_text("hunter2")
    expect(why).to_contain_text("Waits for the signal 'answer'; at")
    expect(why).to_contain_text("it is late")
    expect(timeline).to_contain_text("asleep, or waiting for a signal")
    expect(page.get_by_role("link", name="Steps")).to_have_count(0)
    why.get_by_role("button", name="Give").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value").fill('{"days": 2}')
    dialog.get_by_role("button", name="Give").click()
    expect(why).to_contain_text("It sleeps until")
    expect(steps).to_contain_text("sleep")


def test_the_job_page_shows_a_failed_attempt_and_runs_the_retry_now(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "failing", options={"max_retries": 5, "backoff": Backoff(initial=600)})
    page = visit(live, f"/jobs/{id}")
    expect(state(page)).to_have_text("running")
    live.cue("failing", "fail", "the disk is full")
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("the disk is full")
    expect(page.get_by_role("button", name="Run 1", exact=True)).to_be_visible()
    why.get_by_role("button", name="Run now").click()
    live.cue("failing", "end", "well")
    expect(state(page)).to_have_text("completed")


def postpone(live: Live, id: str) -> int:
    """Reschedules a job that is retried repeatedly; returns the number of its runs."""
    while True:
        try:
            live.do(live.app.jobs.reschedule(id, timedelta(hours=1)))
            return int(live.do(live.app.jobs.get(id)).runs)
        except InvalidTransition:  # it is running at this moment
            continue


def test_the_job_page_explains_version_skew(visit: Visits, live: Live) -> None:
    other = replace(live.app.tasks["send_email"].job("a"), payload='{"to":"a","cc":"b"}', fingerprint="aabbccddee")
    (handle,) = live.do(live.app.enqueue_many([other]))
    page = visit(live, f"/jobs/{handle.id}")
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("(to, cc) were made by version aabbccddee, this worker has version")
    expect(why).to_contain_text("No live worker has version aabbccddee of task 'send_email'")
    expect(why.get_by_role("link", name="Workers")).to_be_visible()
    runs = postpone(live, handle.id)
    expect(why).to_contain_text("it is tried again at")
    why.get_by_role("button", name="Try now").click()
    expect(page.get_by_role("button", name=f"Run {runs + 1}", exact=True)).to_be_visible()
    live.do(live.app.jobs.cancel(handle.id))
    expect(state(page)).to_have_text("cancelled")


def test_a_run_that_ends_while_the_job_page_loads_is_shown_once(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "overtaken")
    page = visit(live, f"/jobs/{id}")
    expect(state(page)).to_have_text("running")
    running = page.context.request.get(f"{live.address}/api/v1/jobs/{id}").text()
    read = re.compile(f"/api/v1/jobs/{id}$")
    page.route(read, lambda route: route.fulfill(body=running, content_type="application/json"))
    with page.expect_response(re.compile(f"{id}/executions")):
        live.cue("overtaken", "end", None)
    expect(page.get_by_role("button", name="Run 1", exact=True)).to_have_count(1)
    expect(page.get_by_role("button", name=re.compile("^Run 1: "))).to_have_count(1)
    page.unroute(read)
    expect(state(page)).to_have_text("completed")


def test_a_running_job_is_cancelled_after_a_confirmation(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "unwanted")
    page = visit(live, f"/jobs/{id}")
    expect(state(page)).to_have_text("running")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(state(page)).to_have_text("cancelled")


def test_a_paused_feed_does_not_change_the_page(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "unseen")
    page = visit(live, f"/jobs/{id}")
    expect(state(page)).to_have_text("running")
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Paused")).to_be_visible()
    live.cue("unseen", "end", None)
    live.do(live.app.jobs.wait(id, 20))
    expect(state(page)).to_have_text("running")
    page.get_by_role("button", name="Paused").click()
    expect(state(page)).to_have_text("completed")


def test_the_feed_reconnects_after_the_browser_was_offline(visit: Visits, live: Live) -> None:
    id = live.enqueue("export", "patient")
    page = visit(live, f"/jobs/{id}")
    expect(state(page)).to_have_text("running")
    visit.expects("ERR_INTERNET_DISCONNECTED")
    page.context.set_offline(True)
    live.cue("patient", "end", None)
    live.do(live.app.jobs.wait(id, 20))
    page.context.set_offline(False)
    expect(state(page)).to_have_text("completed")


@pytest.mark.parametrize("verb", ["news", "publish"])
def test_the_badge_shows_a_stalled_feed_and_the_page_polls(visit: Visits, tmp_path: Path, verb: str) -> None:
    faults, broken = Faults(), [False]
    faults.when(verb, lambda: broken[0], error=lambda: StoreUnavailable("no route to the store"))
    store = FaultStore(open_store(f"sqlite:///{tmp_path}/jobs.db"), faults)
    live = Live(tmp_path, app=stories(Mainspring(store, beat=0.2, log_level="error"), Cues()))
    try:
        page = visit(live, "/jobs")
        shown(page)
        first = live.enqueue("send_email", "eve@example.org")  # seen on the page, so that the stream is open
        expect(page.locator(f"a[href$='{first}']").first).to_be_visible()
        expect(page.get_by_role("button", name="Live", exact=True)).to_be_visible()
        broken[0] = True
        id = live.enqueue("send_email", "ada@example.org")
        badge = page.get_by_role("button", name="Not live")
        expect(badge).to_be_visible()
        expect(badge).to_have_attribute("title", re.compile("no route to the store"))
        row = page.get_by_role("row").filter(has=page.locator(f"a[href$='{id}']"))
        expect(row).to_contain_text("completed")
        broken[0] = False
        expect(page.get_by_role("button", name="Live", exact=True)).to_be_visible()
    finally:
        live.close()


def test_a_silent_feed_is_shown_as_connecting_and_is_opened_again(
    visit: Visits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("event_stream", "sse"):
        monkeypatch.setattr(f"mainspring.api.{module}.HEARTBEAT_SECONDS", 0.5)
    silent = threading.Event()

    def half_open(service: ASGIApp) -> ASGIApp:
        """While `silent` is set, data sent to streams is lost without a close, as if a cable were cut."""

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            lost = False

            async def passed_on(message: Message) -> None:
                nonlocal lost
                lost = lost or (silent.is_set() and str(scope.get("path")).endswith("/events"))
                if not lost:
                    await send(message)

            await service(scope, receive, passed_on)

        return wrapped

    live = Live(tmp_path, wrap=half_open)
    try:
        page = visit(live, "/jobs")
        shown(page)
        first = live.enqueue("send_email", "eve@example.org")  # seen on the page, so that the stream is open
        expect(page.locator(f"a[href$='{first}']").first).to_be_visible()
        stay(page)
        silent.set()
        expect(page.get_by_role("button", name="Connecting", exact=True)).to_be_visible()
        silent.clear()
        expect(page.get_by_role("button", name="Live", exact=True)).to_be_visible()
        second = live.enqueue("send_email", "ada@example.org")
        expect(page.locator(f"a[href$='{second}']").first).to_be_visible()
        assert stayed(page)
    finally:
        live.close()
