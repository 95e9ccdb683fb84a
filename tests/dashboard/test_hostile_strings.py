"""Strings that want to be code, in every field that has text: they stay text, on every page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hostile import NAMES, TEXTS
from live import Live
from playwright.sync_api import Page, expect
from scenery import LISTS, shown
from visit import Visits

from mainspring import every

# What they would have made, had they been taken for markup.
MADE = (
    "main :is(script, iframe, style, base, object), img[src=x], [onerror], [onload], a[href^='javascript:'],"
    " a[href^='data:']"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Its worker, queues, schedules and jobs have such names, and say such things."""
    live = Live(tmp_path_factory.mktemp("hostile"), instance_id=NAMES[1])
    app, text = live.app, list(TEXTS)
    ids = []
    for name in NAMES:
        options = {"queue": name, "tags": [name], "metadata": {name: text}, "unique_key": name}
        ids.append(live.enqueue("repeat", text, options=options))
        ids.append(live.enqueue("repeat", [name, *text], fail=True, options={"queue": name}))
        live.do(app.schedules.create(name, every(1).days, "repeat", kwargs={"words": text}, tags=[name]))
        live.do(app.schedules.pause(name, note=name))
    for id in ids:
        live.do(app.jobs.wait(id, 20))
    live.do(app.queues.pause(NAMES[0]))
    waits = live.enqueue("echo", {name: name for name in NAMES}, options={"queue": NAMES[0], "delay": 60})
    live.do(app.jobs.cancel(waits, reason=NAMES[1]))
    live.ids = [*ids[:2], waits]  # type: ignore[attr-defined]
    yield live
    live.close()


def unharmed(page: Page) -> None:
    shown(page)
    assert page.locator(MADE).count() == 0
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


@pytest.mark.parametrize("path", LISTS)
def test_no_list_takes_text_for_code(visit: Visits, hostile: Live, path: str) -> None:
    page = visit(hostile, path, role="admin")
    unharmed(page)
