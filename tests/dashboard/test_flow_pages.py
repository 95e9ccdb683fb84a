"""The pages of flows: the list, the graph, the timeline, the steps and the items of maps, live."""

from __future__ import annotations

import re
import time
from typing import Any

from live import Live
from playwright.sync_api import Locator, Page, expect
from scenery import follow, shown
from test_words import calls
from visit import Visits

from mainspring import Filter

PHONE = {"width": 390, "height": 844}


def start(live: Live, name: str, boxes: int = 3, **more: Any) -> str:
    """The id of a flow whose step `deliver` waits for a cue of this name."""
    return live.enqueue("fulfil", name, boxes, **more)


def ended(live: Live, name: str, *cue: Any, boxes: int = 3) -> str:
    """The id of a flow that has ended with this cue."""
    live.cue(name, *cue)
    id = start(live, name, boxes)
    live.do(live.app.jobs.wait(id, 20))
    return id


def graph(page: Page) -> Locator:
    return page.get_by_role("group", name="Graph of the steps")


def node(page: Page, name: str) -> Locator:
    return graph(page).get_by_role("button", name=re.compile(rf"^{name} "))


def step_panel(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=f"Step {name}")


def test_a_flow_is_shown_as_it_runs(visit: Visits, live: Live) -> None:
    id = start(live, "runs")
    page = visit(live, f"/flows/{id}")
    expect(node(page, "deliver")).to_have_accessible_name(re.compile("running"))
    expect(node(page, "unpack")).to_contain_text("3 of 3 items")
    expect(node(page, "wrap")).to_contain_text("skipped: check")
    expect(page.get_by_role("region", name="Why")).to_contain_text("aits for archive ← deliver")
    live.cue("runs", "end", "delivered")
    expect(node(page, "archive")).to_have_accessible_name(re.compile("completed"))
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    expect(page.get_by_text("6 of 6 ended")).to_be_visible()


def test_a_flow_is_marked_if_what_it_waits_for_needs_somebody(visit: Visits, live: Live) -> None:
    live.do(live.app.queues.pause("exports"))
    id = live.enqueue("beside", "held")
    page = visit(live, f"/flows/{id}")
    why = page.get_by_role("region", name="Why")
    expect(why).to_have_class(re.compile("why-warn"))
    expect(why).to_contain_text("aits for left: queue 'exports' was paused")
    why.get_by_role("link", name="The step's job").first.click()
    page.get_by_role("button", name="Resume queue exports").click()
    page.get_by_role("link", name="Its flow").click()
    expect(why).to_contain_text("it has been running")
    expect(why).to_have_class(re.compile("why-calm"))
    for side in ("left", "right"):
        live.cue(f"held-{side}", "end", 1)


def test_many_changes_of_a_flow_are_fetched_once_a_second(visit: Visits, live: Live) -> None:
    id = start(live, "often")
    page = visit(live, f"/flows/{id}")
    shown(page)
    expect(page.get_by_role("button", name="Live", exact=True)).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url) if one.url.endswith(f"/flows/{id}") else None)
    began = time.monotonic()
    for n in range(20):
        live.do(live.app.jobs.update(Filter(ids=(id,)), tags=[f"n{n}"]))
        page.wait_for_timeout(100)
    live.cue("often", "end", 1)
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    assert 2 <= len(asked) <= time.monotonic() - began + 2  # one at the beginning, and one every five seconds


def test_a_step_has_its_details_and_leads_to_its_job_and_back(visit: Visits, live: Live) -> None:
    id = start(live, "details")
    page = visit(live, f"/flows/{id}")
    node(page, "wrap").click()
    expect(step_panel(page, "wrap")).to_contain_text("Skipped: check.gift did not hold")
    step_panel(page, "wrap").get_by_role("button", name="check").click()
    panel = step_panel(page, "check")
    expect(panel).to_contain_text("any")
    assert page.url.endswith("?step=check")
    panel.get_by_role("link", name="Job, runs and log").click()
    page.get_by_role("link", name="Its flow").click()
    expect(step_panel(page, "check")).to_be_visible()
    node(page, "deliver").click()
    step_panel(page, "deliver").get_by_role("link", name="Its own flow").click()
    expect(node(page, "drive")).to_be_visible()
    page.get_by_role("navigation", name="Where this is").get_by_role("link", name="deliver").click()
    expect(step_panel(page, "deliver")).to_be_visible()
    page.get_by_role("link", name="Arguments, result, runs").click()
    page.get_by_role("link", name="Steps").click()
    expect(node(page, "deliver")).to_be_visible()
    live.cue("details", "end", 1)


