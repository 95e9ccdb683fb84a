"""The layout of pages on wide and narrow screens."""

from __future__ import annotations

from live import Live
from playwright.sync_api import Locator, expect
from scenery import follow, shown
from visit import Visits

from mainspring import every

PHONE = {"width": 390, "height": 844}


def edges(found: Locator, *names: str) -> list[tuple[float, ...]]:
    boxes = found.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().toJSON())")
    return [tuple(box[name] for name in names) for box in boxes if box["width"]]


def test_audit_log_filters_are_in_one_line(visit: Visits, live: Live) -> None:
    labels = shown(visit(live, "/audit", role="admin")).get_by_role("search").locator("label")
    assert len(set(edges(labels, "y", "height"))) == 1


def test_buttons_in_a_table_column_have_the_same_width(visit: Visits, live: Live) -> None:
    live.do(live.app.queues.pause("mail"))
    main = shown(visit(live, "/queues"))
    expect(main.get_by_role("button", name="Resume queue")).to_be_visible()
    assert len(set(edges(main.locator("td button"), "x", "width"))) == 1


def test_queue_and_worker_cards_on_a_phone_begin_with_the_name(visit: Visits, live: Live) -> None:
    live.enqueue("send_email", "ada@example.org")
    page = visit(live, "/queues", viewport=PHONE)
    for path in ("/queues", "/workers"):
        card = follow(page, live.address + path).locator("tbody tr").first
        ((left,),) = edges(card, "x")
        ((name,),) = edges(card.get_by_role("link").first, "x")
        assert name - left < 20, path


def test_a_phone_shows_jobs_as_dense_cards_and_loads_more(visit: Visits, live: Live) -> None:
    task = live.app.tasks["send_email"].using(delay=3600, tags=["dense"])
    live.do(live.app.enqueue_many(task.job(f"{n}@example.org") for n in range(50)))
    page = visit(live, "/jobs?tag=dense", viewport=PHONE)
    cards = shown(page).locator("tbody tr")
    expect(cards).to_have_count(15)
    assert max(height for (height,) in edges(cards, "height")) < 160
    assert page.evaluate("document.documentElement.scrollHeight") < 2800
    page.get_by_role("button", name="Load more").click()
    expect(cards).to_have_count(30)
    page.get_by_role("button", name="Load more").click()
    page.get_by_role("button", name="Load more").click()
    expect(cards).to_have_count(50)
    expect(page.get_by_role("button", name="Load more")).to_have_count(0)


def test_a_phone_shows_schedules_in_pages_and_loads_more(visit: Visits, live: Live) -> None:
    async def create() -> None:
        for n in range(20):
            await live.app.schedules.create(f"part-{n:02}", every(52).weeks, "sync_crm")

    live.do(create())
    page = visit(live, "/schedules?q=part-", viewport=PHONE)
    cards = shown(page).locator("tbody tr")
    expect(cards.filter(has_text="part-")).to_have_count(15)
    page.get_by_role("button", name="Load more").click()
    expect(cards.filter(has_text="part-")).to_have_count(20)
    expect(page.get_by_text("20 schedules")).to_be_visible()


def test_setting_values_are_not_broken_within_a_word(visit: Visits, live: Live) -> None:
    main = shown(visit(live, "/settings", role="admin", viewport={"width": 1440, "height": 900}))
    rows = main.get_by_role("row").filter(has=main.get_by_text("default", exact=True))
    heights = [height for (height,) in edges(rows.locator("td").first.locator("code"), "height")]
    heights += [height for (height,) in edges(main.locator("td code").filter(has_text="jwt_subject_claim"), "height")]
    assert max(heights) < 24


def test_the_window_selector_fills_the_width_of_a_phone(visit: Visits, live: Live) -> None:
    page = visit(live, "/", viewport=PHONE)
    for path in ("/", "/queues"):
        ((left, width),) = edges(
            follow(page, live.address + path).get_by_role("group", name="Figures of the last"), "x", "width"
        )
        assert abs(left + width + left - PHONE["width"]) < 1, path
