"""The dashboard in a real browser, on a real server with a real worker.

- `live`: an app at work that the tests of a module share (live.py): `live.enqueue("send_email", to="ada@example.org")`,
  `live.do(live.app.queues.pause("mail"))`, `live.cue("name", "progress", 3, 10)`. Its tasks are in stories.py.
- `visit`: a page (visit.py): `page = visit(live, "/jobs", role="viewer")`. A test fails at its end if a page has logged
  an error or a warning, opened a dialog, broken its policy or missed a request, unless `visit.expects("…")` said so.
- `follow`: the next page of a visit, as by a link (scenery.py): a fraction of the work of `page.goto`.

Find elements as a user who sees or hears the page does: by role and name. Do not sleep: expect() waits.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from chromium import Chromium
from live import Live
from visit import Visits


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    one = Chromium()
    try:
        yield one
    finally:
        one.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    one = Live(tmp_path_factory.mktemp("live"))
    try:
        yield one
    finally:
        one.close()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A first start: no worker and no data."""
    one = Live(tmp_path_factory.mktemp("empty"), works=False)
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def visit(chromium: Chromium) -> Iterator[Visits]:
    visits = Visits(chromium)
    try:
        yield visits
    finally:
        chromium.do(visits.close)


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test in the thread of the browser and checks the complaints at its end."""
    visits: Visits | None = pyfuncitem.funcargs.get("visit")
    if visits is None:
        return None
    named = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}

    def play() -> None:
        try:
            pyfuncitem.obj(**named)
        except BaseException as error:
            error.add_note("\n".join(visits.complaints))
            raise
        visits.settle()

    pyfuncitem.funcargs["chromium"].do(play)
    return True