def test_arrow_keys_go_through_the_graph(visit: Visits, live: Live) -> None:
    id = ended(live, "keys", "end", 1)
    page = visit(live, f"/flows/{id}")
    node(page, "check").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    expect(node(page, "check")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name=re.compile("Step (unpack|wrap)"))).to_be_visible()
    expect(graph(page).locator("[tabindex='0']")).to_have_count(1)


def test_the_graph_is_enlarged_and_reduced(visit: Visits, live: Live) -> None:
    page = visit(live, f"/flows/{ended(live, 'zoom', 'end', 1)}", viewport=PHONE)
    expect(page.get_by_text("70 %")).to_be_visible()
    page.get_by_role("button", name="Zoom in").click()
    expect(page.get_by_text("85 %")).to_be_visible()
    frame = graph(page)
    assert frame.evaluate("(frame) => frame.scrollWidth > frame.clientWidth")
    for _ in range(3):
        page.get_by_role("button", name="Zoom out").click()
    expect(page.get_by_role("button", name="Zoom out")).to_be_disabled()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_items_of_a_map_have_states_and_pages(visit: Visits, live: Live) -> None:
    id = ended(live, "items", "end", 1, boxes=48)
    page = visit(live, f"/flows/{id}?step=unpack")
    panel = step_panel(page, "unpack")
    rows = panel.get_by_role("row").filter(has=page.get_by_role("cell"))
    expect(panel.get_by_text("48 of 48 items · 5 dead").first).to_be_visible()
    expect(rows).to_have_count(20)
    panel.get_by_role("button", name="Next").click()
    expect(rows.first).to_contain_text("20")
    panel.get_by_role("button", name="Previous").click()
    expect(rows.first).to_contain_text("0")
    panel.get_by_label("State").select_option("dead")
    expect(rows).to_have_count(5)
    expect(rows.last).to_contain_text("box 47 is empty")
    panel.get_by_label("State").select_option("running")
    expect(panel.get_by_text("No item is running.")).to_be_visible()


def test_the_timeline_and_the_table_have_the_same_steps(visit: Visits, live: Live) -> None:
    page = visit(live, f"/flows/{ended(live, 'views', 'end', 1)}?view=time")
    rows = shown(page).get_by_role("list", name="Steps over time").get_by_role("listitem")
    expect(rows).to_have_text([re.compile(name) for name in ("check", "unpack", "deliver", "archive")])
    expect(page.get_by_text("2 more steps were not released")).to_be_visible()
    page.get_by_role("button", name="Steps", exact=True).click()
    table = page.get_by_role("table", name="Steps")
    expect(table.get_by_role("row")).to_have_count(7)
    expect(table.get_by_role("row").filter(has_text="did not hold")).to_contain_text("check.gift")
    table.get_by_role("button", name="deliver").click()
    expect(step_panel(page, "deliver")).to_be_visible()
    assert "view=steps" in page.url


def test_a_dead_flow_is_retried_from_its_page(visit: Visits, live: Live) -> None:
    id = ended(live, "again", "fail", "the van broke down")
    page = visit(live, f"/flows/{id}")
    expect(page.get_by_role("region", name="Why")).to_contain_text("dead step: deliver")
    expect(node(page, "refund")).to_have_accessible_name(re.compile("completed"))
    live.cue("again", "end", "delivered")
    page.get_by_role("button", name="Retry from what failed").click()
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    expect(node(page, "refund")).to_have_accessible_name(re.compile("skipped"))


def test_dead_steps_are_retried_while_others_go_on(visit: Visits, live: Live) -> None:
    live.cue("b-left", "fail", "no paper")
    page = visit(live, f"/flows/{live.enqueue('beside', 'b')}")
    expect(node(page, "left")).to_have_accessible_name(re.compile("dead"))
    live.cue("b-left", "end", 1)
    page.get_by_role("button", name="Retry dead steps").click()
    expect(node(page, "left")).to_have_accessible_name(re.compile("completed"))
    expect(page.get_by_role("button", name="Retry dead steps")).to_have_count(0)
    live.cue("b-right", "end", 2)
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()


def test_a_dead_step_is_skipped_after_a_question(visit: Visits, live: Live) -> None:
    id = ended(live, "without", "fail", "the van broke down")
    page = visit(live, f"/flows/{id}?step=deliver")
    step_panel(page, "deliver").get_by_role("button", name="Skip").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the customer came for it")
    dialog.get_by_role("button", name="Skip step").click()
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    expect(node(page, "deliver")).to_contain_text("the customer came for it")
    expect(step_panel(page, "deliver").get_by_role("button", name="Skip")).to_have_count(0)


