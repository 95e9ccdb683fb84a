"""Settings, statistics of a schedule, partial runs, and enqueuers."""

from __future__ import annotations

import re

from live import Live
from playwright.sync_api import expect
from scenery import follow, shown
from visit import Visits

from mainspring import Context, every


def test_the_settings_page_shows_values_and_sources_to_an_admin(visit: Visits, live: Live) -> None:
    page = visit(live, "/settings", role="admin")
    main = shown(page)
    row = main.get_by_role("row").filter(has=page.get_by_text("lease", exact=True))
    expect(row).to_contain_text("20 s")
    expect(main.get_by_role("row").filter(has_text="payload_limit")).to_contain_text("1.0 MiB")
    expect(main.get_by_role("row").filter(has_text="dead_retention")).to_contain_text("7 d")
    expect(row).to_contain_text("default")
    given = main.get_by_role("row", name=re.compile("^beat "))
    expect(given).to_contain_text("argument")
    rows = main.get_by_role("row")
    everything = rows.count()
    main.get_by_label("only those that differ from the default").check()
    expect(rows).not_to_have_count(everything)
    expect(given).to_be_visible()
    main.get_by_label("Find a setting").fill("durab")
    expect(rows).to_have_count(2)


def test_an_operator_has_no_settings_page(visit: Visits, live: Live) -> None:
    page = visit(live, "/")
    shown(page)
    expect(page.get_by_role("link", name="Settings")).to_have_count(0)


def test_the_schedule_page_has_its_figures_and_errors(visit: Visits, live: Live) -> None:
    app = live.app
    live.do(app.schedules.create("crm", every(52).weeks, "sync_crm"))
    handle = live.do(app.schedules.trigger("crm"))
    live.do(app.jobs.wait(handle.id, 20))
    page = visit(live, "/schedules/crm")
    runs = shown(page).get_by_role("region", name="Runs")
    expect(runs.get_by_text("Run time p50")).to_be_visible()
    expect(runs).to_contain_text("0 %")
    expect(runs.get_by_role("link", name="the CRM does not answer")).to_be_visible()
    runs.get_by_role("button", name="1 hour").click()
    expect(page).to_have_url(re.compile("window=1h"))
    expect(runs).to_contain_text("1 run of 1 tick that fired")


def test_partial_jobs_and_runs_are_shown_as_partial(visit: Visits, live: Live) -> None:
    @live.app.task(name="tally", queue="any")
    async def tally(ctx: Context, failed: int) -> None:
        ctx.items(success=10 - failed, failed=failed)

    live.do(live.app.drain())  # the running worker does not know the task, which was registered later
    handles = [live.do(tally.enqueue(failed)) for failed in (0, 1)]
    live.do(live.app.drain(queues=["any"]))
    for handle in handles:
        live.do(live.app.jobs.wait(handle.id, 20))
    page = visit(live, "/jobs?outcome=partial")
    table = shown(page).get_by_role("table", name="Jobs")
    expect(table.get_by_role("row")).to_have_count(2)
    expect(table).to_contain_text("partial")
    expect(table).to_contain_text("1 of 10 items failed")
    table.get_by_role("link", name="tally").click()
    expect(page.get_by_role("main").get_by_role("status").first).to_have_text("partial")
    live.do(live.app.schedules.create("tallied", every(52).weeks, "tally", kwargs={"failed": 1}))
    live.do(live.app.schedules.trigger("tallied"))
    live.do(live.app.drain(queues=["any"]))
    expect(
        follow(page, f"{live.address}/schedules/tallied").get_by_role("row").filter(has_text="1 of 10 items failed")
    ).to_contain_text("partial")
    legend = follow(page, f"{live.address}/").get_by_role("figure").filter(has_text="Runs per minute")
    expect(legend).to_contain_text("partial 2")
    expect(legend).not_to_contain_text("cancelled")


def test_the_enqueuer_is_on_the_job_page_and_in_the_audit_log(visit: Visits, live: Live) -> None:
    page = visit(live, "/jobs")
    made = page.evaluate(
        """async () => (await (await fetch("api/v1/jobs", { method: "POST", headers: { "Content-Type":
        "application/json" }, body: JSON.stringify({ task: "echo", arguments: { value: 1 } }) })).json())"""
    )
    facts = follow(page, f"{live.address}/jobs/{made['id']}").get_by_role("region", name="Facts")
    expect(facts).to_contain_text("Enqueued by")
    expect(facts.get_by_role("link", name="key:operator")).to_be_visible()
    live.do(live.app.jobs.wait(made["id"], 20))
    expect(
        follow(page, f"{live.address}/audit?action=jobs.enqueue").get_by_role("link", name=made["id"])
    ).to_be_visible()


def test_the_audit_page_has_targets_in_words_and_reasons(visit: Visits, live: Live) -> None:
    live.enqueue("send_email", "a@example.org", options={"delay": 3600, "tags": ["batch"]})
    page = visit(live, "/jobs")
    page.evaluate(
        """async () => fetch("api/v1/jobs/bulk", { method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ action: "cancel", filter: { tags: ["batch"] }, reason: "wrong list" }) })"""
    )
    row = (
        follow(page, f"{live.address}/audit?action=jobs.cancel").get_by_role("row").filter(has_text="jobs.cancel").first
    )
    expect(row).to_contain_text("jobs tagged batch")
    expect(row).to_contain_text("wrong list")
    expect(row).not_to_contain_text("{")
