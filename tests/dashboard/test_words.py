"""Numbers, times and failures as the pages write them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from live import Live
from playwright.sync_api import Page, expect
from scenery import follow, shown
from visit import Visits

from mainspring import Filter, act_as, cron
from mainspring.api.routes.dashboard_files import DASHBOARD

MODULE = "(name) => import(new URL(`${name}.js`, document.querySelector(`[href$='/format.js']`).href))"


def calls(page: Page, module: str, name: str, *given: Any) -> list[Any]:
    """The result of a function of a JavaScript module for each argument, or tuple of arguments."""
    each = [one if isinstance(one, tuple) else (one,) for one in given]
    return list(
        page.evaluate(
            f"([module, name, each]) => ({MODULE})(module).then((found) => each.map((one) => found[name](...one)))",
            [module, name, each],
        )
    )


DURATIONS = {
    0: "0 ms", 0.00002: "<1 ms", 0.0009: "<1 ms", 0.00096: "1 ms", 0.0042: "4.2 ms", 0.0096: "10 ms",
    0.9994: "999 ms", 0.9996: "1 s", 9.94: "9.9 s", 9.96: "10 s", 75: "1 min 15 s", 90000: "1 d 1 h",
    -75: "−1 min 15 s", -0.0042: "−4.2 ms",
}  # fmt: skip
RATES = {0: "0", 0.0007: "<0.1", 0.06: "0.1", 4.25: "4.3", 72.4: "72", 1234: "1.2 k"}


def test_durations_and_rates_are_in_readable_units_and_axis_labels_are_distinct(visit: Visits, live: Live) -> None:
    page = visit(live)
    assert calls(page, "format", "duration", *DURATIONS) == list(DURATIONS.values())
    assert calls(page, "format", "rate", *RATES) == list(RATES.values())
    steps = [n * size for size in (0.0002, 0.002, 0.5) for n in range(5)]
    assert len(set(calls(page, "format", "axisDuration", *steps))) == len(set(steps))
    first = 1_763_247_600  # seconds: a midnight in Berlin
    week = [first, first + 8 * 86_400]
    days = calls(page, "parts/plot", "tick", *((first + n * 43_200, week) for n in range(14)))
    assert [day != "" for day in days] == [True, False] * 7
    assert len(set(days)) == 8


def test_the_heat_map_scale_is_linear_from_zero(visit: Visits, live: Live) -> None:
    live.do(live.app.schedules.create("heat", cron("*/7 * * * *"), "sync_crm"))
    page = visit(live, "/schedules")
    expect(shown(page).get_by_text("Ticks per hour: 0")).to_be_visible()
    shades = calls(page, "parts/heat_map", "intensity", *((ticks, 161) for ticks in (0, 1, 80, 158, 161)))
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (0, 1)
    assert shades[-1] - shades[-2] == pytest.approx(3 / 161)
    assert calls(page, "parts/heat_map", "intensity", (0, 0)) == [0]


# Phrases that engineers do not use for buttons, messages and comments.
UNWANTED = (
    "Leave it", "Leave them", "Make it", "Make the ", "on its way", "left alone", "may go on", "held back",
    "became of", "came of it", "nobody", "whoever", "somebody", " anew", "gone for good", "lived to tell",
)  # fmt: skip


def test_no_module_of_the_dashboard_has_an_unwanted_phrase() -> None:
    modules = [path for path in DASHBOARD.rglob("*.js") if path.parent.name != "vendor"]
    assert len(modules) > 80
    found = [
        f"{path.name}: {phrase}"
        for path in modules
        for phrase in UNWANTED
        if phrase.lower() in path.read_text(encoding="utf-8").lower()
    ]
    assert found == []


# The heads of the times of a schedule, by the time zones of the viewer and of the schedule.
HEADS = {
    "UTC": {"UTC": ["UTC, your time", "When"], "Asia/Tokyo": ["Asia/Tokyo", "When", "Your time, UTC"]},
    "Asia/Tokyo": {"UTC": ["UTC", "When", "Your time"], "Asia/Tokyo": ["Asia/Tokyo, your time", "When", "UTC"]},
    "Europe/Berlin": {"Asia/Tokyo": ["Asia/Tokyo", "When", "Your time", "UTC"]},
}


@pytest.mark.parametrize("viewer", HEADS)
def test_time_zones_with_the_same_time_share_a_column(visit: Visits, live: Live, viewer: str) -> None:
    page = visit(live, "/schedules", **({} if viewer == "Europe/Berlin" else {"timezone_id": viewer}))
    for tz, heads in HEADS[viewer].items():
        name = f"{tz} {viewer}".replace("/", "-")
        live.do(live.app.schedules.create(name, cron("0 9 * * *", tz=tz), "sync_crm"))
        ticks = follow(page, f"{live.address}/schedules/{quote(name)}").get_by_role("table").first
        assert ticks.get_by_role("columnheader").all_inner_texts() == heads


@pytest.mark.parametrize(("viewer", "times"), [("UTC", 1), ("Asia/Tokyo", 2)])
def test_a_viewer_in_utc_sees_each_time_once(visit: Visits, live: Live, viewer: str, times: int) -> None:
    id = live.enqueue("send_email", "ada@example.org")
    done = live.do(live.app.jobs.wait(id, 20))
    page = visit(live, f"/jobs/{id}", timezone_id=viewer)
    created = shown(page).locator("time.exact").first
    expect(created).to_contain_text(f"{done.created_at:%Y-%m-%d %H:%M:%S} UTC")
    assert created.inner_text().count(f"{done.created_at:%M:%S}") == times


def test_a_failure_shows_its_message_and_links_to_its_group(visit: Visits, live: Live) -> None:
    id = live.enqueue("sync_crm", 1)
    live.do(live.app.jobs.wait(id, 20))
    said = "ConnectionError: the CRM does not answer: 503 Service Unavailable"
    page = visit(live)
    expect(shown(page).get_by_role("region", name="problem")).to_contain_text(said)
    kind = "ConnectionError: the CRM does not answer: … Service Unavailable"
    expect(page.get_by_role("row").filter(has_text=kind)).to_contain_text(f"Newest: {said} · sync_crm")
    page.get_by_role("link", name=kind, exact=True).click()
    row = shown(page).get_by_role("row").filter(has_text=id[:18])
    expect(row).to_contain_text(said)
    expect(
        follow(page, f"{live.address}/dead").get_by_role("region", name="the CRM does not answer: …")
    ).to_contain_text(said)


def test_the_window_title_has_the_number_of_problems(visit: Visits, live: Live) -> None:
    live.do(live.app.queues.pause("any"))
    id = live.enqueue("echo", 1)
    page = visit(live)
    expect(shown(page).get_by_text("Queue any is paused")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\(\d+\) Overview"))
    page.get_by_role("link", name="1 pending in any").click()
    expect(shown(page).get_by_role("row").filter(has_text=id[:18])).to_be_visible()
    expect(page).to_have_title("Jobs · Mainspring")


def test_the_overview_calls_the_pending_state_pending(visit: Visits, live: Live) -> None:
    live.enqueue("send_email", "ada@example.org")
    page = visit(live)
    expect(shown(page).get_by_role("link", name="pending: see these jobs")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Pending")).to_be_visible()


def test_the_worker_list_links_to_running_jobs(visit: Visits, live: Live) -> None:
    ids = [live.enqueue("export", f"list {n}") for n in range(4)]
    page = visit(live, "/workers")
    row = shown(page).get_by_role("row").filter(has_text=live.worker.id)
    expect(row.get_by_role("link", name="export")).to_have_count(3)
    expect(row).to_contain_text("and 1 more")
    row.get_by_role("link", name="export").first.click()
    expect(page).to_have_url(f"{live.address}/jobs/{ids[0]}")
    for n in range(4):
        live.cue(f"list {n}", "end", None)


def test_the_audit_page_has_the_filter_in_words_and_only_changed_fields(visit: Visits, live: Live) -> None:
    async def change() -> None:
        with act_as("ada"):
            await live.app.jobs.cancel(Filter(tasks=("echo", "export"), queues=("nowhere",)), "not needed")

            await live.app.schedules.create("moved", cron("0 9 * * *"), "sync_crm")
            await live.app.schedules.update("moved", trigger=cron("30 8 * * *"))

    live.do(change())
    rows = shown(visit(live, "/audit", role="admin")).get_by_role("row")
    row = rows.filter(has_text="jobs.cancel")
    expect(row).to_contain_text("jobs in queue nowhere of task echo or export")
    expect(row).to_contain_text("not needed")
    expect(rows.filter(has_text="schedules.update")).to_contain_text("trigger.expr: 0 9 * * * → 30 8 * * *")


def test_the_api_key_and_slots_fields_are_not_spell_checked(visit: Visits, live: Live) -> None:
    visit.expects("status of 401")
    page = visit(live, role=None)
    expect(page.get_by_label("API key")).to_have_attribute("spellcheck", "false")
    visit.sign_in(page, live, "operator")
    page.goto(f"{live.address}/workers")
    shown(page).get_by_role("button", name="Resize worker").click()
    expect(page.get_by_label("Slots", exact=True)).to_have_attribute("spellcheck", "false")
