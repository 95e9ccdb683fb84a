"""Hostile strings in every field with text stay text, on every page."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from hostile_strings import NAMES, TEXTS
from live import Live
from playwright.sync_api import Page, expect
from scenery import LISTS, follow, shown
from visit import Visits

from mainspring import every

# Elements that the strings would create if they were taken for markup.
MADE = (
    "main :is(script, iframe, style, base, object), img[src=x], [onerror], [onload], a[href^='javascript:'],"
    " a[href^='data:']"
)
# Names that are shown unchanged wherever they fit.
TOLD = NAMES[:5]


class Hostile(Live):
    """A live app whose worker, queues, schedules and jobs have hostile names and texts."""

    done: str
    dead: str
    cancelled: str

    def furnish(self) -> None:
        app, text = self.app, list(TEXTS)
        ids = []
        for name in NAMES:
            options = {"queue": name, "tags": [name], "metadata": {name: text}, "unique_key": name}
            ids.append(self.enqueue("repeat", text, options=options))
            ids.append(self.enqueue("repeat", [name, *text], fail=True, options={"queue": name}))
            self.do(app.schedules.create(name, every(1).days, "repeat", kwargs={"words": text}, tags=[name]))
            self.do(app.schedules.pause(name, note=name))
        for id in ids:
            self.do(app.jobs.wait(id, 20))
        self.done, self.dead, *_ = ids
        self.do(app.queues.pause(NAMES[0]))
        options = {"queue": NAMES[0], "delay": 60}
        self.cancelled = self.enqueue("echo", {name: name for name in NAMES}, options=options)
        self.do(app.jobs.cancel(self.cancelled, reason=NAMES[1]))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    live = Hostile(tmp_path_factory.mktemp("hostile"), instance_id=NAMES[1])
    live.furnish()
    yield live
    live.close()


def unharmed(page: Page) -> None:
    shown(page)
    assert page.locator(MADE).count() == 0, page.url
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_visible()


def test_hostile_strings_in_lists_stay_text_and_names_are_shown_unchanged(visit: Visits, hostile: Hostile) -> None:
    page = visit(hostile, role="admin")
    for path in LISTS:
        main = follow(page, hostile.address + path)
        unharmed(page)
        for name in TOLD if path in ("/queues", "/schedules", "/jobs") else ():
            expect(main.get_by_text(name).first).to_be_visible()


def test_the_job_page_shows_hostile_log_lines_errors_and_cancel_reasons_as_text(
    visit: Visits, hostile: Hostile
) -> None:
    page = visit(hostile, f"/jobs/{hostile.done}", role="admin")
    unharmed(page)
    for name in TOLD:
        expect(page.get_by_role("log")).to_contain_text(name)
        expect(page.get_by_role("region", name="Output text")).to_contain_text(name)
    for id, words in ((hostile.dead, NAMES[2]), (hostile.cancelled, NAMES[1])):
        follow(page, f"{hostile.address}/jobs/{id}")
        unharmed(page)
        expect(page.get_by_role("main")).to_contain_text(words)


def test_schedules_queues_and_workers_with_hostile_names_have_pages(visit: Visits, hostile: Hostile) -> None:
    page = visit(hostile, role="admin")
    named = [("schedules", name) for name in NAMES] + [("queues", name) for name in TOLD]
    for noun, name in [*named, ("workers", hostile.worker.id)]:
        path = f"/{noun}/{quote(name, safe='')}"
        follow(page, hostile.address + path)
        unharmed(page)
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        loaded, plain = (page.request.get(hostile.address + one).text() for one in (path, f"/{noun}/plain"))
        assert loaded == plain, "the server answers with another page"


def test_a_hostile_url_stays_text(visit: Visits, hostile: Hostile) -> None:
    visit.expects("status of 4")
    page = visit(hostile, role="operator")
    for names in (("queue", "task", "tag", "error", "key_prefix"), ("state",), ("after",), ("sort",)):
        page.goto(f"{hostile.address}/jobs?{urlencode(dict.fromkeys(names, NAMES[1]))}")
        unharmed(page)
    page.goto(f"{hostile.address}/jobs/{quote(NAMES[1], safe='')}")
    unharmed(page)


def test_hostile_live_progress_and_logs_stay_text(visit: Visits, hostile: Hostile) -> None:
    id = hostile.enqueue("export", "live")
    page = visit(hostile, f"/jobs/{id}", role="operator")
    shown(page)
    hostile.cue("live", "log", NAMES[1])
    hostile.cue("live", "progress", 30, 100, NAMES[2])
    expect(page.get_by_role("log")).to_contain_text(NAMES[1])
    expect(page.get_by_role("main")).to_contain_text(NAMES[2])
    hostile.cue("live", "end", NAMES[3])
    expect(page.get_by_role("group", name="Result")).to_contain_text(NAMES[3])
    unharmed(page)