def test_a_signal_is_given_by_a_form_of_its_type(visit: Visits, live: Live) -> None:
    id = live.enqueue("ask")
    page = visit(live, f"/flows/{id}?step=approval")
    panel = step_panel(page, "approval")
    expect(panel).to_contain_text("a signal: given from outside")
    expect(page.get_by_role("region", name="Why")).to_contain_text("the signal 'approval' has not been given; at")
    panel.get_by_role("button", name="Give").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Give")).to_be_enabled()
    dialog.get_by_label("ok").select_option("yes")
    dialog.get_by_label("level").select_option("high")
    dialog.get_by_label("amount").fill("12")
    dialog.get_by_label("by").fill('Ada "the boss"')
    dialog.get_by_role("button", name="Give").click()
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    expect(panel.get_by_role("button", name="Give")).to_have_count(0)
    given = live.do(live.app.jobs.get(id)).result
    assert given == '{"ok":true,"level":"high","amount":12,"by":"Ada \\"the boss\\""}'


def test_a_signal_of_any_type_is_given_as_json(visit: Visits, live: Live) -> None:
    id = live.enqueue("ask", "anything")
    page = visit(live, f"/flows/{id}?step=anything")
    step_panel(page, "anything").get_by_role("button", name="Give").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value").fill("[1, 2")
    expect(dialog.get_by_role("button", name="Give")).to_be_disabled()
    dialog.get_by_label("Value").fill("[1, 2]")
    dialog.get_by_role("button", name="Give").click()
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    assert live.do(live.app.jobs.get(id)).result == "[1,2]"
    id = live.enqueue("ask", "count")
    page = visit(live, f"/flows/{id}?step=count")
    step_panel(page, "count").get_by_role("button", name="Give").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Give")).to_be_disabled()
    dialog.get_by_label("Value").fill("12")
    dialog.get_by_role("button", name="Give").click()
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    assert live.do(live.app.jobs.get(id)).result == "12"


def test_an_ended_flow_is_replayed_from_a_step_as_a_new_one(visit: Visits, live: Live) -> None:
    id = ended(live, "again", "fail", "the van broke down")
    page = visit(live, f"/flows/{id}?step=deliver")
    step_panel(page, "deliver").get_by_role("button", name="Replay from here").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    expect(page.get_by_role("link", name="an earlier flow")).to_have_attribute("href", re.compile(id))
    expect(node(page, "check")).to_have_accessible_name(re.compile("completed"))
    live.cue("again", "end", "delivered")
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()


def test_a_flow_is_cancelled_after_a_question(visit: Visits, live: Live) -> None:
    id = start(live, "stop")
    page = visit(live, f"/flows/{id}")
    expect(node(page, "deliver")).to_have_accessible_name(re.compile("running"))
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the customer called")
    dialog.get_by_role("button", name="Cancel flow").click()
    expect(page.get_by_role("status").filter(has_text="cancelled")).to_be_visible()
    expect(node(page, "archive")).to_have_accessible_name(re.compile("completed"))
    assert live.do(live.app.jobs.get(id)).cancel_reason == "the customer called"


def test_a_viewer_sees_flows_without_buttons_that_change_them(visit: Visits, live: Live) -> None:
    id = ended(live, "looks", "fail", "no van")
    page = visit(live, f"/flows/{id}?step=deliver", role="viewer")
    expect(step_panel(page, "deliver")).to_be_visible()
    for name in ("Retry", "Cancel"):
        expect(shown(page).get_by_role("button", name=re.compile(f"^{name}"))).to_have_count(0)


def test_the_list_shows_how_far_flows_are_and_filters_them(visit: Visits, live: Live) -> None:
    dead, waits = ended(live, "list-dead", "fail", "no van"), start(live, "list-waits", 7)
    page = visit(live, "/flows")
    row = shown(page).get_by_role("row").filter(has_text=waits[:18]).filter(has_text="of 6")
    expect(row).to_contain_text("3 of 6")
    live.cue("list-waits", "end", 1)
    expect(row).to_contain_text("6 of 6")
    page.get_by_role("navigation", name="States").get_by_role("link", name="dead").click()
    expect(shown(page).get_by_text("1 dead step").first).to_be_visible()
    page.get_by_role("combobox", name="Flow").select_option("mesh")
    expect(page.get_by_text("No flow matches this filter")).to_be_visible()
    page.get_by_role("combobox", name="Flow").select_option("fulfil")
    page.get_by_role("link", name="fulfil").first.click()
    expect(node(page, "deliver")).to_be_visible()
    assert dead


def test_a_flow_of_a_thousand_steps_has_few_elements_and_opens_at_once(visit: Visits, live: Live) -> None:
    live.do(live.app.queues.pause("held"))
    id = live.enqueue("mesh", 40, 25)
    page = visit(live, "/flows")
    expect(shown(page).get_by_text("0 of 1000").first).to_be_visible()
    began = time.monotonic()
    follow(page, f"{live.address}/flows/{id}")
    expect(graph(page).get_by_role("button")).to_have_count(1000)
    took = time.monotonic() - began
    assert took < 5, took  # less than a second on a machine that does nothing else
    # Each step has few elements, and edges of one look are one element: that keeps the page responsive.
    assert graph(page).locator("*").count() < 8000
    assert graph(page).locator("svg path").count() < 1020
    graph(page).locator("[data-node='39-24']").click()
    expect(step_panel(page, "39-24")).to_contain_text("Waits for 38-7, 38-24")


def test_a_flow_that_is_gone_says_so(visit: Visits, live: Live) -> None:
    visit.expects("status of 404")
    page = visit(live, "/flows/01a1f467-57aa-7000-a320-2640fde57091")
    expect(page.get_by_text("There is no flow with this id")).to_be_visible()


def test_a_store_without_flows_shows_how_to_make_one(visit: Visits, empty: Live) -> None:
    expect(visit(empty, "/flows").get_by_text("No flows yet")).to_be_visible()


NODES = [{"id": f"{x}{y}", "x": 200 * x, "y": 64 * y, "width": 100, "height": 48} for x in range(2) for y in range(3)]
KEYS = {"ArrowRight": "11", "ArrowLeft": None, "ArrowUp": "00", "ArrowDown": "02"}
STEP = {"needs": [], "items": None, "kind": "step", "status": "completed"}


def test_the_places_of_steps_are_computed_from_their_times(visit: Visits, live: Live) -> None:
    page = visit(live)
    found = calls(page, "flow_layout", "neighbour", *((NODES, NODES[1], key) for key in KEYS))
    assert [one and one["id"] for one in found] == list(KEYS.values())
    items = {"made": 2, "total": 2, "completed": 2, "dead": 0, "cancelled": 0, "open": 0}
    at = "2030-01-01T00:00:0{}Z".format
    flow = {"planned_at": at(0), "ended_at": at(9), "steps": [
        STEP | {"name": "a", "released_at": at(0), "started_at": at(1), "finished_at": at(3)},
        STEP | {"name": "m", "needs": ["a"], "items": items, "kind": "map", "released_at": None},
        STEP | {"name": "f", "needs": ["m"], "kind": "flow", "released_at": at(5), "started_at": at(8),
                "finished_at": at(9)},
        STEP | {"name": "w", "needs": ["f"], "status": "not_run", "released_at": None},
    ]}  # fmt: skip
    (spans,) = calls(page, "flow_layout", "stepSpans", (flow, 0))
    begin = 1_893_456_000_000
    seconds = [[(one[name] - begin) / 1000 for name in ("released", "started", "until")] for one in spans]
    assert [one["step"]["name"] for one in spans] == ["a", "m", "f"]
    assert seconds == [[0, 1, 3], [3, 3, 5], [5, 5, 9]]
    assert [one["about"] for one in spans] == [False, True, False]


def test_a_batch_is_shown_as_its_jobs_end(visit: Visits, live: Live) -> None:
    batch = live.app.batch("newsletter")
    live.do(batch.begin())
    live.do(batch.enqueue(live.app.tasks["export"].job("letter")))
    page = visit(live, f"/flows/{batch.id}")
    expect(page.get_by_role("heading", name="Batch newsletter")).to_be_visible()
    expect(node(page, "jobs")).to_contain_text("0 of 1+ items")
    expect(page.get_by_role("region", name="Why")).to_contain_text("open: its maker adds more")
    live.cue("letter", "end", "sent")
    live.do(batch.close())
    expect(page.get_by_role("status").filter(has_text="completed")).to_be_visible()
    page = visit(live, "/flows?task=mainspring.batch")
    row = page.get_by_role("row").filter(has_text="newsletter")
    expect(row.get_by_text("batch", exact=True)).to_be_visible()
