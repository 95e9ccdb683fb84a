"""Numbers that JavaScript would round are shown, edited and sent without loss."""

from __future__ import annotations

import msgspec
from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits

BIG = 2**63 - 25
# Numbers as they are stored; JavaScript would change the value or the text of each.
DELICATE = {"big": BIG, "least": -(2**63), "whole": 1.0, "tiny": 1e-7, "precise": 0.1 + 0.2, "next": 2**53 + 1}


def test_an_integer_beyond_2_to_the_53_is_redriven_unchanged(visit: Visits, live: Live) -> None:
    id = live.enqueue("charge", customer=BIG, plan="platinum")
    live.do(live.app.jobs.wait(id, 20))
    page = visit(live, "/dead")
    mine = shown(page).get_by_role("region", name="no plan platinum")
    mine.get_by_role("button", name="Expand").click()
    expect(mine).to_contain_text(str(BIG))
    mine.get_by_role("button", name="Edit and redrive", exact=True).click()
    dialog = page.get_by_role("dialog", name="Edit and redrive")
    arguments = dialog.get_by_label("Arguments")
    written = arguments.input_value()
    assert str(BIG) in written
    arguments.fill(written.replace("platinum", "team"))
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog).to_have_count(0)
    done = live.do(live.app.jobs.wait(id, 20))
    assert done.state == "completed"
    assert msgspec.json.decode(done.result or "null") == {"customer": BIG, "paid": 10}


def test_the_job_page_shows_numbers_without_rounding(visit: Visits, live: Live) -> None:
    id = live.enqueue("echo", DELICATE)
    live.do(live.app.jobs.wait(id, 20))
    page = visit(live, f"/jobs/{id}")
    main = shown(page)
    for name, number in DELICATE.items():
        for part in ("Arguments", "Result"):
            written = f"{name}: {msgspec.json.encode(number).decode()}"
            expect(main.get_by_role("group", name=part)).to_contain_text(written)
