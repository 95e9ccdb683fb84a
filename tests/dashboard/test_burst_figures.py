"""The overview after a burst of runs: its numbers include the current minute, and agree with each other."""

from __future__ import annotations

import re

from live import Live
from playwright.sync_api import expect
from scenery import shown
from visit import Visits

from mainspring import Filter

BURST = 60


def test_runs_per_minute_count_the_minute_of_the_burst(visit: Visits, live: Live) -> None:
    task = live.app.tasks["echo"].using(tags=["burst"])
    handles = live.do(live.app.enqueue_many(task.job(n) for n in range(BURST)))
    for handle in handles:
        live.do(live.app.jobs.wait(handle.id, 20))
    page = visit(live, "/?window=15m")
    runs = shown(page).get_by_label("Runs of the last 15 min")
    figure = runs.locator("div").filter(has_text="Runs per minute")
    expect(figure.locator("dd")).to_have_text(re.compile(r"^\s*\d"))
    # A machine under load may need three minutes for the burst: then the rate is a third.
    assert float(re.findall(r"[\d.]+", figure.locator("dd").inner_text())[0]) >= BURST / 3
    assert f"{BURST} runs" in (figure.get_attribute("title") or "")
    live.do(live.app.jobs.delete(Filter(tags=("burst",))))
